"""Statistics of resampled items: what a metric would be had other items been drawn.

A resample of n items is n weights: how often each item was drawn. Every statistic here takes the weights of many
resamples at once and gives, for e encoders, e values for each resample, exactly as if each resample had been written
out and scored (ties included); 0/1 weights give the metric on a subset. Undefined values are NaN.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]

RESAMPLES = 10_000
"""Resamples where nobody says otherwise: a p-value near 0.05 is then known to about 0.002."""

_CHUNK = 1 << 17
"""Weights in memory at once (1 MiB): what fits into a processor's cache is several times as fast."""


class Statistic(Protocol):
    """A metric of e encoders on the same n items, as a function of the items' weights.

    Attributes:
        n: number of items.
    """

    n: int

    def __call__(self, weights: Floats) -> Floats:
        """Weights of shape (resamples, n), not negative, to values of shape (e, resamples)."""


class Mean:
    """Means of per-item values: accuracy, accuracy@k, mean reciprocal rank.

    Args:
        values: shape (e, n), or (n,) for one encoder.
    """

    def __init__(self, values: ArrayLike) -> None:
        self.values = _rows(values)
        self.n = self.values.shape[1]

    def __call__(self, weights: Floats) -> Floats:
        """Weighted means."""
        return _divide(self.values @ weights.T, weights.sum(axis=1))


class Pearson:
    """Pearson's correlation with the gold.

    Args:
        scores: shape (e, n), or (n,) for one encoder.
        gold: shape (n,).
        centred: around the means; otherwise around zero (the cosine of the two vectors).
    """

    def __init__(self, scores: ArrayLike, gold: ArrayLike, centred: bool = True) -> None:
        x, y = _rows(scores), np.asarray(gold, dtype=np.float64)
        self.n, self.centred = x.shape[1], centred
        if centred:  # the same correlation, but sums of squares do not cancel
            x, y = x - x.mean(axis=1, keepdims=True), y - y.mean()
        self._x, self._y = x, y

    def __call__(self, weights: Floats) -> Floats:
        """Correlations from weighted sums, one matrix product a moment."""
        x, y = self._x, self._y
        xy, xx, yy = (x * y) @ weights.T, (x * x) @ weights.T, (y * y) @ weights.T
        if not self.centred:
            return _divide(xy, np.sqrt(xx * yy))
        total = weights.sum(axis=1)
        sx, sy = x @ weights.T, y @ weights.T
        vx, vy = xx - _divide(sx * sx, total), yy - _divide(sy * sy, total)
        # What is left of equal values by rounding is no variance.
        vx, vy = np.where(vx > 1e-12 * xx, vx, 0), np.where(vy > 1e-12 * yy, vy, 0)
        return _divide(xy - _divide(sx * sy, total), np.sqrt(vx * vy))


class Spearman:
    """Spearman's correlation with the gold; ties have their mean rank within each resample.

    Args:
        scores: shape (e, n), or (n,) for one encoder.
        gold: shape (n,).
    """

    def __init__(self, scores: ArrayLike, gold: ArrayLike) -> None:
        rows = _rows(scores)
        self.n = rows.shape[1]
        self._scores, self._gold = [_Ranks(row) for row in rows], _Ranks(np.asarray(gold, dtype=np.float64))

    def __call__(self, weights: Floats) -> Floats:
        """Correlations of the ranks that the items have in each resample."""
        middle = (weights.sum(axis=1, keepdims=True) + 1) / 2
        y = self._gold(weights) - middle
        yy = np.einsum("bn,bn,bn->b", weights, y, y)
        weighted = weights * y
        values = np.empty((len(self._scores), len(weights)))
        for row, ranks in enumerate(self._scores):
            x = ranks(weights) - middle
            xx = np.einsum("bn,bn,bn->b", weights, x, x)
            values[row] = _divide(np.einsum("bn,bn->b", weighted, x), np.sqrt(xx * yy))
        return values


