"""Tests of differences between rows: numbers, corrections and caveats of verdicts; intervals and ties of a table.

A leaderboard corrects the p-values of the steps in a column for each other (Holm). An encoder is tied where its
difference to the best of the column, corrected for the choice of the best among all rows, is not significant.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from math import isfinite
from typing import TYPE_CHECKING

from mirrorbench.reports.statistics import LEVEL
from mirrorbench.reports.statistics.best_of_many import corrected_for_choice
from mirrorbench.reports.statistics.comparisons import Comparisons, RowKey, Seeds
from mirrorbench.reports.statistics.equality import equality_within
from mirrorbench.reports.statistics.estimates import holm
from mirrorbench.reports.statistics.items import ItemScores
from mirrorbench.reports.table import Column, Score, Table, Verdict

if TYPE_CHECKING:
    from mirrorbench.core.plugins import Plugins

WITHOUT_OVERLAP = (
    "Without overlap: on the items without a text that either row was tuned on; p is not corrected."
)
"""The note on differences on unseen items."""
EQUAL = "Equal within a margin: two one-sided tests, each at 2.5 %, of differences that rest on enough items."
"""The note on equality."""
THIS_MODEL = "This model: tuned with one seed; other seeds may differ (--seeds 3)."
"""The note on verdicts about a single tuned model."""
TWO_SEEDS = "Two seeds: if they differ much, equal encoders differ significantly in up to 10 % of cases (--seeds 3)."
"""The note on verdicts about two tuned models."""


def tested(
    verdict: Verdict, comparisons: Comparisons, row: RowKey, over: RowKey, tasks: Sequence[str]
) -> Verdict:
    """Return a verdict with the numbers of the comparison of two rows over tasks; p is not corrected yet.

    The interval of best rows is corrected for the ``n_tests`` pairs that they are chosen from. A verdict with a reason
    against its test stays as it is. Equality is tested where the verdict has a margin for it.
    """
    if verdict.why_not:
        return verdict
    if not (comparisons.known(row, tasks) and comparisons.known(over, tasks)):
        return replace(verdict, why_not="the score cannot be computed from stored predictions")
    comparison = comparisons.compare(row, over, tasks)
    estimate = comparison.estimate
    verdict = replace(
        verdict,
        difference=_finite(estimate.value),
        first=_finite(comparison.first.mean),
        second=_finite(comparison.second.mean),
        error=_finite(estimate.error),
        n=comparison.n,
        left_out=comparison.left_out,
    )
    if estimate.p is None:
        return replace(verdict, why_not="its error cannot be estimated")
    if verdict.equality:
        basis = comparisons.basis(row, over, tasks)
        equality = equality_within(estimate, basis, verdict.equality.margin)
        verdict = replace(verdict, equality=equality)
    return replace(
        verdict,
        interval=estimate.interval(1 - (1 - LEVEL) / verdict.n_tests),
        p=estimate.p,
        unseen=comparisons.compare_unseen(row, over, tasks),
    )


def _finite(value: float) -> float | None:
    return value if isfinite(value) else None


def with_corrections(verdicts: Sequence[Verdict], families: Sequence[Hashable]) -> list[Verdict]:
    """Return tested verdicts with corrected p-values.

    Args:
        verdicts: in any order. Those on best rows are corrected for the pairs that they are chosen from (Bonferroni).
        families: of each verdict; the others are corrected for those of the same family (Holm).
    """
    corrected = [
        _judged(
            v, _by_number(v.p, v.n_tests), v.n_tests, _by_number(_p_equal(v), v.n_tests), v.n_tests
        )
        for v in verdicts
    ]
    members: dict[Hashable, list[int]] = {}
    for index, (verdict, family) in enumerate(zip(verdicts, families, strict=True)):
        if not verdict.best:
            members.setdefault(family, []).append(index)
    for indices in members.values():
        p_values = [verdicts[index].p for index in indices]
        p_equal = [_p_equal(verdicts[index]) for index in indices]
        n_tests, n_equal = (sum(p is not None for p in own) for own in (p_values, p_equal))
        for index, p, equal in zip(indices, holm(p_values), holm(p_equal), strict=True):
            corrected[index] = _judged(verdicts[index], p, max(1, n_tests), equal, n_equal)
    return corrected


def _p_equal(verdict: Verdict) -> float | None:
    """The p-value of an equality; 1 where the items cannot say, since that depends on them."""
    if verdict.equality is None:
        return None
    return 1.0 if verdict.equality.p is None else verdict.equality.p


def _by_number(p: float | None, n_tests: int) -> float | None:
    """The p-value by Bonferroni's correction."""
    return None if p is None else min(1.0, p * n_tests)


