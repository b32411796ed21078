"""Products in blocks on a device of torch's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import torch


def best_on(
    device: str,
    queries: NDArray[np.floating[Any]],
    keys: NDArray[np.floating[Any]],
    n: int,
    cosine: bool,
    penalty: NDArray[np.float64] | None,
    block_bytes: int,
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """The n best keys of each query by float32 products.

    Args:
        device: where: ``cuda``, ``cuda:1`` ...
        queries: shape (q, d).
        keys: shape (k, d), k at least n.
        n: how many.
        cosine: normalise all vectors (a zero vector stays zero).
        penalty: taken off the similarity of each key, shape (k,).
        block_bytes: the most memory for one block of scores, or of keys; a few such blocks exist at a time.

    Returns:
        Indices and scores of shape (q, n), unordered.
    """
    import torch

    units = _ready(queries, cosine, device)
    scores = torch.full((len(queries), n), float("-inf"), device=device)
    indices = torch.zeros((len(queries), n), dtype=torch.int64, device=device)
    query_rows = max(1, min(len(queries), 4096))
    key_rows = max(1, block_bytes // (4 * max(query_rows, keys.shape[1])))
    for start in range(0, len(keys), key_rows):
        block = _ready(keys[start : start + key_rows], cosine, device)
        off = None if penalty is None else torch.from_numpy(penalty[start : start + key_rows]).float().to(device)
        for first in range(0, len(queries), query_rows):
            rows = slice(first, first + query_rows)
            products = units[rows] @ block.T
            if off is not None:
                products -= off
            values, columns = products.topk(min(n, len(block)), dim=1, sorted=False)
            both = torch.cat([scores[rows], values], dim=1)
            where = torch.cat([indices[rows], columns + start], dim=1)
            scores[rows], kept = both.topk(n, dim=1, sorted=False)
            indices[rows] = where.gather(1, kept)
    return indices.cpu().numpy(), scores.cpu().numpy()


def _ready(vectors: NDArray[np.floating[Any]], cosine: bool, device: str) -> torch.Tensor:
    """Vectors whose dot products are the similarity, in float32."""
    import torch

    array = torch.from_numpy(np.array(vectors, dtype=np.float32)).to(device)  # a copy: the array may be read-only
    if cosine:
        norms = torch.linalg.vector_norm(array, dim=1, keepdim=True, dtype=torch.float64)
        array = torch.where(norms > 0, array / norms.float(), 0)
    return array
