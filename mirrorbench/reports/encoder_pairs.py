"""The comparison of two encoders on each task that both have, and on average."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from mirrorbench.core.errors import UsageError
from mirrorbench.reports.comparable import Stored, incomparable, newest_shared
from mirrorbench.reports.encoder_comparison import EncoderComparison, TaskComparison
from mirrorbench.reports.leaderboard import build_table
from mirrorbench.reports.selection import Choice, read_items, select
from mirrorbench.reports.statistics.comparisons import Comparisons, RowKey, Seeds
from mirrorbench.reports.statistics.equality import requested_equality
from mirrorbench.reports.statistics.items import ItemScores, items_of
from mirrorbench.reports.statistics.steps import find_steps, with_caveats
from mirrorbench.reports.statistics.verdicts import (
    TableTests,
    notes_on_matching,
    seeds_of_rows,
    tested,
    with_corrections,
)
from mirrorbench.reports.table import AVERAGE, Equality, Table, Verdict
from mirrorbench.storage.results import Result

if TYPE_CHECKING:
    from mirrorbench.core.plugins import Plugins

_Results = dict[str, list[list[Result]]]
"""For each task the results of the seeds of A, and those of B."""
_MOST_NAMED = 4
"""The largest number of other tests that a note lists."""


def compare_encoders(
    first: Sequence[Stored],
    second: Sequence[Stored],
    tasks: Sequence[str],
    plugins: Plugins,
    allow_mixed: bool = False,
    folder: Path | None = None,
    margin: float | None = None,
) -> EncoderComparison:
    """Compare two encoders on those of the ``tasks`` that both have, and on the average of these.

    The p-values of tasks are corrected for each other. The p-value of the average is corrected as below the
    leaderboard of all results in the folder; without a folder it is not corrected. A task whose scores cannot be
    computed from stored predictions is left out, with a note.

    Args:
        first: results of encoder A, at least one.
        second: results of encoder B, at least one.
        tasks: names of tasks.
        plugins: plugins with the metrics.
        allow_mixed: also compare results of different data or protocols.
        folder: the folder with the results of both encoders.
        margin: also test whether the encoders are equal within this margin, between 0 and 1.

    Raises:
        UsageError: the results are not comparable, the encoders have no task in common, or the margin is not between 0
            and 1.
    """
    equality = requested_equality(margin)
    sides, notes = newest_shared([first, second])
    stored_by_task = _stored_by_task(sides, tasks)
    shared = {task: both for task, both in stored_by_task.items() if all(both)}

    # Results that do not belong together are only compared if the user allows it.
    reasons = _reasons_against_comparison(shared)
    if reasons and not allow_mixed:
        raise UsageError(
            "these results do not belong together:\n  " + "\n  ".join(reasons),
            "Run one of them again, choose with --protocol or --tasks, or compare them all the same: --allow-mixed",
        )
    notes += [f"not comparable: {reason}" for reason in reasons]
    notes += _notes_on_single_encoders(stored_by_task)
    pair = _read_pair(shared, plugins)
    notes += pair.notes
    # Without the tasks whose scores cannot be computed from predictions.
    results = pair.results
    if not results:
        raise UsageError(
            "there is no task on which both can be compared"
            + "".join(f"\n  {note}" for note in notes)
        )

    # The verdicts on the tasks.
    comparisons = Comparisons(pair.items, plugins)
    board = _Board.of(folder, results, plugins) if folder else _Board()
    verdicts = _verdicts_on_tasks(results, comparisons, board, equality)
    task_comparisons = [_task_comparison(verdict, comparisons, results) for verdict in verdicts]
    n_others = board.count_others(verdicts)
    if n_others:
        tests = f"{n_others} other {'test' if n_others == 1 else 'tests'}"
        on_tasks = "this task" if len(results) == 1 else "these tasks"
        notes.append(
            f"The leaderboard of {folder} has {tests} on {on_tasks}, for which p is not corrected here."
        )

    # The verdict on the average over several tasks.
    average = None
    if len(results) > 1:
        verdict, other_steps = _verdict_on_average(pair, comparisons, board, equality, plugins)
        average = _task_comparison(verdict, comparisons, results)
        titles = {task: task for task in results}
        notes += notes_on_matching(comparisons, "AB", titles, plugins)
        # A verdict on best rows is corrected for their choice instead, as ``note_on_numbers`` says.
        if other_steps and not verdict.best:
            notes.append(board.note_on_correction(other_steps))

    table_of_first = _table_of_encoder(0, results, plugins)
    table_of_second = _table_of_encoder(1, results, plugins)
    return EncoderComparison(
        tasks=tuple(task_comparisons),
        average=average,
        notes=tuple(notes),
        rows=(table_of_first.rows[0], table_of_second.rows[0]),
        columns=table_of_first.columns,
        banner=table_of_first.banner or table_of_second.banner,
    )


def _verdicts_on_tasks(
    results: _Results, comparisons: Comparisons, board: _Board, equality: Equality | None
) -> list[Verdict]:
    """Return the tested verdict on each task, corrected for the others (``_corrected_over_tasks``)."""
    verdicts = []
    for task in results:
        untested = board.with_best_mark(_untested(task, results, equality))
        verdicts.append(_tested(untested, comparisons, results))
    return _corrected_over_tasks(verdicts)


def _verdict_on_average(
    pair: _Pair,
    comparisons: Comparisons,
    board: _Board,
    equality: Equality | None,
    plugins: Plugins,
) -> tuple[Verdict, list[Verdict]]:
    """Return the tested verdict on the average, and the other steps in the leaderboard's average.

    The p-value of the verdict is corrected together with those of the other steps.
    """
    untested = board.with_best_mark(_untested(AVERAGE, pair.results, equality))
    verdict = _tested(untested, comparisons, pair.results)
    steps = board.steps_in_average(plugins, pair.items_by_cell)
    other_steps = [step for step in steps if not _on_same_rows(step, verdict)]
    family = [verdict, *other_steps]
    corrected, *_ = with_corrections(family, ["average"] * len(family))
    return corrected, other_steps


def _stored_by_task(
    sides: Sequence[Sequence[Stored]], tasks: Sequence[str]
) -> dict[str, tuple[list[Stored], list[Stored]]]:
    """Return the stored results of A and of B on each task."""
    first, second = sides
    by_task = {}
    for task in tasks:
        of_first = [entry for entry in first if entry.result.task == task]
        of_second = [entry for entry in second if entry.result.task == task]
        by_task[task] = (of_first, of_second)
    return by_task


def _notes_on_single_encoders(
    stored_by_task: Mapping[str, tuple[Sequence[Stored], Sequence[Stored]]],
) -> list[str]:
    """Return notes on the tasks that only one of the encoders has."""
    only_first = []
    only_second = []
    for task, (of_first, of_second) in stored_by_task.items():
        if of_first and not of_second:
            only_first.append(task)
        if of_second and not of_first:
            only_second.append(task)
    notes = []
    if only_first:
        notes.append(f"only A has: {', '.join(only_first)}")
    if only_second:
        notes.append(f"only B has: {', '.join(only_second)}")
    return notes


@dataclass(frozen=True)
class _Pair:
    """The results of A and B on the tasks on which they can be compared, and their items.

    Attributes:
        results: the results of A and of B, by task.
        items: the items of each seed, by encoder (``"A"`` or ``"B"``) and task.
        items_by_cell: the items of all results that have some, by cell id.
        notes: notes on tasks that cannot be compared.
    """

    results: _Results = field(default_factory=dict)
    items: dict[tuple[RowKey, str], Seeds] = field(default_factory=dict)
    items_by_cell: dict[str, ItemScores] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def _read_pair(stored_by_task: Mapping[str, Sequence[Sequence[Stored]]], plugins: Plugins) -> _Pair:
    """Return the results and items of A and B; leave out tasks on which a result has no items, with a note.

    Args:
        stored_by_task: the stored results of A, and those of B, on each task.
        plugins: plugins with the metrics.
    """
    pair = _Pair()
    for task, sides in stored_by_task.items():
        items_of_sides: list[dict[int, ItemScores]] = []
        is_complete = True
        for side in sides:
            items_by_seed: dict[int, ItemScores] = {}
            for entry in side:
                items = items_of(entry, plugins)
                if items is None:
                    # The score of this seed cannot be computed from its predictions. Other items are read all the same:
                    # ``items_by_cell`` serves the leaderboard too.
                    is_complete = False
                    continue
                items_by_seed[entry.result.seed] = items
                pair.items_by_cell[entry.result.cell_id] = items
            items_of_sides.append(items_by_seed)
        if not is_complete:
            pair.notes.append(
                f"{task}: not compared, since a score is undefined or cannot be computed from its predictions"
            )
            continue
        first, second = sides
        results_of_first = [entry.result for entry in first]
        results_of_second = [entry.result for entry in second]
        pair.results[task] = [results_of_first, results_of_second]
        pair.items["A", task], pair.items["B", task] = items_of_sides
    return pair


def _corrected_over_tasks(verdicts: Sequence[Verdict]) -> list[Verdict]:
    """Correct the verdicts on tasks for each other, and those on best rows for the choice of these rows.

    Of the two corrections of best rows, the one with the larger p-value is kept: of the difference and, separately, of
    the equality.
    """
    # All verdicts are one family here; those on best rows would otherwise be left out of it.
    not_best = [replace(verdict, best=False) for verdict in verdicts]
    corrected = with_corrections(not_best, ["tasks"] * len(verdicts))
    for index, verdict in enumerate(verdicts):
        if not verdict.best or verdict.p is None:
            continue
        (corrected_for_choice,) = with_corrections([verdict], ["choice"])
        corrected_for_tasks = replace(corrected[index], best=True)
        alternatives = (corrected_for_choice, corrected_for_tasks)
        stricter = max(alternatives, key=lambda verdict: verdict.corrected or 0.0)
        equalities = [verdict.equality for verdict in alternatives if verdict.equality]
        equality = max(equalities, key=lambda equality: equality.corrected or 0.0, default=None)
        corrected[index] = replace(stricter, equality=equality)
    return corrected


def _untested(column: str, results: _Results, equality: Equality | None) -> Verdict:
    """Return the verdict on a task, or on the average of all tasks, without numbers."""
    results_by_task = [results[task] for task in _tasks_of_column(column, results)]
    seeds_of_first, seeds_of_second = results_by_task[0]
    first = seeds_of_first[0]
    second = seeds_of_second[0]
    verdict = Verdict(first.spec, second.spec, first.protocol, column, equality=equality)
    # ``compare_encoders`` has reported the reasons against a comparison, which the user allows all the same.
    return replace(with_caveats(verdict, results_by_task), why_not="")


def _tasks_of_column(column: str, results: _Results) -> list[str]:
    return list(results) if column == AVERAGE else [column]


def _tested(verdict: Verdict, comparisons: Comparisons, results: _Results) -> Verdict:
    return tested(verdict, comparisons, "A", "B", _tasks_of_column(verdict.column, results))


def _task_comparison(
    verdict: Verdict, comparisons: Comparisons, results: _Results
) -> TaskComparison:
    tasks = _tasks_of_column(verdict.column, results)
    metric = "" if verdict.column == AVERAGE else results[tasks[0]][0][0].main_metric
    comparison = comparisons.compare("A", "B", tasks)
    return TaskComparison(**vars(comparison), task=verdict.column, metric=metric, test=verdict)


@dataclass(frozen=True)
class _Board:
    """The leaderboard of a folder on the compared tasks; empty without a folder."""

    table: Table = field(default_factory=lambda: Table("", (), ()))
    steps: Sequence[Verdict] = ()
    """The verdicts of the table, which are not tested yet."""
    stored: Sequence[Stored] = ()
    """The results behind the table."""

    @classmethod
    def of(cls, folder: Path, results: _Results, plugins: Plugins) -> _Board:
        """Return the leaderboard of a folder under the protocol of A; an empty one if the results cannot be mixed."""
        protocol = next(iter(results.values()))[0][0].protocol
        choice = Choice(tuple(results), protocol=protocol)
        try:
            stored, rows, _ = select([folder], plugins, choice)
        except UsageError:
            return cls()
        results_of_board = [entry.result for entry in stored]
        table = build_table(results_of_board, plugins, tuple(results), rows)
        return cls(table, find_steps(table, results_of_board), stored)

    def with_best_mark(self, verdict: Verdict) -> Verdict:
        """Return an untested verdict; if its rows are the best ones of its column, mark it so."""
        for step in self.steps:
            if step.best and step.column == verdict.column and _on_same_rows(step, verdict):
                return replace(verdict, best=True, n_tests=step.n_tests)
        return verdict

    def count_others(self, verdicts: Sequence[Verdict]) -> int:
        """Count the tests of other rows in the columns of some verdicts."""
        verdict_of_column = {verdict.column: verdict for verdict in verdicts}
        count = 0
        for step in self.steps:
            verdict = verdict_of_column.get(step.column)
            if verdict and not _on_same_rows(step, verdict):
                count += 1
        return count

    def steps_in_average(
        self, plugins: Plugins, items_by_cell: Mapping[str, ItemScores]
    ) -> list[Verdict]:
        """Return the tested verdicts on steps in the average; an empty list if the board has none.

        Args:
            plugins: plugins with the metrics.
            items_by_cell: the items that were read already, by cell id.
        """
        steps = [step for step in self.steps if step.column == AVERAGE and not step.best]
        if not steps:
            return []
        unread = [entry for entry in self.stored if entry.result.cell_id not in items_by_cell]
        items = {**items_by_cell, **read_items(unread, plugins)}
        tests = TableTests(self.table, seeds_of_rows(self.table, items), plugins)
        return tests.verdicts(steps)

    def note_on_correction(self, others: Sequence[Verdict]) -> str:
        """Return a note on the other tests that p of the average is corrected for."""
        labels = {row.spec: row.label for row in self.table.rows}
        pairs = [f"{labels[other.spec]} over {labels[other.over]}" for other in others]
        listed = pairs[:_MOST_NAMED]
        if len(pairs) > _MOST_NAMED:
            listed.append(f"{len(pairs) - _MOST_NAMED} more")
        return f"p of the average: corrected for other steps of the leaderboard too ({'; '.join(listed)})."


def _on_same_rows(first: Verdict, second: Verdict) -> bool:
    """Test whether two verdicts are on the same two rows, in either order."""
    same_specs = {first.spec, first.over} == {second.spec, second.over}
    return same_specs and first.protocol == second.protocol


def _table_of_encoder(index: int, results: _Results, plugins: Plugins) -> Table:
    """Return the leaderboard of encoder A (``index`` 0) or B (1)."""
    results_of_encoder = [result for pair in results.values() for result in pair[index]]
    return build_table(results_of_encoder, plugins, tuple(results))


def _reasons_against_comparison(pairs: Mapping[str, Sequence[Sequence[Stored]]]) -> list[str]:
    """Return reasons why the results of two encoders on tasks cannot be compared."""
    reasons = []
    for task, pair in pairs.items():
        results = [entry.result for side in pair for entry in side]
        reasons += [f"{task}: {reason}" for reason in incomparable(results)]
    for task, pair in pairs.items():
        for name, side in zip("AB", pair, strict=True):
            if len({entry.result.experiment for entry in side}) > 1:
                reasons.append(f"{task}: the seeds of {name} differ in recipe, corpus or precision")
    return reasons
