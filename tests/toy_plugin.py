"""A plugin in a single file, as ``--plugin`` loads it: encoders and tasks for the tests of the command line.

``blocking`` encodes only once the file ``go`` exists in TOY_FOLDER; until then it waits, after it has made ``waiting``
there. Every call of an encoder is noted in ``calls``. ``dying`` kills its process at its first
call, ``deadly`` at each.
"""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

import numpy as np

from mirrorbench import hookimpl
from mirrorbench.data.pairs import Pair
from mirrorbench.tasks.pair_similarity import PairSimilarity

FOLDER = Path(os.environ["TOY_FOLDER"])


class Letters:
    def __init__(self, name: str) -> None:
        self.name = self.fingerprint = name

    def encode(self, inputs: Any) -> Any:
        with (FOLDER / "calls").open("a") as calls:
            calls.write(f"{self.name} {len(inputs)}\n")
        if self.name == "blocking" and not (FOLDER / "go").exists():
            (FOLDER / "waiting").touch()
            time.sleep(120)
        if self.name == "deadly" or (self.name == "dying" and (FOLDER / "calls").read_text().count("dying") == 1):
            os.kill(os.getpid(), signal.SIGKILL)
        if self.name == "broken":
            raise RuntimeError("it broke [down]")
        return np.array([[item.text.count(letter) for letter in "abcdefghijklmnopqrstuvwxyz"] for item in inputs])


@hookimpl
def register_encoders(register: Any) -> None:
    for name in ("letters", "blocking", "broken", "dying", "deadly"):
        register(name, lambda spec, context, name=name: Letters(name), "counts letters")


@hookimpl
def register_tasks(register: Any) -> None:
    texts = ("a cat", "the cat", "a dog", "quick zebras jump")
    register(PairSimilarity("cats", [Pair(str(n), texts[0], text, 5.0 - n) for n, text in enumerate(texts[1:])]))
    register(PairSimilarity("dogs", [Pair(str(n), texts[2], text, 1.0 + n) for n, text in enumerate(texts[:2])]))
