"""The influence of each test item on a score, from which the variance of the score is estimated.

The influence of an item is the derivative of the score with respect to the weight of the item, where all weights are 1.
The sum of the squared influences of independent items estimates the variance of the score: the infinitesimal jackknife
(Jaeckel 1972). Influences on a score sum to 0.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from mirrorbench.reports.statistics.items import CLUSTERS, MEAN, FloatArray, ItemScores
from mirrorbench.tasks.v_measure import without_groups

if TYPE_CHECKING:
    from mirrorbench.core.plugins import Plugins


def influence(items: ItemScores, plugins: Plugins) -> FloatArray:
    """Return the influence of each item on the score of all, shape (n,).

    Means, correlations and the area under the ROC curve have exact derivatives. For other scores, items or groups of
    items are left out (``influence_of_leaving_out``); the influence is NaN if the score is undefined without them.
    """
    if items.statistic == MEAN:
        return (items.values - items.mean) * items.shares
    derivative = _DERIVATIVES.get(items.measure)
    if derivative:
        return derivative(items.values, items.gold)
    groups = items.groups
    each_item_is_a_group = groups.max() + 1 == len(items.ids)
    if items.statistic == "cosine_ap" and each_item_is_a_group:
        return _on_average_precision(items.values, items.gold)
    if items.statistic == CLUSTERS:
        scores_without = without_groups(items.values, items.gold, groups)
        return _from_scores_without(scores_without, groups)
    metric = plugins.metrics[items.statistic]
    return influence_of_leaving_out(metric, items.values, items.gold, groups)


def _on_pearson(values: FloatArray, gold: FloatArray, centred: bool = True) -> FloatArray:
    """Return influences on Pearson's correlation; without ``centred``, on the cosine of the two vectors."""
    x = values
    y = gold
    if centred:
        x = x - x.mean()
        y = y - y.mean()
    return _on_correlation(x, y, x * y, x * x, y * y)


def _on_spearman(values: FloatArray, gold: FloatArray) -> FloatArray:
    """Return influences on Spearman's correlation, those through the ranks of all other items included."""
    from scipy.stats import rankdata

    centre = (len(values) + 1) / 2
    x = rankdata(values) - centre
    y = rankdata(gold) - centre
    # More weight of an item raises the centred ranks of the items above it by half of that weight, and lowers the ranks
    # of the items below it as much.
    xy = x * y + (_above_less_below(values, y) + _above_less_below(gold, x)) / 2
    xx = x * x + _above_less_below(values, x)
    yy = y * y + _above_less_below(gold, y)
    return _on_correlation(x, y, xy, xx, yy)


def _on_correlation(
    x: FloatArray, y: FloatArray, xy: FloatArray, xx: FloatArray, yy: FloatArray
) -> FloatArray:
    """Return the derivatives of the correlation x·y / sqrt(x·x y·y) from those of its three sums of products.

    Args:
        x: shape (n,).
        y: shape (n,).
        xy: derivative of x·y with respect to the weight of each item, shape (n,).
        xx: derivative of x·x, shape (n,).
        yy: derivative of y·y, shape (n,).
    """
    sum_xx = x @ x
    sum_yy = y @ y
    scale = np.sqrt(sum_xx * sum_yy)
    derivative: FloatArray = xy / scale - (x @ y) / scale / 2 * (xx / sum_xx + yy / sum_yy)
    return derivative


def _above_less_below(values: FloatArray, amounts: FloatArray) -> FloatArray:
    """Return for each item the sum of ``amounts`` over items of higher value less the sum over items of lower value."""
    _, level = np.unique(values, return_inverse=True)
    sums = np.bincount(level, amounts)
    up_to = np.cumsum(sums)
    differences: FloatArray = (up_to[-1] - 2 * up_to + sums)[level]
    return differences


def _on_auc(values: FloatArray, gold: FloatArray) -> FloatArray:
    """Return influences on the area under the ROC curve, by DeLong's method (1988).

    The influence of an item is its deviation from the mean of its label, in the share of items of the other label that
    are ranked on the right side of it; ties count half.
    """
    positive = gold
    negative = 1 - gold
    n_positive = np.sum(positive)
    n_negative = np.sum(negative)
    share_below = (1 - _above_less_below(values, negative) / n_negative) / 2
    share_above = (1 + _above_less_below(values, positive) / n_positive) / 2
    area = float(share_below @ positive) / n_positive
    of_positive = (share_below - area) * positive / n_positive
    of_negative = (share_above - area) * negative / n_negative
    return of_positive + of_negative


_DERIVATIVES: dict[str, Callable[[FloatArray, FloatArray], FloatArray]] = {
    "spearman": _on_spearman,
    "pearson": _on_pearson,
    "uncentred_pearson": partial(_on_pearson, centred=False),
    "auc": _on_auc,
}


