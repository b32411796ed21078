"""Exact search by matrix products in blocks.

No matrix of all queries by all keys is ever made: beside the vectors themselves, memory holds one block of scores and a
few candidates for each query. Blocks are multiplied in float32; what they find, with some to spare, is scored again in
float64, so that neither the size of the blocks nor the linear-algebra library decides the order, and equal vectors tie
exactly (the lower index goes first).

Memory: beside the arrays passed in (which may be memory-mapped) and the result, ``UNIT_BYTES`` for normalised queries,
some multiples of ``BLOCK_BYTES`` for blocks of keys and scores, and 12 bytes for each query and candidate. So a million
names of 768 dimensions (2.9 GiB) are searched for ten thousand mentions in less than 4 GiB.

On a GPU (``mirrorbench.core.devices.computing_on``) blocks are multiplied there, in float32 too; the float64 scores are
the host's, so the device does not decide the order either.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mirrorbench.core.devices import current_device
from mirrorbench.core.errors import UsageError
from mirrorbench.tasks.gpu import best_on
from mirrorbench.tasks.metrics import unit

Floats = NDArray[np.floating[Any]]
Scored = tuple[NDArray[np.int64], NDArray[np.float64]]

BLOCK_BYTES = 32 << 20
"""The most memory for one block of scores, or of keys in float32."""

UNIT_BYTES = 256 << 20
"""The most memory for the normalised queries that are compared with all keys in one go."""

GPU_BLOCK_BYTES = 256 << 20
"""As ``BLOCK_BYTES``, on a GPU."""

SIMILARITIES = ("cosine", "dot")
_QUERY_ROWS = 256
_EXACT_ROWS = 16  # queries whose candidates are scored again together: few enough for the cache
_NEVER = 1e30  # taken off a similarity, so that nothing is less similar; float32 can hold it
_SPARE = 16  # candidates beyond k that are scored again: more than float32 can mix up at the edge


def topk(
    queries: Floats, keys: Floats, k: int, similarity: str = "cosine", penalty: NDArray[np.float64] | None = None
) -> Scored:
    """The k most similar keys of each query.

    Args:
        queries: shape (n, d).
        keys: shape (m, d).
        k: how many; fewer where there are fewer keys.
        similarity: ``cosine`` (a zero vector is similar to nothing, 0) or ``dot``.
        penalty: taken off the similarity of each key, shape (m,).

    Returns:
        Indices of keys, best first, and their similarities less the penalties, both of shape (n, min(k, m)).

    Raises:
        UsageError: an unknown similarity, no keys, or ``k`` below 1.
    """
    _check(keys, k, similarity)
    k = min(k, len(keys))
    equals = _Equals.of(keys) if penalty is None else None
    candidates, _ = _candidates(queries, keys, k + _SPARE, similarity, equals.later if equals else penalty)
    indices = np.empty((len(queries), k), dtype=np.int64)
    scores = np.empty((len(queries), k))
    for rows in _blocks(len(queries), _EXACT_ROWS):
        found = candidates[rows]
        asked, named = _ready(queries[rows], similarity, np.float64), _ready(keys[found], similarity, np.float64)
        exact = np.einsum("nd,ncd->nc", asked, named)
        if penalty is not None:
            exact -= penalty[found]
        if equals:
            found, exact = equals.spread(found, exact, k)
        order = np.lexsort((found, -exact), axis=1)[:, :k]
        indices[rows] = np.take_along_axis(found, order, axis=1)
        scores[rows] = np.take_along_axis(exact, order, axis=1)
    if penalty is None:  # similar to nothing, and so to all keys alike
        indices[~np.any(queries, axis=1)] = np.arange(k)
    return indices, scores


def neighbourhood(queries: Floats, keys: Floats, k: int) -> NDArray[np.float64]:
    """The mean cosine of each query with its k nearest keys: how crowded its surroundings are.

    Lample et al. (2018), section 2.3: r(x), the mean similarity of x to its neighbourhood in the other language.

    Args:
        queries: shape (n, d).
        keys: shape (m, d).
        k: size of the neighbourhood; all keys where there are fewer.

    Returns:
        Shape (n,).

    Raises:
        UsageError: no keys, or ``k`` below 1.
    """
    _check(keys, k, "cosine")
    _, scores = _candidates(queries, keys, k, "cosine", None)
    result: NDArray[np.float64] = scores.mean(axis=1, dtype=np.float64)
    return result


def csls(queries: Floats, keys: Floats, k: int, sources: Floats | None = None, neighbours: int = 10) -> Scored:
    """The k best keys of each query by cross-domain similarity local scaling, 2 cos(x, y) - r(x) - r(y).

    Lample et al. (2018), Eq. 3. Hubs, the keys that are near to everything, lose what makes them so.

    Args:
        queries: shape (n, d), mapped into the space of the keys.
        keys: shape (m, d).
        k: how many.
        sources: all vectors of the queries' side, among which the neighbours of a key are found, shape (s, d); the
            queries themselves where there are no others.
        neighbours: size of the neighbourhoods.

    Returns:
        Indices of keys, best first, and their CSLS, both of shape (n, min(k, m)).
    """
    crowding = neighbourhood(keys, queries if sources is None else sources, neighbours)
    indices, scores = topk(queries, keys, k, penalty=crowding / 2)
    return indices, 2 * scores - neighbourhood(queries, keys, neighbours)[:, None]


def ranks(
    queries: Floats, keys: Floats, targets: NDArray[np.int64], penalty: NDArray[np.float64] | None = None
) -> NDArray[np.int64]:
    """The place of one key, the right one, among all keys by their cosine with the query.

    Args:
        queries: shape (n, d).
        keys: shape (m, d).
        targets: the index of each query's right key, shape (n,).
        penalty: taken off the cosine of each key, shape (m,); half a key's crowding gives ranks by CSLS.

    Returns:
        Ranks from 1, shape (n,); of keys that tie, the one with the lower index stands first.
    """
    ahead = np.zeros(len(queries), dtype=np.int64)
    units = _ready(queries, "cosine", np.float64)
    right = np.einsum("nd,nd->n", units, _ready(keys[targets], "cosine", np.float64))
    if penalty is not None:
        right -= penalty[targets]
    for columns in _blocks(len(keys), _key_rows(keys.shape[1], 8)):
        block = _ready(keys[columns], "cosine", np.float64)
        index = np.arange(columns.start, columns.start + len(block))
        for rows in _blocks(len(queries), _QUERY_ROWS):
            gain = units[rows] @ block.T
            if penalty is not None:
                gain -= penalty[columns]
            gain -= right[rows, None]
            tie = np.abs(gain) <= 1e-12  # equal vectors may differ in the last bits of their products
            before = index[None, :] < targets[rows, None]
            ahead[rows] += ((gain > 0) & ~tie | tie & before).sum(axis=1)
    return ahead + 1


@dataclass(frozen=True)
class _Equals:
    """Keys that are the same vector: one of each is looked for, however many there are, and stands for all.

    Attributes:
        later: what is taken off each key's similarity, so that only the first of its equals is found, shape (m,).
        first: the first equal of each key, rising, shape (m,).
        keys: the key that each of those belongs to, rising among equals.
    """

    later: NDArray[np.float64]
    first: NDArray[np.int64]
    keys: NDArray[np.int64]

    @classmethod
    def of(cls, keys: Floats) -> _Equals | None:
        """``None`` where no two keys are equal."""
        _, group, sizes = np.unique(keys[:, 0], return_inverse=True, return_counts=True)
        first = np.arange(len(keys))
        seen: dict[bytes, int] = {}
        for row in np.flatnonzero(sizes[group] > 1).tolist():  # their first numbers are equal; are they all?
            first[row] = seen.setdefault(hashlib.blake2b(keys[row].tobytes(), digest_size=16).digest(), row)
        later = first != np.arange(len(keys))
        order = np.argsort(first, kind="stable")
        return cls(np.where(later, _NEVER, 0.0), first[order], order) if later.any() else None

    def spread(self, found: NDArray[np.int64], scores: Floats, k: int) -> tuple[NDArray[np.int64], Floats]:
        """Keys found for some queries and their scores with up to ``k`` equals in the place of each."""
        begin, end = (np.searchsorted(self.first, found, side)[..., None] for side in ("left", "right"))
        place = begin + np.arange(k)
        keys = self.keys[np.minimum(place, len(self.keys) - 1)].reshape(len(found), -1)
        return keys, np.where(place < end, scores[..., None], -np.inf).reshape(len(found), -1)


def _check(keys: Floats, k: int, similarity: str) -> None:
    if similarity not in SIMILARITIES:
        raise UsageError(f"similarity {similarity!r} is none of {', '.join(SIMILARITIES)}")
    if not len(keys) or k < 1:
        raise UsageError("a search needs at least one key and one neighbour")


def _candidates(
    queries: Floats, keys: Floats, n: int, similarity: str, penalty: NDArray[np.float64] | None
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """The n best keys of each query by float32 products, unordered: indices and scores of shape (queries, n)."""
    n = min(n, len(keys))
    indices = np.zeros((len(queries), n), dtype=np.int64)
    scores = np.full((len(queries), n), -np.inf, dtype=np.float32)
    device = current_device()
    for some in _blocks(len(queries), max(_QUERY_ROWS, UNIT_BYTES // (4 * queries.shape[1]))):
        if device.startswith("cuda"):
            found = best_on(device, queries[some], keys, n, similarity == "cosine", penalty, GPU_BLOCK_BYTES)
            indices[some], scores[some] = found
        else:
            _fill(queries[some], keys, similarity, penalty, indices[some], scores[some])
    return indices, scores


def _fill(
    queries: Floats, keys: Floats, similarity: str, penalty: NDArray[np.float64] | None,
    indices: NDArray[np.int64], scores: NDArray[np.float32],
) -> None:  # fmt: skip
    """The best keys of each query, into ``indices`` and ``scores``."""
    n = scores.shape[1]
    units = np.empty(queries.shape, dtype=np.float32)
    for rows in _blocks(len(queries), _QUERY_ROWS):
        units[rows] = _ready(queries[rows], similarity, np.float32)
    for columns in _blocks(len(keys), _key_rows(keys.shape[1], 4)):
        block = _ready(keys[columns], similarity, np.float32)
        for rows in _blocks(len(queries), _QUERY_ROWS):
            products = units[rows] @ block.T
            if penalty is not None:
                products -= penalty[columns].astype(np.float32)
            best = _best(products, n)
            both = np.concatenate([scores[rows], np.take_along_axis(products, best, axis=1)], axis=1)
            where = np.concatenate([indices[rows], best + columns.start], axis=1)
            best = _best(both, n)
            scores[rows] = np.take_along_axis(both, best, axis=1)
            indices[rows] = np.take_along_axis(where, best, axis=1)


def _best(scores: NDArray[np.float32], n: int) -> NDArray[np.int64]:
    """Columns of the n highest scores of each row, in any order."""
    if scores.shape[1] <= n:
        return np.broadcast_to(np.arange(scores.shape[1]), scores.shape)
    return np.argpartition(scores, -n, axis=1)[:, -n:]


def _ready(vectors: Floats, similarity: str, dtype: type[np.floating[Any]]) -> NDArray[Any]:
    """Vectors whose dot products are the similarity."""
    array = unit(vectors) if similarity == "cosine" else np.asarray(vectors, dtype=np.float64)
    return array.astype(dtype, copy=False)


def _key_rows(dimensions: int, itemsize: int) -> int:
    """Keys in a block, so that neither its scores nor its vectors exceed ``BLOCK_BYTES``."""
    return max(1, BLOCK_BYTES // (itemsize * max(_QUERY_ROWS, dimensions)))


def _blocks(n: int, size: int) -> Iterator[slice]:
    for start in range(0, n, size):
        yield slice(start, min(start + size, n))
