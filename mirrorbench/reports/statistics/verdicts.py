"""Tests of differences between rows: numbers, corrections and caveats of verdicts; intervals and ties of a table.

A leaderboard corrects the p-values of all steps in a column together (Holm 1979). An encoder is tied if its difference
from the best of the column is not significant; the test is corrected for the choice of the best among all rows.
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

    The interval is corrected for the verdict's ``n_tests`` (Bonferroni): for best rows, the pairs that they are chosen
    from. Equality is tested if the verdict has a margin for it. A verdict with a reason against its test is returned
    unchanged; without a p-value, the verdict gets such a reason.

    Args:
        verdict: a verdict that is not tested yet.
        comparisons: the comparisons of the table's rows.
        row: the row that the verdict is on.
        over: the row that it is compared with.
        tasks: the tasks of the verdict's column.
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
    # Bonferroni: the error that the interval allows is shared by all tests.
    level = 1 - (1 - LEVEL) / verdict.n_tests
    return replace(
        verdict,
        interval=estimate.interval(level),
        p=estimate.p,
        unseen=comparisons.compare_unseen(row, over, tasks),
    )


def _finite(value: float) -> float | None:
    """Return a number, or ``None`` for NaN and infinity."""
    return value if isfinite(value) else None


def with_corrections(verdicts: Sequence[Verdict], families: Sequence[Hashable]) -> list[Verdict]:
    """Return tested verdicts with corrected p-values, in the same order.

    Verdicts on best rows are corrected for the number of pairs that the rows are chosen from (Bonferroni), all others
    for the verdicts of their family (Holm 1979).

    Args:
        verdicts: in any order.
        families: the family of each verdict.
    """
    corrected = list(verdicts)
    members: dict[Hashable, list[int]] = {}
    for index, (verdict, family) in enumerate(zip(verdicts, families, strict=True)):
        if verdict.best:
            corrected[index] = _with_bonferroni_correction(verdict)
        else:
            members.setdefault(family, []).append(index)
    for indices in members.values():
        corrected_members = _with_holm_correction([verdicts[index] for index in indices])
        for index, verdict in zip(indices, corrected_members, strict=True):
            corrected[index] = verdict
    return corrected


def _with_bonferroni_correction(verdict: Verdict) -> Verdict:
    n_tests = verdict.n_tests
    p = _multiplied(verdict.p, n_tests)
    p_of_equality = _multiplied(_p_of_equality_to_correct(verdict), n_tests)
    return _with_corrected_p(verdict, p, n_tests, p_of_equality, n_tests)


def _multiplied(p: float | None, n_tests: int) -> float | None:
    return None if p is None else min(1.0, p * n_tests)


def _with_holm_correction(verdicts: Sequence[Verdict]) -> list[Verdict]:
    """Correct the verdicts of a family; their differences and their equalities are corrected separately."""
    p_values = [verdict.p for verdict in verdicts]
    n_tests = max(1, sum(p is not None for p in p_values))
    equality_p_values = [_p_of_equality_to_correct(verdict) for verdict in verdicts]
    n_equalities = sum(p is not None for p in equality_p_values)
    corrected = []
    for verdict, p, p_of_equality in zip(
        verdicts, holm(p_values), holm(equality_p_values), strict=True
    ):
        corrected.append(_with_corrected_p(verdict, p, n_tests, p_of_equality, n_equalities))
    return corrected


def _p_of_equality_to_correct(verdict: Verdict) -> float | None:
    """Return the p-value of an equality as a member of its family; ``None`` if no equality is asked for.

    It is 1 if the items do not suffice for a test: that depends on the data, and so the equality counts as tested.
    """
    if verdict.equality is None:
        return None
    return 1.0 if verdict.equality.p is None else verdict.equality.p


def _with_corrected_p(
    verdict: Verdict, p: float | None, n_tests: int, p_of_equality: float | None, n_equalities: int
) -> Verdict:
    """Return the verdict with corrected p-values of its difference and its equality, and with their significance."""
    separable = p is not None and p < 1 - LEVEL
    equality = verdict.equality
    if equality and equality.p is not None and p_of_equality is not None:
        shown = p_of_equality < 1 - LEVEL
        equality = replace(equality, corrected=p_of_equality, n_tests=n_equalities, shown=shown)
    return replace(verdict, corrected=p, separable=separable, n_tests=n_tests, equality=equality)


def seeds_of_rows(table: Table, items: Mapping[str, ItemScores]) -> dict[tuple[RowKey, str], Seeds]:
    """Return the items of each seed by row and task; a score that lacks the items of a seed is left out.

    Args:
        table: the table.
        items: the items of results, by cell id.
    """
    seeds: dict[tuple[RowKey, str], Seeds] = {}
    for row in table.rows:
        for column, score in zip(table.columns, row.scores, strict=True):
            if score is None or column.average_of or not score.cell_ids:
                continue
            if not all(cell_id in items for cell_id in score.cell_ids):
                continue
            items_of_seeds: dict[int, ItemScores] = {}
            for (seed, _), cell_id in zip(score.seeds, score.cell_ids, strict=True):
                items_of_seeds[seed] = items[cell_id]
            seeds[row.key, column.name] = items_of_seeds
    return seeds


class TableTests:
    """Intervals, ties and verdicts of a table, from the items behind its scores; scores without items have none.

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
        """Return the table with the requested intervals and ties, and notes that explain them.

        A warning names the columns with scores that cannot be marked.
        """
        columns = self._table.columns
        # Rows that are tied with the best one, for each column.
        tied: list[set[RowKey]] = [set() for _ in columns]
        if ties:
            tied = [self._tied(index) for index in range(len(columns))]
        # Columns in which an encoder's score has no items.
        unmarked: set[int] = set()
        rows = []
        for row in self._table.rows:
            scores: list[Score | None] = []
            for index, (column, score) in enumerate(zip(columns, row.scores, strict=True)):
                if score is None:
                    scores.append(None)
                    continue
                has_items = self._has_items(row.key, column.name)
                if row.spec and not has_items:
                    unmarked.add(index)
                interval = None
                if intervals and has_items:
                    estimate = self._comparisons.estimate(row.key, self._tasks[column.name])
                    interval = estimate.interval()
                scores.append(replace(score, interval=interval, tied=row.key in tied[index]))
            rows.append(replace(row, scores=tuple(scores)))
        notes = []
        if intervals:
            notes.append(
                f"[low, high]: {LEVEL:.0%} interval over items, and over seeds where there are several."
            )
        if ties:
            notes.append(
                "Tied: not separable from the best of its column; the test is corrected for the choice of the best."
            )
        warnings = []
        if unmarked and (intervals or ties):
            titles = ", ".join(dict.fromkeys(columns[index].title for index in sorted(unmarked)))
            warnings.append(
                f"Not marked, since stored predictions do not yield the score: {titles.rstrip('.')}"
            )
        return replace(
            self._table,
            rows=tuple(rows),
            notes=(*self._table.notes, *notes),
            warnings=(*self._table.warnings, *warnings),
        )

    def verdicts(
        self, steps: Sequence[Verdict], families: Sequence[Hashable] | None = None
    ) -> list[Verdict]:
        """Return the verdicts on steps, tested and corrected.

        Args:
            steps: verdicts that are not tested yet.
            families: the family of each step; p-values of a family are corrected together. By default a column is one.
        """
        verdicts = []
        for step in steps:
            row, over = self._table.rows_of(step)
            tasks = self._tasks[step.column]
            verdicts.append(tested(step, self._comparisons, row.key, over.key, tasks))
        return with_corrections(verdicts, families or [step.column for step in steps])

    def notes_on_matching(self, verdicts: Sequence[Verdict], marked: bool) -> list[str]:
        """Return ``notes_on_matching`` if averages are marked with intervals or ties, or have verdicts."""
        averages = {column.name for column in self._table.columns if column.average_of}
        has_verdicts = any(
            verdict.column in averages and verdict.p is not None for verdict in verdicts
        )
        if not averages or not (marked or has_verdicts):
            return []
        rows = [row.key for row in self._table.rows]
        titles = {column.name: column.title for column in self._table.task_columns}
        return notes_on_matching(self._comparisons, rows, titles, self._plugins)

    def with_item_counts(self, column: Column) -> Column:
        """Return the column with the largest number of items behind its scores, and the largest share of seen ones."""
        sizes = []
        seen_shares = []
        for row in self._table.rows:
            for items in self._comparisons.items(row.key, column.name):
                sizes.append(len(items.ids))
                seen_shares.append(len(items.seen) / max(1, len(items.ids)))
        if not sizes:
            return column
        return replace(column, n_items=max(sizes), seen=max(seen_shares))

    def _has_items(self, row: RowKey, column: str) -> bool:
        return self._comparisons.known(row, self._tasks[column])

    def _tied(self, column: int) -> set[RowKey]:
        """Return the rows that are not separable from the best of a column (its index), the best not included."""
        name = self._table.columns[column].name
        means: dict[RowKey, float] = {}
        for row in self._table.rows:
            score = row.scores[column]
            if row.spec and score:
                means[row.key] = score.mean
        best = max(means, key=means.__getitem__, default=None)
        if best is None or not self._has_items(best, name):
            return set()
        others = [key for key in means if key != best and self._has_items(key, name)]
        return tied_with_best(self._comparisons, best, others, self._tasks[name])