class Auc:
    """Area under the ROC curve, ties counted half.

    Args:
        scores: shape (e, n), or (n,) for one encoder.
        labels: 0 or 1, shape (n,).
    """

    def __init__(self, scores: ArrayLike, labels: ArrayLike) -> None:
        rows = _rows(scores)
        self.n = rows.shape[1]
        self._ranks, self._labels = [_Ranks(row) for row in rows], np.asarray(labels, dtype=np.float64)

    def __call__(self, weights: Floats) -> Floats:
        """Areas from the ranks of the positives (the Mann-Whitney statistic)."""
        positive = weights * self._labels
        n_positive = positive.sum(axis=1)
        n_negative = weights.sum(axis=1) - n_positive
        sums = np.stack([np.einsum("bn,bn->b", positive, ranks(weights)) for ranks in self._ranks])
        return _divide(sums - n_positive * (n_positive + 1) / 2, n_positive * n_negative)


class Each:
    """Any other metric, computed on each resample as it is written out: exact, and slow.

    Args:
        metric: from scores and gold to a value, or ``None`` where it is undefined.
        scores: shape (e, n), or (n,) for one encoder.
        gold: shape (n,).
    """

    def __init__(
        self, metric: Callable[[ArrayLike, ArrayLike], float | None], scores: ArrayLike, gold: ArrayLike
    ) -> None:
        self._metric, self._scores, self._gold = metric, _rows(scores), np.asarray(gold)
        self.n = self._scores.shape[1]

    def __call__(self, weights: Floats) -> Floats:
        """One call of the metric for each encoder and resample."""
        values = np.full((len(self._scores), len(weights)), np.nan)
        for column, row in enumerate(weights):
            drawn = np.repeat(np.arange(self.n), row.astype(np.int64))
            for encoder, scores in enumerate(self._scores):
                value = self._metric(scores[drawn], self._gold[drawn])
                values[encoder, column] = np.nan if value is None else value
        return values


def estimate(statistic: Statistic, keep: NDArray[np.bool_] | None = None) -> Floats:
    """The values on the items themselves, shape (e,).

    Args:
        statistic: of e encoders.
        keep: which of the n items count, by default all.
    """
    weights = np.ones(statistic.n) if keep is None else keep.astype(np.float64)
    return statistic(weights[None])[:, 0]


def bootstrap(statistic: Statistic, resamples: int = RESAMPLES, seed: int = 0) -> Floats:
    """Values on resamples of n items drawn with replacement (Efron and Tibshirani 1993, chapter 6).

    All encoders of the statistic see the same resamples, so the difference of two rows is a paired bootstrap. Equal
    seeds and numbers of items give equal resamples.

    Returns:
        shape (e, resamples); NaN where a resample leaves the metric undefined.
    """
    rng = np.random.default_rng(seed)
    return np.concatenate([statistic(_counts(rng, size, statistic.n)) for size in chunks(statistic.n, resamples)], 1)


def chunks(n: int, resamples: int) -> Iterator[int]:
    """Sizes of the chunks in which resamples of n items are computed."""
    rows = max(1, _CHUNK // max(n, 1))
    for start in range(0, resamples, rows):
        yield min(rows, resamples - start)


def _counts(rng: np.random.Generator, rows: int, n: int) -> Floats:
    """How often each of n items is drawn in n draws, for each row."""
    drawn = rng.integers(0, n, (rows, n)) + n * np.arange(rows)[:, None]
    return np.bincount(drawn.ravel(), minlength=rows * n).reshape(rows, n).astype(np.float64)


class _Ranks:
    """Mean ranks of n values, each repeated as often as its weight says, without sorting again.

    Args:
        values: shape (n,).
    """

    def __init__(self, values: Floats) -> None:
        distinct, self._group = np.unique(values, return_inverse=True)
        self._order = np.argsort(values, kind="stable")
        self._starts = np.searchsorted(values[self._order], distinct) if len(distinct) < len(values) else None

    def __call__(self, weights: Floats) -> Floats:
        """Ranks from 1, shape (resamples, n); those of items of weight 0 mean nothing."""
        size = weights.take(self._order, axis=1)
        if self._starts is not None:
            size = np.add.reduceat(size, self._starts, axis=1)
        ranks = np.cumsum(size, axis=1)
        ranks -= (size - 1) / 2
        return ranks.take(self._group, axis=1)


def _rows(values: ArrayLike) -> Floats:
    return np.atleast_2d(np.asarray(values, dtype=np.float64))


def _divide(numerator: Floats, denominator: Floats) -> Floats:
    """The quotient, NaN where the denominator is 0."""
    quotient = np.full(np.broadcast_shapes(numerator.shape, denominator.shape), np.nan)
    np.divide(numerator, denominator, out=quotient, where=denominator > 0)
    return quotient
