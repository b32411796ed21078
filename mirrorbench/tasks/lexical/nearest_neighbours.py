"""Exact nearest-neighbour search in bounded memory: top-k by cosine or dot product, CSLS, and ranks.

Similarities are computed in blocks on a torch device. ``topk`` multiplies in float32, then scores the best candidates
and some more again in float64; ``ranks`` computes in float64. Similarities in float64 are rounded (``DECIMALS``), so
that neither block size, threads nor device change the order, and equal vectors tie exactly (the lower index comes
first).

Memory: the arguments (which may be memory-mapped), the result, ``UNIT_BYTES`` for the normalised queries of a round, 12
bytes for each of these queries and each candidate, and some multiples of ``BLOCK_BYTES`` for blocks of keys, scores and
candidates. So a million names of 768 dimensions (2.9 GiB) are searched for ten thousand mentions in less than 4 GiB. A
GPU needs 1.5 GiB, and up to ``KEPT_KEYS_BYTES`` for the keys, so less than 6 GiB.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

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

_EXACT_ROWS = 16  # queries whose candidates a CPU scores again together; few, to fit into its cache
_NEVER = 1e30  # penalty that excludes a key; fits into float32
_SPARE = (
    16  # candidates beyond k that are scored again, since float32 may confuse those near rank k
)


def topk(
    queries: Floats,
    keys: Floats,
    k: int,
    similarity: str = "cosine",
    penalty: Floats | None = None,
    device: str = "cpu",
) -> tuple[IntArray, NDArray[np.float64]]:
    """Return indices and similarities of the k most similar keys of each query, best first, of shape (n, min(k, m)).

    ``queries`` are of shape (n, d), ``keys`` (m, d); ``penalty``, shape (m,), is subtracted from the similarity of each
    key. ``similarity`` is ``cosine`` (0 for a zero vector) or ``dot``. ``UsageError`` for an unknown similarity, no
    keys, or ``k`` below 1.
    """
    _check(keys, k, similarity)
    k = min(k, len(keys))
    first = _first_equal(keys) if penalty is None else np.arange(len(keys))
    repeated = first != np.arange(len(keys))
    excluded = np.where(repeated, _NEVER, 0.0) if repeated.any() else penalty
    grouped = np.argsort(first, kind="stable")  # equal keys stand together
    groups = first[grouped]
    indices = np.empty((len(queries), k), dtype=np.int64)
    scores = np.empty((len(queries), k))
    torch_device = _torch_device(device)
    held = _held(keys, torch_device)
    for rows, candidates in _candidates(
        queries, held, k + _SPARE, similarity, excluded, torch_device
    ):
        exact = _exact(queries[rows], held, candidates, similarity, torch_device)
        columns = candidates.cpu().numpy()
        if penalty is not None:
            exact -= penalty[columns]
        exact = rounded(exact)
        if (
            repeated.any()
        ):  # only the first key of a group is a candidate: replace it by up to k keys of the group
            begin, end = (
                np.searchsorted(groups, columns, side)[..., None] for side in ("left", "right")
            )
            members = begin + np.arange(k)
            columns = grouped[np.minimum(members, len(keys) - 1)].reshape(len(columns), -1)
            exact = np.where(members < end, exact[..., None], -np.inf).reshape(len(columns), -1)
        order = np.lexsort((columns, -exact), axis=1)[:, :k]
        indices[rows] = np.take_along_axis(columns, order, axis=1)
        scores[rows] = np.take_along_axis(exact, order, axis=1)
    if penalty is None:  # all keys are equally similar to a query of zeros
        indices[~np.any(queries, axis=1)] = np.arange(k)
    return indices, scores


def neighbourhood(
    queries: Floats, keys: Floats, k: int, device: str = "cpu"
) -> NDArray[np.float64]:
    """Return each query's mean cosine with its k nearest keys, shape (n,) (r(x) of Lample et al. 2018, section 2.3)."""
    return rounded(topk(queries, keys, k, device=device)[1].mean(axis=1))