def notes_on_matching(
    comparisons: Comparisons, rows: Sequence[RowKey], titles: Mapping[str, str], plugins: Plugins
) -> list[str]:
    """Return a note on the tasks whose items are matched with those of other tasks by file and row, if there are any.

    Args:
        comparisons: the comparisons of the rows.
        rows: the rows whose scores are averaged over the tasks.
        titles: titles of the tasks, by name.
        plugins: plugins with the tasks.
    """
    matched_by_row = []
    for task, title in titles.items():
        # The ids of such a task say which items are equal.
        if task in plugins.tasks and plugins.tasks[task].identifies:
            continue
        contents = [items.content for row in rows for items in comparisons.items(row, task)]
        contents_are_unknown = all(content is None for content in contents)
        if contents and contents_are_unknown:
            matched_by_row.append(title)
    if not matched_by_row:
        return []
    return [
        f"Items of {', '.join(matched_by_row)} are matched with those of other tasks by file and row, not by their texts: "
        "earlier versions did not store these, and folders number own texts differently."
    ]


def tied_with_best(
    comparisons: Comparisons, best: RowKey, others: Sequence[RowKey], tasks: Sequence[str]
) -> set[RowKey]:
    """Return the rows among ``others`` that are not separable from the best row, which was chosen by its score.

    The p-values of the differences from the best row are corrected for its choice (``corrected_for_choice``).
    """
    p_values = []
    for row in others:
        comparison = comparisons.compare(best, row, tasks)
        p = comparison.p
        # A difference without any error, such as that of all right and all wrong answers, is certain.
        if p is None and comparison.difference > 0:
            p = 0.0
        p_values.append(p)
    corrected = corrected_for_choice(p_values, comparisons.covariance([best, *others], tasks))
    return {row for row, p in zip(others, corrected, strict=True) if p is None or p >= 1 - LEVEL}


def with_verdicts(table: Table, verdicts: Sequence[Verdict]) -> Table:
    """Return the table with verdicts, and notes that explain them."""
    notes = []
    if any(verdict.p is not None for verdict in verdicts):
        notes.append(
            f"Verdicts: {LEVEL:.0%} interval of the difference over items, and over seeds where there are several; in "
            f"brackets the number of tests that p is corrected for, and p corrected. {_sentence_on_intervals(verdicts)}"
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


def _sentence_on_intervals(verdicts: Sequence[Verdict]) -> str:
    if any(verdict.best for verdict in verdicts):
        return (
            "Intervals are not corrected for the number of tests, except those of best rows, which like their p are "
            "corrected for the choice."
        )
    return "Intervals are not corrected for the number of tests."
