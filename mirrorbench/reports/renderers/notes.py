"""The notes below a table: verdicts, measurements, warnings."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple

from mirrorbench.reports.renderers.numbers import TIED, metric_words, number
from mirrorbench.reports.renderers.verdicts import (
    Line,
    Names,
    Show,
    column_phrase,
    headline,
    names_of,
    sentence,
    signed,
)
from mirrorbench.reports.table import Table, Verdict

MOST_LINES = 6
"""The largest number of notes with ``--notes short``."""
_MOST_TASKS = 4
"""The largest number of tasks that are listed beside their average."""
MORE = "All tests and settings: --notes all"


class Headlines(NamedTuple):
    """The verdicts in the first notes of a leaderboard; ``None`` where it has none."""

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
        own = [
            verdict for verdict in candidates if verdict.column in columns and verdict.best == best
        ]
        return max(own, key=score_of if len(columns) == 1 else gain_of, default=None)

    averages = [
        c for c in table.columns if c.average_of and any(v.column == c.name for v in candidates)
    ]
    longest = max(averages, key=lambda column: len(column.average_of), default=None)
    columns = [longest.name] if longest else [column.name for column in table.task_columns]
    gain = strongest(columns, best=False)
    over_best = strongest([gain.column] if gain else columns, best=True)
    losses = [
        v
        for v in tested
        if not v.best and v.separable and v is not gain and (v.difference or 0.0) < 0
    ]
    return Headlines(gain, over_best, min(losses, key=lambda v: v.difference or 0.0, default=None))


def note_lines(table: Table, show: Show = number) -> list[Line]:
    """Return the notes at the level ``table.shown``; ``show`` formats a score.

    All notes begin with the short ones, in full: what the first screen says is found in every file.
    """
    if table.shown == "none":
        return []
    if table.layout != "leaderboard":
        lines: list[Line] = [("", note) for note in table.notes]
        if table.shown == "all" or len(lines) <= MOST_LINES:
            return lines
        return [*lines[: MOST_LINES - 1], ("", MORE)]
    if table.shown == "all":
        return [*_summary(table, show, sentence), *_other_lines(table, show)]
    return [*_short_lines(table, show), ("", f"{_uncorrected(table)}{MORE}")]


def answer_lines(table: Table, show: Show = number) -> list[Line]:
    """Return the notes of a leaderboard that a page shows above the table: the short ones, unless none are shown."""
    if table.shown == "none" or table.layout != "leaderboard":
        return []
    return _short_lines(table, show)


def _short_lines(table: Table, show: Show) -> list[Line]:
    lines = [_first_sentence(line) for line in summary_lines(table, show)]
    return lines[: MOST_LINES - 1]


def _uncorrected(table: Table) -> str:
    """A sentence on the intervals of headlines with several tests; empty without any."""
    chosen = [verdict for verdict in headlines(table) if verdict]
    if not any(verdict.n_tests > 1 and not verdict.best for verdict in chosen):
        return ""
    if any(verdict.best for verdict in chosen):
        return "Intervals are for one test each, except the best row's. "
    return "Intervals are for one test each. "


def summary_lines(table: Table, show: Show = number) -> list[Line]:
    """Return at most three verdicts of a leaderboard, a line on the measurement, and warnings."""
    return _summary(table, show, headline)


def _summary(table: Table, show: Show, say: Callable[[Verdict, Names, Show], Line]) -> list[Line]:
    chosen = [verdict for verdict in headlines(table) if verdict]
    lines = []
    for verdict in chosen:
        mark, text = say(verdict, names_of(table, verdict), show)
        lines.append((mark, text + _without_gain(table, verdict)))
    if leader := _leader(table, chosen, show):
        lines.append(("", leader))
    return [*lines, *_measured(table), *_warnings(table, chosen, show)]


def _leader(table: Table, verdicts: Sequence[Verdict], show: Show) -> str:
    """A sentence on the row with the best score on the longest average, or on the only task, and on the second one.

    Empty where a headline is about the best row, where no two rows have a score, and without such a column.
    """
    averages = [column for column in table.columns if column.average_of]
    longest = max(averages, key=lambda column: len(column.average_of), default=None)
    if longest is None and len(table.columns) != 1:
        return ""
    column = longest or table.columns[0]
    at = table.columns.index(column)
    scored = [row for row in table.rows if row.spec and row.scores[at]]
    scored.sort(key=lambda row: row.scores[at].mean, reverse=True)  # type: ignore[union-attr]
    if len(scored) < 2:
        return ""
    best, second = scored[:2]
    if any(best in table.rows_of(verdict) for verdict in verdicts):
        return ""
    values = [show(row.scores[at].mean) for row in (best, second)]  # type: ignore[union-attr]
    where = column_phrase(column, table.columns)
    tied = [row.label for row in scored[1:] if row.scores[at].tied]  # type: ignore[union-attr]
    certain = f"not separable from {', '.join(tied)}" if tied else "not tested against it"
    return f"Best{where}: {best.label} {values[0]}, then {second.label} {values[1]}; {certain}"


def _first_sentence(line: Line) -> Line:
    """A warning's first sentence; other lines are one sentence."""
    mark, text = line
    return (mark, re.split(r"\.\s", text)[0]) if mark == "!" else line


