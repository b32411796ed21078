"""Measures of vectors in explicit loops."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable
from itertools import combinations

import numpy as np


def naive_log(vectors: np.ndarray) -> float:
    """Eq. 2 word by word, over eigenvectors of both signs, with an eigensolver for general matrices."""
    v = vectors.astype(np.float64)
    _, columns = np.linalg.eig(v.T @ v)
    both = [sign * column for column in np.real(columns).T for sign in (1, -1)]
    sums = [
        sum(math.exp(sum(a * b for a, b in zip(c, row, strict=True))) for row in v) for c in both
    ]
    return math.log(min(sums) / max(sums))


def cos(a: np.ndarray, b: np.ndarray) -> float:
    return float(a @ b / (np.linalg.norm(a) * np.linalg.norm(b)))


def mean_of_pairs(vectors: Iterable[np.ndarray]) -> float:
    return statistics.fmean(
        cos(a, b) for a, b in combinations([v.astype(np.float64) for v in vectors], 2)
    )
