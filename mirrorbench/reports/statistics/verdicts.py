"""Intervals, ties and verdicts of a leaderboard, and the comparison of two encoders.

A step of a ladder is tested in each column, and its p-value is Holm-corrected over the steps of the column. An encoder
is tied where its difference to the best of the column, Holm-corrected over the rows, is not significant. The best is
chosen on the same items, so the test separates slightly too often (multiple comparisons with the best: Hsu 1984).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from mirrorbench.core.errors import UsageError
from mirrorbench.core.specs import EncoderSpec, parse_spec
from mirrorbench.reports.comparable import incomparable, newest_shared, tuned_with_one_seed
from mirrorbench.reports.statistics import LEVEL
from mirrorbench.reports.statistics.comparisons import Comparison, Comparisons, RowKey, Seeds
from mirrorbench.reports.statistics.estimates import holm
from mirrorbench.reports.statistics.items import ItemScores, items_of
from mirrorbench.reports.table import Column, Score, Table, Unseen, Verdict
from mirrorbench.runs.ladder import POOLING_KEYS
from mirrorbench.runs.results import Result

if TYPE_CHECKING:
    from mirrorbench.core.plugins import Plugins
    from mirrorbench.reports.comparable import Stored

WITHOUT_OVERLAP = (
    "Without overlap: on the items without a text that either row was tuned on; p is not corrected."
)
"""The note on differences on unseen items."""
_NO_STEPS = {*POOLING_KEYS, "path", "model", "language"}
"""Settings that read the same model in another way, or name another model."""

Readout = tuple[str, str]
"""Pooling and layers of a row on a task."""
Step = tuple[Verdict, int]
"""An untested verdict, and the number of pairs from which its best rows are chosen; 0 for a step of a ladder."""
_Results = dict[tuple[RowKey, str], list[Result]]
"""Results of the seeds by row and task."""
_Pair = tuple[int, int, int]
"""Indices of a row, of the row below it, and of a column."""


def below(spec: EncoderSpec, readouts: Mapping[EncoderSpec, Readout]) -> EncoderSpec | None:
    """Return the row of the same backbone that differs least from ``spec``, which is one step above it on a task.

    That is the row to whose settings ``spec`` only adds, under the same method and readout; the nearest of several.
    Where there is none, it is an untuned row without other settings than its readout: one read as ``spec`` is, else
    one with the same pooling, else with mean pooling, else read at the target word; of several one of the layers that
    ``spec`` names, else the first by name.

    ``readouts`` are those of the rows with a score on the task, ``spec`` among them, in the table's order. Returns
    ``None`` for an untuned row itself, and where no such row is left.
    """
    rows = [
        row for row in readouts if (row.backbone, row.revision) == (spec.backbone, spec.revision)
    ]
    untuned = [
        row for row in rows if row.method == "base" and dict(row.params).keys() <= set(POOLING_KEYS)
    ]
    if spec in untuned:
        return None
    if less := [row for row in rows if row.method == spec.method and _only_adds(spec, row)]:
        return max(less, key=lambda row: len(row.params))
    wanted, _ = readouts[spec]

    def likeness(row: EncoderSpec) -> tuple[bool, ...]:
        pooling, _ = readouts[row]
        same, layers = readouts[row] == readouts[spec], row.get("layers") == spec.get("layers")
        return (
            same,
            pooling == wanted,
            pooling.startswith("mean"),
            pooling.startswith("target"),
            layers,
        )

    return max(sorted(untuned, key=str), key=likeness, default=None)


def _only_adds(spec: EncoderSpec, row: EncoderSpec) -> bool:
    added = set(spec.params) - set(row.params)
    return (
        len(added) == len(spec.params) - len(row.params) > 0 and not dict(added).keys() & _NO_STEPS
    )


def find_steps(table: Table, results: Sequence[Result]) -> list[Step]:
    """Find the steps between the rows of a leaderboard, in its order; ``results`` are those behind its scores.

    The best tuned row of each backbone over its best untuned one follow, in the columns where these are no step.
    """
    by_cell: _Results = {}
    for result in results:
        by_cell.setdefault(((result.spec, result.protocol), result.task), []).append(result)
    pairs = dict.fromkeys(_step_pairs(table, by_cell), 0)
    for pair, chosen_from in _best_pairs(table).items():
        pairs.setdefault(pair, chosen_from)
    return [(replace(_untested(table, by_cell, pair), best=n > 0), n) for pair, n in pairs.items()]


def _step_pairs(table: Table, results: _Results) -> list[_Pair]:
    """The steps of the ladders, ordered by row."""
    lower: dict[str, dict[int, int]] = {}  # by column name, then by row
    for c, column in enumerate(table.columns):
        scored = {r: row for r, row in enumerate(table.rows) if row.spec and row.scores[c]}
        steps = lower[column.name] = {}
        if column.average_of:  # a step on each of its tasks
            first, *rest = (lower[task] for task in column.tasks)
            for r, over in first.items():
                if {r, over} <= scored.keys() and all(task.get(r) == over for task in rest):
                    steps[r] = over
            continue
        for protocol in {row.protocol for row in table.rows}:
            rows = {
                parse_spec(row.spec): r for r, row in scored.items() if row.protocol == protocol
            }
            encoders = {
                spec: results[scored[r].key, column.name][0].encoder for spec, r in rows.items()
            }
            readouts = {
                spec: (str(e.get("pooling", "")), str(e.get("layers", "")))
                for spec, e in encoders.items()
            }
            for spec, r in rows.items():
                if lower_spec := below(spec, readouts):
                    steps[r] = rows[lower_spec]
    return sorted(
        (r, over, c) for c, steps in enumerate(lower.values()) for r, over in steps.items()
    )


def _best_pairs(table: Table) -> dict[_Pair, int]:
    """The best tuned and the best untuned row of each backbone in each column, with the number of such pairs."""
    backbones: dict[tuple[str, str, str], set[int]] = {}
    columns = range(len(table.columns))
    for r, row in (
        (r, row) for c in columns for r, row in enumerate(table.rows) if row.spec and row.scores[c]
    ):
        backbones.setdefault(
            (row.backbone, parse_spec(row.spec).revision, row.protocol), set()
        ).add(r)
    pairs = {}
    for rows in backbones.values():
        for c in columns:
            means = {r: score.mean for r in sorted(rows) if (score := table.rows[r].scores[c])}
            tuned = [r for r in means if table.rows[r].tuned]
            untuned = [r for r in means if not table.rows[r].tuned]
            if tuned and untuned:
                best, over = (max(side, key=means.__getitem__) for side in (tuned, untuned))
                pairs[best, over, c] = len(tuned) * len(untuned)
    return pairs


def _untested(table: Table, results: _Results, pair: _Pair) -> Verdict:
    """A verdict without numbers, with reasons against a test."""
    row, over, column = table.rows[pair[0]], table.rows[pair[1]], table.columns[pair[2]]
    why_not: dict[str, None] = {}
    this_model = False
    for task in column.tasks:
        sides = [results[row.key, task], results[over.key, task]]
        why_not |= dict.fromkeys(incomparable([*sides[0], *sides[1]]))
        this_model = this_model or any(map(tuned_with_one_seed, sides))
    return Verdict(
        row.spec,
        over.spec,
        row.protocol,
        column.name,
        why_not="; ".join(why_not),
        this_model=this_model,
    )


class Marker:
    """Tests of a table's scores by the items of its results (by ``cell_id``); scores without items stay unmarked."""

    def __init__(self, table: Table, items: Mapping[str, ItemScores], plugins: Plugins) -> None:
        self._table = table
        self._tasks = {column.name: column.tasks for column in table.columns}
        seeds: dict[tuple[RowKey, str], Seeds] = {}
        for row in table.rows:
            for column, score in zip(table.columns, row.scores, strict=True):
                if (
                    score
                    and not column.average_of
                    and all(cell_id in items for cell_id in score.cell_ids)
                ):
                    by_seed = zip(score.seeds, score.cell_ids, strict=True)
                    seeds[row.key, column.name] = {
                        seed: items[cell_id] for (seed, _), cell_id in by_seed
                    }
        self._comparisons = Comparisons(seeds, plugins)

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
            "Tied: not separable from the best of its column, Holm-corrected within it."
        ] * ties
        if unknown and (intervals or ties):
            titles = ", ".join(dict.fromkeys(unknown[c] for c in sorted(unknown)))
            notes.append(
                f"Not marked, since stored predictions do not yield the score: {titles.rstrip('.')}."
            )
        return replace(self._table, rows=tuple(rows), notes=(*self._table.notes, *notes))

    def verdicts(self, steps: Sequence[Step]) -> list[Verdict]:
        """Test steps; p-values are corrected over the steps of a column, or for the pairs behind the best rows."""
        tested = [self._tested(verdict, chosen_from) for verdict, chosen_from in steps]
        corrected = [
            v.p and min(1.0, v.p * chosen_from)
            for v, (_, chosen_from) in zip(tested, steps, strict=True)
        ]
        for column in self._tasks:
            own = [
                index
                for index, verdict in enumerate(tested)
                if verdict.column == column and not verdict.best
            ]
            for index, p in zip(own, holm([tested[index].p for index in own]), strict=True):
                corrected[index] = p
        return [
            replace(verdict, corrected=p, separable=p is not None and p < 1 - LEVEL)
            for verdict, p in zip(tested, corrected, strict=True)
        ]

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

    def _tested(self, verdict: Verdict, chosen_from: int) -> Verdict:
        """The verdict with an uncorrected p-value, and an interval corrected for the pairs of best rows."""
        if verdict.why_not:
            return verdict
        row, over = (row.key for row in self._table.rows_of(verdict))
        if not (self._known(row, verdict.column) and self._known(over, verdict.column)):
            return replace(verdict, why_not="the score cannot be computed from stored predictions")
        tasks = self._tasks[verdict.column]
        estimate = self._comparisons.compare(row, over, tasks).estimate
        if estimate.p is None:
            return replace(verdict, why_not="its error cannot be estimated")
        return replace(
            verdict,
            difference=estimate.value,
            interval=estimate.interval(1 - (1 - LEVEL) / max(1, chosen_from)),
            p=estimate.p,
            unseen=self._comparisons.compare_unseen(row, over, tasks),
        )

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
        p = holm([self._comparisons.compare(best, row, self._tasks[name]).p for row in others])
        return {
            row for row, value in zip(others, p, strict=True) if value is None or value >= 1 - LEVEL
        }


