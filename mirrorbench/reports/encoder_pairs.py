"""The comparison of two encoders on each task that both have, and on average."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from mirrorbench.core.errors import UsageError
from mirrorbench.reports.comparable import incomparable, newest_shared
from mirrorbench.reports.encoder_comparison import EncoderComparison, TaskComparison
from mirrorbench.reports.leaderboard import build_table
from mirrorbench.reports.selection import Choice, read_items, select
from mirrorbench.reports.statistics.comparisons import Comparisons, RowKey, Seeds
from mirrorbench.reports.statistics.equality import asked_for
from mirrorbench.reports.statistics.items import ItemScores, items_of
from mirrorbench.reports.statistics.steps import find_steps, with_caveats
from mirrorbench.reports.statistics.verdicts import (
    Marker,
    notes_on_matching,
    seeds_of_rows,
    tested,
    with_corrections,
)
from mirrorbench.reports.table import AVERAGE, Equality, Table, Verdict
from mirrorbench.storage.results import Result

if TYPE_CHECKING:
    from mirrorbench.core.plugins import Plugins
    from mirrorbench.reports.comparable import Stored


_Results = dict[str, list[list[Result]]]
"""For each task the results of the seeds of A, and those of B."""


def compare_encoders(
    first: Sequence[Stored],
    second: Sequence[Stored],
    tasks: Sequence[str],
    plugins: Plugins,
    allow_mixed: bool = False,
    folder: Path | None = None,
    margin: float | None = None,
) -> EncoderComparison:
    """Compare two encoders on those of the ``tasks`` that both have.

    P-values of tasks are corrected for each other. That of the average is corrected as below the leaderboard of all
    results in the folder, or not at all without one.

    Args:
        first: results of encoder A.
        second: results of encoder B.
        tasks: names of tasks.
        plugins: plugins with the metrics.
        allow_mixed: also compare results of different data or protocols.
        folder: the folder with the results of both.
        margin: within which they are tested to be equal too, between 0 and 1.

    Raises:
        UsageError: results are not comparable, there is no task on which both have some, or the margin is none.
    """
    equality = asked_for(margin)
    sides, notes = newest_shared([first, second])
    pairs = {
        task: [[entry for entry in side if entry.result.task == task] for side in sides]
        for task in tasks
    }
    shared = {task: pair for task, pair in pairs.items() if all(pair)}
    mixed = _mixed(shared)
    if mixed and not allow_mixed:
        raise UsageError(
            "these results do not belong together:\n  " + "\n  ".join(mixed),
            "Run one of them again, choose with --protocol or --tasks, or compare them all the same: --allow-mixed",
        )
    notes += [f"not comparable: {reason}" for reason in mixed]
    for name, side in (("A", 0), ("B", 1)):
        if only := [task for task, pair in pairs.items() if pair[side] and not pair[1 - side]]:
            notes.append(f"only {name} has: {', '.join(only)}")
    both = _items_of_both(shared, plugins)
    notes += both.notes
    compared = both.results
    if not compared:
        raise UsageError(
            "there is no task on which both can be compared" + "".join(f"\n  {n}" for n in notes)
        )
    comparisons = Comparisons(both.items, plugins)
    board = _Board.of(folder, compared, plugins) if folder else _Board()
    verdicts = [
        _tested(board.like(_untested(task, compared, equality)), comparisons, compared)
        for task in compared
    ]
    verdicts = _corrected_over_tasks(verdicts)
    if n := board.count_others(verdicts):
        tests = f"{n} other {'test' if n == 1 else 'tests'}"
        notes.append(
            f"The leaderboard of {folder} has {tests} on {'this task' if len(compared) == 1 else 'these tasks'}, "
            "for which p is not corrected here."
        )
    average = None
    if len(compared) > 1:
        others = board.other_steps(plugins, both.by_cell)
        verdict = board.like(_untested(AVERAGE, compared, equality))
        verdict = _tested(verdict, comparisons, compared)
        others = [other for other in others if not _same_rows(other, verdict)]
        (verdict, *_) = with_corrections([verdict, *others], ["average"] * (1 + len(others)))
        average = _row(verdict, comparisons, compared)
        notes += notes_on_matching(comparisons, "AB", {task: task for task in compared}, plugins)
        if others and not verdict.best:
            notes.append(board.note(others))
        verdicts.append(verdict)
    first_table, second_table = (_table_of(side, compared, plugins) for side in (0, 1))
    return EncoderComparison(
        tuple(_row(verdict, comparisons, compared) for verdict in verdicts[: len(compared)]),
        average,
        tuple(notes),
        (first_table.rows[0], second_table.rows[0]),
        first_table.columns,
        first_table.banner or second_table.banner,
    )


@dataclass(frozen=True)
class _Both:
    """The results of A and B on each task that can be compared, and their items, each read once.

    Attributes:
        results: by task.
        items: of each seed by encoder, A or B, and task.
        by_cell: the same by cell id.
        notes: on tasks that cannot be compared.
    """

    results: _Results = field(default_factory=dict)
    items: dict[tuple[RowKey, str], Seeds] = field(default_factory=dict)
    by_cell: dict[str, ItemScores] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def _items_of_both(tasks: Mapping[str, Sequence[Sequence[Stored]]], plugins: Plugins) -> _Both:
    both = _Both()
    for task, sides in tasks.items():
        read: list[dict[int, ItemScores]] = []
        complete = True
        for side in sides:
            seeds: dict[int, ItemScores] = {}
            for entry in side:
                items = items_of(entry, plugins)
                if items is None:
                    complete = False
                    continue
                seeds[entry.result.seed] = items
                both.by_cell[entry.result.cell_id] = items
            read.append(seeds)
        if not complete:
            both.notes.append(
                f"{task}: not compared, since a score is undefined or cannot be computed from its predictions"
            )
            continue
        both.results[task] = [[entry.result for entry in side] for side in sides]
        both.items["A", task], both.items["B", task] = read
    return both


def _corrected_over_tasks(verdicts: Sequence[Verdict]) -> list[Verdict]:
    """Correct the verdicts on tasks for each other; those on best rows for their choice, if that corrects p more."""
    plain = [replace(verdict, best=False) for verdict in verdicts]
    corrected = with_corrections(plain, ["tasks"] * len(plain))
    for index, verdict in enumerate(verdicts):
        if verdict.best and verdict.p is not None:
            (chosen,) = with_corrections([verdict], ["choice"])
            over_tasks = replace(corrected[index], best=True)
            strictest = chosen
            if (chosen.corrected or 0.0) < (over_tasks.corrected or 0.0):
                strictest = over_tasks
            equalities = (chosen.equality, over_tasks.equality)
            equality = max(
                filter(None, equalities), key=lambda own: own.corrected or 0.0, default=None
            )
            corrected[index] = replace(strictest, equality=equality)
    return corrected


def _untested(column: str, results: _Results, equality: Equality | None) -> Verdict:
    """The verdict on a task, or on the average of all; whether results differ in protocol was decided before."""
    sides = [results[task] for task in _tasks(column, results)]
    first, second = (side[0] for side in sides[0])
    verdict = Verdict(first.spec, second.spec, first.protocol, column, equality=equality)
    return replace(with_caveats(verdict, sides), why_not="")


def _tasks(column: str, results: _Results) -> list[str]:
    return list(results) if column == AVERAGE else [column]


def _tested(verdict: Verdict, comparisons: Comparisons, results: _Results) -> Verdict:
    return tested(verdict, comparisons, "A", "B", _tasks(verdict.column, results))


def _row(verdict: Verdict, comparisons: Comparisons, results: _Results) -> TaskComparison:
    tasks = _tasks(verdict.column, results)
    metric = "" if verdict.column == AVERAGE else results[tasks[0]][0][0].main_metric
    comparison = comparisons.compare("A", "B", tasks)
    return TaskComparison(**vars(comparison), task=verdict.column, metric=metric, test=verdict)


@dataclass(frozen=True)
class _Board:
    """The leaderboard of a folder on the compared tasks, and its verdicts, which are not tested yet."""

    table: Table = field(default_factory=lambda: Table("", (), ()))
    steps: Sequence[Verdict] = ()
    stored: Sequence[Stored] = ()

    @classmethod
    def of(cls, folder: Path, results: _Results, plugins: Plugins) -> _Board:
        """Return that of a folder; an empty one where its results do not belong into one table."""
        protocol = next(iter(results.values()))[0][0].protocol
        try:
            stored, rows, _ = select([folder], plugins, Choice(tuple(results), protocol=protocol))
        except UsageError:
            return cls()
        known = [entry.result for entry in stored]
        table = build_table(known, plugins, tuple(results), rows)
        return cls(table, find_steps(table, known), stored)

    def like(self, verdict: Verdict) -> Verdict:
        """Return an untested verdict with the choice behind it, if its rows are the best ones of its column."""
        for step in self.steps:
            if step.best and step.column == verdict.column and _same_rows(step, verdict):
                return replace(verdict, best=True, n_tests=step.n_tests)
        return verdict

    def count_others(self, verdicts: Sequence[Verdict]) -> int:
        """Count the tests of other rows in the columns of some verdicts."""
        by_column = {verdict.column: verdict for verdict in verdicts}
        return sum(
            step.column in by_column and not _same_rows(step, by_column[step.column])
            for step in self.steps
        )

    def other_steps(self, plugins: Plugins, by_cell: Mapping[str, ItemScores]) -> list[Verdict]:
        """Return the tested verdicts on steps in the average; items that are known by cell id are not read again."""
        steps = [step for step in self.steps if step.column == AVERAGE and not step.best]
        if not steps:
            return []
        unread = [entry for entry in self.stored if entry.result.cell_id not in by_cell]
        items = {**by_cell, **read_items(unread, plugins)}
        return Marker(self.table, seeds_of_rows(self.table, items), plugins).verdicts(steps)

    def note(self, others: Sequence[Verdict]) -> str:
        """Return a note on the other tests that p of the average is corrected for."""
        labels = {row.spec: row.label for row in self.table.rows}
        pairs = [f"{labels[other.spec]} over {labels[other.over]}" for other in others]
        more = f"; {len(pairs) - _NAMED} more" if len(pairs) > _NAMED else ""
        named = "; ".join(pairs[:_NAMED])
        return (
            f"p of the average: corrected for other steps of the leaderboard too ({named}{more})."
        )


_NAMED = 4
"""The largest number of other tests that a note lists."""


def _same_rows(one: Verdict, other: Verdict) -> bool:
    return {one.spec, one.over} == {other.spec, other.over} and one.protocol == other.protocol


def _table_of(side: int, results: _Results, plugins: Plugins) -> Table:
    """The leaderboard of one of the two encoders."""
    own = [result for sides in results.values() for result in sides[side]]
    return build_table(own, plugins, tuple(results))


def _mixed(pairs: Mapping[str, Sequence[Sequence[Stored]]]) -> list[str]:
    """Reasons why the results of two encoders on tasks cannot be compared."""
    reasons = []
    for task, pair in pairs.items():
        reasons += [
            f"{task}: {reason}"
            for reason in incomparable([entry.result for side in pair for entry in side])
        ]
    for task, pair in pairs.items():
        for name, side in zip("AB", pair, strict=True):
            if len({entry.result.experiment for entry in side}) > 1:
                reasons.append(f"{task}: the seeds of {name} differ in recipe, corpus or precision")
    return reasons
