"""Choices of the examples that represent a sense."""

from __future__ import annotations

import pytest

from mirrorbench.core.errors import DataFormatError
from mirrorbench.data.items import example_choice


def test_first_example_is_the_default() -> None:
    assert example_choice({}) == ("first", 0)
    assert example_choice({"examples": "all"}) == ("all", 0)
    assert example_choice({"examples": "random", "seed": 7}) == ("random", 7)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"examples": "last"}, "examples=last must be one of first, random, all"),
        ({"seed": 7}, "seed=7 needs examples=random"),
    ],
)
def test_unknown_choice_of_examples_is_refused(options: dict[str, object], message: str) -> None:
    with pytest.raises(DataFormatError, match=message):
        example_choice(options)
