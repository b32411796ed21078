"""The title of a leaderboard that has none: what it compares."""

from __future__ import annotations

from collections.abc import Sequence

from mirrorbench.reports.table import Table

DEFAULT_TITLE = "Leaderboard"
"""The title of a table without encoders or tasks."""
_MOST_NAMED = 3
"""The largest number of encoders, or of tasks, that are named one by one."""


def title_of(table: Table) -> str:
    """Return the table's banner and title; without a title, the encoders and tasks that it compares.

    ``BERT-mp and BERT + Mirror on STS-b``, ``9 encoders on 7 tasks of sts``.
    """
    if table.title:
        return table.heading
    return ". ".join(filter(None, (table.banner, _subject(table))))


def _subject(table: Table) -> str:
    encoders = list(dict.fromkeys(row.label for row in table.rows if row.spec))
    heads = [head for head, c in zip(table.heads(), table.columns, strict=True) if not c.average_of]
    if not encoders or not heads:
        return DEFAULT_TITLE
    suites = {column.suite for column in table.task_columns}
    tasks = f"{len(heads)} tasks"
    if len(suites) == 1 and "" not in suites:
        tasks += f" of {suites.pop()}"
    return f"{_named(encoders, f'{len(encoders)} encoders')} on {_named(heads, tasks)}"


def _named(names: Sequence[str], counted: str) -> str:
    """Return a few names with ``and`` before the last one; ``counted`` for more."""
    if len(names) > _MOST_NAMED:
        return counted
    *others, last = names
    return f"{', '.join(others)} and {last}" if others else last
