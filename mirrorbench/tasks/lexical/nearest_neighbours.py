"""Exact nearest-neighbour search in bounded memory: top-k by cosine or dot product, CSLS, and ranks.

Similarities are computed in blocks on a torch device. ``topk`` multiplies in float32, then scores the best candidates
and some more again in float64; ``ranks`` computes in float64. Similarities in float64 are rounded (``DECIMALS``), so
that neither block size, threads nor device change the order, and equal vectors tie exactly (the lower index comes
first).

Memory: the arguments (which may be memory-mapped), the result, ``UNIT_BYTES`` for the normalised queries of a batch, 12
bytes for each of these queries and each candidate, and some multiples of ``BLOCK_BYTES`` for blocks of keys, scores and
candidates. So a million names of 768 dimensions (2.9 GiB) are searched for ten thousand mentions in less than 4 GiB. A
GPU needs 1.5 GiB, and up to ``KEPT_KEYS_BYTES`` for the keys, so less than 6 GiB.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mirrorbench.core.devices import device_type, moved, on_gpu
from mirrorbench.core.errors import UsageError
from mirrorbench.core.vectors import DECIMALS, rounded, unit

if TYPE_CHECKING:
    import torch

Floats = NDArray[np.floating[Any]]
IntArray = NDArray[np.int64]

NEIGHBOURS = 10
"""Size of the neighbourhoods of CSLS (Lample et al. 2018)."""
BLOCK_BYTES = {"cpu": 32 << 20, "cuda": 256 << 20}
"""Most memory for one block of scores, or of keys in float32, by device type."""
QUERY_ROWS = {"cpu": 256, "cuda": 4096}
"""Number of queries whose scores are computed together, by device type."""
UNIT_BYTES = 256 << 20
"""Most memory for the normalised queries that are compared with all keys at once."""

KEPT_KEYS_BYTES = 4 << 30
"""Most memory for keys that stay on a GPU during a search; larger ones are moved there in blocks."""

_EXACT_ROWS = 16
"""Number of queries whose candidates a CPU scores again together; few, so that they fit into its cache."""
_EXCLUDED = 1e30
"""Penalty that excludes a key from a search; fits into float32."""
_SPARE = 16
"""Number of candidates beyond k that are scored again, since float32 may confuse those near rank k."""


def topk(
    queries: Floats,
    keys: Floats,
    k: int,
    similarity: str = "cosine",
    penalty: Floats | None = None,
    device: str = "cpu",
) -> tuple[IntArray, NDArray[np.float64]]:
    """Return the k most similar keys of each query, best first.

    Args:
        queries: vectors of shape (n, d).
        keys: vectors of shape (m, d).
        k: number of neighbours.
        similarity: ``cosine`` (0 for a zero vector) or ``dot``.
        penalty: subtracted from the similarity of each key, shape (m,).
        device: torch device of the computation.

    Returns:
        Indices of keys, and their similarities less penalties, each of shape (n, min(k, m)).

    Raises:
        UsageError: an unknown similarity, no keys, or ``k`` below 1.
    """
    _check_arguments(keys, k, similarity)
    k = min(k, len(keys))

    # Without penalties, equal keys are equally similar to a query: search for the first of each group of equal keys,
    # and replace it by the whole group afterwards. With penalties, search for every key.
    search_penalty = penalty
    groups = None
    if penalty is None:
        first_equal = _first_equal(keys)
        is_copy = first_equal != np.arange(len(keys))
        if is_copy.any():
            # Exclude all but the first of each group by a penalty above any similarity.
            search_penalty = np.where(is_copy, _EXCLUDED, 0.0)
            groups = _EqualKeys.of(first_equal)

    indices = np.empty((len(queries), k), dtype=np.int64)
    scores = np.empty((len(queries), k))
    torch_device = _torch_device(device)
    searched_keys = _keys_on_device(keys, torch_device)
    # Search some candidates more than k in float32, then score and order them in float64.
    for rows, candidates in _candidates(
        queries, searched_keys, k + _SPARE, similarity, search_penalty, torch_device
    ):
        exact_scores = _exact_similarities(
            queries[rows], searched_keys, candidates, similarity, torch_device
        )
        key_indices = candidates.cpu().numpy()
        if penalty is not None:
            exact_scores -= penalty[key_indices]
        exact_scores = rounded(exact_scores)
        if groups is not None:
            key_indices, exact_scores = _with_equal_keys(key_indices, exact_scores, groups, k)
        order = np.lexsort((key_indices, -exact_scores), axis=1)[:, :k]
        indices[rows] = np.take_along_axis(key_indices, order, axis=1)
        scores[rows] = np.take_along_axis(exact_scores, order, axis=1)
    if penalty is None:
        # All keys are equally similar to a query of zeros, and the search above kept only some of them: its neighbours
        # are the first k.
        is_zero = ~np.any(queries, axis=1)
        indices[is_zero] = np.arange(k)
    return indices, scores


def neighbourhood(
    queries: Floats, keys: Floats, k: int, device: str = "cpu"
) -> NDArray[np.float64]:
    """Return each query's mean cosine with its k nearest keys, shape (n,) (r(x) of Lample et al. 2018, section 2.3)."""
    _, cosines = topk(queries, keys, k, device=device)
    return rounded(cosines.mean(axis=1))


