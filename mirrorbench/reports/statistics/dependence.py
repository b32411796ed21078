"""The variance of a score over items, of which some are the same or share a text.

Items that share a text (a word of two pairs, a sentence with two targets) vary together: the variance is the sum of the
products of the influences of all pairs of items that share one, each pair counted once (Fafchamps and Gubert 2007;
Cameron, Gelbach and Miller 2011), and at least that of independent items. Items of several tasks that are the same (a
concept in many languages) are one item, whose influences are added.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from mirrorbench.reports.statistics.estimates import Variance
from mirrorbench.reports.statistics.influence import FloatArray
from mirrorbench.reports.statistics.items import ItemScores

if TYPE_CHECKING:
    from scipy.sparse import csr_array

_ROWS = 512
"""Items whose neighbours are in memory at once."""


class Dependence:
    """Dependence between the items of some tasks: the same item of several, and items that share a text.

    Args:
        tasks: the items of each task.
    """

    def __init__(self, tasks: Sequence[ItemScores]) -> None:
        from scipy.sparse import hstack

        names, units = np.unique(np.concatenate([items.units or items.ids for items in tasks]), return_inverse=True)
        self._n = len(names)
        self._units = np.split(units, np.cumsum([len(items.ids) for items in tasks])[:-1])
        held = [_held(of, items.shared, self._n) for of, items in zip(self._units, tasks, strict=True)]
        self._groups = _with_loners(hstack(held, "csr"), np.arange(self._n))
        # An area under the ROC curve has two samples, of which each has a variance of its own.
        self._strata = [np.unique(i.gold if i.kind == "auc" else 0 * i.gold, return_inverse=True)[1] for i in tasks]
        self._alone, self._together = [], []  # factors of each item's influence
        for of, groups, strata in zip(self._units, held, self._strata, strict=True):
            n = len(own := np.unique(of))
            near = sum(part.nnz for _, part in _neighbours(_with_loners(groups, own)))
            sizes = np.bincount(strata)[strata]
            self._alone.append(np.sqrt(np.divide(sizes, sizes - 1, out=np.full(len(of), np.nan), where=sizes > 1)))
            # Influences of a task sum to 0, which takes a G-th of the variance of G equal groups.
            self._together.append(self._alone[-1] * np.sqrt((n - 1) * n / (n**2 - near) if near < n**2 else 1))

    def variance(self, influences: Sequence[FloatArray]) -> Variance:
        """The variance of a score with these influences of the items of each task, and its degrees of freedom."""
        alone, grouped = (
            self._summed([of * factor for of, factor in zip(influences, factors, strict=True)])
            for factors in (self._alone, self._together)
        )
        strata = zip(influences, self._strata, strict=True)
        expected = self._summed([(np.bincount(own, of * of) / np.bincount(own))[own] for of, own in strata])
        together = spread = 0.0
        for rows, near in _neighbours(self._groups):
            together += float(grouped[rows] @ (near @ grouped))
            spread += float(expected[rows] @ (near @ expected))
        # Of this sum of products, were the items independent (Satterthwaite 1946); of G equal groups G - 1.
        df = float(expected.sum() ** 2 / spread - 1) if spread > 0 else 1.0
        return max(float(alone @ alone), together), max(1.0, df)

    def _summed(self, values: Sequence[FloatArray]) -> FloatArray:
        """Sums over tasks of the values of each unit's items, shape (units,)."""
        parts = [np.bincount(of, own, self._n) for of, own in zip(self._units, values, strict=True)]
        total: FloatArray = np.sum(parts, axis=0)
        return total


def _held(units: NDArray[np.intp], shared: NDArray[np.int32] | None, n: int) -> csr_array:
    """An indicator of which of n units has which of the shared things, shape (n, things)."""
    from scipy.sparse import csr_array

    codes = np.empty((len(units), 0), np.int32) if shared is None else shared
    item, column = (codes >= 0).nonzero()
    return csr_array((np.ones(len(item)), (units[item], codes[item, column])), (n, int(codes.max(initial=-1)) + 1))


def _with_loners(groups: csr_array, units: NDArray[np.intp]) -> csr_array:
    """The groups, and one more for each of the units that is in none."""
    from scipy.sparse import csr_array, hstack

    loners = np.setdiff1d(units, groups.nonzero()[0])
    own = csr_array((np.ones(len(loners)), (loners, np.arange(len(loners)))), (groups.shape[0], len(loners)))
    return hstack([groups, own], "csr")


def _neighbours(groups: csr_array) -> Iterator[tuple[slice, csr_array]]:
    """Blocks of the indicator of which units have a group in common, shape (rows, units), with their rows."""
    for start in range(0, groups.shape[0], _ROWS):
        rows = slice(start, start + _ROWS)
        yield rows, (groups[rows] @ groups.T) != 0
