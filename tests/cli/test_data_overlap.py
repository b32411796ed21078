from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from helpers.toy_plugin import PLUGIN

# The toy tasks: cats has (a cat, the cat), (a cat, a dog), (a cat, quick zebras jump); dogs (a dog, a cat) twice over.


@pytest.fixture
def overlap(mirrorbench: Callable, folder: Path) -> Callable:
    (folder / "corpus.txt").write_text("The  CAT\na cat\nsomething else\n")
    return lambda *arguments: mirrorbench("data", "overlap", *arguments, "--plugin", str(PLUGIN))


def test_overlap_shares_are_reported_per_task(overlap: Callable) -> None:
    said = overlap("corpus.txt", "cats,dogs").assert_works()
    assert said.err == ""
    assert (
        said.out
        == "task\titems\tany text\tall texts\ncats\t3\t100.0%\t33.3%\ndogs\t2\t100.0%\t0.0%\n"
    )
    (row,) = json.loads(overlap("corpus.txt", "cats", "--json").out)
    assert row["task"] == "cats"
    assert row["all_texts"] == pytest.approx(1 / 3)
    assert row["normalisation"]


def test_unavailable_tasks_are_named_and_skipped(overlap: Callable) -> None:
    said = overlap("corpus.txt", "stsb", "sickr", "cats", "--offline").assert_fails(
        1, "Not compared: stsb, sickr"
    )
    assert "cats" in said.out