def influence_of_leaving_out(
    metric: Callable[[FloatArray, FloatArray], float | None],
    values: FloatArray,
    gold: FloatArray,
    groups: NDArray[np.intp],
) -> FloatArray:
    """Return influences on any metric, from its scores without each group of items.

    This is the delete-a-group jackknife (Efron and Tibshirani 1993, chapter 11). What the score loses without a group
    is shared equally by the group's items.

    Args:
        metric: a score of values and gold; ``None`` where undefined.
        values: shape (n,).
        gold: shape (n,).
        groups: the number of each item's group, from 0, shape (n,).
    """
    n_groups = int(groups.max(initial=-1)) + 1
    scores_without = []
    for group in range(n_groups):
        remaining = groups != group
        score = metric(values[remaining], gold[remaining])
        scores_without.append(np.nan if score is None else score)
    return _from_scores_without(np.array(scores_without), groups)


def _from_scores_without(scores_without: FloatArray, groups: NDArray[np.intp]) -> FloatArray:
    """Return the influences of items from the scores without each of their groups, shape (groups,)."""
    sizes = np.bincount(groups)
    losses = (scores_without.mean() - scores_without) * (1 - 1 / len(sizes))
    influences: FloatArray = (losses / sizes)[groups]
    return influences


def _on_average_precision(values: FloatArray, gold: FloatArray) -> FloatArray:
    """Return the influence of each item on average precision, found by leaving it out.

    The result is that of ``influence_of_leaving_out``, in time that grows with the number of items, not its square.
    Average precision is the sum over levels, from the highest value down, of the right items of a level times the
    precision of all items down to it, divided by the number of right items. Items of equal value have one level.

    Without its only right, or its only wrong item, the score is undefined: then all influences are NaN.
    """
    # The level of each item; 0 is that of the highest value.
    level = np.unique(-values, return_inverse=True)[1]
    right = (gold == 1).astype(np.float64)
    # For each level, numbers of items: right ones at the level, right ones and all down to it.
    right_at = np.bincount(level, right)
    right_down_to = np.cumsum(right_at)
    n_down_to = np.cumsum(np.bincount(level))
    n_right = right_at.sum()
    n_down_to_less_one = np.maximum(1, n_down_to - 1)

    def from_level_down(terms: FloatArray) -> FloatArray:
        """Return for each item the sum of the terms of its own level and of all lower ones."""
        sums: FloatArray = np.cumsum(terms[::-1])[::-1][level]
        return sums

    # The sum without an item has two parts. The terms of levels above the item's own are the same without it.
    terms = right_at * right_down_to / n_down_to
    sum_above = terms.sum() - from_level_down(terms)
    # Without a wrong item, there is one item fewer down to its own level, and down to each lower one.
    terms_without_wrong = right_at * right_down_to / n_down_to_less_one
    score_without_wrong = (sum_above + from_level_down(terms_without_wrong)) / n_right
    # Without a right item, there is also one right item fewer down to each of these levels.
    terms_without_right = right_at * (right_down_to - 1) / n_down_to_less_one
    # The item's own level has one right item fewer too, which takes the precision there off the sum once.
    precisions_without_right = (right_down_to - 1) / n_down_to_less_one
    sum_from_own_level = from_level_down(terms_without_right) - precisions_without_right[level]
    score_without_right = (sum_above + sum_from_own_level) / max(1.0, n_right - 1)

    scores_without = np.where(right == 1, score_without_right, score_without_wrong)
    n = len(values)
    # Without the only right or the only wrong item the score is undefined, and so is the mean below.
    if n_right == 1:
        scores_without[right == 1] = np.nan
    elif n_right == n - 1:
        scores_without[right == 0] = np.nan
    influences: FloatArray = (scores_without.mean() - scores_without) * (1 - 1 / n)
    return influences


def corrected_for_sample_size(items: ItemScores, influences: FloatArray) -> FloatArray:
    """Scale influences so that the sum of their squares estimates the variance of a score without bias.

    The influences of a sample of n independent items sum to 0, which makes their squares too small by a factor of
    (n - 1) / n. The result is NaN for the only item of a sample.
    """
    samples = _sample_of_each_item(items)
    sizes = np.bincount(samples)[samples]
    factors = np.full(len(samples), np.nan)
    several = sizes > 1
    factors[several] = np.sqrt(sizes[several] / (sizes[several] - 1))
    scaled: FloatArray = influences * factors
    return scaled


def mean_squares_by_sample(items: ItemScores, influences: FloatArray) -> FloatArray:
    """Return for each item the mean of the squared influences of its sample, shape (n,)."""
    samples = _sample_of_each_item(items)
    means = np.bincount(samples, influences**2) / np.bincount(samples)
    squares: FloatArray = means[samples]
    return squares


def _sample_of_each_item(items: ItemScores) -> NDArray[np.intp]:
    """Return the sample that each item is from, as a number from 0, shape (n,).

    An area under the ROC curve has two samples, one of each label; other scores have one.
    """
    if items.measure == "auc":
        return np.unique(items.gold, return_inverse=True)[1]
    return np.zeros(len(items.ids), dtype=np.intp)
