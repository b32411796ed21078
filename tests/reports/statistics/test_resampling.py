from __future__ import annotations

import itertools
from collections.abc import Callable
from math import comb

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray
from scipy import stats
from sklearn.metrics import roc_auc_score
from swaps import correlation_permutation, mean_permutation

from mirrorbench.reports.statistics.resampling import (
    RESAMPLES,
    Interval,
    PValue,
    Statistic,
    bootstrap,
    bootstrap_p,
    chunks,
    corrected,
    enough,
    holm,
    mcnemar,
    mean_swaps,
    p_of_swaps,
    percentile_interval,
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


def one_by_one(metric: Metric, scores: Floats, gold: Floats, weights: Floats) -> Floats:
    """Each resample as an array of items, scored one after the other."""
    return np.array(
        [
            [metric(*(np.repeat(v, row.astype(int)) for v in (encoder, gold))) for row in weights]
            for encoder in scores
        ]
    )  # fmt: skip


@pytest.mark.parametrize("ties", [False, True])
def test_resamples_score_as_if_they_were_written_out(ties: bool) -> None:
    """A subset too: weights of 0 and 1."""
    rng = np.random.default_rng(1)
    n = 41
    for number, (statistic, metric, binary) in enumerate(CASES):
        gold = rng.integers(0, 2, n).astype(float) if binary else rng.normal(size=n)
        scores = rng.normal(size=(2, n)) + gold
        if ties:
            scores, gold = np.round(scores), np.round(gold)
        drawn = [np.bincount(rng.integers(0, n, n), minlength=n) for _ in range(12)]
        weights = np.stack([*drawn, rng.random(n) < 0.6]).astype(float)
        got = statistic(scores, gold)(weights)
        assert got.shape == (2, 13)
        expected = one_by_one(metric, scores, gold, weights)
        np.testing.assert_allclose(got, expected, rtol=1e-9, atol=1e-12, err_msg=f"case {number}")


@settings(max_examples=12)
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


def test_the_bootstrap_is_that_of_scipy() -> None:
    """The same draws, since both ask the generator for the same indices; in one chunk here, as scipy does."""
    rng = np.random.default_rng(3)
    gold = np.round(rng.normal(size=60), 1)
    scores = rng.normal(size=60) + gold
    theirs = stats.bootstrap(
        (np.arange(60),), lambda drawn: stats.spearmanr(scores[drawn], gold[drawn])[0], n_resamples=99,
        vectorized=False, method="percentile", random_state=np.random.default_rng(7),
    )  # fmt: skip
    ours = bootstrap(weighted_spearman(scores, gold), 60, 99, seed=7)
    assert ours[0] == pytest.approx(theirs.bootstrap_distribution)


def test_equal_seeds_give_equal_resamples_and_others_do_not() -> None:
    for n, resamples in ((1, 10), (5463, 1000), (1 << 20, 3), (10, 0)):
        sizes = list(chunks(n, resamples))
        assert sum(sizes) == resamples
        assert all(size * n <= max(1 << 17, n) for size in sizes)
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


def test_undefined_resamples_are_left_out_unless_they_are_many() -> None:
    values = np.arange(100.0)
    values[:5] = np.nan
    assert percentile_interval(values, 0.5) == Interval(*np.quantile(values[5:], [0.25, 0.75]))
    assert bootstrap_p(values) == PValue(pytest.approx(2 / 96), True)
    values[:6] = np.nan
    assert percentile_interval(values) is None
    assert bootstrap_p(values) is None
    assert percentile_interval(np.full(10, np.nan)) is None
    assert bootstrap_p(np.array([])) is None
    assert np.isnan(weighted_mean([1.0, 2.0])(np.zeros((1, 2)))).all()


@settings(max_examples=25)
@given(st.lists(st.integers(-3, 6), min_size=1, max_size=40))
def test_the_p_value_is_where_the_interval_touches_zero(values: list[int]) -> None:
    below, above = sum(v <= 0 for v in values), sum(v >= 0 for v in values)
    expected = min(1, 2 * min(below + 1, above + 1) / (len(values) + 1))
    bound = not min(below, above)
    assert bootstrap_p(np.array(values, float)) == PValue(pytest.approx(expected), bound)
    assert bootstrap_p(-np.array(values, float)) == PValue(pytest.approx(expected), bound)


def naive_correlations(a: Floats, b: Floats, gold: Floats, metric: str) -> list[float]:
    """The difference of mean correlations under every one of the 2^n swaps, written as a statistician would."""
    centred = metric != "uncentred_pearson"

    def standardise(x: Floats) -> Floats:
        x = stats.rankdata(x) if metric == "spearman" else x
        return (x - x.mean()) / x.std() if centred else x / np.sqrt((x * x).mean())

    def correlate(x: Floats) -> float:
        g = standardise(gold)
        return float(np.corrcoef(x, g)[0, 1]) if centred else float(x @ g / np.sqrt((x @ x) * (g @ g)))

    a, b = (np.array([standardise(row) for row in rows]) for rows in (a, b))
    found = []
    for bits in itertools.product([False, True], repeat=len(gold)):
        pairs = itertools.product(a, b)
        found.append(np.mean([correlate(np.where(bits, y, x)) - correlate(np.where(bits, x, y)) for x, y in pairs]))
    return found


@pytest.mark.parametrize("metric", ["spearman", "pearson", "uncentred_pearson"])
def test_permutation_against_all_swaps(metric: str) -> None:
    rng = np.random.default_rng(6)
    gold = rng.normal(size=7)
    a, b = (gold + noise * rng.normal(size=(k, 7)) for k, noise in ((1, 0.3), (2, 1.5)))
    a = 0.9 + a / 50  # cosines of one encoder lie elsewhere than those of another
    all_swaps = np.abs(naive_correlations(a, b, gold, metric))
    exact = np.mean(all_swaps >= all_swaps[0] - 1e-12)
    p = correlation_permutation(a, b, gold, metric, 20_000)
    assert p == pytest.approx(exact, abs=4 * np.sqrt(exact * (1 - exact) / 20_000) + 1e-4)
    assert p != correlation_permutation(a, b, gold, metric, 20_000, seed=1)
    assert correlation_permutation(b, a, gold, metric, 20_000) == p  # two-sided


def test_an_encoder_is_not_different_from_itself_and_a_constant_has_no_correlation() -> None:
    rng = np.random.default_rng(9)
    gold = rng.normal(size=30)
    a = gold + rng.normal(size=30)
    assert correlation_permutation(a, 5 * a, gold, resamples=200) == 1
    assert mean_permutation(a, a, 200) == 1
    assert mcnemar(a > 0, a > 0) == 1
    assert bootstrap_p(np.zeros(100)) == PValue(1, False)
    for metric in ("spearman", "pearson"):
        assert correlation_permutation(a, np.full(30, 0.3), gold, metric, 10) is None
        assert correlation_permutation(a, a, np.zeros(30), metric, 10) is None
    assert correlation_permutation(a, np.zeros(30), gold, "uncentred_pearson", 10) is None
    assert correlation_permutation(a, np.ones(30), gold, "uncentred_pearson", 10) is not None


def test_mean_permutation_against_scipy() -> None:
    rng = np.random.default_rng(11)
    a, b = rng.random((3, 9)), rng.random((2, 9))
    theirs = stats.permutation_test(
        (a.mean(axis=0), b.mean(axis=0)), lambda x, y: x.mean() - y.mean(), permutation_type="samples",
        n_resamples=np.inf, vectorized=False,
    )  # fmt: skip
    p = mean_permutation(a, b, 40_000)
    assert p == pytest.approx(theirs.pvalue, abs=4 * np.sqrt(theirs.pvalue / 40_000))
    # No swap of 20 clear differences is as extreme: a bound; with five items every swap of all of them is.
    assert p_of_swaps(mean_swaps(np.arange(20) + 1.0, np.zeros(20), 500)) == PValue(1 / 501, True)
    assert p_of_swaps(mean_swaps(np.ones(5), np.zeros(5), 500)) == PValue(pytest.approx(2 / 32, abs=0.03), False)


@settings(max_examples=25)
@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=25))
def test_mcnemar_is_a_binomial_of_the_discordant_items(pairs: list[tuple[bool, bool]]) -> None:
    wins, losses = sum(a and not b for a, b in pairs), sum(b and not a for a, b in pairs)
    n = wins + losses
    tail = sum(comb(n, k) for k in range(min(wins, losses) + 1)) / 2**n
    first, second = zip(*pairs, strict=True)
    assert mcnemar(first, second) == pytest.approx(min(1.0, 2 * tail))