def _without_gain(table: Table, gain: Verdict) -> str:
    """The other tasks, if any, on which the row with a gain on one task has no significant one."""
    titles = {column.name: column.title for column in table.task_columns}
    if gain.best or gain.answer != "better" or gain.column not in titles:
        return ""
    same = [
        v
        for v in table.verdicts
        if (v.spec, v.protocol, v.best) == (gain.spec, gain.protocol, False)
    ]
    none = [
        titles[v.column] for v in same if v.p is not None and not v.separable and v.column in titles
    ]
    return f"; no separable difference on {', '.join(none)}" if none else ""


def _measured(table: Table) -> list[Line]:
    """Tasks, metrics, numbers of items and of seeds, in one line."""
    tasks = table.task_columns
    if not tasks:
        return []
    metrics = Counter(column.metric for column in tasks)
    parts = [
        metric_words(name) + (f" ({n})" if len(metrics) > 1 else "")
        for name, n in metrics.items()
        if name
    ]
    if n_items := sum(column.n_items for column in tasks):
        parts.append(f"{n_items:,} {_items(table)}")
    text = f"{table.heads()[0] if len(tasks) == 1 else f'{len(tasks)} tasks'}: {', '.join(parts)}"
    seeds = sorted({score.n for row in table.rows if row.tuned for score in row.scores if score})
    if seeds == [1]:
        text += "; one seed (--seeds 3 for more)"
    elif seeds:
        text += f"; {' to '.join(map(str, dict.fromkeys((seeds[0], seeds[-1]))))} seeds (±)"
    if _has_tied(table):
        text += f"; {TIED} not separable from the best"
    return [("", text)]


def _has_tied(table: Table) -> bool:
    return any(score and score.tied for row in table.rows for score in row.scores)


def _items(table: Table) -> str:
    """The word for the test items of all tasks."""
    items = {column.items for column in table.task_columns}
    return items.pop() if len(items) == 1 else "items"


def _warnings(table: Table, verdicts: Sequence[Verdict], show: Show) -> list[Line]:
    """Reasons to distrust the table, and the share of items with a text of a tuning corpus.

    With what is left without these of the ``verdicts`` in the lines above, in their order.
    """
    lines = [("!", warning) for warning in table.warnings]
    seen = [(verdict, verdict.unseen) for verdict in verdicts if verdict.unseen]
    if seen:
        first, unseen = seen[0]
        left = [signed(rest, show) for _, rest in seen if rest.p is not None]
        text = _share_seen(table, first.column, unseen.share)
        lines.append(("!", f"{text} (without them {'; '.join(left)})" if left else text))
    elif table.task_columns:
        most = max(table.task_columns, key=lambda task: task.seen)
        if most.seen:
            lines.append(("!", _share_seen(table, most.name, most.seen)))
    return lines


def _share_seen(table: Table, column: str, share: float) -> str:
    """The share of the items of a column with a text of a tuning corpus; an average and the only task are not named."""
    tasks = table.task_columns
    titles = [task.title for task in tasks if task.name == column]
    on = f" on {titles[0]}" if titles and len(tasks) > 1 else ""
    return f"{share:.0%} of the {_items(table)}{on} contain a text of the tuning corpus"


def _other_lines(table: Table, show: Show) -> list[Line]:
    """The other verdicts of a leaderboard and its notes; a dagger that is used is explained."""
    chosen = headlines(table)
    lines = [
        sentence(verdict, names_of(table, verdict), show)[1]
        for verdict in table.verdicts
        if verdict not in chosen and not _is_averaged(table, verdict)
    ]
    tied = _has_tied(table)
    for note in table.notes:
        if not note.startswith("Tied"):
            lines.append(note)
        elif tied:
            lines.append(f"{TIED} {note}")
    return [("", line) for line in lines]


def _is_averaged(table: Table, verdict: Verdict) -> bool:
    """Whether a verdict on an average over many tasks of the same rows stands for this one."""
    rows = (verdict.spec, verdict.over, verdict.protocol, verdict.best)
    tested = {
        own.column
        for own in table.verdicts
        if not own.why_not and (own.spec, own.over, own.protocol, own.best) == rows
    }
    return any(
        verdict.column in column.average_of
        for column in table.columns
        if column.name in tested and len(column.average_of) > _MOST_TASKS
    )
