"""Similarities of vectors, and metrics of scores against labels or ratings. ``None`` means undefined, not zero."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mirrorbench.core.hooks import Register, hookimpl
from mirrorbench.core.vectors import rounded
from mirrorbench.tasks.thresholds import exact_threshold as exact_threshold  # its path until 0.3


def cosine(left: NDArray[Any], right: NDArray[Any]) -> NDArray[np.float64]:
    """Return the cosine of each row of an array with the same row of another.

    A task calls it with the vectors of the two sides of its pairs. Cosines are computed in float64 and rounded to ten
    decimals, so that equal pairs of vectors tie.

    Args:
        left: n vectors, shape (n, dimensions), of any type of numbers.
        right: n vectors of the same shape.

    Returns:
        The cosines, from -1 to 1, shape (n,); 0 where one of the two vectors is all zero.

    Raises:
        ValueError: the arrays differ in dimensions.

    Example:
        >>> import numpy as np
        >>> from mirrorbench.plugin import cosine
        >>> cosine(np.array([[1, 0], [3, 4], [0, 0]]), np.array([[2, 0], [4, 3], [1, 1]])).tolist()
        [1.0, 0.96, 0.0]
    """
    x = left.astype(np.float64)
    y = right.astype(np.float64)
    norms = np.linalg.norm(x, axis=1) * np.linalg.norm(y, axis=1)
    products: NDArray[np.float64] = np.einsum("nd,nd->n", x, y)
    cosines = np.divide(products, norms, out=np.zeros_like(products), where=norms > 0)
    return rounded(cosines)


def spearman(scores: ArrayLike, gold: ArrayLike) -> float | None:
    """Return Spearman's rank correlation, ties at their mean rank; ``None`` for under two items or a constant side."""
    from scipy.stats import spearmanr

    return _if_defined(spearmanr, scores, gold)


def pearson(scores: ArrayLike, gold: ArrayLike) -> float | None:
    """Return Pearson's linear correlation; ``None`` for fewer than two items or a constant side."""
    from scipy.stats import pearsonr

    return _if_defined(pearsonr, scores, gold)


def _if_defined(
    correlate: Callable[..., tuple[float, float]], scores: ArrayLike, gold: ArrayLike
) -> float | None:
    """Return a correlation of two arrays of shape (n,); ``None`` for fewer than two items or a constant side."""
    x = np.asarray(scores, dtype=np.float64)
    y = np.asarray(gold, dtype=np.float64)
    if len(x) < 2 or np.ptp(x) == 0 or np.ptp(y) == 0:
        return None
    return float(correlate(x, y)[0])


def uncentred_pearson(scores: ArrayLike, gold: ArrayLike) -> float | None:
    """Return Pearson's correlation without centring, the cosine of both lists; ``None`` if one is all zero.

    The measure of SemEval-2020 task 3 (CoSimLex), where zero means no change.
    """
    x = np.asarray(scores, dtype=np.float64)
    y = np.asarray(gold, dtype=np.float64)
    norm = float(np.linalg.norm(x) * np.linalg.norm(y))
    return float(x @ y) / norm if norm > 0 else None


def mean(scores: Any, gold: Any) -> float:
    """Return the mean of the scores of items; ``gold`` is not used.

    A metric that is registered with this function is tested as a mean over items.
    """
    return float(np.mean(scores))


def harmonic_mean(first: float | None, second: float | None) -> float | None:
    """Return the harmonic mean of two correlations; ``None`` where one is undefined or not positive."""
    if first is None or second is None or first <= 0 or second <= 0:
        return None
    return 2 * first * second / (first + second)


def over_subsets(
    correlate: Callable[[ArrayLike, ArrayLike], float | None],
    scores: NDArray[np.float64],
    gold: NDArray[np.float64],
    subsets: list[str],
) -> tuple[float | None, float | None]:
    """Return two means of a correlation over subsets, plain and weighted by size; both ``None`` if one is undefined.

    Args:
        correlate: such as ``spearman``.
        scores: the score of each item, shape (n,).
        gold: the reference of each item, shape (n,).
        subsets: the name of each item's subset; the items of one need not be adjacent.
    """
    subset_of_item = np.asarray(subsets)
    values = []
    sizes = []
    for name in dict.fromkeys(subsets):
        in_subset = subset_of_item == name
        value = correlate(scores[in_subset], gold[in_subset])
        if value is None:
            return None, None
        values.append(value)
        sizes.append(int(in_subset.sum()))
    return float(np.mean(values)), float(np.average(values, weights=sizes))


def auc(scores: ArrayLike, gold: ArrayLike) -> float | None:
    """Return the area under the ROC curve, ties counted half, for labels 0 and 1; ``None`` where one is missing."""
    from sklearn.metrics import roc_auc_score

    labels = np.asarray(gold)
    n_positive = np.count_nonzero(labels)
    if n_positive in (0, len(labels)):
        return None
    return float(roc_auc_score(labels, scores))


def roc_points(scores: ArrayLike, gold: ArrayLike) -> dict[str, NDArray[np.float64]]:
    """Return the ROC curve: ``roc_fpr``, ``roc_tpr`` and ``roc_thresholds`` (falling, the first infinite)."""
    from sklearn.metrics import roc_curve

    false_positive_rates, true_positive_rates, thresholds = roc_curve(gold, scores)
    return {
        "roc_fpr": false_positive_rates,
        "roc_tpr": true_positive_rates,
        "roc_thresholds": thresholds,
    }


def accuracy_at(k: int, ranks: ArrayLike) -> float:
    """Return the share of one or more ranks (from 1) that are at most ``k``."""
    return float(np.mean(np.asarray(ranks) <= k))


def mean_reciprocal_rank(ranks: ArrayLike) -> float:
    """Return the mean of 1 / rank; ranks start at 1, and a missing answer has an infinite rank."""
    return float(np.mean(1 / np.asarray(ranks, dtype=np.float64)))


@hookimpl
def register_metrics(register: Register) -> None:
    """Register the metrics that any task may have as its main metric."""
    register("spearman", spearman, "rank correlation over all items")
    register("pearson", pearson, "linear correlation over all items")
    register(
        "uncentred_pearson", uncentred_pearson, "linear correlation around zero over all items"
    )
    register("auc", auc, "area under the ROC curve")
