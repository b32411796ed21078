"""Marks the cells of a table: intervals, ties with the best of a column, and what a row gained over another.

An encoder is tied where a paired test against the best of the column, Holm-corrected within the column, is not
significant. The best is chosen on the same items, so the test separates slightly too often (multiple comparisons with
the best: Hsu 1984).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from mirrorbench.core.errors import UsageError
from mirrorbench.reports.statistics.comparisons import INDEPENDENT, Comparisons
from mirrorbench.reports.statistics.items import ItemScores
from mirrorbench.reports.statistics.resampling import LEVEL, RESAMPLES, corrected, enough
from mirrorbench.reports.table import Table, Verdict

if TYPE_CHECKING:
    from mirrorbench.core.plugins import Plugins


class Marker:
    """Marks cells from the items of their results (by ``cell_id``); cells without items stay unmarked."""

    def __init__(self, table: Table, items: Mapping[str, ItemScores], plugins: Plugins) -> None:
        self._table = table
        self._parts = [column.average_of or (column.name,) for column in table.columns]
        self._rows = Comparisons(
            {  # the items of each seed, by row and task
                (r, self._parts[c][0]): [items[cell] for cell in score.cell_ids]
                for r, row in enumerate(table.rows)
                for c, score in enumerate(row.scores)
                if score is not None and not table.columns[c].average_of and all(i in items for i in score.cell_ids)
            },
            plugins,
        )

    def mark(self, intervals: bool = False, ties: bool = False) -> Table:
        """The table with the requested intervals and ties, and notes that explain them."""
        table = self._table
        tied = [self._tied(column) if ties else set() for column in range(len(table.columns))]
        rows = []
        for r, row in enumerate(table.rows):
            scores = [
                s and replace(s, interval=self._interval(r, c) if intervals else None, tied=r in tied[c])
                for c, s in enumerate(row.scores)
            ]
            rows.append(replace(row, scores=tuple(scores)))
        notes = []
        if intervals:
            notes.append(
                f"[low, high]: {LEVEL:.0%} percentile bootstrap over items ({RESAMPLES // 5:,} resamples), wider where "
                "items share texts, given the seeds; not the deviation over seeds; of averages, tasks are resampled "
                "independently."
            )
        if ties:
            notes.append(
                "Tied: not separable from the best of its column by a paired test over items, Holm-corrected within "
                f"the column, level {1 - LEVEL:.2f}."
            )
        unknown = {
            column.title: None
            for c, column in enumerate(table.columns)
            if any(row.spec and row.scores[c] and not self._known(r, c) for r, row in enumerate(table.rows))
        }
        if (intervals or ties) and unknown:
            notes.append(f"Not marked, since no stored predictions give the score: {', '.join(unknown)}.")
        if intervals or ties:
            notes += self.unshared([((r,), c) for r in range(len(rows)) for c in range(len(table.columns))])
        return replace(table, rows=tuple(rows), notes=(*table.notes, *notes))

    def unshared(self, cells: Iterable[tuple[tuple[int, ...], int]]) -> list[str]:
        """A note on columns for whose rows it is not stored which items share texts."""
        tasks = {
            task: None
            for rows, c in sorted(cells, key=lambda cell: cell[1])
            for task in self._parts[c]
            if all(self._known(r, c) for r in rows) and self._rows.independent(rows, task)
        }
        return [f"{INDEPENDENT}: {', '.join(tasks)}."] if tasks else []

    def _known(self, row: int, column: int) -> bool:
        return self._table.rows[row].scores[column] is not None and self._rows.known(row, self._parts[column])

    def _interval(self, row: int, column: int) -> tuple[float, float] | None:
        interval = self._rows.interval(row, self._parts[column]) if self._known(row, column) else None
        return (interval.low, interval.high) if interval else None

    def verdict(self, row: int, over: int, column: int, why_not: str = "", comparisons: int = 1) -> Verdict:
        """What a row gained over another on the items that both have; not yet corrected for other ``comparisons``."""
        one, other = self._table.rows[row], self._table.rows[over]
        made = Verdict(one.spec, other.spec, one.protocol, self._table.columns[column].name, why_not=why_not)
        if not why_not and not (self._known(row, column) and self._known(over, column)):
            made = replace(made, why_not="no predictions that give the score")
        if made.why_not:
            return made
        try:
            found = self._rows.compare(row, over, self._parts[column], resamples=enough(comparisons))
        except UsageError as error:
            return replace(made, why_not=error.message)
        interval = (found.interval.low, found.interval.high) if found.interval else None
        return replace(
            made, difference=found.difference, interval=interval, test=found.test.value, p=found.p, bound=found.bound,
            why_not="the difference is undefined" if found.p is None else "",
        )  # fmt: skip

    def _tied(self, column: int) -> set[int]:
        """Rows that are not separable from the best of the column, without the best."""
        scores = enumerate(row.scores[column] for row in self._table.rows)
        means = {row: score.mean for row, score in scores if score is not None and self._known(row, column)}
        if len(means) < 2:
            return set()
        best = max(means, key=means.__getitem__)
        others = [row for row in means if row != best]
        p = corrected([self.verdict(best, row, column, comparisons=len(others)).p for row in others])
        return {row for row, value in zip(others, p, strict=True) if value is not None and value >= 1 - LEVEL}