def _judged(
    verdict: Verdict, p: float | None, n_tests: int, p_equal: float | None, n_equal: int
) -> Verdict:
    """The verdict with the corrected p-values of its difference and of its equality."""
    separable = p is not None and p < 1 - LEVEL
    equality = verdict.equality
    if equality and equality.p is not None and p_equal is not None:
        shown = p_equal < 1 - LEVEL
        equality = replace(equality, corrected=p_equal, n_tests=n_equal, shown=shown)
    return replace(verdict, corrected=p, separable=separable, n_tests=n_tests, equality=equality)


def seeds_of_rows(table: Table, items: Mapping[str, ItemScores]) -> dict[tuple[RowKey, str], Seeds]:
    """Return the items of each seed by row and task; scores of which a result has no items (by cell id) are left out."""
    seeds: dict[tuple[RowKey, str], Seeds] = {}
    for row in table.rows:
        for column, score in zip(table.columns, row.scores, strict=True):
            if score is None or column.average_of or not score.cell_ids:
                continue
            if all(cell_id in items for cell_id in score.cell_ids):
                seeds[row.key, column.name] = {
                    seed: items[cell_id]
                    for (seed, _), cell_id in zip(score.seeds, score.cell_ids, strict=True)
                }
    return seeds


class Marker:
    """Tests of a table's scores by the items behind them; scores without items stay unmarked.

    Args:
        table: the table.
        seeds: the items of each seed by row and task.
        plugins: plugins with the metrics.
    """

    def __init__(
        self, table: Table, seeds: Mapping[tuple[RowKey, str], Seeds], plugins: Plugins
    ) -> None:
        self._table = table
        self._tasks = {column.name: column.tasks for column in table.columns}
        self._comparisons = Comparisons(seeds, plugins)
        self._plugins = plugins

    def with_marks(self, intervals: bool = False, ties: bool = False) -> Table:
        """Return the table with the requested intervals and ties, and notes that explain them."""
        tied = [self._tied(c) if ties else set() for c in range(len(self._table.columns))]
        unknown: dict[int, str] = {}
        rows = []
        for row in self._table.rows:
            scores: list[Score | None] = []
            for c, (column, score) in enumerate(zip(self._table.columns, row.scores, strict=True)):
                if score:
                    known, interval = self._known(row.key, column.name), None
                    if intervals and known:
                        interval = self._comparisons.estimate(
                            row.key, self._tasks[column.name]
                        ).interval()
                    if row.spec and not known:
                        unknown[c] = column.title
                    score = replace(score, interval=interval, tied=row.key in tied[c])
                scores.append(score)
            rows.append(replace(row, scores=tuple(scores)))
        notes = [
            f"[low, high]: {LEVEL:.0%} interval over items, and over seeds where there are several."
        ] * intervals
        notes += [
            "Tied: not separable from the best of its column, which is corrected for the choice of the best."
        ] * ties
        warnings = []
        if unknown and (intervals or ties):
            titles = ", ".join(dict.fromkeys(unknown[c] for c in sorted(unknown)))
            warnings = [
                f"Not marked, since stored predictions do not yield the score: {titles.rstrip('.')}"
            ]
        return replace(
            self._table,
            rows=tuple(rows),
            notes=(*self._table.notes, *notes),
            warnings=(*self._table.warnings, *warnings),
        )

    def verdicts(
        self, steps: Sequence[Verdict], families: Sequence[Hashable] | None = None
    ) -> list[Verdict]:
        """Test steps of the table; their families are by default the columns."""
        numbers = []
        for step in steps:
            row, over = (row.key for row in self._table.rows_of(step))
            tasks = self._tasks[step.column]
            numbers.append(tested(step, self._comparisons, row, over, tasks))
        return with_corrections(numbers, families or [step.column for step in steps])

    def notes_on_matching(self, verdicts: Sequence[Verdict], marked: bool) -> list[str]:
        """Return ``notes_on_matching`` if the table has averages and ``marked`` scores or verdicts on them."""
        averages = {column.name for column in self._table.columns if column.average_of}
        judged = any(v.column in averages and v.p is not None for v in verdicts)
        if not averages or not (marked or judged):
            return []
        return notes_on_matching(
            self._comparisons,
            [row.key for row in self._table.rows],
            {column.name: column.title for column in self._table.task_columns},
            self._plugins,
        )

    def counted(self, column: Column) -> Column:
        """Return the column with the number of items behind its scores, and the largest share of seen ones."""
        own = [
            items
            for row in self._table.rows
            for items in self._comparisons.items(row.key, column.name)
        ]
        if not own:
            return column
        seen = max(len(items.seen) / max(1, len(items.ids)) for items in own)
        return replace(column, n_items=max(len(items.ids) for items in own), seen=seen)

    def _known(self, row: RowKey, column: str) -> bool:
        return self._comparisons.known(row, self._tasks[column])

    def _tied(self, column: int) -> set[RowKey]:
        """Rows that are not separable from the best of the column, without the best."""
        name = self._table.columns[column].name
        scores = {row.key: row.scores[column] for row in self._table.rows if row.spec}
        means = {row: score.mean for row, score in scores.items() if score}
        best = max(means, key=means.__getitem__, default=None)
        if best is None or not self._known(best, name):
            return set()
        others = [row for row in means if row != best and self._known(row, name)]
        return tied_with_best(self._comparisons, best, others, self._tasks[name])