def csls(queries: Floats, keys: Floats, k: int, device: str = "cpu") -> IntArray:
    """Return the k best keys of each query by cross-domain similarity local scaling, 2 cos(x, y) - r(x) - r(y).

    Lample et al. (2018), Eq. 3. It penalises hubs, keys that are near to everything. ``queries`` are all vectors of
    one side, mapped into the space of the keys; r(x) is the same for all keys of a query, and so left out. The best
    key comes first.
    """
    crowding = neighbourhood(keys, queries, NEIGHBOURS, device)
    return topk(queries, keys, k, penalty=crowding / 2, device=device)[0]


def ranks(
    queries: Floats,
    keys: Floats,
    targets: IntArray,
    penalty: Floats | None = None,
    device: str = "cpu",
) -> IntArray:
    """Return the rank, from 1, of key ``targets[i]`` among all keys by their cosine with query i, in float64.

    ``penalty`` is subtracted from the cosine of each key; half of ``neighbourhood`` gives ranks by CSLS. Of keys that
    tie, the one with the lower index comes first.
    """
    import torch

    right = np.einsum("nd,nd->n", unit(queries), unit(keys[targets]))
    if penalty is not None:
        right -= penalty[targets]
    torch_device, counts = _torch_device(device), np.empty(len(queries), dtype=np.int64)
    for batch in _rounds(queries, torch.float64, torch_device):
        score, target = (
            _tensor(values[batch], torch_device)[:, None] for values in (rounded(right), targets)
        )
        ahead = torch.zeros(len(target), dtype=torch.int64, device=torch_device)
        for rows, columns, cosines in _blocks(
            queries[batch], keys, "cosine", penalty, torch_device, torch.float64
        ):
            cosines.round_(decimals=DECIMALS)
            # On ties, keys with a lower index rank before the right one.
            earlier = torch.arange(columns.start, columns.stop, device=torch_device) < target[rows]
            ahead[rows] += ((cosines > score[rows]) | ((cosines == score[rows]) & earlier)).sum(
                dim=1
            )
        counts[batch] = ahead.cpu().numpy()
    return counts + 1


def _first_equal(keys: Floats) -> IntArray:
    """The first of the keys that equal each key; the search uses it for all of them."""
    _, group, sizes = np.unique(keys[:, 0], return_inverse=True, return_counts=True)
    first = np.arange(len(keys))
    seen: dict[bytes, int] = {}
    for row in np.flatnonzero(
        sizes[group] > 1
    ).tolist():  # same first component: compare the whole vectors
        first[row] = seen.setdefault(
            hashlib.blake2b(keys[row].tobytes(), digest_size=16).digest(), row
        )
    return first


def _check(keys: Floats, k: int, similarity: str) -> None:
    if similarity not in ("cosine", "dot"):
        raise UsageError(f"similarity {similarity!r} is none of cosine, dot")
    if not len(keys) or k < 1:
        raise UsageError("a search needs at least one key and one neighbour")


