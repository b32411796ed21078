"""Intervals and p-values against scipy, and against each other."""

from __future__ import annotations

from math import inf, nan

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from mirrorbench.reports.statistics.estimates import PointEstimate, holm


def test_estimate_over_independent_items_equals_t_test() -> None:
    d = np.random.default_rng(0).normal(0.3, 1, 25)
    expected = stats.ttest_1samp(d, 0)
    found = PointEstimate(d.mean(), ((d.var(ddof=1) / 25, 24.0),))
    assert found.p == pytest.approx(expected.pvalue)
    assert found.interval() == pytest.approx(tuple(expected.confidence_interval(0.95)))
    assert found.interval(0.99) == pytest.approx(tuple(expected.confidence_interval(0.99)))


def test_estimate_with_two_variances_equals_welch_test() -> None:
    a, b = np.random.default_rng(1).normal(size=(2, 12)) * [[1], [4]]
    b = b[:5]
    expected = stats.ttest_ind(a, b, equal_var=False)
    parts = tuple((x.var(ddof=1) / len(x), len(x) - 1.0) for x in (a, b))
    found = PointEstimate(a.mean() - b.mean(), parts)
    assert (found.p, found.df) == pytest.approx((expected.pvalue, expected.df))
    assert found.interval() == pytest.approx(tuple(expected.confidence_interval(0.95)))


def test_few_discordant_answers_use_mcnemar_test() -> None:
    """Where Student's is less certain, it counts."""
    found = PointEstimate(6 / 600, ((6 / 600**2, 599.0),), (6, 0, 600))
    assert found.p == stats.binomtest(6, 6).pvalue == 2 / 2**6
    low, high = found.interval() or (nan, nan)
    student = stats.t.ppf(0.975, 599) * 6**0.5 / 600
    assert (low, high) == pytest.approx(((2 * 0.025 ** (1 / 6) - 1) / 100, 0.01 + student))
    wide = PointEstimate(6 / 600, ((0.01, 599.0),), (6, 0, 600))
    assert wide.p == pytest.approx(2 * stats.t.sf(0.1, 599))


def test_difference_without_variance_has_no_p_value() -> None:
    for parts in (((0.0, 5.0),), ((1e-34, 5.0),), ((nan, 5.0),)):  # rounding is no evidence
        found = PointEstimate(0.5, parts)
        assert (found.p, found.interval()) == (None, None)
    same = PointEstimate(0.0, ((0.0, 5.0),))
    assert (same.p, same.interval()) == (1.0, (0.0, 0.0))
    assert same.df == inf


counts = st.tuples(st.integers(0, 24), st.integers(0, 24)).filter(lambda both: 0 < sum(both) < 25)


@given(
    value=st.floats(-1, 1),
    variance=st.floats(1e-8, 1),
    df=st.floats(1, 2000),
    seeds=st.floats(0, 1),
    discordant=st.none() | counts.map(lambda both: (*both, 100)),
    level=st.sampled_from([0.5, 0.9, 0.95, 0.999]),
)
def test_interval_and_p_value_agree(
    value: float,
    variance: float,
    df: float,
    seeds: float,
    discordant: tuple[int, int, int] | None,
    level: float,
) -> None:
    if discordant:
        value = (discordant[0] - discordant[1]) / 100
    found = PointEstimate(value, ((variance, df), (seeds, 2.0)), discordant)
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


def test_interval_of_an_area_is_normal_on_the_logit_scale() -> None:
    found = PointEstimate(0.96, ((0.02**2, 1e9),), scale="area", groups=20).interval()
    half = 1.959964 * 0.02 / (0.96 * 0.04)
    centre = np.log(0.96 / 0.04)
    expected = tuple(1 / (1 + np.exp(-(centre + sign * half))) for sign in (-1, 1))
    assert found == pytest.approx(expected, abs=1e-6)
    low, high = PointEstimate(1.0, ((0.0, 1.0),), scale="area", groups=20).interval() or (0, 0)
    assert high == 1
    assert 0.8 < low < 0.9
