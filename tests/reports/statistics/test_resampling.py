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


Floats = NDArray[np.float64]


def sample(rng: np.random.Generator, n: int, *noise: float) -> tuple[Floats, ...]:
    """Gold, then the scores of an encoder for each amount of noise."""
    gold = rng.normal(size=n)
    return gold, *(gold + amount * rng.normal(size=n) for amount in noise)


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


@settings(max_examples=40)
@given(st.lists(st.integers(-3, 6), min_size=1, max_size=40))
def test_the_p_value_is_where_the_interval_touches_zero(values: list[int]) -> None:
    below, above = sum(v <= 0 for v in values), sum(v >= 0 for v in values)
    expected = min(1, 2 * min(below + 1, above + 1) / (len(values) + 1))
    bound = not min(below, above)
    assert bootstrap_p(np.array(values, float)) == PValue(pytest.approx(expected), bound)
    assert bootstrap_p(-np.array(values, float)) == PValue(pytest.approx(expected), bound)


def test_interval_and_p_value_agree() -> None:
    gold, good, bad = sample(np.random.default_rng(4), 150, 1.0, 1.25)
    drawn = bootstrap(weighted_spearman(np.stack([good, bad]), gold), len(gold), 4000)
    differences = drawn[0] - drawn[1]
    found = bootstrap_p(differences)
    assert found is not None
    p = found.value
    assert 0.001 < p < 0.5
    just_wider, just_narrower = (percentile_interval(differences, 1 - p * factor) for factor in (0.9, 1.1))
    assert just_wider is not None
    assert just_narrower is not None
    assert just_wider.low < 0 < just_narrower.low


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
        differences = []
        for x, y in itertools.product(a, b):
            differences.append(correlate(np.where(bits, y, x)) - correlate(np.where(bits, x, y)))
        found.append(float(np.mean(differences)))
    return found


@pytest.mark.parametrize("metric", ["spearman", "pearson", "uncentred_pearson"])
@pytest.mark.parametrize("seeds", [(1, 1), (2, 3)])
def test_permutation_against_all_swaps(metric: str, seeds: tuple[int, int]) -> None:
    rng = np.random.default_rng(6)
    gold = rng.normal(size=7)
    a, b = (gold + noise * rng.normal(size=(k, 7)) for k, noise in zip(seeds, (0.3, 1.5), strict=True))
    a = 0.9 + a / 50  # cosines of one encoder lie elsewhere than those of another
    all_swaps = np.abs(naive_correlations(a, b, gold, metric))
    exact = np.mean(all_swaps >= all_swaps[0] - 1e-12)
    p = correlation_permutation(a, b, gold, metric, 40_000)
    assert p == pytest.approx(exact, abs=4 * np.sqrt(exact * (1 - exact) / 40_000) + 1e-4)
    assert p == correlation_permutation(a, b, gold, metric, 40_000)
    assert p != correlation_permutation(a, b, gold, metric, 40_000, seed=1)
    assert correlation_permutation(b, a, gold, metric, 40_000) == p  # two-sided


def test_scale_makes_no_difference_to_a_permutation() -> None:
    gold, a, b = sample(np.random.default_rng(8), 60, 0.8, 1.0)
    for metric, shift in (("spearman", 100), ("pearson", 100), ("uncentred_pearson", 0)):
        p = correlation_permutation(a, b, gold, metric, 500)
        assert correlation_permutation(0.001 * a + shift, b, gold, metric, 500) == p
    p = correlation_permutation(a, b, gold, "spearman", 500)
    assert correlation_permutation(np.exp(a), b, gold, "spearman", 500) == p


def test_an_encoder_is_not_different_from_itself() -> None:
    gold, a = sample(np.random.default_rng(9), 30, 1.0)
    assert correlation_permutation(a, a, gold, resamples=200) == 1
    assert correlation_permutation(a, 5 * a, gold, resamples=200) == 1
    assert mean_permutation(a, a, 200) == 1
    assert mcnemar(a > 0, a > 0) == 1
    assert bootstrap_p(np.zeros(100)) == PValue(1, False)


def test_a_constant_has_no_correlation_to_test() -> None:
    gold, a = sample(np.random.default_rng(9), 10, 1.0)
    for metric in ("spearman", "pearson"):
        assert correlation_permutation(a, np.full(10, 0.3), gold, metric, 10) is None
        assert correlation_permutation(a, a, np.zeros(10), metric, 10) is None
    assert correlation_permutation(a, np.zeros(10), gold, "uncentred_pearson", 10) is None
    assert correlation_permutation(a, np.ones(10), gold, "uncentred_pearson", 10) is not None


