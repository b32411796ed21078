"""The dependence between test items, and the variance of scores that follows from it.

Items depend on each other if they share a text, a word or a document, or if they are the same item in several tasks.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from math import sqrt
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mirrorbench.reports.statistics.estimates import Variance
from mirrorbench.reports.statistics.influence import (
    corrected_for_sample_size,
    mean_squares_by_sample,
)
from mirrorbench.reports.statistics.items import FloatArray, ItemScores
from mirrorbench.reports.statistics.sharing import (
    SharedTexts,
    membership,
    side_by_side,
    with_private_texts,
)

if TYPE_CHECKING:
    from scipy.sparse import csr_array


class _Variances(NamedTuple):
    """Two estimates of the variance of one score."""

    independent: float
    """The sum of the squared influences of all units, as if no two of them shared a text."""
    dependent: float
    """The sum of the products of the influences of all pairs of neighbours."""


class Dependence:
    """The dependence between the items of several tasks.

    Equal items are one *unit*, in one task or in several: the influences of a unit's items are added. Two units that
    share a text are *neighbours*; every unit is a neighbour of itself. Units that are not neighbours are independent.

    The *influence* of an item says how a change of its weight changes the score. Methods take an array of influences
    for each task, in the order of ``tasks``.

    Args:
        tasks: the items of each task.
    """

    def __init__(self, tasks: Sequence[ItemScores]) -> None:
        self._tasks = tasks
        self._units = units_of(tasks)
        self._n_units = 1 + int(max(units.max(initial=-1) for units in self._units))
        texts_by_task = [
            membership(units, items.shared, self._n_units)
            for units, items in zip(self._units, tasks, strict=True)
        ]
        self._shared = SharedTexts(
            with_private_texts(side_by_side(texts_by_task), np.arange(self._n_units))
        )
        self._group_corrections = [
            _group_correction(units, texts)
            for units, texts in zip(self._units, texts_by_task, strict=True)
        ]

    def variance(self, influences: Sequence[FloatArray]) -> float:
        """Estimate the variance of a score from the influences of its items.

        It is the sum of the products of the influences of all pairs of neighbours (Fafchamps and Gubert 2007). As that
        sum can be too small, even negative, the variance is never below that of independent units.
        """
        variances = self._variances(influences)
        return max(variances.independent, variances.dependent)

    def design_effect(self, influences: Sequence[FloatArray]) -> float:
        """Return by what factor dependence multiplies the variance of independent items: Kish's design effect (1965).

        It is at least 1, and 1 where the variance is 0 or undefined.
        """
        variances = self._variances(influences)
        if not variances.independent > 0:
            return 1.0
        return max(1.0, variances.dependent / variances.independent)

    def _variances(self, influences: Sequence[FloatArray]) -> _Variances:
        scaled = list(map(corrected_for_sample_size, self._tasks, influences))
        scaled_for_groups = [
            values * correction
            for values, correction in zip(scaled, self._group_corrections, strict=True)
        ]
        by_unit = self.by_unit(scaled)
        independent = float(by_unit @ by_unit)
        (dependent,) = self._shared.products(self.by_unit(scaled_for_groups))
        return _Variances(independent, dependent)

    def degrees_of_freedom(self, influences: Sequence[FloatArray]) -> float:
        """Approximate the degrees of freedom of the variance (Satterthwaite 1946): G - 1 for G equal groups of items.

        The squared influences of items are replaced by their mean over the sample that the items are from.
        """
        expected = list(map(mean_squares_by_sample, self._tasks, influences))
        return max(1.0, self._count_groups(expected) - 1)

    def variance_with_df(self, influences: Sequence[FloatArray]) -> Variance:
        """Return the variance and its degrees of freedom."""
        return self.variance(influences), self.degrees_of_freedom(influences)

    @cached_property
    def groups(self) -> float:
        """The number of independent groups of items, weighted as in the score; 1 if all items depend on each other."""
        return self._count_groups([items.shares**2 for items in self._tasks])

    def _count_groups(self, variances: Sequence[FloatArray]) -> float:
        """Return how many independent groups of equal variance are as dependent as items with these variances."""
        by_unit = self.by_unit(variances)
        (products,) = self._shared.products(by_unit)
        if not products > 0:
            return 1.0
        return float(by_unit.sum() ** 2 / products)

    def effective_items(self, influences: Sequence[FloatArray]) -> float:
        """Return the number of independent items of equal influence that would vary as these items do.

        It is Kish's effective number (1965) of squared influences d²: (Σ d²)² / Σ d⁴. It is counted in two ways for
        each task, and the smallest of all counts is returned: over single units, divided by the design effect of the
        task, and over the sums of the influences of the units that share a text.
        """
        counts = []
        zeros = [np.zeros(len(values)) for values in influences]
        for task, values in enumerate(influences):
            influences_of_task = [*zeros[:task], values, *zeros[task + 1 :]]
            by_unit = self.by_unit(influences_of_task)
            counts.append(_effective_number(by_unit) / self.design_effect(influences_of_task))
            counts.append(_effective_number(self._shared.sums(by_unit)))
        return min(counts)

    @property
    def are_independent(self) -> bool:
        """Whether no items depend on each other."""
        n_items = sum(map(len, self._units))
        return self._shared.n_neighbours == self._n_units == n_items

    def by_unit(self, values: Sequence[FloatArray]) -> FloatArray:
        """Return the sum of the values of each unit's items over all tasks, shape (units,)."""
        sums: FloatArray = np.zeros(self._n_units)
        for units, values_of_task in zip(self._units, values, strict=True):
            sums += np.bincount(units, values_of_task, self._n_units)
        return sums


