from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray
from scipy import stats
from sklearn.metrics import roc_auc_score

from mirrorbench.reports.statistics.resampling import (
    Statistic,
    bootstrap,
    chunks,
    weighted_auc,
    weighted_mean,
    weighted_pearson,
    weighted_spearman,
    written_out,
)
from mirrorbench.tasks.metrics import uncentred_pearson

Floats = NDArray[np.float64]
Metric = Callable[[Floats, Floats], float]


def auc(scores: Floats, labels: Floats) -> float:
    return float(roc_auc_score(labels, scores)) if 0 < labels.sum() < len(labels) else np.nan


def correlation(function: Callable[..., tuple[float, float]]) -> Metric:
    def metric(x: Floats, y: Floats) -> float:
        return float(function(x, y)[0]) if np.ptp(x) and np.ptp(y) else np.nan

    return metric


def cosine(x: Floats, y: Floats) -> float:
    value = uncentred_pearson(x, y)
    return np.nan if value is None else value


CASES: list[tuple[Callable[[Floats, Floats], Statistic], Metric, bool]] = [
    (weighted_spearman, correlation(stats.spearmanr), False),
    (weighted_pearson, correlation(stats.pearsonr), False),
    (lambda x, y: weighted_pearson(x, y, centred=False), cosine, False),
    (weighted_auc, auc, True),
    (lambda x, y: weighted_mean(x), lambda x, y: float(x.mean()), False),
    (lambda x, y: written_out(lambda s, g: float(np.median(s * g)), x, y), lambda x, y: float(np.median(x * y)), False),
]
IDS = ["spearman", "pearson", "uncentred", "auc", "mean", "any"]


def one_by_one(metric: Metric, scores: Floats, gold: Floats, weights: Floats) -> Floats:
    """Each resample as an array of items, scored one after the other."""
    return np.array(
        [
            [metric(*(np.repeat(v, row.astype(int)) for v in (encoder, gold))) for row in weights]
            for encoder in scores
        ]
    )  # fmt: skip


@pytest.mark.parametrize(("statistic", "metric", "binary"), CASES, ids=IDS)
@pytest.mark.parametrize("ties", [False, True])
def test_resamples_score_as_if_they_were_written_out(
    statistic: Callable[[Floats, Floats], Statistic], metric: Metric, binary: bool, ties: bool
) -> None:
    rng = np.random.default_rng(1)
    n = 41
    gold = rng.integers(0, 2, n).astype(float) if binary else rng.normal(size=n)
    scores = rng.normal(size=(3, n)) + gold
    if ties:
        scores, gold = np.round(scores), np.round(gold)
    weights = np.stack([np.bincount(rng.integers(0, n, n), minlength=n) for _ in range(50)]).astype(float)
    got = statistic(scores, gold)(weights)
    assert got.shape == (3, 50)
    np.testing.assert_allclose(got, one_by_one(metric, scores, gold, weights), rtol=1e-9, atol=1e-12)


@settings(max_examples=20)
@given(
    arrays(np.float64, st.tuples(st.just(2), st.just(7)), elements=st.sampled_from([-1.5, 0, 0.25, 1, 3])),
    arrays(np.float64, 7, elements=st.sampled_from([0, 1, 1e-3])),
    arrays(np.float64, st.tuples(st.just(4), st.just(7)), elements=st.sampled_from([0, 1, 2, 5])),
)
def test_small_samples_with_many_ties(scores: Floats, gold: Floats, weights: Floats) -> None:
    """Where one side of a resample is constant, or one class or everything is missing, the value is NaN."""
    for make, metric, binary in CASES[:4]:
        labels = (gold > 0).astype(float) if binary else gold
        expected = np.full((2, 4), np.nan)
        for column, row in enumerate(weights):
            if row.any():
                expected[:, column] = one_by_one(metric, scores, labels, row[None])[:, 0]
        np.testing.assert_allclose(make(scores, labels)(weights), expected, rtol=1e-7, atol=1e-9)


def test_a_mean_of_nothing_is_undefined() -> None:
    assert np.isnan(weighted_mean([1.0, 2.0])(np.zeros((1, 2)))).all()


@pytest.mark.parametrize(("statistic", "metric", "binary"), CASES[:4], ids=IDS[:4])
def test_a_subset_is_weights_of_0_and_1(statistic: Callable, metric: Metric, binary: bool) -> None:
    rng = np.random.default_rng(2)
    gold = rng.integers(0, 2, 30).astype(float)
    scores = np.round(rng.normal(size=(2, 30)) + gold, 1)
    keep = rng.random(30) < 0.6
    found = statistic(scores, gold)
    assert found(keep.astype(float)[None])[:, 0] == pytest.approx([metric(row[keep], gold[keep]) for row in scores])


@pytest.mark.parametrize("binary", [False, True])
def test_the_bootstrap_is_that_of_scipy(binary: bool) -> None:
    """The same draws, since both ask the generator for the same indices; in one chunk here, as scipy does."""
    rng = np.random.default_rng(3)
    gold = rng.integers(0, 2, 60).astype(float) if binary else np.round(rng.normal(size=60), 1)
    scores = rng.normal(size=60) + gold
    metric = auc if binary else correlation(stats.spearmanr)
    theirs = stats.bootstrap(
        (np.arange(60),), lambda drawn: metric(scores[drawn], gold[drawn]), n_resamples=99, vectorized=False,
        method="percentile", random_state=np.random.default_rng(7),
    )  # fmt: skip
    ours = bootstrap((weighted_auc if binary else weighted_spearman)(scores, gold), 60, 99, seed=7)
    assert ours[0] == pytest.approx(theirs.bootstrap_distribution)


def test_equal_seeds_give_equal_resamples_and_others_do_not() -> None:
    values = np.random.default_rng(0).normal(size=(2, 5000))
    statistic = weighted_mean(values)
    assert len(list(chunks(5000, 100))) > 1  # several chunks, one stream of random numbers
    once, again, other = (bootstrap(statistic, 5000, 100, seed) for seed in (0, 0, 1))
    assert once.shape == (2, 100)
    assert np.array_equal(once, again)
    assert not np.array_equal(once, other)
    assert len(np.unique(once)) == 200
    alone = bootstrap(weighted_mean(values[1]), 5000, 100, 0)
    assert np.allclose(alone[0], once[1])  # encoders share their resamples


@pytest.mark.parametrize(("n", "resamples"), [(1, 10), (5463, 1000), (1 << 20, 3), (10, 0)])
def test_chunks_add_up(n: int, resamples: int) -> None:
    sizes = list(chunks(n, resamples))
    assert sum(sizes) == resamples
    assert all(size * n <= max(1 << 17, n) for size in sizes)