def with_verdicts(table: Table, verdicts: Sequence[Verdict]) -> Table:
    """Return the table with verdicts, and notes that explain them."""
    notes = []
    if any(verdict.p is not None for verdict in verdicts):
        best = "; of best rows both are corrected for the choice" * any(v.best for v in verdicts)
        notes.append(
            f"Verdicts: {LEVEL:.0%} interval of the difference over items, and over seeds where there are several; p "
            f"corrected over the verdicts of the column{best}."
        )
    if any(verdict.unseen for verdict in verdicts):
        notes.append(WITHOUT_OVERLAP)
    if any(verdict.this_model and verdict.separable for verdict in verdicts):
        notes.append("This model: tuned with one seed; other seeds may differ (--seeds 3).")
    return replace(table, verdicts=tuple(verdicts), notes=(*table.notes, *notes))


@dataclass(frozen=True)
class TaskComparison(Comparison):
    """Two encoders on one task.

    ``corrected`` is the p-value corrected for the number of tasks (Holm). With ``this_model`` an encoder was tuned with
    one seed, so the verdict is about that model. ``unseen`` is the difference on the items without a text of a tuning
    corpus; ``None`` where that is all.
    """

    task: str
    metric: str
    corrected: float | None
    this_model: bool
    unseen: Unseen | None

    @property
    def verdict(self) -> str:
        """The better encoder, if the corrected p-value is significant."""
        if self.corrected is None or self.corrected >= 1 - LEVEL:
            return "not separable"
        return f"{'A' if self.difference > 0 else 'B'} better{' (this model)' if self.this_model else ''}"


