"""Equal within a margin: two one-sided tests against scipy, and where the items cannot say."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import replace
from math import inf

import numpy as np
import pytest
from scipy import stats

from mirrorbench.core.errors import UsageError
from mirrorbench.core.plugins import Plugins
from mirrorbench.reports.statistics.comparisons import Comparisons
from mirrorbench.reports.statistics.equality import (
    FEWEST_EFFECTIVE_ITEMS,
    Basis,
    equality_within,
    requested_equality,
)
from mirrorbench.reports.statistics.estimates import Answers, PointEstimate
from mirrorbench.reports.statistics.items import MEAN, ItemScores
from mirrorbench.reports.statistics.paired_answers import score_interval

Rows = dict[tuple[Hashable, str], Mapping[int, ItemScores]]
MANY_ITEMS = Basis(1000, 0.5, 500, independent_answers=False, effect=inf, simulated=True)
ESTIMATE = PointEstimate(0.003, ((0.002**2, 499.0),))


def scored(values: np.ndarray, statistic: str = MEAN) -> ItemScores:
    gold = np.arange(len(values)) % 7 if statistic != MEAN else np.zeros(len(values))
    return ItemScores(
        statistic, tuple(map(str, range(len(values)))), values.astype(float), gold.astype(float)
    )


def basis_of(first: ItemScores, second: ItemScores, plugins: Plugins) -> Basis:
    rows: Rows = {("A", "t"): {0: first}, ("B", "t"): {0: second}}
    return Comparisons(rows, plugins).basis("A", "B", ["t"])


def test_equality_p_equals_two_one_sided_t_tests() -> None:
    """Below .05 if and only if the interval lies within the margin."""
    d = np.random.default_rng(0).normal(0.01, 0.1, 500)
    estimate = PointEstimate(d.mean(), ((d.var(ddof=1) / 500, 499.0),))
    for margin in np.arange(0.001, 0.04, 0.003):
        sides = (
            stats.ttest_1samp(d, -margin, alternative="greater").pvalue,
            stats.ttest_1samp(d, margin, alternative="less").pvalue,
        )
        p = equality_within(estimate, MANY_ITEMS, margin).p
        assert p == pytest.approx(min(1, 2 * max(sides)), rel=1e-3)
        low, high = stats.ttest_1samp(d, 0).confidence_interval(0.95)
        assert (p is not None and p < 0.05) == (-margin < low and high < margin)


def test_independent_answers_are_tested_by_score_test() -> None:
    estimate = PointEstimate(0.01, ((0.005**2, 399.0),), 400, answers=Answers(6, 2, 400))
    few = replace(MANY_ITEMS, effective_items=8, independent_answers=True)
    low, high = score_interval(6, 2, 400, 0.95, 399)
    for margin, shown in ((high + 0.001, True), (high - 0.001, False)):
        found = equality_within(estimate, few, margin).p
        assert found is not None
        assert (found < 0.05) == shown
    assert low > -high
    dependent = equality_within(estimate, replace(few, independent_answers=False), 0.05)
    assert (dependent.p, dependent.why_not) == (
        None,
        "these items cannot say: it rests on about 8 items, fewer than 20",
    )


def test_effective_items_bound_degrees_of_freedom() -> None:
    few, many = (
        equality_within(ESTIMATE, replace(MANY_ITEMS, effective_items=n), 0.008).p
        for n in (FEWEST_EFFECTIVE_ITEMS, 400)
    )
    assert few is not None
    assert many is not None
    assert few == pytest.approx(2 * stats.t.sf(2.5, FEWEST_EFFECTIVE_ITEMS - 1))
    assert many < few


def test_share_of_items_that_differ_bounds_a_mean() -> None:
    """The upper end of Clopper and Pearson's 95 % interval is the margin where p is .05."""
    rare = replace(MANY_ITEMS, groups=2000, differing=0.005, effective_items=4, effect=1)
    upper = stats.binomtest(10, 2000).proportion_ci(0.95, "exact").high
    assert equality_within(ESTIMATE, rare, upper * 1.0001).p == pytest.approx(0.05, rel=0.01)
    assert equality_within(ESTIMATE, rare, upper * 0.99).p is None
    assert equality_within(ESTIMATE, replace(rare, effect=inf), 0.02).p is None
    six = equality_within(ESTIMATE, replace(rare, effect=6), 6 * upper * 1.0001).p
    assert six == pytest.approx(0.05, rel=0.01)


def test_identical_predictions_on_few_items_are_inconclusive() -> None:
    same = PointEstimate(0.0, ((0.0, 1.0),))
    basis = replace(MANY_ITEMS, differing=0.0, effective_items=0.0, effect=1)
    few, many, other = (
        equality_within(same, replace(basis, groups=n, effect=effect), 0.02)
        for n, effect in ((299, 1), (300, 1), (300, inf))
    )
    assert (few.p, few.why_not) == (
        None,
        "these items cannot say: no item differs, of fewer than 300",
    )
    assert many.p == pytest.approx(2 * 0.98**300)
    assert other.p is None


