from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from toys import PLUGIN

# The toy tasks: cats has (a cat, the cat), (a cat, a dog), (a cat, quick zebras jump); dogs (a dog, a cat) twice over.


@pytest.fixture
def overlap(mirrorbench: Callable, folder: Path) -> Callable:
    (folder / "corpus.txt").write_text("The  CAT\na cat\nsomething else\n")
    return lambda *arguments: mirrorbench("data", "overlap", *arguments, "--plugin", str(PLUGIN))


def test_shares_of_tasks(overlap: Callable) -> None:
    said = overlap("corpus.txt", "cats,dogs").assert_works()
    assert said.err == ""
    assert said.out == "task\titems\tany text\tall texts\ncats\t3\t100.0%\t33.3%\ndogs\t2\t100.0%\t0.0%\n"
    (row,) = json.loads(overlap("corpus.txt", "cats", "--json").out)
    assert row["task"] == "cats"
    assert row["all_texts"] == pytest.approx(1 / 3)
    assert row["normalisation"]


@pytest.mark.parametrize(("arguments", "code", "message"), [
    ("nowhere.txt cats", 2, "unknown corpus or file 'nowhere.txt'"), ("corpus.txt", 2, "Missing argument"),
    ("corpus.txt stsb sickr cats --offline", 1, "Not compared: stsb, sickr"),
])  # fmt: skip
def test_what_cannot_be_compared(overlap: Callable, arguments: str, code: int, message: str) -> None:
    said = overlap(*arguments.split()).assert_fails(code, message)
    assert ("cats" in said.out) == (code == 1)
