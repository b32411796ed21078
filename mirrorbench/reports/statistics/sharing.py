"""Sums over all pairs of items that share texts, in time that grows with the number of items, not of pairs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from mirrorbench.reports.statistics.items import FloatArray

if TYPE_CHECKING:
    from scipy.sparse import csr_array

_MOST_PAIRS = 10_000_000
"""Largest number of pairs of neighbours in memory at once; only pairs of items with many texts are listed."""


class SharedTexts:
    """The texts of n items, as pairs of *neighbours*: items that have a text in common.

    An item with a text is a neighbour of itself. Items with one or two texts are *few-text* items: sums over their
    pairs follow from sums over the items of each text. For the others, *many-text* items, the neighbours are listed.

    Args:
        texts: a matrix of shape (n, texts) with an entry, which is not 0, where an item has a text. Items without texts
            have no neighbours.
    """

    def __init__(self, texts: csr_array) -> None:
        texts = texts.copy()
        texts.sum_duplicates()
        texts.data[:] = 1
        self._texts = texts
        self._by_text = texts.T.tocsr()
        # Indices of the items, by their number of texts.
        texts_per_item = np.diff(texts.indptr)
        self._many_text_items = np.flatnonzero(texts_per_item > 2)
        self._few_text_items = np.flatnonzero(texts_per_item <= 2)
        self._two_text_items = np.flatnonzero(texts_per_item == 2)
        self._texts_of_few = texts[self._few_text_items]
        # The number of the pair of texts of each two-text item; items with the same two texts have the same number.
        text_pairs = texts[self._two_text_items].indices.reshape(-1, 2)
        text_pairs = np.sort(text_pairs, axis=1).astype(np.int64)
        codes = text_pairs[:, 0] * texts.shape[1] + text_pairs[:, 1]
        self._numbers_of_text_pairs = np.unique(codes, return_inverse=True)[1]
        # Blocks of many-text items whose neighbours fit into memory: a block ends where the running number of
        # neighbours passes a multiple of ``_MOST_PAIRS``. Neighbours with several texts in common are counted several
        # times, so blocks are rather too small than too large.
        items_per_text = np.diff(self._by_text.indptr)
        neighbours_so_far = np.cumsum(texts[self._many_text_items] @ items_per_text)
        ends = np.flatnonzero(np.diff(neighbours_so_far // _MOST_PAIRS)) + 1
        self._blocks = np.split(self._many_text_items, ends)
        # The neighbours of a single block are listed here, once; those of several are listed anew for each sum.
        self._single_block = None
        if len(self._blocks) == 1:
            self._single_block = self._neighbours(self._many_text_items)

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
        totals = [self._products_among_few(item_values) for item_values in values]
        for block in self._blocks:
            neighbours = self._single_block
            if neighbours is None:
                neighbours = self._neighbours(block)
            for index, item_values in enumerate(values):
                values_of_few = item_values.copy()
                values_of_few[self._many_text_items] = 0
                # The list has a pair of a many-text and a few-text item once, so that it counts twice here.
                sums = neighbours @ (item_values + values_of_few)
                totals[index] += float(item_values[block] @ sums)
        return totals

    def _neighbours(self, items: NDArray[np.intp]) -> csr_array:
        """Return which of all items are neighbours of the given ones, shape (items, n)."""
        return (self._texts[items] @ self._by_text) != 0

    def _products_among_few(self, values: FloatArray) -> float:
        """Return the sum of the products over all pairs of few-text items.

        The squared sum of a text's values is the sum over all pairs of its items. Pairs with two texts in common are in
        two of these squares: the squared sums over items with the same two texts are subtracted.
        """
        sums_by_text = self._texts_of_few.T @ values[self._few_text_items]
        sums_by_pair = np.bincount(self._numbers_of_text_pairs, values[self._two_text_items])
        return float(sums_by_text @ sums_by_text - sums_by_pair @ sums_by_pair)


def membership(units: NDArray[np.intp], shared: NDArray[np.int32] | None, n: int) -> csr_array:
    """Return which of n units has which shared text, as ones in an array of shape (n, texts).

    Args:
        units: the unit of each item.
        shared: numbers of the texts of each item, -1 for none; ``None`` where unknown.
        n: number of units.
    """
    from scipy.sparse import csr_array

    codes = np.empty((len(units), 0), np.int32) if shared is None else shared
    n_texts = int(codes.max(initial=-1)) + 1
    items, columns = (codes >= 0).nonzero()
    positions = (units[items], codes[items, columns])
    return csr_array((np.ones(len(items)), positions), (n, n_texts))


def with_private_texts(texts: csr_array, units: NDArray[np.intp]) -> csr_array:
    """Return the texts, and one more for each of the ``units`` without any, so that it is a neighbour of itself."""
    from scipy.sparse import csr_array, hstack

    without_texts = np.setdiff1d(units, texts.nonzero()[0])
    n_added = len(without_texts)
    positions = (without_texts, np.arange(n_added))
    private_texts = csr_array((np.ones(n_added), positions), (texts.shape[0], n_added))
    return hstack([texts, private_texts], "csr")


def side_by_side(parts: Sequence[csr_array]) -> csr_array:
    """Join the texts of several tasks for the same units; texts of two tasks are never the same."""
    from scipy.sparse import hstack

    return hstack(parts, "csr")
