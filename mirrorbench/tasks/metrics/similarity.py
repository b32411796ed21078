"""Similarity of vectors: what the metrics of pairs compare with judgements, and vectors of length 1."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def cosine(left: NDArray[Any], right: NDArray[Any]) -> NDArray[np.float64]:
    """Row-wise cosine similarity of two arrays of shape (n, d), in float64; 0 where a vector is zero."""
    x, y = left.astype(np.float64), right.astype(np.float64)
    norms = np.linalg.norm(x, axis=1) * np.linalg.norm(y, axis=1)
    products: NDArray[np.float64] = np.einsum("nd,nd->n", x, y)
    result: NDArray[np.float64] = np.divide(products, norms, out=np.zeros_like(products), where=norms > 0)
    return result


def unit(vectors: NDArray[Any]) -> NDArray[np.float64]:
    """Vectors, an array of shape (..., d), scaled to length 1, in float64; a vector of zeros stays one."""
    rows = np.asarray(vectors, dtype=np.float64)
    norms = np.linalg.norm(rows, axis=-1, keepdims=True)
    scaled: NDArray[np.float64] = np.divide(rows, norms, out=np.zeros_like(rows), where=norms > 0)
    return scaled
