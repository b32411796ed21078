"""Rows of different lengths in one array: token ids, and the positions of target words."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Row = NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class Ragged:
    """n rows of whole numbers, end to end: 4 bytes a number, where a list of lists takes about ten times as much.

    Attributes:
        values: all rows, one after the other.
        starts: where each row starts in ``values``, and at the end where the last one ends; shape (n + 1,).
    """

    values: Row
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

    def __getitem__(self, row: int) -> Row:
        return self.values[self.starts[row] : self.starts[row + 1]]

    def __iter__(self) -> Iterator[Row]:
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
        """The rows side by side with ``fill`` behind the shorter ones, shape (n, width)."""
        matrix = np.full((len(self), width), fill, dtype=np.int64)
        matrix[self.mask(width)] = self.values
        return matrix

    def mask(self, width: int) -> NDArray[np.bool_]:
        """Where ``padded`` holds numbers of the rows, shape (n, width)."""
        return np.arange(width) < self.lengths[:, None]
