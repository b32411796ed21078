"""Words in context: where the threshold comes from, and what a result says."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import accuracy_score, roc_auc_score
from toys import vectors_of

from mirrorbench.core.errors import DataFormatError
from mirrorbench.core.inputs import TextInput
from mirrorbench.data.items import ContextPair
from mirrorbench.data.store import DataStore
from mirrorbench.runs.builtin import load_plugins
from mirrorbench.tasks import Vectors, WordInContext

STORE = DataStore(Path("nowhere"), offline=True)


def pair(number: int, label: int | None, split: str) -> ContextPair:
    left, right = TextInput(f"left {split} {number}", ((0, 4),)), TextInput(f"right {split} {number}", ((0, 5),))
    return ContextPair(f"{split}/{number}", left, right, label, split)


def task_of(splits: dict[str, Sequence[int | None]], **arguments: Any) -> tuple[WordInContext, list[ContextPair]]:
    pairs = [pair(n, label, split) for split, labels in splits.items() for n, label in enumerate(labels)]
    task = WordInContext("toy", pairs, **arguments)
    return task, task.load(STORE)


def vectors_for(items: Sequence[ContextPair], cosines: Sequence[float]) -> Vectors:
    """Vectors in the plane, whose cosines are those asked for."""
    rows = {}
    for item, value in zip(items, cosines, strict=True):
        rows[item.left] = (1.0, 0.0)
        rows[item.right] = (value, np.sqrt(1 - value**2))
    return Vectors(rows, np.array(list(rows.values()), dtype=np.float32))


LABELS: dict[str, list[int | None]] = {"dev": [1, 0, 1, 0, 1, 0], "test": [1, 1, 0, 0, 1, 0, 0]}
COSINES = [0.9, 0.2, 0.7, 0.65, 0.8, 0.1, 0.95, 0.3, 0.4, 0.75, 0.85, 0.2, 0.6]


def test_the_threshold_comes_from_dev_alone() -> None:
    task, items = task_of(LABELS)
    scores = task.score(items, vectors_for(items, COSINES))
    assert scores.metrics["threshold"] == pytest.approx(0.675, abs=1e-6)
    assert scores.metrics["dev_accuracy"] == 1
    assert scores.metrics["test_accuracy"] == pytest.approx(
        accuracy_score(LABELS["test"], np.array(COSINES[6:]) > 0.675)
    )
    assert scores.metrics["test_auc"] == pytest.approx(roc_auc_score(LABELS["test"], COSINES[6:]))
    assert (scores.notes, scores.submission) == ((), "")
    np.testing.assert_allclose(scores.scores, COSINES, atol=1e-6)
    np.testing.assert_array_equal(scores.extra["predictions"], np.array(COSINES) > 0.675)
    assert scores.extra["splits"].tolist() == ["dev"] * 6 + ["test"] * 7


def test_labels_of_the_test_split_change_no_prediction() -> None:
    task, items = task_of(LABELS)
    other, others = task_of({"dev": LABELS["dev"], "test": [0, 0, 1, 1, 0, 1, 1]})
    for protocol in ("paper", "released"):
        first = task.score(items, vectors_for(items, COSINES), protocol)
        second = other.score(others, vectors_for(others, COSINES), protocol)
        np.testing.assert_array_equal(first.extra["predictions"], second.extra["predictions"])


def test_the_released_protocol_steps() -> None:
    task, items = task_of(LABELS)
    vectors = vectors_for(items, COSINES)
    found = task.score(items, vectors, "released").metrics["threshold"]
    # Down from 0.9: the first step that separates 0.7 from 0.65 is the 21st, to 0.69.
    assert found == pytest.approx(0.69, abs=1e-6)


def test_a_released_threshold_of_exactly_zero_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mirrorbench.tasks.pairs.stepped_threshold", lambda scores, gold: 0.0)
    task, items = task_of(LABELS)
    scores = task.score(items, vectors_for(items, COSINES), "released")
    assert scores.metrics["test_accuracy"] is None
    assert scores.metrics["threshold"] is None
    assert scores.metrics["test_auc"] is not None
    assert "exactly 0" in scores.notes[0]


@pytest.mark.parametrize("answers", ["FT", "01"])
def test_secret_labels_give_answers_in_the_organisers_words_and_a_note(answers: str) -> None:
    task, items = task_of({"dev": LABELS["dev"], "test": [None] * 7}, answers=answers)
    scores = task.score(items, vectors_for(items, COSINES))
    assert set(scores.metrics) == {"dev_accuracy", "dev_auc", "threshold", "test_accuracy"}
    assert scores.metrics["test_accuracy"] is None
    assert "only dev has labels" in scores.notes[0]
    assert np.isnan(scores.gold[6:]).all()
    assert scores.submission == "".join(f"{answers[value > 0.675]}\n" for value in COSINES[6:])


@pytest.mark.parametrize(
    ("pairs", "what"),
    [
        ([], "no items"),
        ([pair(0, 1, "dev"), pair(1, 1, "dev"), pair(0, 0, "test")], "labels 0 and 1"),
        ([pair(0, 1, "dev"), pair(1, None, "dev")], "labels 0 and 1"),
        ([pair(0, 1, "dev"), pair(0, 0, "dev")], "repeat"),
        ([ContextPair("x", TextInput("ab", ((1, 3),)), TextInput("ab"), 1, "dev")], "target of item x"),
        ([ContextPair("x", TextInput("ab"), TextInput("ab", ((1, 1),)), 1, "dev")], "target of item x"),
    ],
)
def test_data_that_cannot_be_scored(pairs: list[ContextPair], what: str) -> None:
    with pytest.raises(DataFormatError, match=what):
        WordInContext("toy", pairs).load(STORE)


def test_the_embedded_card(tmp_path: Path) -> None:
    task = load_plugins(discover=False).tasks["quick-wic"]
    items = task.load(DataStore(tmp_path, offline=True))
    assert {split: sum(p.split == split for p in items) for split in ("dev", "train")} == {"dev": 389, "train": 600}
    random = np.random.default_rng(0)
    scores = task.score(items, vectors_of(task, items, lambda item: random.normal(size=8)), "paper")
    assert task.main_metric in scores.metrics
    assert scores.metrics["train_accuracy"] == pytest.approx(0.5, abs=0.08)
