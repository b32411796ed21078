"""Correlations between an encoder's similarities and human judgements."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mirrorbench.core.hooks import Register, hookimpl

Correlation = Callable[[ArrayLike, ArrayLike], float | None]


def spearman(scores: ArrayLike, gold: ArrayLike) -> float | None:
    """Spearman's rank correlation, ties given their mean rank, from -1 to 1.

    Args:
        scores: n similarities.
        gold: n judgements.

    Returns:
        The correlation; ``None`` where it is undefined: fewer than two items, or one side constant.
    """
    from scipy.stats import spearmanr

    return _defined(spearmanr, scores, gold)


def pearson(scores: ArrayLike, gold: ArrayLike) -> float | None:
    """Pearson's linear correlation, from -1 to 1; ``None`` where it is undefined (see ``spearman``)."""
    from scipy.stats import pearsonr

    return _defined(pearsonr, scores, gold)


def uncentred_pearson(scores: ArrayLike, gold: ArrayLike) -> float | None:
    """Pearson's correlation around zero instead of the means (the cosine of the two vectors), from -1 to 1.

    The measure of SemEval-2020 task 3 (CoSimLex), where zero means no change; ``None`` where one side is all zero.
    """
    x, y = np.asarray(scores, dtype=np.float64), np.asarray(gold, dtype=np.float64)
    norm = float(np.linalg.norm(x) * np.linalg.norm(y))
    return float(x @ y) / norm if norm > 0 else None


def harmonic_mean(first: float | None, second: float | None) -> float | None:
    """Of two correlations; ``None`` where one is undefined or they are not both positive."""
    if first is None or second is None or first <= 0 or second <= 0:
        return None
    return 2 * first * second / (first + second)


def _defined(correlate: Callable[..., tuple[float, float]], scores: ArrayLike, gold: ArrayLike) -> float | None:
    x, y = np.asarray(scores, dtype=np.float64), np.asarray(gold, dtype=np.float64)
    if len(x) < 2 or np.ptp(x) == 0 or np.ptp(y) == 0:
        return None
    return float(correlate(x, y)[0])


def over_subsets(
    correlate: Correlation, scores: NDArray[np.float64], gold: NDArray[np.float64], subsets: list[str]
) -> tuple[float | None, float | None]:
    """A correlation computed within each subset, then averaged.

    Args:
        correlate: the correlation.
        scores: n similarities.
        gold: n judgements.
        subsets: the subset of each item.

    Returns:
        The plain mean over subsets, and the mean weighted by their sizes; ``None`` where any subset's is undefined.
    """
    names = np.asarray(subsets)
    values, sizes = [], []
    for name in dict.fromkeys(subsets):
        inside = names == name
        value = correlate(scores[inside], gold[inside])
        if value is None:
            return None, None
        values.append(value)
        sizes.append(int(inside.sum()))
    return float(np.mean(values)), float(np.average(values, weights=sizes))


@hookimpl
def register_metrics(register: Register) -> None:
    """The two correlations."""
    register("spearman", spearman, "rank correlation over all items")
    register("pearson", pearson, "linear correlation over all items")
