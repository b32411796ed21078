"""A leaderboard of stored results: which of them, with which statistics."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, dataclass, replace
from pathlib import Path

from mirrorbench.core.errors import UsageError
from mirrorbench.core.plugins import Plugins
from mirrorbench.reports.build import build_table
from mirrorbench.reports.leaderboard import Leaderboard
from mirrorbench.reports.papers.reading import find_table
from mirrorbench.reports.papers.tables import PaperTable
from mirrorbench.reports.selection import EVERYTHING, Choice, select
from mirrorbench.reports.table import read_table
from mirrorbench.runs.plan import papers_row


@dataclass(frozen=True)
class Statistics:
    """What is computed from per-item predictions: intervals, ties, scores without items that were tuned on."""

    intervals: bool = False
    ties: bool = False
    without_overlap: bool = False


def stored_leaderboard(
    sources: Sequence[Path], choice: Choice, plugins: Plugins, statistics: Statistics, paper_table: str = ""
) -> Leaderboard:
    """The leaderboard of the results in folders, or the one table in a file that the format ``json`` wrote.

    With ``paper_table`` rows, columns and metrics are those of a table of the papers, where the choice leaves them
    open. What cannot be shown is a ``UsageError``.
    """
    choice = _laid_out(choice, paper_table) if paper_table else choice
    if files := [path for path in sources if path.is_file()]:
        if len(sources) > 1:
            raise UsageError(f"{files[0]} is a table, and stands for itself", "Name it alone, or folders of results.")
        if choice != EVERYTHING or any(astuple(statistics)):
            raise UsageError(f"{files[0]} is a finished table", "Selections and statistics need folders of results.")
        return Leaderboard(read_table(files[0]), (), (), plugins)
    selection = select(sources, plugins, choice)
    results, notes = list(selection.results), list(selection.notes)
    items = selection.items(plugins) if any(astuple(statistics)) else {}
    if statistics.without_overlap:
        from mirrorbench.reports.statistics.items import without_overlap

        results, items, lines = without_overlap(results, items, plugins)
        notes += lines
    table = build_table(results, plugins, choice.tasks, selection.rows)
    if statistics.intervals or statistics.ties:
        from mirrorbench.reports.marking import Marker

        table = Marker(table, items, plugins).mark(statistics.intervals, statistics.ties)
    return Leaderboard(replace(table, notes=(*table.notes, *notes)), tuple(results), (), plugins)


def _laid_out(choice: Choice, name: str) -> Choice:
    """The choice with the tasks, encoders and metrics of a table of the papers, where it leaves them open."""
    found = find_table(name)
    targets = list(found.targets().values()) if isinstance(found, PaperTable) else []
    if not targets:
        raise UsageError(f"{name} has no scores that a run could measure", "mirrorbench paper lists the tables.")
    metrics = {task: target.metric for target in targets for task in target.tasks}
    rows = tuple(dict.fromkeys(papers_row(target.spec, choice.protocol) for target in targets))
    return replace(choice, tasks=choice.tasks or tuple(metrics), rows=rows, metrics=choice.metrics or metrics)
