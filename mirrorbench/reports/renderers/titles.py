"""Titles of leaderboards; one without a title is named after what it compares."""

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
    """Return the encoders and tasks of a table, named if they are few, and else counted."""
    encoders = list(dict.fromkeys(row.label for row in table.rows if row.spec))
    tasks = []
    for head, column in zip(table.heads(), table.columns, strict=True):
        if not column.average_of:
            tasks.append(head)
    if not encoders or not tasks:
        return DEFAULT_TITLE
    suites = {column.suite for column in table.task_columns}
    count_of_tasks = f"{len(tasks)} tasks"
    if len(suites) == 1 and "" not in suites:
        count_of_tasks += f" of {suites.pop()}"
    count_of_encoders = f"{len(encoders)} encoders"
    return f"{_names_or_count(encoders, count_of_encoders)} on {_names_or_count(tasks, count_of_tasks)}"


def _names_or_count(names: Sequence[str], count: str) -> str:
    """Return a few names with ``and`` before the last one; return ``count`` for more names."""
    if len(names) > _MOST_NAMED:
        return count
    *others, last = names
    return f"{', '.join(others)} and {last}" if others else last
