"""What the papers print more than once, computed again: averages, differences, and the same cell in two tables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import combinations

from mirrorbench.reports.papers.tables import PaperTable, Printed, Target

_FUZZ = 1e-9
"""For sums of floats that stand for decimal fractions."""


@dataclass(frozen=True, slots=True)
class Recomputed:
    """An average or difference that does not follow from the printed values, even if each was rounded.

    Attributes:
        row: number of the row, from 0.
        column: number of the column, from 0.
        value: what the printed values give, in the task's own unit.
    """

    row: int
    column: int
    value: float


@dataclass(frozen=True, slots=True)
class Twice:
    """The same encoder on the same tasks, printed with different values in two places: (table, row, column)."""

    first: tuple[str, int, int]
    second: tuple[str, int, int]


def inconsistencies(table: PaperTable) -> list[Recomputed]:
    """Averages and differences of a table that do not follow from its own printed values.

    A printed number stands for everything that is rounded to it; what is reported lies outside even so.
    """
    found = []
    for r, row in enumerate(table.printed):
        for c, printed in enumerate(row):
            parts = _parts(table, r, c)
            if printed.value is None or not parts:
                continue
            value = sum(weight * part.value for weight, part in parts if part.value is not None)
            slack = sum(abs(weight) * part.unit / 2 for weight, part in parts) + printed.unit / 2
            if abs(printed.value - value) > slack + _FUZZ:
                found.append(Recomputed(r, c, value))
    return found


def _parts(table: PaperTable, row: int, column: int) -> list[tuple[float, Printed]]:
    """The printed cells that a cell is computed from, with their weights; none if one of them has no number."""
    line, average, difference = table.printed[row], table.averaged(column), table.difference(column)
    parts: list[tuple[float, Printed]] = []
    if average:
        parts = [(1 / len(average), line[i]) for i in average]
    elif difference:
        first, second = difference
        if first != second:
            parts = [(1.0, line[first]), (-1.0, line[second])]
        elif (against := table.against(row)) is not None:
            parts = [(1.0, line[first]), (-1.0, table.printed[against][first])]
    return [] if any(part.value is None for _, part in parts) else parts


def disagreements(tables: Iterable[PaperTable]) -> list[Twice]:
    """Pairs of cells that measure the same and are printed with different values.

    Where one is printed with fewer digits, it is compared to that many.
    """
    places: dict[Target, list[tuple[tuple[str, int, int], Printed]]] = {}
    for table in tables:
        for place, target, printed in _numbers(table):
            places.setdefault(target, []).append((place, printed))
    found = []
    for cells in places.values():
        for (first, a), (second, b) in combinations(cells, 2):
            assert a.value is not None
            assert b.value is not None
            if abs(a.value - b.value) > (0 if a.unit == b.unit else max(a.unit, b.unit) / 2) + _FUZZ:
                found.append(Twice(first, second))
    return found


def _numbers(table: PaperTable) -> Iterator[tuple[tuple[str, int, int], Target, Printed]]:
    for (row, column), target in table.targets().items():
        printed = table.printed[row][column]
        if printed.value is not None:
            yield (table.name, row, column), target, printed