@settings(max_examples=25)
@given(st.lists(st.floats(0, 1), min_size=1, max_size=6))
def test_holm_is_closed_testing_with_bonferroni(p: list[float]) -> None:
    """By definition: a hypothesis is rejected where every set that holds it is rejected by Bonferroni."""
    expected = []
    for hypothesis in range(len(p)):
        others = [i for i in range(len(p)) if i != hypothesis]
        sets = [(hypothesis, *more) for size in range(len(p)) for more in itertools.combinations(others, size)]
        expected.append(max(min(1.0, len(s) * min(p[i] for i in s)) for s in sets))
    assert holm(p) == pytest.approx(expected)
    assert holm([]) == []


def test_resamples_are_enough_for_holm_to_reach_significance() -> None:
    """Of as many comparisons, all as clear as can be, each is significant; the floor of a bootstrap is twice that."""
    for comparisons in (1, 501, 1000):
        for floor in (1, 2):
            p: list[float | None] = [floor / (enough(comparisons) + 1)] * comparisons
            assert all(value is not None and value < 0.05 for value in corrected(p))
        assert enough(comparisons) >= RESAMPLES
        assert enough(comparisons, 10**5) == 10**5
    assert enough(10**6) == 50_000


def test_correction_leaves_out_what_is_undefined() -> None:
    assert corrected([0.01, None, 0.04]) == [0.02, None, 0.04]
    assert corrected([0.01, None, 0.004], [2, 1, 10]) == [0.04, None, 0.04]  # the best of 2 and of 10 pairs
    assert corrected([0.3, 0.01], [10, 1]) == [1.0, 0.02]
