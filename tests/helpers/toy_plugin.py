"""A toy encoder, toy tasks and a plugin that registers both: everything but the model is real."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from helpers import letters_plugin
from mirrorbench import hookimpl
from mirrorbench.core.encoder_protocol import TextInput
from mirrorbench.data.items import Pair
from mirrorbench.data.store import DataStore
from mirrorbench.tasks import PairSimilarity, Scores, Task, Vectors

PLUGIN = Path(letters_plugin.__file__)
CATS_AND_DOGS = ("--tasks", "cats,dogs")
"""A plugin in a single file, for ``--plugin``."""
STORE = DataStore(Path("nowhere"), offline=True)
"""Of tasks whose items are given."""
LETTERS = "abcdefghijklmnopqrstuvwxyz"
CATS = (
    Pair("1", "a cat", "the cat", 5.0),
    Pair("2", "a cat", "a dog", 2.5),
    Pair("3", "a cat", "quick zebras jump", 0.0),
    Pair("4", "a dog", "the dog", 4.0),
)
DOGS = (
    Pair("1", "a dog", "the cat", 2.0),
    Pair("2", "a dog", "my dog", 5.0),
    Pair("3", "zoo", "why not", 0.5),
)


class ToyEncoder:
    """Counts letters_plugin, and remembers what it was asked to encode.

    Args:
        fingerprint: its identity.
        broken: what to return instead of vectors (an array or an exception to raise).
    """

    def __init__(self, fingerprint: str = "letters-1", broken: Any = None) -> None:
        self.fingerprint = fingerprint
        self.broken = broken
        self.asked: list[str] = []

    def encode(self, inputs: Sequence[TextInput]) -> Any:
        self.asked += [item.text for item in inputs]
        if isinstance(self.broken, Exception):
            raise self.broken
        if self.broken is not None:
            return self.broken
        return np.array([[item.text.count(letter) for letter in LETTERS] for item in inputs])


class ToyPlugin:
    """Registers encoders (or functions that make them) and tasks that a test made."""

    def __init__(self, encoders: dict[str, Any] | None = None, tasks: Iterable[Task] = ()) -> None:
        self.toy_encoders = encoders or {}
        self.toy_tasks = list(tasks)

    @hookimpl
    def register_encoders(self, register: Any) -> None:
        for name, encoder in self.toy_encoders.items():
            register(
                name,
                lambda spec, context, made=encoder: made() if callable(made) else made,
                "a toy",
            )

    @hookimpl
    def register_tasks(self, register: Any) -> None:
        for task in self.toy_tasks:
            register(task)


def letter_counts(item: TextInput) -> Any:
    """The vector of one input by ``ToyEncoder``."""
    return ToyEncoder().encode([item])[0]


def vectors_of(task: Task, items: Any, encode: Callable[[TextInput], Any]) -> Vectors:
    """The vectors that a task asks for, by a function of one input."""
    inputs = list(dict.fromkeys(task.inputs(items)))
    return Vectors(inputs, np.array([encode(item) for item in inputs], np.float32))


def scored(task: Task, encode: Callable[[TextInput], Any], protocol: str = "paper") -> Scores:
    """What a task whose items are given makes of the vectors of a function of one input."""
    items = task.load(STORE)
    return task.score(items, vectors_of(task, items, encode), protocol)


def toy_tasks() -> list[PairSimilarity]:
    """Two tasks that share texts."""
    return [PairSimilarity("cats", CATS, title="Cats"), PairSimilarity("dogs", DOGS, title="Dogs")]


def results(folder: Path) -> dict[str, dict[str, Any]]:
    """All results of a folder by path."""
    return {
        str(path.relative_to(folder)): json.loads(path.read_text())
        for path in folder.rglob("seed-*.json")
    }
