"""A plugin for tests of executors: encoders that count letters, and the task ``cats``.

``letters`` works, ``broken`` raises. ``dying`` kills its process at its first call, ``blocking`` makes the file
``waiting`` and waits until somebody has made ``go``; both keep their files in the folder that LETTERS_FOLDER names.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Sequence
from pathlib import Path
from string import ascii_lowercase
from typing import Any

import numpy as np

from mirrorbench.data.pairs import Pair
from mirrorbench.encoding.inputs import Array, TextInput
from mirrorbench.hooks import Register, hookimpl
from mirrorbench.tasks.pair_similarity import PairSimilarity

NAMES = ("letters", "dying", "blocking", "broken")


class Letters:
    """Counts letters, after what its name says."""

    def __init__(self, name: str) -> None:
        self.name = self.fingerprint = name

    def encode(self, inputs: Sequence[TextInput]) -> Array:
        """How often each letter from a to z occurs, float32 of shape (n, 26)."""
        folder = Path(os.environ["LETTERS_FOLDER"])
        if self.name == "dying" and not (folder / "died").exists():
            (folder / "died").touch()
            os.kill(os.getpid(), signal.SIGKILL)
        if self.name == "blocking" and not (folder / "go").exists():
            (folder / "waiting").touch()
            time.sleep(300)
        if self.name == "broken":
            raise RuntimeError("it broke")
        return np.array([[item.text.count(letter) for letter in ascii_lowercase] for item in inputs], dtype=np.float32)


@hookimpl
def register_encoders(register: Register) -> None:
    """The four encoders."""
    for name in NAMES:

        def factory(spec: Any, context: Any, name: str = name) -> Letters:
            return Letters(name)

        register(name, factory, "counts letters")


@hookimpl
def register_tasks(register: Register) -> None:
    """One task of three pairs."""
    texts = ("a cat", "the cat", "a dog", "quick zebras jump")
    register(PairSimilarity("cats", [Pair(str(n), texts[0], text, 5.0 - n) for n, text in enumerate(texts[1:])]))
