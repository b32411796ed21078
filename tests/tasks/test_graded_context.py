"""Usim and CoSimLex: metrics against scipy and plain loops, and encoders that know no words."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import pearsonr, spearmanr
from toys import vectors_of

from mirrorbench.core.errors import DataFormatError
from mirrorbench.core.inputs import TextInput
from mirrorbench.data.items import ContextChange, RatedContexts
from mirrorbench.data.store import DataStore
from mirrorbench.tasks import SimilarityChange, UsageSimilarity, Vectors

RNG = np.random.default_rng(0)
STORE = DataStore(Path("nowhere"), offline=True)


def rated(number: int, rating: float) -> RatedContexts:
    text = f"one {number} two"
    return RatedContexts(
        str(number), TextInput(text, ((0, 3),)), TextInput(text, ((len(text) - 3, len(text)),)), rating
    )


def changes(ratings: Sequence[tuple[float, float]]) -> list[ContextChange]:
    return [
        ContextChange(str(i), rated(2 * i, first), rated(2 * i + 1, second))
        for i, (first, second) in enumerate(ratings)
    ]


def cosine(a: np.ndarray, b: np.ndarray) -> float:
    return sum(float(x) * float(y) for x, y in zip(a, b, strict=True)) / math.dist(a, a * 0) / math.dist(b, b * 0)


def test_usages_are_compared_with_ratings() -> None:
    task = UsageSimilarity("toy", [rated(i, rating) for i, rating in enumerate([1.5, 4, 2, 5, 4, 3])])
    items = task.load(STORE)
    vectors = vectors_of(task, items, lambda item: RNG.normal(size=5))
    scores = task.score(items, vectors)
    wanted = [cosine(vectors([i.left])[0], vectors([i.right])[0]) for i in items]
    ratings = [i.rating for i in items]
    np.testing.assert_allclose(scores.scores, wanted, atol=1e-6)
    assert task.main_metric == "spearman"
    assert scores.metrics == {
        "spearman": pytest.approx(spearmanr(wanted, ratings)[0]),
        "pearson": pytest.approx(pearsonr(wanted, ratings)[0]),
    }


RATINGS = [(2.0, 7.0), (5.0, 4.0), (9.0, 1.0), (3.0, 3.5), (6.0, 8.0)]


def test_changes_and_similarities_of_both_subtasks() -> None:
    task = SimilarityChange("toy", changes(RATINGS))
    items = task.load(STORE)
    vectors = vectors_of(task, items, lambda item: RNG.normal(size=5))
    scores = task.score(items, vectors)
    similar = [
        [cosine(vectors([pair.left])[0], vectors([pair.right])[0]) for pair in (item.first, item.second)]
        for item in items
    ]
    change, gold = [b - a for a, b in similar], [b - a for a, b in RATINGS]
    flat, ratings = [s for pair in similar for s in pair], [r for pair in RATINGS for r in pair]
    norm = math.sqrt(sum(c * c for c in change) * sum(g * g for g in gold))
    np.testing.assert_allclose(scores.scores, change, atol=1e-6)
    np.testing.assert_allclose(scores.extra["similarities"], similar, atol=1e-6)
    assert scores.gold.tolist() == gold
    metrics = scores.metrics
    assert metrics["subtask1_uncentred_pearson"] == pytest.approx(
        sum(c * g for c, g in zip(change, gold, strict=True)) / norm, abs=1e-6
    )
    assert metrics["subtask1_pearson"] == pytest.approx(pearsonr(change, gold)[0], abs=1e-6)
    assert metrics["subtask1_spearman"] == pytest.approx(spearmanr(change, gold)[0])
    assert metrics["subtask2_pearson"] == pytest.approx(pearsonr(flat, ratings)[0], abs=1e-6)
    assert metrics["subtask2_spearman"] == pytest.approx(spearmanr(flat, ratings)[0])


def test_the_harmonic_mean_and_a_perfect_encoder() -> None:
    ratings = [(0.1, 0.9), (0.5, 0.2), (0.8, 0.3)]
    task = SimilarityChange("toy", changes(ratings))
    items = task.load(STORE)
    rows = {}
    for item in items:
        for pair in (item.first, item.second):
            rows[pair.left] = (1.0, 0.0)
            rows[pair.right] = (pair.rating**2, math.sqrt(1 - pair.rating**4))  # ranks kept, distances not
    metrics = task.score(items, Vectors(rows, np.array(list(rows.values()), dtype=np.float32))).metrics
    flat = [r for pair in ratings for r in pair]
    linear = pearsonr(np.square(flat), flat)[0]
    assert metrics["subtask1_spearman"] == metrics["subtask2_spearman"] == pytest.approx(1)
    assert metrics["subtask2_harmonic_mean"] == pytest.approx(2 / (1 + 1 / linear), abs=1e-6)


def test_an_encoder_of_texts_is_undefined_not_noise() -> None:
    task = SimilarityChange("toy", changes(RATINGS))
    items = task.load(STORE)
    of_text = {item.text: RNG.normal(size=8) for item in task.inputs(items)}
    noisy = vectors_of(task, items, lambda item: of_text[item.text] + RNG.normal(scale=1e-5, size=8))
    scores = task.score(items, noisy)
    assert set(scores.metrics.values()) == {None}
    assert "same vector" in scores.notes[0]


def test_items_are_checked() -> None:
    with pytest.raises(DataFormatError, match="no items"):
        UsageSimilarity("toy", []).load(STORE)
    with pytest.raises(DataFormatError, match="ids repeat"):
        UsageSimilarity("toy", [rated(1, 2.0), rated(1, 3.0)]).load(STORE)
    outside = RatedContexts("1", TextInput("a", ((0, 2),)), TextInput("b", ((0, 1),)), 1.0)
    with pytest.raises(DataFormatError, match="not in its text"):
        UsageSimilarity("toy", [outside]).load(STORE)
    one, other = (UsageSimilarity("toy", [rated(1, rating)]).identity(STORE) for rating in (2.0, 3.0))
    assert one != other
