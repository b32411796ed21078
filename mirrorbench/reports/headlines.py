"""The verdicts that say what a leaderboard's tuning gained: of its best tuned row, and of the largest loss."""

from __future__ import annotations

from dataclasses import dataclass

from mirrorbench.reports.table import Row, Table, Verdict


@dataclass(frozen=True, slots=True)
class Headlines:
    """At most three verdicts; ``None`` where there is none of its kind.

    Attributes:
        gain: of the best tuned row over the untuned row that it changes; without a tuned row of the best changed one.
            On the longest tested average; of several tasks without one, where the significant gain is largest.
        over_best: of the best tuned row of a backbone over its best untuned row, where that is another one.
        loss: the largest significant loss of a row against the row that it changes, in any column.
    """

    gain: Verdict | None = None
    over_best: Verdict | None = None
    loss: Verdict | None = None


def headlines(table: Table) -> Headlines:
    """Choose from the tested verdicts of a table."""
    rows = {(row.spec, row.protocol): row for row in reversed(table.rows)}
    tested = [v for v in table.verdicts if v.p is not None and {(v.spec, v.protocol), (v.over, v.protocol)} <= {*rows}]
    columns = {column.name: place for place, column in enumerate(table.columns)}
    longest = sorted(table.columns, key=lambda column: -len(column.average_of))
    averages = [c.name for c in longest if c.average_of and any(v.column == c.name for v in tested)]
    shown = set(averages[:1]) or {column.name for column in longest if not column.average_of}

    def row(verdict: Verdict) -> Row:
        return rows[verdict.spec, verdict.protocol]

    def score(verdict: Verdict) -> float:
        found = row(verdict).scores[columns[verdict.column]]
        return found.mean if found else float("-inf")

    def weight(verdict: Verdict) -> tuple[bool, float]:
        difference = verdict.difference or 0.0
        return (verdict.separable and difference > 0, difference) if len(shown) > 1 else (True, score(verdict))

    steps = [v for v in tested if v.column in shown and not v.best and not rows[v.over, v.protocol].tuned]
    gain = max([v for v in steps if row(v).tuned] or steps, key=weight, default=None)
    best = [v for v in tested if gain and v.column == gain.column and v.best]
    best = [v for v in best if gain is None or (v.spec, v.over, v.protocol) != (gain.spec, gain.over, gain.protocol)]
    losses = [v for v in tested if not v.best and v.separable and v is not gain and (v.difference or 0.0) < 0]
    return Headlines(
        gain, max(best, key=score, default=None), min(losses, key=lambda v: v.difference or 0.0, default=None)
    )