def csls(queries: Floats, keys: Floats, k: int, device: str = "cpu") -> IntArray:
    """Return the k best keys of each query by cross-domain similarity local scaling, 2 cos(x, y) - r(x) - r(y).

    Lample et al. (2018), Eq. 3. It penalises hubs, keys that are near to everything. ``queries`` are all n vectors of
    one side, mapped into the space of the keys, since r(y) depends on all of them. r(x) is the same for all keys of a
    query, and is left out.

    Returns:
        Indices of keys, the best first, of shape (n, min(k, number of keys)).
    """
    crowding = neighbourhood(keys, queries, NEIGHBOURS, device)
    indices, _ = topk(queries, keys, k, penalty=crowding / 2, device=device)
    return indices


def ranks(
    queries: Floats,
    keys: Floats,
    targets: IntArray,
    penalty: Floats | None = None,
    device: str = "cpu",
) -> IntArray:
    """Return the rank, from 1, of key ``targets[i]`` among all keys by their cosine with query i.

    Cosines are computed in float64. ``penalty`` is subtracted from the cosine of each key. To rank by CSLS, pass
    half of what ``neighbourhood`` returns. Of keys that tie, the one with the lower index comes first.
    """
    import torch

    target_scores = np.einsum("nd,nd->n", unit(queries), unit(keys[targets]))
    if penalty is not None:
        target_scores -= penalty[targets]
    # Rounded, so that ties are exact although NumPy and torch differ in the last bits.
    target_scores = rounded(target_scores)
    torch_device = _torch_device(device)
    n_ahead = np.empty(len(queries), dtype=np.int64)
    for batch in _query_batches(queries, torch.float64, torch_device):
        target_score = _tensor(target_scores[batch], torch_device)[:, None]
        target_index = _tensor(targets[batch], torch_device)[:, None]
        ahead = torch.zeros(len(target_index), dtype=torch.int64, device=torch_device)
        for rows, columns, scores in _blocks(
            queries[batch], keys, "cosine", penalty, torch_device, torch.float64
        ):
            scores.round_(decimals=DECIMALS)
            is_better = scores > target_score[rows]
            # On ties, keys with a lower index rank before the target.
            is_tied = scores == target_score[rows]
            has_lower_index = (
                torch.arange(columns.start, columns.stop, device=torch_device) < target_index[rows]
            )
            ahead[rows] += (is_better | (is_tied & has_lower_index)).sum(dim=1)
        n_ahead[batch] = ahead.cpu().numpy()
    return n_ahead + 1


class _EqualKeys(NamedTuple):
    """The m keys, sorted by groups of equal ones, then by index; both arrays have the shape (m,)."""

    indices: IntArray
    """The index of each key."""
    first: IntArray
    """The index of the first key of its group; rising."""

    @classmethod
    def of(cls, first_equal: IntArray) -> _EqualKeys:
        """Sort keys, given by the result of ``_first_equal``."""
        indices = np.argsort(first_equal, kind="stable")
        return cls(indices, first_equal[indices])


def _first_equal(keys: Floats) -> IntArray:
    """Return the index of the first key that equals each key, shape (m,)."""
    _, group, sizes = np.unique(keys[:, 0], return_inverse=True, return_counts=True)
    first = np.arange(len(keys))
    # Only keys that share their first component can be equal; compare the whole vectors by their hashes.
    first_row_of_hash: dict[bytes, int] = {}
    for row in np.flatnonzero(sizes[group] > 1).tolist():
        key_hash = hashlib.blake2b(keys[row].tobytes(), digest_size=16).digest()
        first[row] = first_row_of_hash.setdefault(key_hash, row)
    return first


