"""Metrics on bootstrap resamples of items.

A resample is n weights: how often each item was drawn. A statistic maps weights (resamples, n) to the metric of e
encoders (e, resamples), equal to scoring each resample (ties included); undefined values are NaN. 0/1 weights give the
metric on a subset. ``scores`` have shape (e, n), or (n,) for one encoder; ``gold`` has shape (n,).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import ArrayLike, NDArray

FloatArray = NDArray[np.float64]
Statistic = Callable[[FloatArray], FloatArray]

RESAMPLES = 10_000
"""The default: the standard error of a p-value near 0.05 is then about 0.002."""

_CHUNK = 1 << 17
"""Weights in memory at once (1 MiB): fits into the processor's cache, which is several times as fast."""


def weighted_mean(scores: ArrayLike) -> Statistic:
    """Means of per-item values: accuracy, accuracy@k, mean reciprocal rank."""
    values = _rows(scores)
    return lambda weights: _divide(values @ weights.T, weights.sum(axis=1))


def weighted_pearson(scores: ArrayLike, gold: ArrayLike, centred: bool = True) -> Statistic:
    """Pearson's correlation; without ``centred`` the cosine of the two vectors."""
    x, y = _rows(scores), np.asarray(gold, dtype=np.float64)
    if centred:  # avoids cancellation in the sums of squares
        x, y = x - x.mean(axis=1, keepdims=True), y - y.mean()

    def values(weights: FloatArray) -> FloatArray:
        xy, xx, yy = (x * y) @ weights.T, (x * x) @ weights.T, (y * y) @ weights.T
        if not centred:
            return _divide(xy, np.sqrt(xx * yy))
        total = weights.sum(axis=1)
        sx, sy = x @ weights.T, y @ weights.T
        vx, vy = xx - _divide(sx * sx, total), yy - _divide(sy * sy, total)
        # A variance this small is rounding error of equal values.
        vx, vy = np.where(vx > 1e-12 * xx, vx, 0), np.where(vy > 1e-12 * yy, vy, 0)
        return _divide(xy - _divide(sx * sy, total), np.sqrt(vx * vy))

    return values


def weighted_spearman(scores: ArrayLike, gold: ArrayLike) -> Statistic:
    """Spearman's correlation; ties get their mean rank within each resample."""
    ranks, gold_ranks = [_ranks(row) for row in _rows(scores)], _ranks(np.asarray(gold, dtype=np.float64))

    def values(weights: FloatArray) -> FloatArray:
        middle = (weights.sum(axis=1, keepdims=True) + 1) / 2
        y = gold_ranks(weights) - middle
        yy = np.einsum("bn,bn,bn->b", weights, y, y)
        weighted = weights * y
        found = np.empty((len(ranks), len(weights)))
        for row, ranked in enumerate(ranks):
            x = ranked(weights) - middle
            xx = np.einsum("bn,bn,bn->b", weights, x, x)
            found[row] = _divide(np.einsum("bn,bn->b", weighted, x), np.sqrt(xx * yy))
        return found

    return values


def weighted_auc(scores: ArrayLike, gold: ArrayLike) -> Statistic:
    """Area under the ROC curve from the ranks of the positives (Mann-Whitney); ties count half."""
    ranks, labels = [_ranks(row) for row in _rows(scores)], np.asarray(gold, dtype=np.float64)

    def values(weights: FloatArray) -> FloatArray:
        positive = weights * labels
        n_positive = positive.sum(axis=1)
        n_negative = weights.sum(axis=1) - n_positive
        sums = np.stack([np.einsum("bn,bn->b", positive, ranked(weights)) for ranked in ranks])
        return _divide(sums - n_positive * (n_positive + 1) / 2, n_positive * n_negative)

    return values


def written_out(
    metric: Callable[[ArrayLike, ArrayLike], float | None], scores: ArrayLike, gold: ArrayLike
) -> Statistic:
    """Any other metric, computed on the items of each resample: exact, but slow."""
    rows, golds = _rows(scores), np.asarray(gold)

    def values(weights: FloatArray) -> FloatArray:
        found = np.full((len(rows), len(weights)), np.nan)
        for column, counts in enumerate(weights):
            drawn = np.repeat(np.arange(rows.shape[1]), counts.astype(np.int64))
            for encoder, own in enumerate(rows):
                value = metric(own[drawn], golds[drawn])
                found[encoder, column] = np.nan if value is None else value
        return found

    return values


def bootstrap(statistic: Statistic, n: int, resamples: int = RESAMPLES, seed: int = 0) -> FloatArray:
    """Values (e, resamples) on resamples of n items drawn with replacement (Efron and Tibshirani 1993, chapter 6).

    Encoders share resamples, which depend on n and ``seed`` alone, so the difference of two rows is a paired bootstrap.
    """
    rng = np.random.default_rng(seed)
    return np.concatenate([statistic(_counts(rng, size, n)) for size in chunks(n, resamples)], 1)


def chunks(n: int, resamples: int) -> Iterator[int]:
    """Sizes of the chunks in which resamples of n items are computed."""
    rows = max(1, _CHUNK // max(n, 1))
    for start in range(0, resamples, rows):
        yield min(rows, resamples - start)


def _counts(rng: np.random.Generator, rows: int, n: int) -> FloatArray:
    """How often each of n items is drawn in n draws, for each row."""
    drawn = rng.integers(0, n, (rows, n)) + n * np.arange(rows)[:, None]
    return np.bincount(drawn.ravel(), minlength=rows * n).reshape(rows, n).astype(np.float64)


def _ranks(values: FloatArray) -> Statistic:
    """Mean ranks from 1, shape (resamples, n), of n values repeated by their weights; values are sorted only once.

    The rank of an item with weight 0 is undefined.
    """
    distinct, group = np.unique(values, return_inverse=True)
    order = np.argsort(values, kind="stable")
    starts = np.searchsorted(values[order], distinct) if len(distinct) < len(values) else None

    def ranked(weights: FloatArray) -> FloatArray:
        size = weights.take(order, axis=1)
        if starts is not None:
            size = np.add.reduceat(size, starts, axis=1)
        ranks = np.cumsum(size, axis=1)
        ranks -= (size - 1) / 2
        return ranks.take(group, axis=1)

    return ranked


def _rows(values: ArrayLike) -> FloatArray:
    return np.atleast_2d(np.asarray(values, dtype=np.float64))


def _divide(numerator: FloatArray, denominator: FloatArray) -> FloatArray:
    """The quotient, NaN where the denominator is 0."""
    quotient = np.full(np.broadcast_shapes(numerator.shape, denominator.shape), np.nan)
    np.divide(numerator, denominator, out=quotient, where=denominator > 0)
    return quotient
