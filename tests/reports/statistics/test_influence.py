"""Influences against data sets in which one item stands once more."""

from __future__ import annotations

import numpy as np
import pytest

from mirrorbench.core.plugins import Plugins
from mirrorbench.own_data.measures import average_precision
from mirrorbench.reports.statistics.influence import influence, influence_of_leaving_out
from mirrorbench.reports.statistics.items import ItemScores
from mirrorbench.tasks.metrics import spearman

COPIES = 400
METRICS = ("mean", "spearman", "pearson", "uncentred_pearson", "auc")


def scored(
    kind: str, values: np.ndarray, gold: np.ndarray, shared: np.ndarray | None = None
) -> ItemScores:
    return ItemScores(kind, tuple(map(str, range(len(gold)))), values, gold, shared=shared)


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("name", METRICS)
def test_influence_equals_score_change_from_item_weight(
    name: str, ties: bool, plugins: Plugins
) -> None:
    """The weight of a single copy among 400 of each item is a four-hundredth of that of an item."""
    rng = np.random.default_rng(0)
    gold = rng.normal(size=30)
    values = gold + rng.normal(size=30)
    if ties:
        values, gold = np.round(values), np.round(gold)
    gold = (gold > 0).astype(float) if name == "auc" else gold

    def score(rows: np.ndarray) -> float:
        return float(
            values[rows].mean()
            if name == "mean"
            else plugins.metrics[name](values[rows], gold[rows])
        )

    rows = np.repeat(np.arange(30), COPIES)
    more = [score(np.append(rows, item)) for item in range(30)]
    expected = (np.array(more) - score(rows)) * COPIES
    found = influence(scored(name, values, gold), plugins)
    np.testing.assert_allclose(found, expected, atol=2e-4)
    assert found.sum() == pytest.approx(0, abs=1e-12)


def test_leave_one_out_influence_approximates_derivative(plugins: Plugins) -> None:
    rng = np.random.default_rng(1)
    gold, values = rng.normal(size=(2, 300))
    left_out = influence_of_leaving_out(spearman, values, gold, np.arange(len(gold)))
    expected = influence(scored("spearman", values, gold), plugins)
    assert np.corrcoef(left_out, expected)[0, 1] > 0.999
    assert np.std(left_out) == pytest.approx(np.std(expected), rel=0.02)


@pytest.mark.parametrize("n_values", [3, 40, 10**6])
def test_average_precision_influence_equals_leaving_items_out(
    n_values: int, plugins: Plugins
) -> None:
    """Among ties too; NaN where an item is the only one of its label."""
    rng = np.random.default_rng(n_values)
    for share in (0.02, 0.3, 0.98):
        gold = (rng.random(60) < share).astype(float)
        gold[:2] = 0, 1
        values = rng.integers(0, n_values, 60) + 0.2 * n_values * gold
        expected = influence_of_leaving_out(average_precision, values, gold, np.arange(60))
        found = influence(scored("cosine_ap", values, gold), plugins)
        np.testing.assert_allclose(found, expected, atol=1e-12)


def test_influence_is_nan_when_score_becomes_undefined() -> None:
    values, gold = np.array([1.0, 1, 2]), np.array([3.0, 1, 2])
    assert np.isnan(influence_of_leaving_out(spearman, values, gold, np.arange(len(gold)))).all()


def test_item_groups_are_left_out_together(plugins: Plugins) -> None:
    """The variance is that of the jackknife over groups (Efron and Tibshirani 1993, equation 11.5)."""
    rng = np.random.default_rng(2)
    gold, values = rng.normal(size=(2, 40))
    groups = np.repeat(np.arange(16), [1] * 8 + [4] * 8)
    codes = np.where(groups < 8, -1, groups).astype(np.int32)[:, None]
    metrics = plugins.extended(
        "register_metrics", "ranked", spearman, "the same, without a derivative"
    )
    found = influence(scored("ranked", values, gold, codes), metrics)
    left = np.array(
        [spearman(values[groups != group], gold[groups != group]) for group in range(16)]
    )
    of_groups = np.bincount(groups, found)
    assert (of_groups**2).sum() * 16 / 15 == pytest.approx(
        15 / 16 * ((left - left.mean()) ** 2).sum()
    )
    assert found == pytest.approx((of_groups / np.bincount(groups))[groups])
    of_two = np.repeat(codes, 2, axis=1)  # several things of an item make no groups
    assert influence(scored("ranked", values, gold, of_two), metrics) == pytest.approx(
        influence_of_leaving_out(spearman, values, gold, np.arange(40))
    )
