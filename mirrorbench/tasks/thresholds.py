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
    """Return a note if a threshold is chosen on fewer than ``FEW`` items."""
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

    Args:
        scores: one or more scores, shape (n,).
        gold: their labels, 0 or 1, shape (n,).
    """
    distinct, n_correct = _correct_above(scores, gold)
    return _best_cut(distinct, n_correct)


def f1_threshold(scores: ArrayLike, gold: ArrayLike) -> float:
    """Return the threshold with the best F1 of label 1; among equally good ones the highest, as in ``exact_threshold``."""
    labels = np.asarray(gold, dtype=bool)
    distinct, group = np.unique(np.asarray(scores, dtype=np.float64), return_inverse=True)
    n_positives = _at_or_above(np.bincount(group[labels], minlength=len(distinct)))
    n_predicted = _at_or_above(np.bincount(group, minlength=len(distinct)))
    # F1 = 2 true positives / (predicted positives + positives)
    denominator = n_predicted + np.count_nonzero(labels)
    return _best_cut(distinct, 2 * n_positives / np.maximum(denominator, 1))


def _at_or_above(counts: NDArray[np.intp]) -> NDArray[np.intp]:
    """Return for i = 0..m the sum of the m counts from the i-th on."""
    return np.concatenate([np.cumsum(counts[::-1])[::-1], [0]])


def _best_cut(distinct: NDArray[np.float64], value: NDArray[Any]) -> float:
    """Return the threshold of the best value; among equally good ones the highest.

    Args:
        distinct: the m distinct scores, rising.
        value: for i = 0..m the value of predicting 1 from the i-th score on, shape (m + 1,).
    """
    low, high = distinct[:-1], distinct[1:]
    middle = low + (high - low) / 2
    # Nothing lies midway between adjacent floating-point numbers.
    between = np.where(middle < high, middle, low)
    below_all = np.nextafter(distinct[0], -np.inf)
    thresholds = np.concatenate([[below_all], between, [distinct[-1]]])
    # argmax returns the first maximum, and the highest threshold is wanted: search from the end.
    best_from_end = np.argmax(value[::-1])
    return float(thresholds[::-1][best_from_end])


def stepped_threshold(scores: ArrayLike, gold: ArrayLike) -> float:
    """Return the threshold of MirrorWiC's released code: from the highest score down in steps of 0.01, the first best.

    The highest score itself is taken only if no step classifies any item correctly.
    """
    distinct, n_correct = _correct_above(scores, gold)
    best_threshold = float(distinct[-1])
    most_correct = 0
    threshold = best_threshold - STEP
    while threshold >= distinct[0]:
        first_above = np.searchsorted(distinct, threshold, side="right")
        correct = int(n_correct[first_above])
        if correct > most_correct:
            best_threshold = threshold
            most_correct = correct
        threshold -= STEP
    return best_threshold


def _correct_above(
    scores: ArrayLike, gold: ArrayLike
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return the m distinct scores, rising, and for i = 0..m how many items are correct with 1 from the i-th on."""
    labels = np.asarray(gold, dtype=bool)
    distinct, group = np.unique(np.asarray(scores, dtype=np.float64), return_inverse=True)
    positives = np.bincount(group[labels], minlength=len(distinct))
    negatives = np.bincount(group[~labels], minlength=len(distinct))
    # Predicting 1 for all items is correct for the positives; each score that moves below the threshold gains its
    # negatives and loses its positives.
    gained = np.concatenate([[0], np.cumsum(negatives - positives)])
    return distinct, np.count_nonzero(labels) + gained
