"""A small random model that is read in other ways."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from helpers.random_models import encoder

from mirrorbench.agreement.readings import ModelReader
from mirrorbench.models.pooling import Pooling

WORDS = [
    "cat",
    "river",
    "bridge",
    "music",
    "seven",
    "green",
    "boats",
    "crossed",
    "lake",
    "nobody",
    "asked",
    "rain",
]


@pytest.fixture(scope="session")
def texts() -> list[str]:
    """Thirty texts of one to three words, which have up to some twenty tokens, of one character each."""
    return [
        " ".join(WORDS[start : start + 1 + number % 3])
        for number in range(3)
        for start in range(10)
    ]


@pytest.fixture(scope="session")
def reader(random_model: Callable[[str], Path]) -> ModelReader:
    """The reader of a random BERT that is read by mean pooling in a window of 60 tokens."""
    found = ModelReader.of(encoder(random_model("bert"), Pooling(max_length=60)))
    assert found is not None
    return found
