"""Rows of token ids, their division into batches, and prefetching of batches.

On a CPU, batches of texts of one length, if not too small, give vectors that are bit for bit independent of the other
texts. Padding would change the order of summation in attention; for few rows, libraries use another matrix product.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

_T = TypeVar("_T")

TokenIds = NDArray[np.int32]

TOKEN_BUDGET = {"cpu": 1024, "cuda": 65_536, "mps": 16_384}
"""Tokens per batch, padding included: on a CPU what fits its cache, on a GPU what keeps it busy."""

PASS_COST = {"cpu": 32, "cuda": 4_096, "mps": 2_048}
"""Cost of one more batch (kernel launches, gradient accumulation), in padding tokens that it may save."""

MIN_TOKENS = 32
"""Tokens in the smallest batch on a CPU: in experiments 4 per thread sufficed for identical rows."""


@dataclass(frozen=True, slots=True)
class Ragged:
    """Rows of integers of different lengths, concatenated in ``values``: about a tenth of the memory of lists.

    ``starts``: where each row starts in ``values``, and where the last one ends; shape (n + 1,).
    """

    values: TokenIds
    starts: NDArray[np.int64]

    @classmethod
    def of(cls, rows: Sequence[Sequence[int]] | Sequence[NDArray[np.integer[Any]]]) -> Ragged:
        """From lists or arrays."""
        starts = np.zeros(len(rows) + 1, dtype=np.int64)
        np.cumsum([len(row) for row in rows], out=starts[1:])
        return cls(np.fromiter(chain.from_iterable(rows), np.int32, int(starts[-1])), starts)

    @classmethod
    def joined(cls, parts: Iterable[Ragged]) -> Ragged:
        """The rows of several, concatenated."""
        parts = list(parts)
        lengths = np.concatenate([part.lengths for part in parts])
        return cls(np.concatenate([part.values for part in parts]), np.concatenate([[0], lengths.cumsum()]))

    def __len__(self) -> int:
        return len(self.starts) - 1

    def __getitem__(self, row: int) -> TokenIds:
        return self.values[self.starts[row] : self.starts[row + 1]]

    def __iter__(self) -> Iterator[TokenIds]:
        return (self[row] for row in range(len(self)))

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Length of each row."""
        return np.diff(self.starts)

    def take(self, rows: ArrayLike) -> Ragged:
        """Some of the rows, in the order given."""
        chosen = np.asarray(rows, dtype=np.int64)
        lengths = self.lengths[chosen]
        starts = np.concatenate([[0], lengths.cumsum()])
        where = np.arange(starts[-1]) + (self.starts[chosen] - starts[:-1]).repeat(lengths)
        return Ragged(self.values[where], starts)

    def padded(self, width: int, fill: int) -> NDArray[np.int64]:
        """A matrix of the rows, shorter ones padded at the end with ``fill``; shape (n, width)."""
        matrix = np.full((len(self), width), fill, dtype=np.int64)
        matrix[self.mask(width)] = self.values
        return matrix

    def mask(self, width: int) -> NDArray[np.bool_]:
        """Where ``padded`` holds values of the rows, shape (n, width)."""
        return np.arange(width) < self.lengths[:, None]


# Each of these divides the indices of texts into batches, longest texts first. A batch has at most `budget` tokens, or
# a single longer text. With a `fixed_length` every text is padded to that length.


def _longest_first(lengths: ArrayLike) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Indices in a stable order, so that equal inputs give equal batches and rounding, and lengths in that order."""
    tokens = np.asarray(lengths, dtype=np.int64)
    order = np.argsort(-tokens, kind="stable")
    return order, tokens[order]


def equal_length_batches(lengths: ArrayLike, budget: int, fixed_length: int = 0) -> Iterator[list[int]]:
    """Batches of texts of equal length; those of one length have about the same size."""
    order, tokens = _longest_first(lengths)
    for group in np.split(np.arange(len(order)), np.flatnonzero(np.diff(tokens)) + 1):
        if len(group):
            room = max(1, budget // max(1, fixed_length or int(tokens[group[0]])))
            yield from (order[batch].tolist() for batch in np.array_split(group, -(-len(group) // room)))


def similar_length_batches(
    lengths: ArrayLike, budget: int, fixed_length: int = 0, pass_cost: int = PASS_COST["cpu"]
) -> Iterator[list[int]]:
    """Batches that end when they are full, or when padding the next texts would exceed ``pass_cost``."""
    order, tokens = _longest_first(lengths)
    start = 0
    while start < len(order):
        width = fixed_length or max(1, int(tokens[start]))
        end = min(len(order), start + max(1, budget // width))
        if not fixed_length:
            ends = np.append(np.flatnonzero(np.diff(tokens[start:end])) + 1, end - start)  # after each length
            padding = np.cumsum(width - tokens[start:end])[ends - 1]
            end = start + int(ends[max(1, int(np.searchsorted(padding, pass_cost, side="right"))) - 1])
        yield order[start:end].tolist()
        start = end


def even_batches(lengths: ArrayLike, budget: int) -> Iterator[list[int]]:
    """The fewest batches of about equally many tokens; for packed batches, which need no padding.

    Lengths are kept similar because attention still pads. Several batches are even in number, to use two cores equally.
    """
    order, tokens = _longest_first(lengths)
    middles = tokens.cumsum() - tokens / 2
    total = int(tokens.sum())
    least = max(1, -(-total // budget))
    for n in range(least + (least > 1 and least % 2), len(order), 2 if least > 1 else 1):
        number = (middles * n / max(1, total)).astype(np.int64)  # rising: a text belongs where its middle lies
        batches = np.split(np.arange(len(order)), np.flatnonzero(np.diff(number)) + 1)
        if all(len(batch) == 1 or tokens[batch].sum() <= budget for batch in batches):
            yield from (order[batch].tolist() for batch in batches)
            return
    yield from ([row] for row in order.tolist())


def prefetch(items: Iterator[_T], room: int = 4) -> Generator[_T, None, None]:
    """The same items in the same order, up to ``room`` of them computed in advance in another thread.

    Tokenizers and torch release Python's lock, so they run in parallel. Nothing else may use what ``items`` uses until
    it is exhausted or this generator is closed. An error in an item is raised when that item is due.
    """
    end = object()
    executor = ThreadPoolExecutor(1, "mirrorbench-prefetch")
    try:
        waiting = deque(executor.submit(next, items, end) for _ in range(room))
        while (item := waiting.popleft().result()) is not end:
            waiting.append(executor.submit(next, items, end))
            yield item  # type: ignore[misc]
    finally:
        executor.shutdown(cancel_futures=True)
