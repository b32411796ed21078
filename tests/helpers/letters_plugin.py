"""A test plugin for ``--plugin``: encoders that count letters, and two tasks.

``letters`` works, ``broken`` raises, ``deadly`` kills its process at each call, ``dying`` at the first only; ``ending``
sends SIGTERM at the first. ``losing`` loses the GPU at the first, ``lost`` at each: as with CUDA, every later call of
that process fails too, which a file ``lost-PID`` remembers. ``blocking`` creates the file ``waiting`` and sleeps unless
the file ``go`` exists.
Each call adds a line to the file ``calls``. The files are in the folder named by LETTERS_FOLDER.
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
import torch

from mirrorbench.core.encoder_protocol import Array, TextInput
from mirrorbench.core.hooks import Register, hookimpl
from mirrorbench.data.items import Pair
from mirrorbench.tasks import PairSimilarity

NAMES = ("letters", "dying", "deadly", "ending", "losing", "lost", "blocking", "broken")
ILLEGAL_ACCESS = "CUDA error: an illegal memory access was encountered\nCUDA kernel errors might be reported later."


class Letters:
    """An encoder that counts letters, after the fault of its name."""

    def __init__(self, name: str) -> None:
        self.name = self.fingerprint = name

    def encode(self, inputs: Sequence[TextInput]) -> Array:
        """Count each letter from a to z, float32 of shape (n, 26)."""
        folder = Path(os.environ["LETTERS_FOLDER"])
        with (folder / "calls").open("a") as calls:
            calls.write(f"{self.name} {len(inputs)}\n")
        first = (folder / "calls").read_text().count(self.name) == 1
        if self.name == "deadly" or (self.name == "dying" and first):
            os.kill(os.getpid(), signal.SIGKILL)
        if self.name == "ending" and first:
            os.kill(os.getpid(), signal.SIGTERM)
        lost = folder / f"lost-{os.getpid()}"
        if lost.exists() or self.name == "lost" or (self.name == "losing" and first):
            lost.touch()
            raise torch.AcceleratorError(ILLEGAL_ACCESS)
        if self.name == "blocking" and not (folder / "go").exists():
            (folder / "waiting").touch()
            time.sleep(300)
        if self.name == "broken":
            raise RuntimeError("it broke [down]")  # what rich takes for markup
        return np.array(
            [[item.text.count(letter) for letter in ascii_lowercase] for item in inputs],
            dtype=np.float32,
        )


@hookimpl
def register_encoders(register: Register) -> None:
    """Register the encoders."""
    for name in NAMES:

        def factory(spec: Any, context: Any, name: str = name) -> Letters:
            return Letters(name)

        register(name, factory, "counts letters")


@hookimpl
def register_tasks(register: Register) -> None:
    """Register two tasks that share texts, of three pairs and of two."""
    texts = ("a cat", "the cat", "a dog", "quick zebras jump")
    register(
        PairSimilarity(
            "cats", [Pair(str(n), texts[0], text, 5.0 - n) for n, text in enumerate(texts[1:])]
        )
    )
    register(
        PairSimilarity(
            "dogs", [Pair(str(n), texts[2], text, 1.0 + n) for n, text in enumerate(texts[:2])]
        )
    )
