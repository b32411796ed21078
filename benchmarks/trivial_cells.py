"""A plugin whose cells cost nothing to compute, so that runs measure scheduling and storing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mirrorbench import hookimpl
from mirrorbench.data.items import Pair
from mirrorbench.tasks import PairSimilarity

TASKS = 5
_TEXTS = ("a cat", "the cat", "a dog")


@dataclass
class Trivial:
    """An encoder of three letters."""

    fingerprint: str

    def encode(self, inputs: Sequence[Any]) -> Any:
        """Count each letter in each text."""
        return np.array(
            [[item.text.count(letter) for letter in "acd"] for item in inputs], dtype=np.float32
        )


@hookimpl
def register_encoders(register: Callable[..., None]) -> None:
    """Register any number of encoders: ``trivial:n=17``."""
    register("trivial", lambda spec, context: Trivial(str(spec)), "counts letters")


@hookimpl
def register_tasks(register: Callable[..., None]) -> None:
    """Register tasks of three pairs."""
    pairs = [Pair(str(n), "a", text, float(n)) for n, text in enumerate(_TEXTS)]
    for number in range(TASKS):
        register(PairSimilarity(f"trivial-{number}", pairs))