def notes_on_matching(
    comparisons: Comparisons, rows: Sequence[RowKey], titles: Mapping[str, str], plugins: Plugins
) -> list[str]:
    """Return a note on the tasks whose items are matched with equal ones of other tasks by file and row.

    Args:
        comparisons: of the rows.
        rows: that are averaged over the tasks.
        titles: of the tasks, by name.
        plugins: plugins with the tasks.
    """
    by_row = []
    for task, title in titles.items():
        identifies = plugins.tasks[task].identifies if task in plugins.tasks else ""
        items = [own for row in rows for own in comparisons.items(row, task)]
        known = any(own.content is not None for own in items)
        if items and not known and not identifies:
            by_row.append(title)
    if not by_row:
        return []
    return [
        f"Items of {', '.join(by_row)} are matched with those of other tasks by file and row, not by their texts: "
        "earlier versions did not store these, and folders number own texts differently."
    ]


def tied_with_best(
    comparisons: Comparisons, best: RowKey, others: Sequence[RowKey], tasks: Sequence[str]
) -> set[RowKey]:
    """Return those of the other rows that are not separable from the best one, which was chosen by its score."""
    found = [comparisons.compare(best, row, tasks) for row in others]
    # A difference without any error, such as of all right and all wrong answers, is certain.
    p_values = [
        0.0 if comparison.p is None and comparison.difference > 0 else comparison.p
        for comparison in found
    ]
    corrected = corrected_for_choice(p_values, comparisons.covariance([best, *others], tasks))
    return {row for row, p in zip(others, corrected, strict=True) if p is None or p >= 1 - LEVEL}


def with_verdicts(table: Table, verdicts: Sequence[Verdict]) -> Table:
    """Return the table with verdicts, and notes that explain them."""
    notes = []
    if any(verdict.p is not None for verdict in verdicts):
        notes.append(
            f"Verdicts: {LEVEL:.0%} interval of the difference over items, and over seeds where there are several; in "
            f"brackets the number of tests that p is corrected for, and p corrected. {_what_is_corrected(verdicts)}"
        )
    notes += caveat_notes(verdicts)
    return replace(table, verdicts=tuple(verdicts), notes=(*table.notes, *notes))


def caveat_notes(verdicts: Sequence[Verdict]) -> list[str]:
    """Return notes that explain the caveats in the sentences of some verdicts."""
    notes = []
    if any(verdict.unseen for verdict in verdicts):
        notes.append(WITHOUT_OVERLAP)
    if any(verdict.equality and verdict.p is not None for verdict in verdicts):
        notes.append(EQUAL)
    if any(verdict.this_model and verdict.decided for verdict in verdicts):
        notes.append(THIS_MODEL)
    if any(verdict.two_seeds and verdict.decided for verdict in verdicts):
        notes.append(TWO_SEEDS)
    return notes


def _what_is_corrected(verdicts: Sequence[Verdict]) -> str:
    if any(verdict.best for verdict in verdicts):
        return (
            "Intervals are not corrected for the number of tests, except those of best rows, which like their p are "
            "corrected for the choice."
        )
    return "Intervals are not corrected for the number of tests."