def _with_equal_keys(
    candidates: IntArray, scores: NDArray[np.float64], groups: _EqualKeys, k: int
) -> tuple[IntArray, NDArray[np.float64]]:
    """Replace each candidate by up to k keys of its group, those with the lowest indices.

    Args:
        candidates: indices of keys, each the first of its group, shape (n, c).
        scores: the scores of the candidates, shape (n, c).
        groups: all keys by group.
        k: largest number of keys of a group to return.

    Returns:
        Indices of keys, and their scores, each of shape (n, c * k). A group of fewer than k keys is followed by other
        keys with the score -inf.
    """
    # The members of a candidate's group are adjacent: find where they begin and end.
    begin = np.searchsorted(groups.first, candidates, side="left")[..., None]
    end = np.searchsorted(groups.first, candidates, side="right")[..., None]
    positions = begin + np.arange(k)
    members = groups.indices[np.minimum(positions, len(groups.indices) - 1)]
    member_scores = np.where(positions < end, scores[..., None], -np.inf)
    return members.reshape(len(candidates), -1), member_scores.reshape(len(candidates), -1)


def _check_arguments(keys: Floats, k: int, similarity: str) -> None:
    if similarity not in ("cosine", "dot"):
        raise UsageError(f"similarity {similarity!r} is neither cosine nor dot")
    if not len(keys) or k < 1:
        raise UsageError("a search needs at least one key and one neighbour")


