"""The influence of each item on a score: the derivative of the metric by the item's weight.

Functions take an encoder's scores and the gold, both of shape (n,), and return n influences, which sum to 0.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from mirrorbench.core.plugins import Plugins

FloatArray = NDArray[np.float64]


def influence(metric: str, values: FloatArray, gold: FloatArray, plugins: Plugins) -> FloatArray:
    """Influences on a metric by its name or on the ``mean`` of the values; NaN where undefined without an item."""
    known = _INFLUENCES.get(metric)
    return known(values, gold) if known else influence_of_leaving_out(plugins.metrics[metric], values, gold)


def influence_on_mean(values: FloatArray, gold: FloatArray) -> FloatArray:
    """Influences on the mean of values."""
    centred: FloatArray = values - values.mean()
    return centred / len(values)


def influence_on_pearson(values: FloatArray, gold: FloatArray, centred: bool = True) -> FloatArray:
    """Influences on Pearson's correlation; without ``centred`` on the cosine of the two vectors."""
    x, y = (v - v.mean() if centred else v for v in (values, gold))
    return _on_correlation(x, y, x * y, x * x, y * y)


def influence_on_spearman(values: FloatArray, gold: FloatArray) -> FloatArray:
    """Influences on Spearman's correlation: an item counts itself, and moves the ranks of all others."""
    from scipy.stats import rankdata

    x, y = (rankdata(v) - (len(v) + 1) / 2 for v in (values, gold))
    crossed = x * y + (_above_less_below(values, y) + _above_less_below(gold, x)) / 2
    return _on_correlation(x, y, crossed, x * x + _above_less_below(values, x), y * y + _above_less_below(gold, y))


def influence_on_auc(values: FloatArray, gold: FloatArray) -> FloatArray:
    """Influences on the area under the ROC curve: how often an item is right of those of the other label."""
    positive, negative = gold, 1 - gold
    below = (1 - _above_less_below(values, negative) / negative.sum()) / 2
    above = (1 + _above_less_below(values, positive) / positive.sum()) / 2
    area = (below @ positive) / positive.sum()
    found: FloatArray = (below - area) * positive / positive.sum() + (above - area) * negative / negative.sum()
    return found


_INFLUENCES: dict[str, Callable[[FloatArray, FloatArray], FloatArray]] = {
    "mean": influence_on_mean, "spearman": influence_on_spearman, "pearson": influence_on_pearson,
    "uncentred_pearson": partial(influence_on_pearson, centred=False), "auc": influence_on_auc,
}  # fmt: skip


def influence_of_leaving_out(
    metric: Callable[[FloatArray, FloatArray], float | None], values: FloatArray, gold: FloatArray
) -> FloatArray:
    """Influences on any metric: its loss without the item (the jackknife; Efron and Tibshirani 1993, chapter 11)."""
    n = len(values)
    without = (metric(np.delete(values, item), np.delete(gold, item)) for item in range(n))
    left = np.array([np.nan if value is None else value for value in without])
    lost: FloatArray = (left.mean() - left) * (n - 1) / n
    return lost


def _on_correlation(x: FloatArray, y: FloatArray, xy: FloatArray, xx: FloatArray, yy: FloatArray) -> FloatArray:
    """The derivative of a correlation, of those of the three sums of products."""
    a, b = x @ x, y @ y
    scale = np.sqrt(a * b)
    found: FloatArray = xy / scale - (x @ y) / scale / 2 * (xx / a + yy / b)
    return found


def _above_less_below(values: FloatArray, amounts: FloatArray) -> FloatArray:
    """Sums, for each item, of the amounts of items of higher value less those of items of lower value."""
    _, group = np.unique(values, return_inverse=True)
    sums = np.bincount(group, amounts)
    up_to = np.cumsum(sums)
    found: FloatArray = (up_to[-1] - 2 * up_to + sums)[group]
    return found
