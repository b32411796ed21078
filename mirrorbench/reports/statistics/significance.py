"""Intervals and tests over items: how sure is a score, and is one encoder better than another on the same items?

These say nothing about seeds: the standard deviation over seeds is another column. Sources: Efron and Tibshirani
(1993), "An Introduction to the Bootstrap"; Dror et al. (ACL 2018), "The Hitchhiker's Guide to Testing Statistical
Significance in Natural Language Processing"; Deutsch et al. (TACL 2021), "A Statistical Analysis of Summarization
Evaluation Metrics Using Resampling Methods", for permutation tests of correlations.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from mirrorbench.reports.statistics.resampling import RESAMPLES, FloatArray, chunks

LEVEL = 0.95
"""Confidence of an interval; 1 less this is the level of the tests."""

_DEFINED = 0.95
"""Share of resamples that must be defined for an interval: it says nothing about those left out."""


@dataclass(frozen=True, slots=True)
class Interval:
    """A confidence interval, both ends in the metric's own unit."""

    low: float
    high: float


def percentile_interval(values: FloatArray, level: float = LEVEL) -> Interval | None:
    """The percentile interval of a bootstrap (Efron and Tibshirani 1993, section 13.3).

    Of values that are NaN nothing is said; where more than one resample in 20 is, there is no interval.
    """
    defined = _defined(values)
    if defined is None:
        return None
    low, high = np.quantile(defined, [(1 - level) / 2, (1 + level) / 2])
    return Interval(float(low), float(high))


def bootstrap_p(differences: FloatArray) -> float | None:
    """Two-sided p-value of a paired bootstrap: the level at which the percentile interval would touch zero.

    Never 0: the sample itself counts as one resample more (Davison and Hinkley 1997, chapter 4).
    """
    defined = _defined(differences)
    if defined is None:
        return None
    tail = min(np.count_nonzero(defined <= 0), np.count_nonzero(defined >= 0))
    return min(1.0, 2 * float(tail + 1) / (len(defined) + 1))


def _defined(values: FloatArray) -> FloatArray | None:
    defined: FloatArray = values[~np.isnan(values)]
    return defined if len(defined) >= max(1, _DEFINED * len(values)) else None


def correlation_permutation(
    first: ArrayLike, second: ArrayLike, gold: ArrayLike, metric: str = "spearman", resamples: int = RESAMPLES,
    seed: int = 0,
) -> float | None:  # fmt: skip
    """Two-sided p-value of a paired permutation test between the correlations of two encoders with the gold.

    Under the null hypothesis the encoders are exchangeable on each item: their scores are swapped at random, item by
    item, and both correlations are computed again. Cosines of two encoders have different scales, so the scores are
    standardised first: to ranks for Spearman (not ranked again after a swap), to zero mean and unit variance for
    Pearson (Deutsch et al. 2021). With several seeds the statistic is the difference of mean correlations, what a table
    shows; an item is swapped in all seeds at once, so the test stays one over items.

    Scores have shape (seeds, n), any number of seeds, or (n,); ``metric`` is ``spearman``, ``pearson`` or
    ``uncentred_pearson`` (scaled but not centred). ``None`` where a correlation is undefined.
    """
    centred = metric != "uncentred_pearson"
    a, b, (g,) = (_standardised(values, metric == "spearman", centred) for values in (first, second, gold))
    if not all(np.isfinite(rows).all() for rows in (a, b, g)):
        return None
    # Every seed of one with every seed of the other: the mean of these differences is the difference of the means.
    x, y = np.repeat(a, len(b), axis=0), np.tile(b, (len(a), 1))
    n = x.shape[1]

    def correlations(xg: FloatArray, sx: FloatArray, xx: FloatArray) -> FloatArray:
        variance = xx - sx * sx / n if centred else xx
        defined = variance > 1e-12 * n  # a swap may leave a handful of items with one score for all
        values = np.zeros_like(xg)
        np.divide(xg, np.sqrt(n * np.abs(variance)), out=values, where=defined)
        return values

    def difference(swapped: FloatArray) -> FloatArray:
        # Swapping is linear in an indicator, and so are all sums: one matrix product computes them for every item.
        moved = [swapped @ part.T for part in ((y - x) * g, y - x, y * y - x * x)]
        here = [(p.sum(axis=1) + m) for p, m in zip((x * g, x, x * x), moved, strict=True)]
        there = [(p.sum(axis=1) - m) for p, m in zip((y * g, y, y * y), moved, strict=True)]
        means: FloatArray = (correlations(*here) - correlations(*there)).mean(axis=1)
        return means

    return _permutation_p(difference, n, resamples, seed)


def mean_permutation(first: ArrayLike, second: ArrayLike, resamples: int = RESAMPLES, seed: int = 0) -> float:
    """Two-sided p-value of a paired permutation test between two means over items (accuracies, reciprocal ranks).

    Each item's difference changes its sign at random (Dror et al. 2018); with several seeds an item's value is its mean
    over them. For hits and misses of one seed each this is McNemar's test; use the exact one.
    """
    d = np.atleast_2d(np.asarray(first, np.float64)).mean(axis=0) - np.atleast_2d(second).mean(axis=0)
    return _permutation_p(lambda swapped: d.sum() - 2 * (swapped @ d), len(d), resamples, seed)


def mcnemar(first: ArrayLike, second: ArrayLike) -> float:
    """Two-sided p-value of McNemar's exact test between two accuracies, from hits and misses (Dror et al. 2018).

    Of the items that one encoder alone has right, either should have half.
    """
    from scipy.stats import binomtest

    a, b = np.asarray(first, dtype=bool), np.asarray(second, dtype=bool)
    wins, losses = np.count_nonzero(a & ~b), np.count_nonzero(b & ~a)
    return float(binomtest(wins, wins + losses).pvalue) if wins + losses else 1.0


def holm(p_values: Sequence[float]) -> list[float]:
    """P-values corrected for their number by Holm's step-down procedure (1979), in the order given.

    Rejecting those below a level keeps the chance of any false rejection below that level, whatever depends on what.
    """
    p = np.asarray(p_values, dtype=np.float64)
    order = np.argsort(p, kind="stable")
    corrected = np.empty_like(p)
    corrected[order] = np.minimum(1.0, np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1)))
    return [float(value) for value in corrected]


def _permutation_p(difference: Callable[[FloatArray], FloatArray], n: int, resamples: int, seed: int) -> float:
    """How often a random swap gives at least the difference that no swap gives; ``difference`` takes (rows, n)."""
    rng = np.random.default_rng(seed)
    observed = abs(float(difference(np.zeros((1, n)))[0]))
    limit = observed - 1e-9 * max(observed, 1e-3)  # equal differences differ by rounding
    extreme = 0
    for rows in chunks(n, resamples):
        swapped = rng.integers(0, 2, (rows, n), dtype=np.uint8).astype(np.float64)
        extreme += int(np.count_nonzero(np.abs(difference(swapped)) >= limit))
    return (extreme + 1) / (resamples + 1)


def _standardised(values: ArrayLike, ranked: bool, centred: bool) -> FloatArray:
    """Rows of mean 0 and variance 1 (or only of mean square 1); NaN where a row is constant."""
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
