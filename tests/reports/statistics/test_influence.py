"""Influences against data sets in which one item stands once more."""

from __future__ import annotations

import numpy as np
import pytest

from mirrorbench.core.plugins import Plugins
from mirrorbench.reports.statistics.items import influence, influence_of_leaving_out
from mirrorbench.tasks.metrics import spearman

COPIES = 400
METRICS = ("mean", "spearman", "pearson", "uncentred_pearson", "auc")


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("name", METRICS)
def test_an_influence_is_what_more_weight_of_the_item_adds(name: str, ties: bool, plugins: Plugins) -> None:
    """The weight of a single copy among 400 of each item is a four-hundredth of that of an item."""
    rng = np.random.default_rng(0)
    gold = rng.normal(size=30)
    values = gold + rng.normal(size=30)
    if ties:
        values, gold = np.round(values), np.round(gold)
    gold = (gold > 0).astype(float) if name == "auc" else gold

    def score(rows: np.ndarray) -> float:
        return float(values[rows].mean() if name == "mean" else plugins.metrics[name](values[rows], gold[rows]))

    rows = np.repeat(np.arange(30), COPIES)
    more = [score(np.append(rows, item)) for item in range(30)]
    expected = (np.array(more) - score(rows)) * COPIES
    found = influence(name, values, gold, plugins)
    np.testing.assert_allclose(found, expected, atol=2e-4)
    assert found.sum() == pytest.approx(0, abs=1e-12)


def test_leaving_out_is_near_the_derivative(plugins: Plugins) -> None:
    rng = np.random.default_rng(1)
    gold, values = rng.normal(size=(2, 300))
    left_out = influence_of_leaving_out(spearman, values, gold)
    expected = influence("spearman", values, gold, plugins)
    assert np.corrcoef(left_out, expected)[0, 1] > 0.999
    assert np.std(left_out) == pytest.approx(np.std(expected), rel=0.02)


def test_what_is_undefined_without_an_item_is_undefined() -> None:
    values, gold = np.array([1.0, 1, 2]), np.array([3.0, 1, 2])
    assert np.isnan(influence_of_leaving_out(spearman, values, gold)).all()
