"""Answers for test sets whose labels are secret."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from mirrorbench.core.inputs import TextInput
from mirrorbench.core.specs import parse_spec
from mirrorbench.data.items import ContextPair
from mirrorbench.data.store import DataStore
from mirrorbench.runs.cells import Cell, ModelRef
from mirrorbench.runs.results import Result, ResultStore
from mirrorbench.tasks import Scores, Vectors, WordInContext

COSINES = {"dev": [0.9, 0.1], "test": [0.8, 0.2, 0.7]}


def scored(test: list[int | None], **arguments: object) -> Scores:
    rows, pairs = {}, []
    for split, labels in {"dev": [1, 0], "test": test}.items():
        for n, label in enumerate(labels):
            value = COSINES[split][n]
            left, right = TextInput(f"{split} left {n}"), TextInput(f"{split} right {n}")
            rows |= {left: (1.0, 0.0), right: (value, (1 - value**2) ** 0.5)}
            pairs.append(ContextPair(f"{split}/{n}", left, right, label, split))
    task = WordInContext("toy", pairs, **arguments)  # type: ignore[arg-type]
    items = task.load(DataStore(Path("nowhere"), offline=True))
    return task.score(items, Vectors(rows, np.array(list(rows.values()), dtype=np.float32)))


@pytest.mark.parametrize(("answers", "wanted"), [(("F", "T"), "T\nF\nT\n"), (("0", "1"), "1\n0\n1\n")])
def test_one_answer_a_line_in_the_organisers_words(answers: tuple[str, str], wanted: str) -> None:
    assert scored([None, None, None], answers=answers).submission == wanted


def test_none_where_the_labels_are_known() -> None:
    assert scored([1, 1, 1]).submission == ""


def test_the_main_metric_of_a_secret_split_is_undefined() -> None:
    scores = scored([None, None, None], main_metric="test_accuracy")
    assert scores.metrics["test_accuracy"] is None
    assert scores.metrics["dev_accuracy"] == 1


def test_it_lies_beside_the_result_and_moves_aside_with_it(tmp_path: Path) -> None:
    spec = parse_spec("toy")
    cells = [
        Cell(spec, "wic", "wic", 0, ModelRef(spec, "f"), None, "fp32", "paper", (("pairs", content),), 1)
        for content in ("old", "new")
    ]
    store = ResultStore(tmp_path)
    for cell, answers in zip(cells, ("T\n", "F\n"), strict=True):
        scores = Scores({"a": None}, ["1"], np.zeros(1), np.zeros(1), submission=answers)
        store.write(
            cell, Result(cell.to_json(), cell.id, {"a": None}, "a", None, 1, 1.0, {}, {}, {}, {}, "now"), scores
        )
    folder = tmp_path / "toy" / "wic"
    assert (folder / "seed-0.submission.txt").read_text() == "F\n"
    assert (folder / f"seed-0.{cells[0].id[:12]}.submission.txt").read_text() == "T\n"
