"""Rows of token ids, how they are split into batches, and batches that are made while the model computes.

On a CPU a text's vector is the same bit for bit whichever texts stand beside it, in batches of one length that are not
too small: a row of a matrix product then depends on that row alone. Padding would change the order in which attention
adds up, and of a handful of rows a matrix library makes another kind of product.
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
"""Tokens in a batch, padding included. What fits the cache wins on a CPU; a GPU wants to be filled."""

PASS_COST = {"cpu": 32, "cuda": 4_096, "mps": 2_048}
"""What another batch costs, in tokens of padding that it may save: starting kernels, adding up gradients."""

MIN_TOKENS = 32
"""Tokens in the smallest pass on a CPU: 4 for each thread sufficed for equal rows where it was tried."""


@dataclass(frozen=True, slots=True)
class Ragged:
    """Rows of whole numbers, end to end: 4 bytes a number, where a list of lists takes about ten times as much.

    Attributes:
        values: all rows, one after the other.
        starts: where each row starts in ``values``, and at the end where the last one ends; shape (n + 1,).
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
        """The rows of several, one after the other."""
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
        """Numbers in each row."""
        return np.diff(self.starts)

    def take(self, rows: ArrayLike) -> Ragged:
        """Some of the rows, in the order given."""
        chosen = np.asarray(rows, dtype=np.int64)
        lengths = self.lengths[chosen]
        starts = np.concatenate([[0], lengths.cumsum()])
        where = np.arange(starts[-1]) + (self.starts[chosen] - starts[:-1]).repeat(lengths)
        return Ragged(self.values[where], starts)

    def padded(self, width: int, fill: int) -> NDArray[np.int64]:
        """A matrix of the rows with ``fill`` behind the shorter ones, shape (n, width)."""
        matrix = np.full((len(self), width), fill, dtype=np.int64)
        matrix[self.mask(width)] = self.values
        return matrix

    def mask(self, width: int) -> NDArray[np.bool_]:
        """Where ``padded`` holds numbers of the rows, shape (n, width)."""
        return np.arange(width) < self.lengths[:, None]


# Each of these splits the indices of texts into batches, longest texts first, that together hold each index once. A
# batch has at most `budget` tokens; a longer text makes a batch of its own. With a `fixed_length` every text is padded
# to that length and counts as so long.


def _longest_first(lengths: ArrayLike) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Indices in a stable order (equal inputs give equal batches and so equal rounding), and lengths in that order."""
    tokens = np.asarray(lengths, dtype=np.int64)
    order = np.argsort(-tokens, kind="stable")
    return order, tokens[order]


def equal_length_batches(lengths: ArrayLike, budget: int, fixed_length: int = 0) -> Iterator[list[int]]:
    """Batches of texts that are equally long; those of one length are about equally large."""
    order, tokens = _longest_first(lengths)
    for group in np.split(np.arange(len(order)), np.flatnonzero(np.diff(tokens)) + 1):
        if len(group):
            room = max(1, budget // max(1, fixed_length or int(tokens[group[0]])))
            yield from (order[batch].tolist() for batch in np.array_split(group, -(-len(group) // room)))


def similar_length_batches(
    lengths: ArrayLike, budget: int, fixed_length: int = 0, pass_cost: int = PASS_COST["cpu"]
) -> Iterator[list[int]]:
    """Batches that end where they are full, or where padding the next shorter texts would exceed ``pass_cost``."""
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
    """As few batches as there must be, all of about as many tokens: for batches without padding.

    Similar lengths still help there: attention pads what it reads together. Where there are several batches, they are
    even in number: two cores then have as much to do.
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
    """The same items in the same order, up to ``room`` of them made in another thread before they are asked for.

    Tokenizers and torch both release Python's lock while they work, so the two run side by side. Nothing but that
    thread may touch what ``items`` uses until they are exhausted or this generator is closed. An error in making an
    item is raised where that item would have come.
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