def test_scores_that_were_not_simulated_get_no_answer(plugins: Plugins) -> None:
    rng = np.random.default_rng(1)
    values = rng.normal(size=400)
    for statistic, known in (("spearman", True), ("pearson", False)):
        basis = basis_of(
            scored(values, statistic),
            scored(values + 1e-3 * rng.normal(size=400), statistic),
            plugins,
        )
        assert basis.simulated == known
        found = equality_within(ESTIMATE, basis, 0.1)
        assert (found.why_not == "is not tested for this score") == (not known)


def test_basis_counts_differing_and_effective_items(
    plugins: Plugins,
) -> None:
    """Of 1,000 items 40 differ, and errors of rounding are none; four large gains count more than small ones."""
    values = np.random.default_rng(2).random(1000) / 2
    gains = np.where(np.arange(1000) < 40, 0.1, 1e-12)
    found = basis_of(scored(values + gains), scored(values), plugins)
    assert found.groups == pytest.approx(1000)
    assert found.differing == 0.04
    assert found.effective_items == pytest.approx(40, rel=0.1)
    assert (found.effect, found.independent_answers) == (1, False)
    gains[:4] = 0.5
    assert basis_of(scored(values + gains), scored(values), plugins).effective_items < 12
    right = (values < 0.3).astype(float)
    assert basis_of(scored(right), scored(1 - right), plugins).independent_answers
    pairs = np.repeat(np.arange(500), 2)[:, None].astype(np.int32)
    twice = [
        replace(scored(np.repeat(own[:500], 2)), shared=pairs) for own in (values + gains, values)
    ]
    once = basis_of(scored((values + gains)[:500]), scored(values[:500]), plugins)
    both = basis_of(twice[0], twice[1], plugins)
    assert both.effective_items == pytest.approx(once.effective_items, rel=0.01)
    assert both.groups == pytest.approx(500)


def test_tasks_seeds_and_weights_have_no_bound(plugins: Plugins) -> None:
    """Nor are their answers counted; of several tasks each must carry its part of the difference."""
    rng = np.random.default_rng(3)
    right = (rng.random(400) < 0.5).astype(float)
    changed = np.where(np.arange(400) < 60, 1 - right, right)
    one, other = scored(right), scored(changed)
    weighted = [replace(items, weights=np.arange(1, 401.0)) for items in (one, other)]
    cases: tuple[Rows, ...] = (
        {("A", "t"): {0: one, 1: other}, ("B", "t"): {0: other}},
        {("A", "t"): {0: weighted[0]}, ("B", "t"): {0: weighted[1]}},
    )
    for rows in cases:
        found = Comparisons(rows, plugins).basis("A", "B", ["t"])
        assert (found.effect, found.independent_answers) == (inf, False)
    few = replace(scored(np.where(np.arange(400) < 3, 1 - right, right)), units=())
    tasks: Rows = {
        ("A", "t"): {0: replace(one, units=tuple(f"t{n}" for n in range(400)))},
        ("B", "t"): {0: replace(other, units=tuple(f"t{n}" for n in range(400)))},
        ("A", "u"): {0: replace(one, units=tuple(f"u{n}" for n in range(400)))},
        ("B", "u"): {0: replace(few, units=tuple(f"u{n}" for n in range(400)))},
    }
    found = Comparisons(tasks, plugins).basis("A", "B", ["t", "u"])
    assert (found.effect, found.independent_answers) == (inf, False)
    assert found.effective_items < 5


def test_largest_effects_of_items_on_scores_hold(plugins: Plugins) -> None:
    """Items that are set to the lowest or highest value change correlations and areas by less."""
    rng = np.random.default_rng(4)
    for statistic in ("spearman", "auc"):
        gold = rng.normal(size=300)
        if statistic == "auc":
            gold = (np.arange(300) < 30).astype(np.float64)
        values = gold + 0.3 * rng.normal(size=300)
        one = ItemScores(statistic, tuple(map(str, range(300))), values, gold)
        for n in (1, 3, 10):
            changed = np.where(np.argsort(np.argsort(-gold)) < n, -1e9, values)
            other = replace(one, values=changed)
            rows: Rows = {("A", "t"): {0: one}, ("B", "t"): {0: other}}
            comparisons = Comparisons(rows, plugins)
            basis = comparisons.basis("A", "B", ["t"])
            difference = comparisons.compare("A", "B", ["t"]).difference
            assert 0 < difference <= basis.effect * n / 300


def test_margin_is_between_0_and_1() -> None:
    assert requested_equality(None) is None
    for margin in (0, -0.1, 1, float("nan")):
        with pytest.raises(UsageError, match="is not between 0 and 1"):
            requested_equality(margin)
