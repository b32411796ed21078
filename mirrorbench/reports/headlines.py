"""The verdicts that stand in a leaderboard's first notes: its largest gain, and its largest loss."""

from __future__ import annotations

from dataclasses import dataclass

from mirrorbench.reports.table import Table, Verdict


@dataclass(frozen=True, slots=True)
class Headlines:
    """At most three verdicts; ``None`` where there is none of its kind.

    Attributes:
        gain: the best tuned row against the untuned row that it changes, on the longest tested average, else on the
            task with the largest significant gain. A table without tuned rows has the best transformed row instead.
        over_best: the best tuned row of a backbone against its best untuned row, where that is another one.
        loss: the largest significant loss of a row against the row that it changes, in any column.
    """

    gain: Verdict | None = None
    over_best: Verdict | None = None
    loss: Verdict | None = None


def headlines(table: Table) -> Headlines:
    """Choose from the tested verdicts of a table."""
    rows = {(row.spec, row.protocol): row for row in reversed(table.rows)}
    tested = [v for v in table.verdicts if v.p is not None and {(v.spec, v.protocol), (v.over, v.protocol)} <= {*rows}]
    columns = {column.name: index for index, column in enumerate(table.columns)}
    tuned = [v for v in tested if rows[v.spec, v.protocol].tuned and not rows[v.over, v.protocol].tuned]
    first = tuned or [v for v in tested if not any(row.tuned for row in table.rows)]
    longest = sorted(table.columns, key=lambda column: -len(column.average_of))
    averages = [c.name for c in longest if c.average_of and any(v.column == c.name for v in first)]
    shown = set(averages[:1]) or {column.name for column in longest if not column.average_of}

    def score(verdict: Verdict) -> float:
        cell = rows[verdict.spec, verdict.protocol].scores[columns[verdict.column]]
        return cell.mean if cell else float("-inf")

    def weight(verdict: Verdict) -> tuple[bool, float]:
        difference = verdict.difference or 0.0
        return (verdict.separable and difference > 0, difference) if len(shown) > 1 else (True, score(verdict))

    gain = max((v for v in first if v.column in shown and not v.best), key=weight, default=None)
    best = [v for v in first if v.column in ({gain.column} if gain else shown) and v.best]
    losses = [v for v in tested if not v.best and v.separable and v is not gain and (v.difference or 0.0) < 0]
    over_best = max(best, key=score if gain else weight, default=None)
    return Headlines(gain, over_best, min(losses, key=lambda v: v.difference or 0.0, default=None))
