"""Thresholds of scores, above which a pair is predicted to be alike, and the accuracy at one."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

STEP = 0.01
"""Step of the released code's threshold search."""


FEW = 100
"""Number of items from which a threshold is certain enough: with 50, .168 of equal encoders differ at .05."""


def notes_on_choice(n: int) -> list[str]:
    """Return a note where a threshold is chosen on only ``n`` items."""
    if n >= FEW:
        return []
    return [
        f"the threshold is chosen on {n} items; with fewer than {FEW}, equal encoders differ significantly too often"
    ]


def accuracy(scores: ArrayLike, gold: ArrayLike, threshold: float) -> float:
    """Return the share of items classified correctly, where a score above the threshold means label 1."""
    return float(np.mean((np.asarray(scores) > threshold) == np.asarray(gold, dtype=bool)))


def exact_threshold(scores: ArrayLike, gold: ArrayLike) -> float:
    """Return the threshold with the best accuracy; among equally good ones the highest.

    It lies midway between two neighbouring scores, just below the lowest (all predicted 1), or on the highest (all 0).
    """
    distinct, correct = _correct_above(scores, gold)
    return _best_cut(distinct, correct)


def f1_threshold(scores: ArrayLike, gold: ArrayLike) -> float:
    """Return the threshold with the best F1 of label 1; among equally good ones the highest, as in ``exact_threshold``."""
    labels = np.asarray(gold, dtype=bool)
    distinct, group = np.unique(np.asarray(scores, dtype=np.float64), return_inverse=True)
    found = np.bincount(group[labels], minlength=len(distinct))
    predicted = np.bincount(group, minlength=len(distinct))
    found_above, predicted_above = (
        np.concatenate([np.cumsum(counts[::-1])[::-1], [0]]) for counts in (found, predicted)
    )
    n = predicted_above + np.count_nonzero(labels)
    return _best_cut(distinct, 2 * found_above / np.maximum(n, 1))


def _best_cut(distinct: NDArray[np.float64], value: NDArray[Any]) -> float:
    """The threshold of the best value; among equally good ones the highest.

    Args:
        distinct: the m distinct scores, rising.
        value: for i = 0..m the value with predictions of 1 from the i-th score on.
    """
    low, high = distinct[:-1], distinct[1:]
    middle = low + (high - low) / 2
    # Nothing lies midway between adjacent floating-point numbers.
    between = np.where(middle < high, middle, low)
    cuts = np.concatenate([[np.nextafter(distinct[0], -np.inf)], between, distinct[-1:]])
    return float(cuts[::-1][np.argmax(value[::-1])])


def stepped_threshold(scores: ArrayLike, gold: ArrayLike) -> float:
    """Return the threshold of MirrorWiC's released code: from the highest score down in steps of 0.01, the first best.

    The highest score itself is taken only if no step classifies any item correctly.
    """
    distinct, correct = _correct_above(scores, gold)
    best, most = float(distinct[-1]), 0
    threshold = best - STEP
    while threshold >= distinct[0]:
        right = int(correct[np.searchsorted(distinct, threshold, side="right")])
        if right > most:
            best, most = threshold, right
        threshold -= STEP
    return best


def _correct_above(
    scores: ArrayLike, gold: ArrayLike
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return the m distinct scores, rising, and for i = 0..m the correct predictions with 1 from the i-th on."""
    labels = np.asarray(gold, dtype=bool)
    distinct, group = np.unique(np.asarray(scores, dtype=np.float64), return_inverse=True)
    positives = np.bincount(group[labels], minlength=len(distinct))
    negatives = np.bincount(group[~labels], minlength=len(distinct))
    gained = np.concatenate([[0], np.cumsum(negatives - positives)])
    return distinct, np.count_nonzero(labels) + gained