def _held(keys: Floats, device: torch.device) -> Floats | torch.Tensor:
    """Keys on a GPU, if they fit there."""
    if not on_gpu(device) or keys.nbytes > KEPT_KEYS_BYTES:
        return keys
    import torch

    held = torch.empty(keys.shape, dtype=torch.from_numpy(keys[:0].copy()).dtype, device=device)
    for rows in _slices(len(keys), BLOCK_BYTES["cuda"] // keys[0].nbytes or 1):
        held[rows] = _tensor(keys[rows], device)
    return held


def _candidates(
    queries: Floats,
    keys: Floats | torch.Tensor,
    n: int,
    similarity: str,
    penalty: Floats | None,
    device: torch.device,
) -> Iterator[tuple[slice, torch.Tensor]]:
    """The n best keys by float32 products, unordered: some rows of queries, and indices of shape (rows, n)."""
    import torch

    n = min(n, len(keys))
    exact_rows = (
        BLOCK_BYTES["cuda"] // (8 * n * queries.shape[1]) or 1 if on_gpu(device) else _EXACT_ROWS
    )
    for batch in _rounds(queries, torch.float32, device):
        best = torch.full((batch.stop - batch.start, n), float("-inf"), device=device)
        best_columns = torch.zeros(best.shape, dtype=torch.int64, device=device)
        for rows, columns, products in _blocks(
            queries[batch], keys, similarity, penalty, device, torch.float32
        ):
            values, indices = products.topk(min(n, products.shape[1]), dim=1, sorted=False)
            indices = torch.cat([best_columns[rows], indices + columns.start], dim=1)
            best[rows], kept = torch.cat([best[rows], values], dim=1).topk(n, dim=1, sorted=False)
            best_columns[rows] = indices.gather(1, kept)
        for part in _slices(len(best_columns), exact_rows):
            yield slice(batch.start + part.start, batch.start + part.stop), best_columns[part]


def _exact(
    queries: Floats,
    keys: Floats | torch.Tensor,
    candidates: torch.Tensor,
    similarity: str,
    device: torch.device,
) -> NDArray[np.float64]:
    """The similarities in float64 of n queries with candidates of their own, shape (n, candidates)."""
    chosen = keys[candidates.cpu().numpy()] if isinstance(keys, np.ndarray) else keys[candidates]
    if on_gpu(device):
        left, right = (_scaled(rows, similarity, device).double() for rows in (queries, chosen))
        scores: NDArray[np.float64] = (left[:, None] * right).sum(dim=-1).cpu().numpy()
    else:
        near, far = (np.asarray(rows, dtype=np.float64) for rows in (queries, chosen))
        if similarity == "cosine":
            near, far = unit(near), unit(far)
        scores = np.einsum("nd,ncd->nc", near, far)
    return scores


def _blocks(
    queries: Floats,
    keys: Floats | torch.Tensor,
    similarity: str,
    penalty: Floats | None,
    device: torch.device,
    dtype: torch.dtype,
) -> Iterator[tuple[slice, slice, torch.Tensor]]:
    """Rows of queries, rows of keys, and their similarities less penalties; a block is overwritten by the next."""
    import torch

    query_rows = min(QUERY_ROWS[device_type(device)], len(queries))
    key_rows = min(
        BLOCK_BYTES[device_type(device)] // (dtype.itemsize * max(query_rows, keys.shape[1])) or 1,
        len(keys),
    )
    units = torch.empty(queries.shape, dtype=dtype, device=device)
    for rows in _slices(len(queries), query_rows):
        units[rows] = _scaled(queries[rows], similarity, device)
    memory = torch.empty(
        query_rows * key_rows, dtype=dtype, device=device
    )  # reused by all blocks: allocating is slow
    for columns in _slices(len(keys), key_rows):
        block = _scaled(keys[columns], similarity, device).to(dtype)
        penalties = None if penalty is None else _tensor(penalty[columns], device).to(dtype)
        for rows in _slices(len(queries), query_rows):
            shape = rows.stop - rows.start, columns.stop - columns.start
            products = torch.mm(units[rows], block.T, out=memory[: shape[0] * shape[1]].view(shape))
            if penalties is not None:
                products -= penalties
            yield rows, columns, products


def _scaled(vectors: Floats | torch.Tensor, similarity: str, device: torch.device) -> torch.Tensor:
    """Vectors whose dot products are the similarities."""
    import torch

    rows = _tensor(vectors, device) if isinstance(vectors, np.ndarray) else vectors
    if similarity == "dot":
        return rows
    rows = rows.to(torch.float64, copy=on_gpu(device))  # the keys that are held stay as they are
    norms = torch.linalg.vector_norm(rows, dim=-1, keepdim=True)
    return rows.div_(norms.masked_fill_(norms == 0, 1))


def _tensor(array: NDArray[Any], device: torch.device) -> torch.Tensor:
    """A copy of an array, which may be read-only, on a device."""
    import torch

    copied = on_gpu(device) and array.flags.writeable  # on its way there
    return moved(
        torch.from_numpy(np.ascontiguousarray(array) if copied else np.array(array)), device
    )


def _rounds(queries: Floats, dtype: torch.dtype, device: torch.device) -> Iterator[slice]:
    """Slices of queries that are compared with all keys at once."""
    return _slices(
        len(queries),
        max(QUERY_ROWS[device_type(device)], UNIT_BYTES // (dtype.itemsize * queries.shape[1])),
    )


def _torch_device(name: str) -> torch.device:
    """The device of block products: the CPU in place of Apple's MPS, which has no float64."""
    import torch

    device = torch.device(name)
    return device if on_gpu(device) else torch.device("cpu")


def _slices(n: int, size: int) -> Iterator[slice]:
    for start in range(0, n, size):
        yield slice(start, min(start + size, n))
