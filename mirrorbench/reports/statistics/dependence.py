"""The spread of a score over items that share texts, against that over as many independent items.

Items that share a text (a word of two pairs, a sentence with two targets) vary together. To resample words in place of
items would be simple, but the product of two words' weights has three times the variance of an item's weight: intervals
would widen by 1.7 also where no word is shared (Owen 2007, "The pigeonhole bootstrap", section 4). So items are
resampled, and the spread is multiplied by the root of the design effect (Kish 1965; of tests, Rao and Scott 1992): the
variance that lets all items with a common text vary together (Fafchamps and Gubert 2007; Cameron, Gelbach and Miller
2011), over that of independent items. Both come from the influence of each item on the score, the derivative by its
weight.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from mirrorbench.reports.statistics.resampling import LEVEL, FloatArray, Statistic

Influence = Callable[[FloatArray, FloatArray], FloatArray]
"""Of one encoder's scores and the gold, both of shape (n,): the derivative of the metric by each item's weight."""

_ROWS = 512
"""Items whose neighbours are in memory at once."""


def spread(influence: FloatArray, shared: NDArray[np.int32] | None) -> float:
    """The root of the design effect, at least 1; larger by Student's distribution where many items share few texts.

    Args:
        influence: of each of n items on a score or a difference of scores.
        shared: codes of what each item shares with others, shape (n, k), -1 for none; ``None`` where unknown.
    """
    from scipy.sparse import csr_array
    from scipy.stats import t

    n, own = len(influence), influence - influence.mean()
    if shared is None or not (alone := float(own @ own)) > 0:
        return 1.0
    bare = np.flatnonzero((shared < 0).all(axis=1))  # an item that shares nothing is a group of its own
    item, column = (shared >= 0).nonzero()
    codes = np.concatenate([shared[item, column], shared.max(initial=-1) + 1 + np.arange(len(bare))])
    item = np.concatenate([item, bare])
    holds = csr_array((np.ones(len(codes)), (item, codes)), (n, codes.max() + 1))
    together = neighbours = 0.0
    for start in range(0, n, _ROWS):
        near = (holds[start : start + _ROWS] @ holds.T) != 0
        together += float(own[start : start + _ROWS] @ (near @ own))
        neighbours += near.nnz
    # Influences sum to 0, which takes more from the variance of large groups: with G equal ones a G-th.
    effect = max(1.0, together / alone * (1 - 1 / n) / (1 - neighbours / n**2)) if neighbours < n**2 else 1.0
    sizes = np.bincount(codes, 1 / np.bincount(item)[item])  # in items
    groups = min(n, max(2.0, n**2 / float(sizes @ sizes)))
    return float(np.sqrt(effect) * t.ppf((1 + LEVEL) / 2, groups - 1) / t.ppf((1 + LEVEL) / 2, n - 1))


def shares(shared: NDArray[np.int32] | None) -> bool:
    """Whether any two items share something."""
    known = np.empty(0) if shared is None else shared[shared >= 0]
    return len(np.unique(known)) < len(known)


def influence_on_mean(values: FloatArray, gold: FloatArray) -> FloatArray:
    """On the mean of values."""
    centred: FloatArray = values - values.mean()
    return centred / len(values)


def influence_on_pearson(values: FloatArray, gold: FloatArray, centred: bool = True) -> FloatArray:
    """On Pearson's correlation; without ``centred`` on the cosine of the two vectors."""
    x, y = (v - v.mean() if centred else v for v in (values, gold))
    return _on_correlation(x, y, x * y, x * x, y * y)


def influence_on_spearman(values: FloatArray, gold: FloatArray) -> FloatArray:
    """On Spearman's correlation: an item counts itself, and moves the ranks of all others."""
    from scipy.stats import rankdata

    x, y = (rankdata(v) - (len(v) + 1) / 2 for v in (values, gold))
    crossed = x * y + (_above_less_below(values, y) + _above_less_below(gold, x)) / 2
    return _on_correlation(x, y, crossed, x * x + _above_less_below(values, x), y * y + _above_less_below(gold, y))


def influence_on_auc(values: FloatArray, gold: FloatArray) -> FloatArray:
    """On the area under the ROC curve: how often the item is on the right side of those of the other label."""
    positive, negative = gold, 1 - gold
    below = (1 - _above_less_below(values, negative) / negative.sum()) / 2
    above = (1 + _above_less_below(values, positive) / positive.sum()) / 2
    area = (below @ positive) / positive.sum()
    found: FloatArray = (below - area) * positive / positive.sum() + (above - area) * negative / negative.sum()
    return found


def influence_of_leaving_out(statistic: Statistic, n: int) -> FloatArray:
    """On any other metric, and of several encoders on their mean: what it loses where the item is left out."""
    whole = statistic(np.ones((1, n))).mean()
    return np.array([whole - statistic(1 - np.eye(1, n, i)).mean() for i in range(n)])


def _on_correlation(x: FloatArray, y: FloatArray, xy: FloatArray, xx: FloatArray, yy: FloatArray) -> FloatArray:
    """The derivative of a correlation, of those of the three sums of products."""
    a, b = x @ x, y @ y
    scale = np.sqrt(a * b)
    found: FloatArray = xy / scale - (x @ y) / scale / 2 * (xx / a + yy / b)
    return found


def _above_less_below(values: FloatArray, amounts: FloatArray) -> FloatArray:
    """For each item, the sum of amounts over items of higher value, less that over items of lower value."""
    _, group = np.unique(values, return_inverse=True)
    sums = np.bincount(group, amounts)
    up_to = np.cumsum(sums)
    found: FloatArray = (up_to[-1] - 2 * up_to + sums)[group]
    return found
