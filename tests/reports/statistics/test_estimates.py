"""Intervals and p-values against scipy, and against each other."""

from __future__ import annotations

from math import nan

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from mirrorbench.reports.statistics.estimates import (
    Answers,
    Labels,
    PointEstimate,
    area_interval,
    holm,
)


def test_estimate_over_independent_items_equals_t_test() -> None:
    d = np.random.default_rng(0).normal(0.3, 1, 25)
    expected = stats.ttest_1samp(d, 0)
    found = PointEstimate(d.mean(), ((d.var(ddof=1) / 25, 24.0),))
    assert found.p == pytest.approx(expected.pvalue)
    assert found.interval() == pytest.approx(tuple(expected.confidence_interval(0.95)))
    assert found.interval(0.99) == pytest.approx(tuple(expected.confidence_interval(0.99)))


def test_estimate_with_two_variances_equals_welch_test() -> None:
    a, b = np.random.default_rng(1).normal(size=(2, 12)) * [[4], [1]]
    b = b[:5]
    expected = stats.ttest_ind(a, b, equal_var=False)
    parts = tuple((x.var(ddof=1) / len(x), len(x) - 1.0) for x in (a, b))
    found = PointEstimate(a.mean() - b.mean(), parts)
    assert (found.p, found.df) == pytest.approx((expected.pvalue, expected.df))
    assert found.interval() == pytest.approx(tuple(expected.confidence_interval(0.95)))


def test_varying_seeds_bound_degrees_of_freedom() -> None:
    """By those of the seeds alone, as of two samples (Welch 1947)."""
    a, b = np.random.default_rng(2).normal(size=(2, 3))
    seeds = tuple((x.var(ddof=1) / 3, 2.0) for x in (a, b))
    alone = stats.ttest_ind(a, b, equal_var=False).df
    total = sum(variance for variance, _ in seeds)
    assert PointEstimate(1, ((0.9 * total, 1e9), *seeds)).df == pytest.approx(alone)
    less = PointEstimate(1, ((1.1 * total, 1e9), *seeds)).df
    assert less == pytest.approx(2.1**2 * alone)


def test_difference_without_variance_has_no_p_value() -> None:
    for parts in (((0.0, 5.0),), ((1e-34, 5.0),), ((nan, 5.0),)):  # rounding is no evidence
        found = PointEstimate(0.5, parts)
        assert (found.p, found.interval()) == (None, None)
    same = PointEstimate(0.0, ((0.0, 5.0),))
    assert (same.p, same.interval()) == (1.0, (0.0, 0.0))


counts = st.tuples(st.integers(0, 24), st.integers(0, 24))


@given(
    value=st.floats(-1, 1),
    variance=st.floats(1e-8, 1),
    df=st.floats(1, 2000),
    seeds=st.floats(0, 1),
    answers=st.none() | counts.map(lambda both: Answers(*both, n=100)),
    level=st.sampled_from([0.5, 0.9, 0.95, 0.999]),
)
def test_interval_and_p_value_agree(
    value: float,
    variance: float,
    df: float,
    seeds: float,
    answers: Answers | None,
    level: float,
) -> None:
    if answers:
        value = (answers.wins - answers.losses) / 100
    found = PointEstimate(value, ((variance, df), (seeds, 2.0)), answers=answers)
    low, high = found.interval(level) or (nan, nan)
    assert low <= value <= high
    assert found.p is not None
    if abs(found.p - (1 - level)) > 1e-9:  # at the bound itself, rounding decides
        assert (found.p > 1 - level) == (low <= 0 <= high)


def test_holm_correction_equals_hand_computation() -> None:
    assert holm([0.03, None, 0.01, 0.04]) == [0.06, None, 0.03, 0.06]
    assert holm([0.6, 0.6]) == [1.0, 1.0]
    assert holm([None]) == [None]
    assert holm([]) == []


@pytest.mark.parametrize(("right", "n"), [(3, 60), (50, 60), (196, 200), (0, 40), (40, 40)])
def test_interval_of_a_share_is_wilsons(right: int, n: int) -> None:
    """With quantiles of t, as of all intervals: nearly those of the normal distribution for many items."""
    share, df = right / n, 1e9
    variance = share * (1 - share) / n
    found = PointEstimate(share, ((variance, df),), scale="share", groups=n).interval()
    expected = stats.binomtest(right, n).proportion_ci(0.95, "wilson")
    tolerance = (
        1e-6 if 0 < right < n else 0.01
    )  # at 0 and 1 there is no variance: t has n - 1 degrees of freedom
    assert found == pytest.approx((expected.low, expected.high), abs=tolerance)


def test_area_interval_is_normal_on_logit_scale() -> None:
    found = PointEstimate(0.96, ((0.02**2, 1e9),), scale="area", groups=20).interval()
    half = 1.959964 * 0.02 / (0.96 * 0.04)
    centre = np.log(0.96 / 0.04)
    expected = tuple(1 / (1 + np.exp(-(centre + sign * half))) for sign in (-1, 1))
    assert found == pytest.approx(expected, abs=1e-6)
    low, high = PointEstimate(1.0, ((0.0, 1.0),), scale="area", groups=20).interval() or (0, 0)
    assert high == 1
    assert 0.8 < low < 0.9


def test_area_with_single_positive_has_newcombe_interval() -> None:
    """Whose items do not say how it varies."""
    found = PointEstimate(0.9, ((nan, 1.0),), scale="area", labels=Labels(1, 50))
    assert found.interval() == area_interval(0.9, Labels(1, 50), stats.norm.ppf(0.975))


def test_area_interval_contains_newcombe_interval() -> None:
    """Where few positive items are all ranked high, their own spread says too little."""
    few = Labels(12, 588)
    low, high = PointEstimate(0.98, ((0.002**2, 11.0),), scale="area", labels=few).interval() or (
        0,
        0,
    )
    ends = area_interval(0.98, few, stats.norm.ppf(0.975))
    assert (low, high) == pytest.approx(ends)
    assert low < 0.93
    for end in ends:
        # Hanley and McNeil's variance (1982) of an area, with the mean number of items for either label.
        once, twice = end / (2 - end), 2 * end**2 / (1 + end)
        variance = (end * (1 - end) + (300 - 1) * ((once - end**2) + (twice - end**2))) / (12 * 588)
        assert abs(0.98 - end) == pytest.approx(1.959964 * variance**0.5, rel=1e-5)
