"""Tasks on words in context against scipy, scikit-learn and plain loops; what a result says."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from helpers.toy_plugin import STORE, scored
from scipy.spatial import distance
from scipy.stats import pearsonr, spearmanr
from sklearn.metrics import accuracy_score, roc_auc_score

from mirrorbench.core.encoder_protocol import TextInput
from mirrorbench.core.errors import DataFormatError
from mirrorbench.data.items import ContextChange, ContextPair, RatedContexts
from mirrorbench.tasks import Scores, SimilarityChange, UsageSimilarity, WordInContext
from mirrorbench.tasks.base import TaskKind
from mirrorbench.tasks.thresholds import notes_on_few_items


def cosine(x: npt.ArrayLike, y: npt.ArrayLike) -> float:
    return 1 - float(distance.cosine(np.asarray(x, np.float64), np.asarray(y, np.float64)))


def pair(number: int, label: int | None, split: str) -> ContextPair:
    left, right = (
        TextInput(f"left {split} {number}", ((0, 4),)),
        TextInput(f"right {split} {number}", ((0, 5),)),
    )
    return ContextPair(f"{split}/{number}", left, right, label, split)


def at_cosines(
    items: Sequence[Any], cosines: Sequence[float]
) -> Callable[[TextInput], tuple[float, float]]:
    """An encoder into the plane, where the pairs have the cosines asked for."""
    right = dict(zip((item.right for item in items), cosines, strict=True))
    return lambda side: (right.get(side, 1.0), math.sqrt(1 - right.get(side, 1.0) ** 2))


def wic(splits: dict[str, list[int | None]], protocol: str = "paper", **arguments: Any) -> Scores:
    """The scores of pairs with the cosines ``COSINES`` and these labels."""
    pairs = [
        pair(n, label, split) for split, labels in splits.items() for n, label in enumerate(labels)
    ]
    return scored(WordInContext("toy", pairs, **arguments), at_cosines(pairs, COSINES), protocol)


LABELS: dict[str, list[int | None]] = {"dev": [1, 0, 1, 0, 1, 0], "test": [1, 1, 0, 0, 1, 0, 0]}
COSINES = [0.9, 0.2, 0.7, 0.65, 0.8, 0.1, 0.95, 0.3, 0.4, 0.75, 0.85, 0.2, 0.6]


def test_threshold_is_chosen_on_dev_only() -> None:
    scores = wic(LABELS)
    assert scores.metrics == {
        "threshold": pytest.approx(0.675, abs=1e-6),
        "dev_accuracy": 1,
        "dev_auc": 1,
        "test_accuracy": pytest.approx(
            accuracy_score(LABELS["test"], np.array(COSINES[6:]) > 0.675)
        ),
        "test_auc": pytest.approx(roc_auc_score(LABELS["test"], COSINES[6:])),
    }
    assert scores.submission == ""
    assert scores.notes == tuple(notes_on_few_items(6))
    np.testing.assert_allclose(scores.scores, COSINES, atol=1e-6)
    assert scores.extra["splits"].tolist() == ["dev"] * 6 + ["test"] * 7
    # The released protocol goes down from 0.9: the first step that separates 0.7 from 0.65 is the 21st, to 0.69.
    for protocol, threshold in (("paper", 0.675), ("released", 0.69)):
        for test in (LABELS["test"], LABELS["test"][::-1]):
            found = wic({"dev": LABELS["dev"], "test": test}, protocol)
            assert found.metrics["threshold"] == pytest.approx(threshold, abs=1e-6)
            np.testing.assert_array_equal(found.extra["predictions"], np.array(COSINES) > threshold)


def test_released_threshold_of_zero_is_undefined(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "mirrorbench.tasks.words_in_context.stepped_threshold", lambda scores, gold: 0.0
    )
    scores = wic(LABELS, "released")
    assert scores.metrics["test_accuracy"] is scores.metrics["threshold"] is None
    assert scores.metrics["test_auc"] is not None
    assert "exactly 0" in scores.notes[0]


@pytest.mark.parametrize("answers", ["FT", "01"])
def test_secret_test_labels_produce_a_submission(answers: str) -> None:
    scores = wic({"dev": LABELS["dev"], "test": [None] * 7}, answers=answers)
    assert set(scores.metrics) == {"dev_accuracy", "dev_auc", "threshold", "test_accuracy"}
    assert scores.metrics["test_accuracy"] is None
    assert "only dev has labels" in scores.notes[0]
    assert np.isnan(scores.gold[6:]).all()
    assert scores.submission == "".join(f"{answers[value > 0.675]}\n" for value in COSINES[6:])


def rated(number: int, rating: float) -> RatedContexts:
    left, right = (TextInput(f"one {number:02} two", (span,)) for span in ((0, 3), (7, 10)))
    return RatedContexts(str(number), left, right, rating)


def test_usage_similarity_correlates_cosines_with_ratings() -> None:
    cosines, ratings = [0.5, -0.2, 0.9, 0.1, 0.3, 0.4], [1.5, 4, 2, 5, 4, 3]
    items = [rated(i, rating) for i, rating in enumerate(ratings)]
    scores = scored(UsageSimilarity("toy", items), at_cosines(items, cosines))
    np.testing.assert_allclose(scores.scores, cosines, atol=1e-6)
    assert UsageSimilarity.main_metric == "spearman"
    assert scores.metrics == {
        "spearman": pytest.approx(spearmanr(cosines, ratings)[0]),
        "pearson": pytest.approx(pearsonr(cosines, ratings)[0], abs=1e-6),
    }


def similarity_change(ratings: Sequence[tuple[float, float]]) -> SimilarityChange:
    rows = enumerate(ratings)
    return SimilarityChange(
        "toy", [ContextChange(str(i), rated(2 * i, a), rated(2 * i + 1, b)) for i, (a, b) in rows]
    )


RATINGS = [(2.0, 7.0), (5.0, 4.0), (9.0, 1.0), (3.0, 3.5), (6.0, 8.0)]


def test_similarity_change_scores_both_subtasks() -> None:
    task = similarity_change(RATINGS)
    similar = np.array([[0.1, 0.6], [0.5, 0.7], [0.8, -0.3], [0.2, 0.25], [0.9, 0.35]])
    scores = scored(task, at_cosines(task.pairs(task.load(STORE)), similar.ravel().tolist()))
    (change, gold), (flat, ratings) = (
        np.diff([similar, RATINGS])[..., 0],
        (similar.ravel(), np.ravel(RATINGS)),
    )
    np.testing.assert_allclose(scores.scores, change, atol=1e-6)
    np.testing.assert_allclose(scores.extra["similarities"], similar, atol=1e-6)
    assert scores.gold.tolist() == pytest.approx(gold)
    linear, ranks = (correlate(flat, ratings)[0] for correlate in (pearsonr, spearmanr))
    wanted = {
        "subtask1_uncentred_pearson": cosine(change, gold),
        "subtask1_pearson": pearsonr(change, gold)[0],
        "subtask1_spearman": spearmanr(change, gold)[0],
        "subtask2_pearson": linear,
        "subtask2_spearman": ranks,
        "subtask2_harmonic_mean": statistics.harmonic_mean([linear, ranks]),
    }
    assert scores.metrics == {
        name: pytest.approx(value, abs=1e-6) for name, value in wanted.items()
    }
    rng = np.random.default_rng(0)
    of_text = {item.text: rng.normal(size=8) for item in task.inputs(task.load(STORE))}
    noise = scored(task, lambda item: of_text[item.text] + rng.normal(scale=1e-5, size=8))
    assert set(noise.metrics.values()) == {None}, "an encoder of texts is undefined, not noise"
    assert "same vector" in noise.notes[0]


def test_equal_rating_changes_tie_despite_rounding() -> None:
    """0.3 - 0.1 and 0.9 - 0.7 are one change, though not to the last bit."""
    assert 0.3 - 0.1 != 0.9 - 0.7
    task = similarity_change([(0.1, 0.3), (0.7, 0.9), (0.5, 0.6), (0.2, 0.9)])
    pairs = task.pairs(task.load(STORE))
    scores = scored(task, at_cosines(pairs, [pair.rating for pair in pairs]))
    assert scores.gold.tolist() == [0.2, 0.2, 0.1, 0.7]


@pytest.mark.parametrize(
    ("kind", "items", "message"),
    [
        (
            WordInContext,
            [pair(0, 1, "dev"), pair(1, 1, "dev"), pair(0, 0, "test")],
            "labels 0 and 1",
        ),
        (WordInContext, [pair(0, 1, "dev"), pair(0, 0, "dev")], "repeat"),
        (
            WordInContext,
            [ContextPair("x", TextInput("ab", ((1, 3),)), TextInput("ab"), 1, "dev")],
            "target of item x",
        ),
        (
            WordInContext,
            [ContextPair("x", TextInput("ab"), TextInput("ab", ((1, 1),)), 1, "dev")],
            "target of item x",
        ),
        (UsageSimilarity, [rated(1, 2.0), rated(1, 3.0)], "ids repeat"),
        (
            UsageSimilarity,
            [RatedContexts("1", TextInput("a", ((0, 2),)), TextInput("b"), 1.0)],
            "not in its text",
        ),
    ],
)
def test_inconsistent_words_in_context_are_refused(
    kind: type[TaskKind[Any]], items: Sequence[Any], message: str
) -> None:
    with pytest.raises(DataFormatError, match=f"task toy: .*{message}"):
        kind("toy", items).load(STORE)


def test_shared_texts_include_target_words() -> None:
    """The target words are shared by items, but are not looked for in corpora."""
    left, right = TextInput("The bank is closed.", ((4, 8),)), TextInput("a river bank", ((8, 12),))
    pairs = [ContextPair("1", left, right, 1, "dev"), ContextPair("2", right, left, 0, "dev")]
    task = WordInContext("w", pairs)
    assert task.shared(pairs)["1"] == ("The bank is closed.", "bank", "a river bank")
    assert task.texts(pairs)["1"] == ("The bank is closed.", "a river bank")
    change = similarity_change(RATINGS)
    assert change.texts(change.load(STORE))["1"] == ("one 02 two", "one 03 two")
    assert TextInput("look it up", ((0, 4), (8, 10))).target == "look up"
    assert TextInput("whole").target == "whole"