def _effective_number(values: FloatArray) -> float:
    """Return Kish's effective number (Σ d²)² / Σ d⁴ of values d; 0 if all values are 0."""
    squares = values**2
    fourth_moment = float(squares @ squares)
    if not fourth_moment > 0:
        return 0.0
    return float(squares.sum() ** 2 / fourth_moment)


def units_of(tasks: Sequence[ItemScores]) -> list[NDArray[np.intp]]:
    """Return the unit of each item as a number from 0, an array for each task; equal items have the same unit.

    Items are equal if their contents are. Items of a task without stored contents are equal to those in the same rows
    of the same files.
    """
    names = np.concatenate([items.units or items.ids for items in tasks])
    _, units = np.unique(names, return_inverse=True)
    rows_without_contents: set[str] = set()
    for items in tasks:
        if items.units == items.rows:
            rows_without_contents.update(items.rows)
    if rows_without_contents:
        rows = np.concatenate([items.rows or items.units or items.ids for items in tasks])
        units = _with_joined_units(units, rows, rows_without_contents)
    ends = np.cumsum([len(items.ids) for items in tasks])[:-1]
    return np.split(units, ends)


def _with_joined_units(
    units: NDArray[np.intp], rows: NDArray[np.str_], joining_rows: set[str]
) -> NDArray[np.intp]:
    """Join the units of items that have one of the ``joining_rows`` in common, and number all units anew."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    _, row_numbers = np.unique(rows, return_inverse=True)
    joins = np.isin(rows, list(joining_rows))
    # The nodes of a graph are the units, then the rows: every item that joins links its unit with its row.
    n_units = int(units.max()) + 1
    n_nodes = n_units + len(row_numbers)
    links = (units[joins], n_units + row_numbers[joins])
    graph = coo_array((np.ones(joins.sum()), links), (n_nodes, n_nodes))
    _, components = connected_components(graph, directed=False)
    _, joined_units = np.unique(components[units], return_inverse=True)
    return joined_units


def _group_correction(units: NDArray[np.intp], texts: csr_array) -> float:
    """Return the factor of a task's influences that corrects their variance for the number of groups.

    The influences of n units sum to 0, which makes their variance too small by a share of pairs / n², if ``pairs``
    ordered pairs of units are neighbours: a G-th for G equal groups. ``corrected_for_sample_size`` has already
    corrected for an n-th.
    """
    distinct = np.unique(units)
    n = len(distinct)
    pairs = SharedTexts(with_private_texts(texts, distinct)).n_neighbours
    if not pairs < n**2:
        return 1.0
    return sqrt((n - 1) * n / (n**2 - pairs))
