"""Isotropy of vectors of shape (n, dimensions), which are not normalised.

The score is that of Mu and Viswanath (2018), used in Mirror-BERT (section 4.4, Eq. 2; Tables 9 and 14) and as a
logarithm in MirrorWiC (section 5.3, Eq. 2); the mean-vector norm is Mirror-BERT's Eq. 3 (appendix E).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mirrorbench.tasks.metrics import unit

_BLOCK = 256
"""Directions at a time: bounds memory at n x 256 numbers."""


def measure_isotropy(vectors: NDArray[Any]) -> dict[str, Any]:
    """All measures by column name; ``isotropy`` ranges from 0 to 1 (isotropic). ``ValueError`` without vectors.

    ``row_isotropy`` is what the script of Mirror-BERT's authors computes (issue 3 of their repository), and what to
    compare with Table 9: it uses the rows of the eigenvector matrix instead of its columns. These are no principal
    directions, so the score is much higher: where the first eigenvector is near the mean vector, the score over columns
    is at most about exp(-norm of the mean), .001 for BERT's 6.93 (Table 14), but Table 9 has .222. It depends on the
    signs and order of the eigenvectors, which ``directions`` fixes.
    """
    rows = _as_float64(vectors)
    log_score = log_isotropy(rows)
    by_row = _log_sums(rows, directions(rows).T, signs=(1,))
    return {
        "n": len(rows),
        "dimensions": rows.shape[1],
        "isotropy": float(np.exp(log_score)),
        "log_isotropy": log_score,
        "row_isotropy": float(np.exp(by_row.min() - by_row.max())),
        "mean_vector_norm": float(np.linalg.norm(rows.mean(axis=0))),
        "mean_cosine": mean_cosine(rows) if len(rows) > 1 else None,
    }


def log_isotropy(vectors: NDArray[Any]) -> float:
    """log(min Z(c) / max Z(c)) over the eigenvectors c of V^T V, where Z(c) is the sum of exp(c . v) over the vectors.

    Both signs of each eigenvector count, since the sign depends on the linear-algebra library.
    """
    rows = _as_float64(vectors)
    sums = _log_sums(rows, directions(rows), signs=(1, -1))
    return float(sums.min() - sums.max())


def directions(vectors: NDArray[Any]) -> NDArray[np.float64]:
    """The eigenvectors of V^T V as columns, by falling eigenvalue, the largest component of each positive."""
    rows = _as_float64(vectors)
    found: NDArray[np.float64] = np.linalg.eigh(rows.T @ rows)[1][:, ::-1]
    largest = found[np.abs(found).argmax(axis=0), np.arange(found.shape[1])]
    oriented: NDArray[np.float64] = found * np.where(largest < 0, -1.0, 1.0)
    return oriented


def mean_cosine(vectors: NDArray[Any]) -> float:
    """Average cosine over all pairs of different vectors (Ethayarajh 2019); 0 for pairs with a zero vector."""
    rows = unit(_as_float64(vectors))
    total = float(np.square(rows.sum(axis=0)).sum()) - float(np.square(rows).sum())
    return total / (len(rows) * (len(rows) - 1))


def _as_float64(vectors: NDArray[Any]) -> NDArray[np.float64]:
    rows = np.asarray(vectors, dtype=np.float64)
    if rows.ndim != 2 or 0 in rows.shape:
        raise ValueError(f"expected vectors of shape (n, dimensions), got {rows.shape}")
    return rows


def _log_sums(rows: NDArray[np.float64], columns: NDArray[np.float64], signs: tuple[int, ...]) -> NDArray[np.float64]:
    """Logarithms of Z(c) for each column c and each sign."""
    from scipy.special import logsumexp

    blocks = (rows @ columns[:, start : start + _BLOCK] for start in range(0, columns.shape[1], _BLOCK))
    return np.concatenate([logsumexp(sign * products, axis=0) for products in blocks for sign in signs])
