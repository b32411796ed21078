"""Metrics on bootstrap resamples of items; confidence intervals and paired tests. They say nothing about seeds.

A resample is n weights: how often each item was drawn. A statistic maps weights (resamples, n) to the metric of e
encoders (e, resamples), equal to scoring each resample (ties included); undefined values are NaN. 0/1 weights give the
metric on a subset. ``scores`` have shape (e, n), or (n,) for one encoder; ``gold`` has shape (n,).

Sources: Efron and Tibshirani (1993), "An Introduction to the Bootstrap"; Dror et al. (ACL 2018), "The Hitchhiker's
Guide to Testing Statistical Significance in Natural Language Processing"; Deutsch et al. (TACL 2021), "A Statistical
Analysis of Summarization Evaluation Metrics Using Resampling Methods", for permutation tests of correlations.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

FloatArray = NDArray[np.float64]
Statistic = Callable[[FloatArray], FloatArray]
Seed = int | tuple[int, ...]

RESAMPLES = 10_000
"""Of a test, by default: the standard error of a p-value near 0.05 is then about 0.002. An interval has a fifth."""

_PER_COMPARISON, _MOST = 50, 50_000
"""Resamples for each comparison that a p-value is corrected for, and at most."""

LEVEL = 0.95
"""Confidence level of intervals; the significance level of tests is 1 minus it."""

_DEFINED = 0.95
"""Share of resamples that must have a defined value for an interval."""

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


def bootstrap(statistic: Statistic, n: int, resamples: int = RESAMPLES, seed: Seed = 0) -> FloatArray:
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


@dataclass(frozen=True, slots=True)
class Interval:
    """A confidence interval in the metric's own unit."""

    low: float
    high: float


def percentile_interval(values: FloatArray, level: float = LEVEL) -> Interval | None:
    """The percentile interval of a bootstrap (Efron and Tibshirani 1993, section 13.3).

    NaN values are left out; ``None`` where they are more than one in 20.
    """
    defined = _defined(values)
    if defined is None:
        return None
    low, high = np.quantile(defined, [(1 - level) / 2, (1 + level) / 2])
    return Interval(float(low), float(high))


def enough(comparisons: int, resamples: int = RESAMPLES) -> int:
    """Resamples, at least as given, with which the smallest p-value is significant when corrected for comparisons."""
    return max(resamples, min(_PER_COMPARISON * comparisons, _MOST))


class PValue(NamedTuple):
    """A two-sided p-value; ``bound``: no resample was as extreme as the sample, so that it is at most this."""

    value: float
    bound: bool = False


def bootstrap_p(differences: FloatArray) -> PValue | None:
    """P-value of a paired bootstrap: the level at which the percentile interval touches zero.

    Never 0: the sample itself counts as one more resample (Davison and Hinkley 1997, chapter 4).
    """
    defined = _defined(differences)
    if defined is None:
        return None
    tail = min(np.count_nonzero(defined <= 0), np.count_nonzero(defined >= 0))
    return PValue(min(1.0, 2 * float(tail + 1) / (len(defined) + 1)), bool(tail == 0))


def _defined(values: FloatArray) -> FloatArray | None:
    defined: FloatArray = values[~np.isnan(values)]
    return defined if len(defined) >= max(1, _DEFINED * len(values)) else None


def correlation_swaps(
    first: ArrayLike, second: ArrayLike, gold: ArrayLike, metric: str = "spearman", resamples: int = RESAMPLES,
    seed: Seed = 0,
) -> FloatArray | None:  # fmt: skip
    """The difference of two encoders' correlations with the gold, and what it is after each of the random swaps.

    The encoders' scores are swapped at random, item by item (in all seeds at once), and both correlations are computed
    again. Scores are standardised first, since cosines of two encoders differ in scale: to ranks for Spearman (not
    ranked again after a swap), to zero mean and unit variance for Pearson (Deutsch et al. 2021). The statistic is the
    difference of the mean correlations over seeds.

    Scores have shape (seeds, n) or (n,); ``metric`` is ``spearman``, ``pearson`` or ``uncentred_pearson`` (scaled but
    not centred). ``None`` where a correlation is undefined.
    """
    centred = metric != "uncentred_pearson"
    a, b, (g,) = (_standardised(values, metric == "spearman", centred) for values in (first, second, gold))
    if not all(np.isfinite(rows).all() for rows in (a, b, g)):
        return None
    # All pairs of seeds: the mean of their differences is the difference of the means.
    x, y = np.repeat(a, len(b), axis=0), np.tile(b, (len(a), 1))
    n = x.shape[1]

    def correlations(xg: FloatArray, sx: FloatArray, xx: FloatArray) -> FloatArray:
        variance = xx - sx * sx / n if centred else xx
        defined = variance > 1e-12 * n  # after a swap all scores of a few items may be equal
        values = np.zeros_like(xg)
        np.divide(xg, np.sqrt(n * np.abs(variance)), out=values, where=defined)
        return values

    def difference(swapped: FloatArray) -> FloatArray:
        # All sums are linear in the swap indicator, so matrix products compute them for all resamples.
        moved = [swapped @ part.T for part in ((y - x) * g, y - x, y * y - x * x)]
        here = [(p.sum(axis=1) + m) for p, m in zip((x * g, x, x * x), moved, strict=True)]
        there = [(p.sum(axis=1) - m) for p, m in zip((y * g, y, y * y), moved, strict=True)]
        means: FloatArray = (correlations(*here) - correlations(*there)).mean(axis=1)
        return means

    return _swaps(difference, n, resamples, seed)