def _keys_on_device(keys: Floats, device: torch.device) -> Floats | torch.Tensor:
    """Return a copy of the keys on a GPU if they need at most ``KEPT_KEYS_BYTES``, otherwise the keys themselves."""
    if not on_gpu(device) or keys.nbytes > KEPT_KEYS_BYTES:
        return keys
    import torch

    dtype = torch.from_numpy(keys[:0].copy()).dtype
    kept_keys = torch.empty(keys.shape, dtype=dtype, device=device)
    block_rows = max(1, BLOCK_BYTES["cuda"] // keys[0].nbytes)
    for rows in _slices(len(keys), block_rows):
        kept_keys[rows] = _tensor(keys[rows], device)
    return kept_keys


def _candidates(
    queries: Floats,
    keys: Floats | torch.Tensor,
    n: int,
    similarity: str,
    penalty: Floats | None,
    device: torch.device,
) -> Iterator[tuple[slice, torch.Tensor]]:
    """Yield small slices of the queries, each with the indices of the n best keys of its queries, in no order.

    The best have the highest similarities less penalties, computed in float32. The indices have the shape (number of
    queries in the slice, min(n, number of keys)).
    """
    import torch

    n = min(n, len(keys))
    # A slice is small, since the caller copies the n keys of each of its queries in float64 (8 bytes).
    slice_rows = _EXACT_ROWS
    if on_gpu(device):
        slice_rows = max(1, BLOCK_BYTES["cuda"] // (8 * n * queries.shape[1]))
    for batch in _query_batches(queries, torch.float32, device):
        best = torch.full((batch.stop - batch.start, n), float("-inf"), device=device)
        best_columns = torch.zeros(best.shape, dtype=torch.int64, device=device)
        for rows, columns, products in _blocks(
            queries[batch], keys, similarity, penalty, device, torch.float32
        ):
            # Merge the best of this block with the best so far, then keep the n best of both. ``topk`` returns values
            # and where they stand.
            block_best, block_columns = products.topk(
                min(n, products.shape[1]), dim=1, sorted=False
            )
            merged = torch.cat([best[rows], block_best], dim=1)
            merged_columns = torch.cat([best_columns[rows], columns.start + block_columns], dim=1)
            best[rows], places = merged.topk(n, dim=1, sorted=False)
            best_columns[rows] = merged_columns.gather(1, places)
        for part in _slices(len(best_columns), slice_rows):
            yield slice(batch.start + part.start, batch.start + part.stop), best_columns[part]


def _exact_similarities(
    queries: Floats,
    keys: Floats | torch.Tensor,
    candidates: torch.Tensor,
    similarity: str,
    device: torch.device,
) -> NDArray[np.float64]:
    """Return the similarities of each of n queries with its c candidates in float64, shape (n, c)."""
    # Keys are a tensor only if they stay on a GPU.
    if isinstance(keys, np.ndarray):
        candidate_keys: Floats | torch.Tensor = keys[candidates.cpu().numpy()]
    else:
        candidate_keys = keys[candidates]
    if on_gpu(device):
        # For cosines ``_scaled`` divides in float64; for dot products it returns the vectors as they are.
        left = _scaled(queries, similarity, device).double()
        right = _scaled(candidate_keys, similarity, device).double()
        products: NDArray[np.float64] = (left[:, None] * right).sum(dim=-1).cpu().numpy()
        return products
    # On a CPU, in NumPy.
    exact_queries = np.asarray(queries, dtype=np.float64)
    exact_keys = np.asarray(candidate_keys, dtype=np.float64)
    if similarity == "cosine":
        exact_queries = unit(exact_queries)
        exact_keys = unit(exact_keys)
    similarities: NDArray[np.float64] = np.einsum("nd,ncd->nc", exact_queries, exact_keys)
    return similarities


def _blocks(
    queries: Floats,
    keys: Floats | torch.Tensor,
    similarity: str,
    penalty: Floats | None,
    device: torch.device,
    dtype: torch.dtype,
) -> Iterator[tuple[slice, slice, torch.Tensor]]:
    """Yield a slice of queries, a slice of keys, and their similarities less penalties, for all pairs of slices.

    The next block overwrites the similarities of the last one.
    """
    import torch

    block_bytes = BLOCK_BYTES[device_type(device)]
    query_rows = min(QUERY_ROWS[device_type(device)], len(queries))
    # Neither a block of keys nor the similarities of ``query_rows`` queries with it may need more than ``block_bytes``.
    bytes_per_key = dtype.itemsize * max(query_rows, keys.shape[1])
    key_rows = min(max(1, block_bytes // bytes_per_key), len(keys))

    scaled_queries = torch.empty(queries.shape, dtype=dtype, device=device)
    for rows in _slices(len(queries), query_rows):
        scaled_queries[rows] = _scaled(queries[rows], similarity, device)
    # All blocks share one piece of memory, because allocating is slow.
    memory = torch.empty(query_rows * key_rows, dtype=dtype, device=device)
    for columns in _slices(len(keys), key_rows):
        scaled_keys = _scaled(keys[columns], similarity, device).to(dtype)
        penalties = None if penalty is None else _tensor(penalty[columns], device).to(dtype)
        for rows in _slices(len(queries), query_rows):
            n_rows = rows.stop - rows.start
            n_columns = columns.stop - columns.start
            block = memory[: n_rows * n_columns].view(n_rows, n_columns)
            products = torch.mm(scaled_queries[rows], scaled_keys.T, out=block)
            if penalties is not None:
                products -= penalties
            yield rows, columns, products


def _scaled(vectors: Floats | torch.Tensor, similarity: str, device: torch.device) -> torch.Tensor:
    """Return vectors, scaled so that their dot products are the similarities."""
    import torch

    rows = _tensor(vectors, device) if isinstance(vectors, np.ndarray) else vectors
    if similarity == "dot":
        return rows
    # Copy on a GPU, where the rows may be a part of the keys that stay there, since they are divided in place.
    rows = rows.to(torch.float64, copy=on_gpu(device))
    norms = torch.linalg.vector_norm(rows, dim=-1, keepdim=True)
    return rows.div_(norms.masked_fill_(norms == 0, 1))


def _tensor(array: NDArray[Any], device: torch.device) -> torch.Tensor:
    """Return a copy of an array, which may be read-only, on a device."""
    import torch

    if on_gpu(device) and array.flags.writeable:
        # The transfer to the GPU copies it.
        array = np.ascontiguousarray(array)
    else:
        array = np.array(array)
    return moved(torch.from_numpy(array), device)


def _query_batches(queries: Floats, dtype: torch.dtype, device: torch.device) -> Iterator[slice]:
    """Return slices of queries that are compared with all keys at once."""
    rows_in_memory = UNIT_BYTES // (dtype.itemsize * queries.shape[1])
    return _slices(len(queries), max(QUERY_ROWS[device_type(device)], rows_in_memory))


def _torch_device(name: str) -> torch.device:
    """Return the device for block products: the CPU in place of Apple's MPS, which has no float64."""
    import torch

    device = torch.device(name)
    return device if on_gpu(device) else torch.device("cpu")


def _slices(n: int, size: int) -> Iterator[slice]:
    for start in range(0, n, size):
        yield slice(start, min(start + size, n))
