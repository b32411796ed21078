"""Vectors and similarities: unit length, and the rounding that makes equal texts tie."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

DECIMALS = 10
"""Decimals of similarities that are ranked or compared.

Equal vectors have a cosine of 1 only up to its last bits, which the number of threads changes: unrounded, equal texts
would be ranked by chance.
"""


def rounded(similarities: NDArray[np.float64]) -> NDArray[np.float64]:
    """Round similarities, or differences of them, to ``DECIMALS`` decimals."""
    return np.round(similarities, DECIMALS)


def unit(vectors: NDArray[Any]) -> NDArray[np.float64]:
    """Scale vectors, shape (..., d), to length 1, in float64; zero vectors stay zero."""
    rows = np.asarray(vectors, dtype=np.float64)
    norms = np.linalg.norm(rows, axis=-1, keepdims=True)
    scaled: NDArray[np.float64] = np.divide(rows, norms, out=np.zeros_like(rows), where=norms > 0)
    return scaled