def test_mean_permutation_against_scipy() -> None:
    rng = np.random.default_rng(11)
    a, b = rng.random((3, 9)), rng.random((2, 9))
    theirs = stats.permutation_test(
        (a.mean(axis=0), b.mean(axis=0)), lambda x, y: x.mean() - y.mean(), permutation_type="samples",
        n_resamples=np.inf, vectorized=False,
    )  # fmt: skip
    p = mean_permutation(a, b, 40_000)
    assert p == pytest.approx(theirs.pvalue, abs=4 * np.sqrt(theirs.pvalue / 40_000))


@settings(max_examples=40)
@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=25))
def test_mcnemar_is_a_binomial_of_the_discordant_items(pairs: list[tuple[bool, bool]]) -> None:
    wins, losses = sum(a and not b for a, b in pairs), sum(b and not a for a, b in pairs)
    n = wins + losses
    tail = sum(comb(n, k) for k in range(min(wins, losses) + 1)) / 2**n
    first, second = zip(*pairs, strict=True)
    assert mcnemar(first, second) == pytest.approx(min(1.0, 2 * tail))


@settings(max_examples=40)
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


def test_at_the_floor_a_p_value_is_a_bound() -> None:
    """No swap of 20 clear differences is as extreme; with five items every swap of all of them is."""
    found = p_of_swaps(mean_swaps(np.arange(20) + 1.0, np.zeros(20), 500))
    assert found == PValue(1 / 501, True)
    assert p_of_swaps(mean_swaps(np.ones(5), np.zeros(5), 500)) == PValue(pytest.approx(2 / 32, abs=0.03), False)


@pytest.mark.parametrize("comparisons", [1, 51, 200, 501, 1000])
def test_resamples_are_enough_for_holm_to_reach_significance(comparisons: int) -> None:
    """Of as many comparisons, all as clear as can be, each is significant; the floor of a bootstrap is twice that."""
    resamples = enough(comparisons)
    for floor in (1, 2):
        p: list[float | None] = [floor / (resamples + 1)] * comparisons
        assert all(value is not None and value < 0.05 for value in corrected(p))
    assert resamples >= RESAMPLES
    assert enough(10**6) == 50_000
    assert enough(comparisons, 10**5) == 10**5


def test_correction_leaves_out_what_is_undefined() -> None:
    assert corrected([0.01, None, 0.04]) == [0.02, None, 0.04]
    assert corrected([0.01, None, 0.004], [2, 1, 10]) == [0.04, None, 0.04]  # the best of 2 and of 10 pairs
    assert corrected([0.3, 0.01], [10, 1]) == [1.0, 0.02]


# Simulations: data sets are drawn from a known population. 95 % of 200 is 190; an interval of the right level
# lies within +-2.6 standard errors (+-8) in 99 of 100 simulations, and these have fixed seeds.


def test_intervals_hold_the_truth_as_often_as_they_say() -> None:
    rng = np.random.default_rng(100)
    noise = 0.8
    rho = 1 / np.sqrt(1 + noise**2)
    truth = 6 / np.pi * np.arcsin(rho / 2)  # Spearman's correlation of two normal variables
    held = held_mean = 0
    for seed in range(200):
        gold, scores = sample(rng, 120, noise)
        interval = percentile_interval(bootstrap(weighted_spearman(scores, gold), len(gold), 400, seed)[0])
        assert interval is not None
        held += interval.low <= truth <= interval.high
        interval = percentile_interval(bootstrap(weighted_mean(rng.random(120) < 0.7), 120, 400, seed)[0])
        assert interval is not None
        held_mean += interval.low <= 0.7 <= interval.high
    assert held / 200 == pytest.approx(0.95, abs=0.04)
    assert held_mean / 200 == pytest.approx(0.95, abs=0.04)


def test_tests_of_equal_encoders_reject_one_in_twenty() -> None:
    rng = np.random.default_rng(101)
    rejected = {"permutation": 0, "bootstrap": 0, "mean": 0}
    for seed in range(200):
        gold, a, b = sample(rng, 80, 1.0, 1.0)
        p = correlation_permutation(a, 3 * b + 1, gold, resamples=300, seed=seed)
        assert p is not None
        rejected["permutation"] += p < 0.05
        drawn = bootstrap(weighted_spearman(np.stack([a, b]), gold), len(gold), 300, seed)
        found = bootstrap_p(drawn[0] - drawn[1])
        assert found is not None
        rejected["bootstrap"] += found.value < 0.05
        rejected["mean"] += mean_permutation(rng.random(80) < 0.6, rng.random(80) < 0.6, 300, seed) < 0.05
    for name, count in rejected.items():
        assert 0.01 < count / 200 < 0.09, name


def test_tests_find_a_difference_that_is_there() -> None:
    rng = np.random.default_rng(102)
    found = 0
    for seed in range(50):
        gold, a, b = sample(rng, 300, 0.7, 1.2)
        p = correlation_permutation(a, b, gold, resamples=300, seed=seed)
        found += p is not None and p < 0.05
    assert found > 45