@dataclass(frozen=True)
class EncoderComparison:
    """Two encoders: each comparable task, the average over several, and notes on left-out results."""

    tasks: tuple[TaskComparison, ...]
    average: Comparison | None
    notes: tuple[str, ...]


def compare_encoders(
    first: Sequence[Stored],
    second: Sequence[Stored],
    tasks: Sequence[str],
    plugins: Plugins,
    allow_mixed: bool = False,
) -> EncoderComparison:
    """Compare two encoders on those of the ``tasks`` that both have; ``UsageError`` where results are not comparable.

    ``allow_mixed`` also compares results of different data or protocols.
    """
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
    items: dict[tuple[RowKey, str], Seeds] = {}
    for task, pair in shared.items():
        read = [{entry.result.seed: items_of(entry, plugins) for entry in side} for side in pair]
        if any(own is None for side in read for own in side.values()):
            notes.append(
                f"{task}: not compared, since a score is undefined or cannot be computed from its predictions"
            )
            continue
        for name, seeds in zip("AB", read, strict=True):
            items[name, task] = {seed: own for seed, own in seeds.items() if own}
    comparisons = Comparisons(items, plugins)
    by_task = {
        task: comparisons.compare("A", "B", [task]) for task in shared if ("A", task) in items
    }
    if not by_task:
        raise UsageError(
            "there is no task on which both can be compared" + "".join(f"\n  {n}" for n in notes)
        )
    compared = []
    for (task, comparison), p in zip(
        by_task.items(), holm([c.p for c in by_task.values()]), strict=True
    ):
        if comparison.left_out:
            notes.append(
                f"{task}: {comparison.left_out} items that only one of them has are left out"
            )
        metric = shared[task][0][0].result.main_metric
        this_model = any(
            tuned_with_one_seed([entry.result for entry in side]) for side in shared[task]
        )
        compared.append(
            TaskComparison(
                **vars(comparison),
                task=task,
                metric=metric,
                corrected=p,
                this_model=this_model,
                unseen=comparisons.compare_unseen("A", "B", [task]),
            )
        )
    average = comparisons.compare("A", "B", list(by_task)) if len(by_task) > 1 else None
    return EncoderComparison(tuple(compared), average, tuple(notes))


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
