"""Thresholds that turn a similarity into a decision: true where the score is strictly greater."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

STEP = 0.01
"""How far the released search goes down at a time."""


def exact_threshold(scores: ArrayLike, gold: ArrayLike) -> float:
    """The threshold with the best accuracy of all there are; of several equally good ones the highest.

    It lies midway between two neighbouring scores, or just below the lowest (all true), or on the highest (none).

    Args:
        scores: n scores, n at least 1.
        gold: n labels, 0 or 1.
    """
    distinct, correct = _correct_above(scores, gold)
    low, high = distinct[:-1], distinct[1:]
    middle = low + (high - low) / 2
    cuts = np.concatenate(
        [
            [np.nextafter(distinct[0], -np.inf)],
            np.where(middle < high, middle, low),  # two scores may be neighbours among the floating-point numbers
            distinct[-1:],
        ]
    )
    return float(cuts[::-1][np.argmax(correct[::-1])])


def stepped_threshold(scores: ArrayLike, gold: ArrayLike) -> float:
    """The threshold that MirrorWiC's released code finds: from the highest score down in steps of 0.01, the first best.

    The highest score itself is taken only where no step gets anything right.

    Args:
        scores: n scores, n at least 1.
        gold: n labels, 0 or 1.
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


def accuracy(scores: ArrayLike, gold: ArrayLike, threshold: float) -> float:
    """Share of n items whose score is strictly greater than the threshold exactly where the label is 1."""
    return float(np.mean((np.asarray(scores) > threshold) == np.asarray(gold, dtype=bool)))


def _correct_above(scores: ArrayLike, gold: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """The m distinct scores, rising, and how many items are right if those from the i-th on are true, i from 0 to m."""
    labels = np.asarray(gold, dtype=bool)
    distinct, group = np.unique(np.asarray(scores, dtype=np.float64), return_inverse=True)
    positives = np.bincount(group[labels], minlength=len(distinct))
    negatives = np.bincount(group[~labels], minlength=len(distinct))
    gained = np.concatenate([[0], np.cumsum(negatives - positives)])
    return distinct, np.count_nonzero(labels) + gained
