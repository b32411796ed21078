"""Thresholds of scores, above which a pair is predicted to be alike, and the accuracy at one."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

STEP = 0.01
"""Step of the released code's threshold search."""
RELIABLE_COUNT = 100
"""Fewest items on which a chosen threshold is reliable: with 50, 16.8% of equal encoders differ at the 5% level."""


def notes_on_few_items(n: int) -> list[str]:
    """Return a note if a threshold is chosen on fewer than ``RELIABLE_COUNT`` items."""
    if n >= RELIABLE_COUNT:
        return []
    return [
        f"the threshold is chosen on {n} items; with fewer than {RELIABLE_COUNT}, equal encoders differ "
        "significantly too often"
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
    """Return the threshold with the best F1 of label 1.

    Among equally good thresholds it is the highest; it lies where that of ``exact_threshold`` does.
    """
    labels = np.asarray(gold, dtype=bool)
    distinct, score_index = np.unique(np.asarray(scores, dtype=np.float64), return_inverse=True)
    n_positives = _at_or_above(np.bincount(score_index[labels], minlength=len(distinct)))
    n_predicted = _at_or_above(np.bincount(score_index, minlength=len(distinct)))
    # F1 = 2 true positives / (predicted positives + positives)
    denominator = n_predicted + np.count_nonzero(labels)
    return _best_cut(distinct, 2 * n_positives / np.maximum(denominator, 1))


def _at_or_above(counts: NDArray[np.intp]) -> NDArray[np.intp]:
    """Return for i = 0..m the sum of ``counts[i:]``, of m counts."""
    return np.concatenate([np.cumsum(counts[::-1])[::-1], [0]])


def _best_cut(distinct: NDArray[np.float64], values: NDArray[Any]) -> float:
    """Return the threshold of the best value; among equally good ones the highest.

    Args:
        distinct: the m distinct scores, rising.
        values: for i = 0..m the value of predicting 1 for the i-th score (from 0) and all higher ones, shape (m + 1,).
    """
    low, high = distinct[:-1], distinct[1:]
    middle = low + (high - low) / 2
    # Nothing lies midway between adjacent floating-point numbers.
    between = np.where(middle < high, middle, low)
    # For i = 0 all items are above the threshold, for i = m none.
    below_all = np.nextafter(distinct[0], -np.inf)
    thresholds = np.concatenate([[below_all], between, [distinct[-1]]])
    # argmax returns the first maximum, and the highest threshold is wanted: search from the end.
    best_from_end = np.argmax(values[::-1])
    return float(thresholds[::-1][best_from_end])


def stepped_threshold(scores: ArrayLike, gold: ArrayLike) -> float:
    """Return the threshold of MirrorWiC's released code: the first best in steps of 0.01 down from the highest score.

    The highest score itself is taken only if no step classifies any item correctly.
    """
    distinct, n_correct = _correct_above(scores, gold)
    best_threshold = float(distinct[-1])
    most_correct = 0
    threshold = best_threshold - STEP
    while threshold >= distinct[0]:
        # Items with this distinct score or a higher one are predicted 1.
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
    """Return the m distinct scores, rising, and for i = 0..m the number of items that are correct at this cut.

    At cut i, items with the i-th distinct score (from 0) or a higher one are predicted 1, all others 0.
    """
    labels = np.asarray(gold, dtype=bool)
    distinct, score_index = np.unique(np.asarray(scores, dtype=np.float64), return_inverse=True)
    positives = np.bincount(score_index[labels], minlength=len(distinct))
    negatives = np.bincount(score_index[~labels], minlength=len(distinct))
    # Predicting 1 for all items is correct for the positives; each score that moves below the threshold gains its
    # negatives and loses its positives.
    gained = np.concatenate([[0], np.cumsum(negatives - positives)])
    return distinct, np.count_nonzero(labels) + gained
