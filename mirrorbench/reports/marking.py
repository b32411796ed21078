"""Confidence intervals and ties for the cells of a table.

An encoder is tied where a paired test against the best one of the column, Holm-corrected, is not significant. The best
is chosen on the same items, so the test separates slightly too often (multiple comparisons with the best: Hsu 1984).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from mirrorbench.reports.statistics import PairedTest
from mirrorbench.reports.statistics.encoders import drawn_means, paired_p, suited
from mirrorbench.reports.statistics.items import ItemScores, common
from mirrorbench.reports.statistics.resampling import FloatArray
from mirrorbench.reports.statistics.significance import LEVEL, bootstrap_p, holm, percentile_interval
from mirrorbench.reports.table import INTERVALS, Table

if TYPE_CHECKING:
    from mirrorbench.core.plugins import Plugins

TABLE_RESAMPLES = 2_000
"""Resamples for a cell: fewer than in a comparison, since a table has many cells and prints three digits."""


class Marker:
    """Marks cells from the items of their results (by ``cell_id``); cells without items stay unmarked."""

    def __init__(
        self, table: Table, items: Mapping[str, ItemScores], plugins: Plugins, resamples: int = TABLE_RESAMPLES
    ) -> None:
        self._table, self._plugins, self._resamples = table, plugins, resamples
        names = [column.name for column in table.columns]
        self._parts = [[names.index(n) for n in c.average_of] or [i] for i, c in enumerate(table.columns)]
        self._seeds = {  # the items of each seed, by row and task
            (r, c): [items[cell] for cell in score.cell_ids]
            for r, row in enumerate(table.rows)
            for c, score in enumerate(row.scores)
            if score is not None and all(cell in items for cell in score.cell_ids)
        }
        self._drawn: dict[tuple[int, int], FloatArray] = {}

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
                f"{INTERVALS}: {LEVEL:.0%} percentile bootstrap over items ({self._resamples:,} resamples), given the "
                "seeds; not the deviation over seeds; of averages, tasks are resampled independently."
            )
        if ties:
            notes.append(
                "Tied: not separable from the best of its column by a paired test over items (McNemar for right and "
                "wrong answers of one seed each, permutation for other means and correlations, bootstrap for AUC and "
                f"averages), Holm-corrected within the column, level {1 - LEVEL:.2f}."
            )
        unknown = {
            column.title: None
            for c, column in enumerate(table.columns)
            if any(row.spec and row.scores[c] and not self._known(r, c) for r, row in enumerate(table.rows))
        }
        if (intervals or ties) and unknown:
            notes.append(
                f"Not marked, since their metric cannot be computed anew from predictions: {', '.join(unknown)}."
            )
        return replace(table, rows=tuple(rows), notes=(*table.notes, *notes))

    def _known(self, row: int, column: int) -> bool:
        return self._table.rows[row].scores[column] is not None and all(
            self._seeds.get((row, task)) for task in self._parts[column]
        )

    def _draw(self, row: int, task: int) -> FloatArray:
        """A cell's resampled means: rows with the same items share resamples, tasks are resampled independently."""
        if (row, task) not in self._drawn:
            self._drawn[row, task] = drawn_means(self._seeds[row, task], self._plugins, self._resamples, task)
        return self._drawn[row, task]

    def _interval(self, row: int, column: int) -> tuple[float, float] | None:
        if not self._known(row, column):
            return None
        interval = percentile_interval(np.mean([self._draw(row, task) for task in self._parts[column]], axis=0))
        return (interval.low, interval.high) if interval else None

    def _tied(self, column: int) -> set[int]:
        """Rows that are not separable from the best of the column, without the best."""
        scores = enumerate(row.scores[column] for row in self._table.rows)
        means = {row: score.mean for row, score in scores if score is not None and self._known(row, column)}
        if len(means) < 2:
            return set()
        best = max(means, key=means.__getitem__)
        p = {row: p for row in means if row != best and (p := self._p(best, row, column)) is not None}
        return {row for row, corrected in zip(p, holm(list(p.values())), strict=True) if corrected >= 1 - LEVEL}

    def _p(self, best: int, other: int, column: int) -> float | None:
        """The p-value of the paired test of two rows."""
        tasks = self._parts[column]
        if tasks == [column]:
            a, b = common([self._seeds[best, column], self._seeds[other, column]])
            if not a[0].ids:
                return None
            test = suited(PairedTest.auto, a, b)
            if test is not PairedTest.bootstrap:
                return paired_p(a, b, test, self._resamples, column)
        return bootstrap_p(np.mean([self._difference(best, other, task) for task in tasks], axis=0))

    def _difference(self, best: int, other: int, task: int) -> FloatArray:
        """The difference of two rows on the same resamples of their common items."""
        mine, theirs = self._seeds[best, task], self._seeds[other, task]
        if len({items.ids for items in (*mine, *theirs)}) == 1:
            return self._draw(best, task) - self._draw(other, task)
        a, b = (drawn_means(s, self._plugins, self._resamples, task) for s in common([mine, theirs]))
        return a - b
