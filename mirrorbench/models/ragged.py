"""Rows of integers of different lengths, such as the token ids of texts, in one array."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

TokenIds = NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class Ragged:
    """Rows of integers of different lengths, such as the token ids of texts, in about a tenth of the memory of lists.

    ``TokenizedPairs.ids`` and the token ids that ``Transformer`` returns and reads are of this class. A plugin makes
    one by ``Ragged.of(rows)``. ``len``, iteration and an index ``[row]`` work on rows, each an int32 array; ``take``
    and ``portions`` select rows by their indices, and ``padded`` and ``mask`` make matrices of them.

    Attributes:
        values: all rows one after the other, int32 of shape (number of values,).
        starts: start of each row in ``values``, and end of the last one, int64 of shape (n + 1,).

    Example:
        >>> from mirrorbench.plugin import Ragged
        >>> ids = Ragged.of([[2, 40, 3], [2, 305, 447, 3]])
        >>> len(ids), ids[0].tolist(), ids.lengths.tolist()
        (2, [2, 40, 3], [3, 4])
        >>> ids.padded(width=4, fill=0).tolist()
        [[2, 40, 3, 0], [2, 305, 447, 3]]
        >>> ids.take([1]).mask(width=5).tolist()
        [[True, True, True, True, False]]
    """

    values: TokenIds
    starts: NDArray[np.int64]

    @classmethod
    def of(cls, rows: Sequence[Sequence[int]] | Sequence[NDArray[np.integer[Any]]]) -> Ragged:
        """Return lists or arrays of integers as one object."""
        starts = np.zeros(len(rows) + 1, dtype=np.int64)
        np.cumsum([len(row) for row in rows], out=starts[1:])
        values = np.fromiter(chain.from_iterable(rows), np.int32, count=int(starts[-1]))
        return cls(values, starts)

    def __len__(self) -> int:
        return len(self.starts) - 1

    def __getitem__(self, row: int) -> TokenIds:
        return self.values[self.starts[row] : self.starts[row + 1]]

    def __iter__(self) -> Iterator[TokenIds]:
        return (self[row] for row in range(len(self)))

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Length of each row, shape (n,)."""
        return np.diff(self.starts)

    def take(self, rows: ArrayLike) -> Ragged:
        """Return the rows with these indices, in the order given; ``rows`` is no mask."""
        chosen = np.asarray(rows, dtype=np.int64)
        lengths = self.lengths[chosen]
        starts = np.concatenate([[0], lengths.cumsum()])
        # All values of a row lie equally far from their places in the new array.
        offsets = self.starts[chosen] - starts[:-1]
        indices = np.arange(starts[-1]) + offsets.repeat(lengths)
        return Ragged(self.values[indices], starts)

    def weights(self, width: int) -> NDArray[np.float32]:
        """Return weights that average over each row's k positions, 1 / k at each, shape (n, width)."""
        lengths = self.lengths
        rows = np.arange(len(self)).repeat(lengths)
        matrix = np.zeros((len(self), width), dtype=np.float32)
        matrix[rows, self.values] = (1 / lengths).repeat(lengths)
        return matrix

    def padded(self, width: int, fill: int) -> NDArray[np.int64]:
        """Return a matrix of the rows, padded at the end with ``fill``, shape (n, width).

        ``width`` is at least the length of the longest row.
        """
        matrix = np.full((len(self), width), fill, dtype=np.int64)
        matrix[self.mask(width)] = self.values
        return matrix

    def mask(self, width: int) -> NDArray[np.bool_]:
        """Return true at the values of the rows in ``padded``, false at padding, shape (n, width)."""
        return np.arange(width) < self.lengths[:, None]

    def portions(self, most: int) -> list[NDArray[np.int64]]:
        """Divide the rows, of which there is at least one, into portions of about ``most`` values, padding included.

        Returns:
            The indices of the rows of each portion.

        Example:
            >>> from mirrorbench.plugin import Ragged
            >>> texts = Ragged.of([[1, 5, 2], [1, 2], [1, 6, 2], [1, 2]])
            >>> [rows.tolist() for rows in texts.portions(6)]
            [[0, 1], [2, 3]]
        """
        n = len(self)
        if n == 0:
            return []
        n_padded = n * int(self.lengths.max())
        n_portions = -(-n_padded // max(1, most))
        return np.array_split(np.arange(n), min(n, n_portions))
