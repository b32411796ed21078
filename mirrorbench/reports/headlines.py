"""The verdicts in a leaderboard's first notes: its largest gain and its largest loss."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from mirrorbench.reports.table import Table, Verdict


class Headlines(NamedTuple):
    """At most three verdicts; ``None`` where the table has none."""

    gain: Verdict | None
    """The best tuned row against the untuned row that it changes, on the longest tested average, else on the task with
    the largest significant gain. A table without tuned rows has the best transformed row instead."""
    over_best: Verdict | None
    """The best tuned row of a backbone against its best untuned row, where that is another one."""
    loss: Verdict | None
    """The largest significant loss of a row against the row that it changes, in any column."""


def headlines(table: Table) -> Headlines:
    """Choose the headlines among the tested verdicts of a table."""
    candidates = tested = [verdict for verdict in table.verdicts if verdict.p is not None]
    if any(row.tuned for row in table.rows):
        candidates = [v for v in tested if [row.tuned for row in table.rows_of(v)] == [True, False]]

    def gain_of(verdict: Verdict) -> tuple[bool, float]:
        difference = verdict.difference or 0.0
        return verdict.separable and difference > 0, difference

    def score_of(verdict: Verdict) -> float:
        row, _ = table.rows_of(verdict)
        score = row.scores[[column.name for column in table.columns].index(verdict.column)]
        return score.mean if score else float("-inf")

    def strongest(columns: Collection[str], best: bool) -> Verdict | None:
        own = [verdict for verdict in candidates if verdict.column in columns and verdict.best == best]
        return max(own, key=score_of if len(columns) == 1 else gain_of, default=None)

    averages = [c for c in table.columns if c.average_of and any(v.column == c.name for v in candidates)]
    longest = max(averages, key=lambda column: len(column.average_of), default=None)
    columns = [longest.name] if longest else [column.name for column in table.task_columns]
    gain = strongest(columns, best=False)
    over_best = strongest([gain.column] if gain else columns, best=True)
    losses = [v for v in tested if not v.best and v.separable and v is not gain and (v.difference or 0.0) < 0]
    return Headlines(gain, over_best, min(losses, key=lambda v: v.difference or 0.0, default=None))
