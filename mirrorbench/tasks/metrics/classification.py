"""How well a score tells two classes apart, without a threshold."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mirrorbench.core.hooks import Register, hookimpl


def auc(scores: ArrayLike, gold: ArrayLike) -> float | None:
    """Area under the ROC curve: how often a positive scores higher than a negative, ties counted half, from 0 to 1.

    Args:
        scores: n scores, higher for the positive class.
        gold: n labels, 0 or 1.

    Returns:
        The area; ``None`` where it is undefined: one of the classes is empty.
    """
    from sklearn.metrics import roc_auc_score

    labels = np.asarray(gold)
    return float(roc_auc_score(labels, scores)) if 0 < np.count_nonzero(labels) < len(labels) else None


def roc(scores: ArrayLike, gold: ArrayLike) -> dict[str, NDArray[np.float64]]:
    """The points of the ROC curve, as a figure draws it.

    Args:
        scores: n scores, higher for the positive class.
        gold: n labels, 0 or 1, of which both occur.

    Returns:
        ``roc_fpr`` and ``roc_tpr``: the shares of negatives and positives that reach each of ``roc_thresholds``
        (falling, the first infinite), each of shape (points,); points on a straight line are left out.
    """
    from sklearn.metrics import roc_curve

    fpr, tpr, thresholds = roc_curve(gold, scores)
    return {"roc_fpr": fpr, "roc_tpr": tpr, "roc_thresholds": thresholds}


@hookimpl
def register_metrics(register: Register) -> None:
    """The area under the ROC curve."""
    register("auc", auc, "area under the ROC curve")
