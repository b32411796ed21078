"""Metrics of a search: from the rank at which the right answer was found."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike


def accuracy_at(k: int, ranks: ArrayLike) -> float | None:
    """Share of ranks (from 1) that are at most ``k``; ``None`` where there are none."""
    values = np.asarray(ranks)
    return float(np.mean(values <= k)) if len(values) else None


def mean_reciprocal_rank(ranks: ArrayLike) -> float | None:
    """Mean of 1 / rank (from 1; infinite where nothing right was found); ``None`` where there are none."""
    values = np.asarray(ranks, dtype=np.float64)
    return float(np.mean(1 / values)) if len(values) else None
