"""ROC curves of tasks that ask yes or no (Mirror-BERT, section 4.2, Figure 4: unsupervised QNLI)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mirrorbench.tasks.metrics import auc, roc_points


@dataclass(frozen=True, slots=True)
class Curve:
    """How a score tells positives from negatives at every threshold.

    Attributes:
        fpr: share of negatives at or above a threshold, rising from 0 to 1, shape (points,).
        tpr: share of positives at or above it.
        thresholds: falling, the first infinite.
        auc: the area under the curve.
        positives: how many there are.
        negatives: how many there are.
    """

    fpr: NDArray[np.float64]
    tpr: NDArray[np.float64]
    thresholds: NDArray[np.float64]
    auc: float
    positives: int
    negatives: int


def is_binary(gold: NDArray[np.float64]) -> bool:
    """Whether judgements are 0 and 1, and both occur; unknown ones (NaN) aside."""
    known = gold[~np.isnan(gold)]
    return set(np.unique(known)) == {0.0, 1.0}


def curve(predictions: Mapping[str, NDArray[Any]]) -> Curve:
    """The ROC curve of stored predictions: its stored points, or those of their scores.

    Args:
        predictions: ``scores`` and ``gold`` of shape (n,); perhaps ``roc_fpr``, ``roc_tpr`` and ``roc_thresholds``.
            Items whose gold is NaN (kept secret) are left out.

    Raises:
        ValueError: gold is not 0 and 1, or one of them is missing.
    """
    scores, gold = predictions["scores"], predictions["gold"]
    if not is_binary(gold):
        raise ValueError("a ROC curve needs labels 0 and 1, and both of them")
    known = ~np.isnan(gold)
    scores, gold = scores[known], gold[known]
    points = predictions if "roc_fpr" in predictions else roc_points(scores, gold)
    area = auc(scores, gold)
    assert area is not None  # both labels occur
    positives = int(gold.sum())
    return Curve(points["roc_fpr"], points["roc_tpr"], points["roc_thresholds"], area, positives, len(gold) - positives)
