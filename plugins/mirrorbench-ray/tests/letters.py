"""A mirrorbench plugin for the tests: an encoder that counts letters, one that kills its process once, and a task."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import numpy as np

from mirrorbench import hookimpl
from mirrorbench.data.pairs import Pair
from mirrorbench.tasks.pair_similarity import PairSimilarity


class Letters:
    def __init__(self, name: str) -> None:
        self.name = self.fingerprint = name

    def encode(self, inputs: Any) -> Any:
        died = Path(os.environ["LETTERS_FOLDER"], "died")
        if self.name == "dying" and not died.exists():
            died.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        if self.name == "broken":
            raise RuntimeError("it broke")
        return np.array([[item.text.count(letter) for letter in "abcdefghijklmnopqrstuvwxyz"] for item in inputs])


@hookimpl
def register_encoders(register: Any) -> None:
    for name in ("letters", "dying", "broken"):
        register(name, lambda spec, context, name=name: Letters(name), "counts letters")


@hookimpl
def register_tasks(register: Any) -> None:
    texts = ("a cat", "the cat", "a dog", "quick zebras jump")
    register(PairSimilarity("cats", [Pair(str(n), texts[0], text, 5.0 - n) for n, text in enumerate(texts[1:])]))
