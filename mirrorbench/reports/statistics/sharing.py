"""Items that share texts: sums over all pairs of them, in time that grows with the items."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from mirrorbench.reports.statistics.items import FloatArray

if TYPE_CHECKING:
    from scipy.sparse import csr_array

_PAIRS = 10_000_000
"""Pairs of neighbours, one of them with many texts, that are in memory at once."""


class SharedTexts:
    """The texts of n items, as the pairs of items that have one in common; an item is a neighbour of itself.

    Args:
        texts: which item has which text, shape (n, texts), any number but 0; items without texts have no neighbours.
    """

    def __init__(self, texts: csr_array) -> None:
        texts = texts.copy()
        texts.sum_duplicates()
        texts.data[:] = 1
        counts = np.diff(texts.indptr)
        self._texts, self._by_text = texts, texts.T.tocsr()
        self._many = np.flatnonzero(counts > 2)
        self._few = np.flatnonzero(counts <= 2)
        self._of_few = texts[self._few]
        self._two = np.flatnonzero(counts == 2)
        both = np.sort(texts[self._two].indices.reshape(-1, 2), axis=1).astype(np.int64)
        codes = both[:, 0] * texts.shape[1] + both[:, 1]
        self._pairs = np.unique(codes, return_inverse=True)[1]
        # Neighbours with several texts in common are counted for each.
        neighbours = np.cumsum(texts[self._many] @ np.diff(self._by_text.indptr))
        ends = np.flatnonzero(np.diff(neighbours // _PAIRS)) + 1
        self._blocks = np.split(self._many, ends)
        self._kept = self._near(self._many) if len(self._blocks) == 1 else None

    @property
    def n_neighbours(self) -> float:
        """Number of ordered pairs of neighbours."""
        return self.products(np.ones(self._texts.shape[0]))[0]

    def sums(self, values: FloatArray) -> FloatArray:
        """Return the sum of n values over the items of each text."""
        sums: FloatArray = self._by_text @ values
        return sums

    def products(self, *values: FloatArray) -> list[float]:
        """Return for each array of n values the sum of the products of all ordered pairs of neighbours."""
        totals = [self._among_few(own) for own in values]
        for rows in self._blocks:
            near = self._near(rows) if self._kept is None else self._kept
            for number, own in enumerate(values):
                of_few = own.copy()
                of_few[self._many] = 0
                # A pair of an item with many texts and one with few is met once here, and counts twice.
                totals[number] += float(own[rows] @ (near @ (own + of_few)))
        return totals

    def _near(self, rows: NDArray[np.intp]) -> csr_array:
        """Which items are neighbours of some others, shape (rows, n)."""
        return (self._texts[rows] @ self._by_text) != 0

    def _among_few(self, values: FloatArray) -> float:
        """The sum over the items with one or two texts.

        The square of the sum over a text's items has all their pairs. Pairs with two texts in common are in two such
        squares, and so the squares of the sums over items with the same two texts are subtracted.
        """
        by_text = self._of_few.T @ values[self._few]
        by_pair = np.bincount(self._pairs, values[self._two])
        return float(by_text @ by_text - by_pair @ by_pair)


def membership(units: NDArray[np.intp], shared: NDArray[np.int32] | None, n: int) -> csr_array:
    """Return which of n units has which shared text, shape (n, texts).

    Args:
        units: the unit of each item.
        shared: numbers of the texts of each item, -1 for none; ``None`` where unknown.
        n: number of units.
    """
    from scipy.sparse import csr_array

    codes = np.empty((len(units), 0), np.int32) if shared is None else shared
    item, column = (codes >= 0).nonzero()
    return csr_array(
        (np.ones(len(item)), (units[item], codes[item, column])),
        (n, int(codes.max(initial=-1)) + 1),
    )


def with_loners(texts: csr_array, units: NDArray[np.intp]) -> csr_array:
    """Return the texts, and one more for each of the units that has none, which makes it a neighbour of itself."""
    from scipy.sparse import csr_array, hstack

    loners = np.setdiff1d(units, texts.nonzero()[0])
    own = csr_array(
        (np.ones(len(loners)), (loners, np.arange(len(loners)))), (texts.shape[0], len(loners))
    )
    return hstack([texts, own], "csr")


def joined(parts: Sequence[csr_array]) -> csr_array:
    """Return the texts of several tasks of the same units side by side; none is of two tasks."""
    from scipy.sparse import hstack

    return hstack(parts, "csr")
