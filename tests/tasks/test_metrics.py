"""Metrics against plain loops, scipy and scikit-learn."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from scipy import stats
from scipy.spatial import distance

from mirrorbench.tasks import metrics

few = st.lists(
    st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=2, max_size=30
)  # few values: many ties


FEWER = settings(max_examples=settings().max_examples // 4)


def test_cosine_equals_scipy_and_handles_zero_vectors() -> None:
    left, right = np.random.default_rng(0).normal(size=(2, 5, 3)).astype(np.float32)
    wanted = [
        1 - distance.cosine(x, y)
        for x, y in zip(left.astype(float), right.astype(float), strict=True)
    ]
    assert metrics.cosine(left, right) == pytest.approx(wanted)
    left[2] = 0
    assert metrics.cosine(left, right)[2] == 0
    huge = np.full((1, 4), 1e38, dtype=np.float32)
    assert metrics.cosine(huge, huge) == pytest.approx(1)


def test_cosine_of_equal_vectors_is_exactly_one() -> None:
    rows = np.random.default_rng(0).normal(size=(500, 64)).astype(np.float32)
    turned = np.linalg.qr(np.random.default_rng(1).normal(size=(64, 64)))[0]
    scaled = rows.astype(np.float64) @ turned
    unrounded = [float(row @ row / (math.sqrt(row @ row) * math.sqrt(row @ row))) for row in scaled]
    assert len(set(unrounded)) > 1  # what the last bit does without rounding
    assert set(metrics.cosine(scaled, scaled).tolist()) == {1.0}
    assert set(metrics.cosine(scaled, -3 * scaled).tolist()) == {-1.0}
    other = rows[::-1].astype(np.float64)
    assert metrics.cosine(scaled, other @ turned).tolist() == metrics.cosine(rows, other).tolist()


@FEWER
@given(few)
@example([(1, 1), (1, 2), (2, 2), (3, 3)])
def test_correlations_equal_their_definitions(pairs: list[tuple[int, int]]) -> None:
    x, y = [float(a) for a, _ in pairs], [float(b) for _, b in pairs]
    assume(len(set(x)) > 1 and len(set(y)) > 1)
    assert metrics.pearson(x, y) == pytest.approx(np.corrcoef(x, y)[0, 1], abs=1e-9)
    ranks = stats.rankdata(x), stats.rankdata(y)  # equal values share their mean rank
    assert metrics.spearman(x, y) == pytest.approx(np.corrcoef(*ranks)[0, 1], abs=1e-9)


@pytest.mark.parametrize("correlate", [metrics.spearman, metrics.pearson])
@pytest.mark.parametrize(
    ("x", "y"), [([1, 1, 1], [1, 2, 3]), ([1, 2, 3], [0.3, 0.3, 0.3]), ([], []), ([1], [2])]
)
def test_undefined_correlation_is_none(correlate: Any, x: list[float], y: list[float]) -> None:
    assert correlate(x, y) is None


def test_subset_means_are_weighted_by_size() -> None:
    generator = np.random.default_rng(0)
    scores, gold = generator.normal(size=(2, 30))
    subsets = generator.permutation(
        list("a" * 5 + "b" * 10 + "c" * 15)
    )  # they need not be contiguous
    values = [
        stats.spearmanr(scores[subsets == name], gold[subsets == name]).statistic for name in "abc"
    ]
    mean, weighted = metrics.over_subsets(metrics.spearman, scores, gold, subsets.tolist())
    assert mean == pytest.approx(np.mean(values))
    assert weighted == pytest.approx(np.average(values, weights=[5, 10, 15]))
    constant = np.array([1.0, 2, 3, 3])
    assert metrics.over_subsets(
        metrics.spearman, constant, np.arange(4.0), ["a", "a", "b", "b"]
    ) == (None, None)


@FEWER
@given(st.lists(st.tuples(st.integers(-3, 3), st.integers(0, 1)), min_size=1, max_size=40))
def test_auc_equals_share_of_ordered_pairs(items: list[tuple[int, int]]) -> None:
    scores, gold = (np.array(column) for column in zip(*items, strict=True))
    won = np.sign(np.subtract.outer(scores[gold == 1], scores[gold == 0])) / 2 + 0.5
    assert metrics.auc(scores, gold) == (pytest.approx(won.mean()) if won.size else None)


def test_area_under_roc_points_equals_auc() -> None:
    rng = np.random.default_rng(0)
    scores, gold = rng.normal(size=200).round(1), rng.integers(0, 2, 200)
    fprs, tprs, thresholds = metrics.roc_points(scores, gold).values()
    assert np.trapezoid(tprs, fprs) == pytest.approx(metrics.auc(scores, gold))
    for label, rates in ((0, fprs), (1, tprs)):
        assert rates == pytest.approx(
            [np.mean(scores[gold == label] >= threshold) for threshold in thresholds]
        )


def test_rank_metrics_equal_hand_computation() -> None:
    ranks = [1, 2, 5, 6, float("inf")]
    assert metrics.accuracy_at(1, ranks) == pytest.approx(1 / 5)
    assert metrics.accuracy_at(5, ranks) == pytest.approx(3 / 5)
    assert metrics.mean_reciprocal_rank(ranks) == pytest.approx((1 + 1 / 2 + 1 / 5 + 1 / 6) / 5)