def mean_swaps(first: ArrayLike, second: ArrayLike, resamples: int = RESAMPLES, seed: Seed = 0) -> FloatArray:
    """The difference of two means over items (accuracies, reciprocal ranks), and what it is after random swaps.

    Each item's difference changes its sign at random (Dror et al. 2018); an item's value is its mean over seeds. For
    hits and misses of one seed each, ``mcnemar`` is the exact form.
    """
    d = np.atleast_2d(np.asarray(first, np.float64)).mean(axis=0) - np.atleast_2d(second).mean(axis=0)
    return _swaps(lambda swapped: (d.sum() - 2 * (swapped @ d)) / len(d), len(d), resamples, seed)


def p_of_swaps(values: FloatArray) -> PValue:
    """P-value of a permutation test: the share of differences as large as the first, the observed one."""
    observed = abs(float(values[0]))
    extreme = np.count_nonzero(np.abs(values) >= observed - 1e-9 * max(observed, 1e-3))  # rounding
    return PValue(float(extreme / len(values)), bool(extreme == 1))


def mcnemar(first: ArrayLike, second: ArrayLike) -> float:
    """Two-sided p-value of McNemar's exact test between two accuracies, from hits and misses (Dror et al. 2018)."""
    from scipy.stats import binomtest

    a, b = np.asarray(first, dtype=bool), np.asarray(second, dtype=bool)
    wins, losses = np.count_nonzero(a & ~b), np.count_nonzero(b & ~a)
    return float(binomtest(wins, wins + losses).pvalue) if wins + losses else 1.0


def holm(p_values: Sequence[float]) -> list[float]:
    """P-values corrected by Holm's step-down procedure (1979), in the order given; tests may be dependent."""
    p = np.asarray(p_values, dtype=np.float64)
    order = np.argsort(p, kind="stable")
    corrected = np.empty_like(p)
    corrected[order] = np.minimum(1.0, np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1)))
    return [float(value) for value in corrected]


def corrected(p_values: Sequence[float | None], chosen_from: Sequence[int] = ()) -> list[float | None]:
    """P-values corrected by Holm's procedure, undefined ones left out.

    ``chosen_from``: the number of comparisons from which each was chosen for its result, corrected for as well
    (Bonferroni).
    """
    times = chosen_from or [1] * len(p_values)
    known = iter(holm([min(1.0, p * n) for p, n in zip(p_values, times, strict=True) if p is not None]))
    return [p if p is None else next(known) for p in p_values]


def _swaps(difference: Callable[[FloatArray], FloatArray], n: int, resamples: int, seed: Seed) -> FloatArray:
    """The observed difference, then that of each random swap; ``difference`` takes (rows, n)."""
    packed, ends = _drawn_swaps(n, resamples, seed), np.cumsum([0, *chunks(n, resamples)])
    bits = (packed[start:end] for start, end in pairwise(ends))
    drawn = (np.unpackbits(some, axis=1, count=n).astype(np.float64) for some in bits)
    return np.concatenate([difference(np.zeros((1, n))), *map(difference, drawn)])


@lru_cache(maxsize=32)
def _drawn_swaps(n: int, resamples: int, seed: Seed) -> NDArray[np.uint8]:
    """Which of n items are swapped, eight to a byte; kept, since the pairs of rows of a table share them."""
    rng = np.random.default_rng(seed)
    return np.concatenate(
        [np.packbits(rng.integers(0, 2, (rows, n), dtype=np.uint8), axis=1) for rows in chunks(n, resamples)]
    )


def _standardised(values: ArrayLike, ranked: bool, centred: bool) -> FloatArray:
    """Rows with mean 0 and variance 1 (without ``centred``: mean square 1); NaN where a row is constant."""
    from scipy.stats import rankdata

    rows = np.atleast_2d(np.asarray(values, dtype=np.float64))
    if ranked:
        rows = np.asarray(rankdata(rows, axis=1), dtype=np.float64)
    if centred:
        constant = np.ptp(rows, axis=1, keepdims=True) == 0
        rows = rows - rows.mean(axis=1, keepdims=True)
    else:
        constant = ~rows.any(axis=1, keepdims=True)
    scale = np.sqrt((rows * rows).mean(axis=1, keepdims=True))
    result: FloatArray = np.divide(rows, scale, out=np.full_like(rows, np.nan), where=~constant)
    return result
