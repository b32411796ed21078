"""Marks of a table: intervals, ties with the best of a column, and verdicts on what each step of a ladder gained.

A step is compared in each column, and its p-value is Holm-corrected over the steps of the column. An encoder is tied
where its difference to the best of the column, Holm-corrected over the rows, is not significant. The best is chosen on
the same items, so the test separates slightly too often (multiple comparisons with the best: Hsu 1984).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from mirrorbench.core.errors import UsageError
from mirrorbench.core.specs import EncoderSpec, parse_spec
from mirrorbench.data.corpora import NONE
from mirrorbench.reports.comparable import incomparable, of_one_computation, of_one_seed
from mirrorbench.reports.statistics import LEVEL
from mirrorbench.reports.statistics.comparisons import Comparison, Comparisons, RowKey, Seeds
from mirrorbench.reports.statistics.estimates import holm
from mirrorbench.reports.statistics.items import ItemScores, items_of
from mirrorbench.reports.table import Column, Table, Unseen, Verdict
from mirrorbench.runs.ladder import POOLING_KEYS
from mirrorbench.runs.results import Result

if TYPE_CHECKING:
    from mirrorbench.core.plugins import Plugins
    from mirrorbench.reports.comparable import Stored

_NO_STEPS = {*POOLING_KEYS, "path", "model", "language"}
"""Settings that read the same model in another way, or name another model."""

Readout = tuple[str, str]
"""Pooling and layers by which a row was read on a task."""


@dataclass(frozen=True, slots=True)
class Step:
    """Two rows of a table and a column, by their indices.

    Attributes:
        why_not: why they cannot be compared; empty where they can.
        this_model: whether a row was tuned with one seed.
        chosen_from: pairs of a tuned and an untuned row of a backbone of which these are the best ones; 0 for a step of
            a ladder.
    """

    row: int
    over: int
    column: int
    why_not: str = ""
    this_model: bool = False
    chosen_from: int = 0


def below(spec: EncoderSpec, readouts: Mapping[EncoderSpec, Readout]) -> EncoderSpec | None:
    """The row of the same backbone that ``spec`` is one step above on a task: the two differ in as little as can be.

    That is the row to whose settings ``spec`` only adds, under the same method and readout; the nearest of several.
    Where there is none, it is an untuned row without other settings than its readout: one read as ``spec`` is, else
    one with the same pooling, else with mean pooling, else read at the target word; of several one of the layers that
    ``spec`` names, else the first by name.

    Args:
        spec: a row.
        readouts: the rows that have a score on the task, ``spec`` among them, in the table's order.

    Returns:
        ``None`` for an untuned row itself, and where no such row is left.
    """
    rows = [row for row in readouts if (row.backbone, row.revision) == (spec.backbone, spec.revision)]
    untuned = [row for row in rows if row.method == "base" and dict(row.params).keys() <= set(POOLING_KEYS)]
    if spec in untuned:
        return None
    if less := [row for row in rows if row.method == spec.method and _only_adds(spec, row)]:
        return max(less, key=lambda row: len(row.params))
    pooling, _ = readouts[spec]

    def likeness(row: EncoderSpec) -> tuple[bool, ...]:
        own, _ = readouts[row]
        named = row.get("layers") == spec.get("layers")
        return readouts[row] == readouts[spec], own == pooling, own.startswith("mean"), own.startswith("target"), named

    return max(sorted(untuned, key=str), key=likeness, default=None)


def _only_adds(spec: EncoderSpec, row: EncoderSpec) -> bool:
    added = set(spec.params) - set(row.params)
    return len(added) == len(spec.params) - len(row.params) > 0 and not dict(added).keys() & _NO_STEPS


def find_steps(table: Table, results: Sequence[Result]) -> list[Step]:
    """The steps between the rows of a leaderboard, in its order; ``results`` are those behind its scores.

    At the end the best tuned row of each backbone over its best untuned one, in the columns where these are no step.
    """
    behind = {result.cell_id: result for result in results}
    cells = [  # of each column, the results of the seeds of each row
        {
            r: [behind[i] for i in score.cell_ids]
            for r, row in enumerate(table.rows)
            if row.spec and (score := row.scores[c])
        }
        for c in range(len(table.columns))
    ]
    by_pair: dict[tuple[int, int], dict[str, Step]] = {}  # by pair of rows, then by column
    for c, (column, own) in enumerate(zip(table.columns, cells, strict=True)):
        if column.average_of:  # of two rows that are a step on each of its tasks
            for pair, of_pair in by_pair.items():
                if own.keys() >= set(pair) and of_pair.keys() >= set(column.average_of):
                    of_pair[column.name] = _step(*pair, c, own)
            continue
        for protocol in {row.protocol for row in table.rows}:
            row_of = {parse_spec(table.rows[r].spec): r for r in own if table.rows[r].protocol == protocol}
            readouts = {spec: _readout(own[r][0]) for spec, r in row_of.items()}
            for spec in readouts:
                if lower := below(spec, readouts):
                    pair = row_of[spec], row_of[lower]
                    by_pair.setdefault(pair, {})[column.name] = _step(*pair, c, own)
    steps = [step for pair in sorted(by_pair) for step in by_pair[pair].values()]
    known = {(step.row, step.over, step.column) for step in steps}
    return steps + [s for s in _best(table, cells) if (s.row, s.over, s.column) not in known]


def _step(row: int, over: int, column: int, cells: Mapping[int, Sequence[Result]], chosen_from: int = 0) -> Step:
    """Two rows by their results on the tasks of a column."""
    tasks = dict.fromkeys(result.task for result in cells[row])
    pairs = [[[r for r in cells[side] if r.task == task] for side in (row, over)] for task in tasks]
    why_not = dict.fromkeys(why for pair in pairs for why in incomparable([r for side in pair for r in side]))
    this_model = any(of_one_seed(side) for pair in pairs for side in pair)
    return Step(row, over, column, "; ".join(why_not), this_model, chosen_from)


def _best(table: Table, cells: Sequence[Mapping[int, Sequence[Result]]]) -> list[Step]:
    """In each column the best tuned row of a backbone over its best untuned one."""
    groups: dict[tuple[str, str, str], tuple[set[int], set[int]]] = {}  # of a backbone: untuned rows, tuned ones
    for r, results in ((r, results) for own in cells for r, results in own.items()):
        row, tuned = table.rows[r], bool(results[0].cell.get("recipe"))
        groups.setdefault((row.backbone, parse_spec(row.spec).revision, row.protocol), (set(), set()))[tuned].add(r)
    steps = []
    for kinds in groups.values():
        for c, own in enumerate(cells):
            means = {r: score.mean for r in own if (score := table.rows[r].scores[c])}
            over, best = (max(own.keys() & rows, key=lambda r: (means[r], -r), default=-1) for rows in kinds)
            if min(over, best) >= 0:
                pairs = len(own.keys() & kinds[0]) * len(own.keys() & kinds[1])
                steps.append(_step(best, over, c, own, pairs))
    return steps


def _readout(result: Result) -> Readout:
    return str(result.encoder.get("pooling", "")), str(result.encoder.get("layers", ""))


class Marker:
    """Marks a table from the items of its results (by ``cell_id``); cells without items stay unmarked."""

    def __init__(self, table: Table, items: Mapping[str, ItemScores], plugins: Plugins) -> None:
        self._table = table
        self._tasks = [column.average_of or (column.name,) for column in table.columns]
        self._rows = Comparisons(
            {  # the items of each seed, by row and task
                (r, column.name): {
                    seed: items[cell] for (seed, _), cell in zip(score.seeds, score.cell_ids, strict=True)
                }
                for r, row in enumerate(table.rows)
                for column, score in zip(table.columns, row.scores, strict=True)
                if score and not column.average_of and all(cell in items for cell in score.cell_ids)
            },
            plugins,
        )

    def with_marks(self, intervals: bool = False, ties: bool = False) -> Table:
        """The table with the requested intervals and ties, and notes that explain them."""
        columns = range(len(self._table.columns))
        tied = [self._tied(column) if ties else set() for column in columns]
        rows = []
        for r, row in enumerate(self._table.rows):
            scores = [score and replace(score, interval=None, tied=r in tied[c]) for c, score in enumerate(row.scores)]
            for c, score in enumerate(scores):
                if score and intervals and self._known(r, c):
                    scores[c] = replace(score, interval=self._rows.estimate(r, self._tasks[c]).interval())
            rows.append(replace(row, scores=tuple(scores)))
        notes = [f"[low, high]: {LEVEL:.0%} interval over items, and over seeds where there are several."] * intervals
        notes += ["Tied: not separable from the best of its column, Holm-corrected within it."] * ties
        cells = [(r, c) for c in columns for r, row in enumerate(rows) if row.spec and row.scores[c]]
        unknown = dict.fromkeys(self._table.columns[c].title for r, c in cells if not self._known(r, c))
        if unknown and (intervals or ties):
            notes.append(f"Not marked, since no stored predictions give the score: {', '.join(unknown).rstrip('.')}.")
        return replace(self._table, rows=tuple(rows), notes=(*self._table.notes, *notes))

    def verdicts(self, steps: Sequence[Step]) -> list[Verdict]:
        """The gain of each step; p-values are corrected within a column: which others are shown changes none.

        Those of the best rows are corrected for the pairs that these were chosen from.
        """
        made = list(map(self._verdict, steps))
        corrected = [p and min(1.0, p * step.chosen_from) for p, step in zip((v.p for v in made), steps, strict=True)]
        for column in {step.column for step in steps}:
            own = [index for index, step in enumerate(steps) if step.column == column and not step.chosen_from]
            for index, value in zip(own, holm([made[index].p for index in own]), strict=True):
                corrected[index] = value
        return [
            replace(verdict, corrected=p, separable=p is not None and p < 1 - LEVEL)
            for verdict, p in zip(made, corrected, strict=True)
        ]

    def unseen(self, verdict: Verdict) -> Unseen | None:
        """Compare the rows of a verdict on the items without a tuned text; ``None`` where no item has one."""
        places = {(row.spec, row.protocol): r for r, row in reversed(list(enumerate(self._table.rows)))}
        index = [column.name for column in self._table.columns].index(verdict.column)
        row, over = (places[spec, verdict.protocol] for spec in (verdict.spec, verdict.over))
        return self._rows.compare_unseen(row, over, self._tasks[index])

    def counted(self, column: Column) -> Column:
        """The column with the number of items behind its scores, and the largest share that holds a tuned text."""
        own = [i for r in range(len(self._table.rows)) for i in self._rows.items(r, column.name)]
        if not own:
            return column
        seen = max((float((items.overlap > NONE).mean()) for items in own if items.overlap is not None), default=0.0)
        return replace(column, n_items=max(len(items.ids) for items in own), seen=seen)

    def _verdict(self, step: Step) -> Verdict:
        """The gain of a step, not corrected yet but for the interval of the best rows."""
        row, lower = (self._table.rows[r] for r in (step.row, step.over))
        made = Verdict(
            row.spec, lower.spec, row.protocol, self._table.columns[step.column].name, why_not=step.why_not,
            best=step.chosen_from > 0, this_model=step.this_model,
        )  # fmt: skip
        if step.why_not:
            return made
        if not (self._known(step.row, step.column) and self._known(step.over, step.column)):
            return replace(made, why_not="no predictions that give the score")
        estimate = self._rows.compare(step.row, step.over, self._tasks[step.column]).estimate
        if estimate.p is None:
            return replace(made, why_not="its error cannot be estimated")
        interval = estimate.interval(1 - (1 - LEVEL) / max(1, step.chosen_from))
        return replace(made, difference=estimate.value, interval=interval, p=estimate.p)

    def _known(self, row: int, column: int) -> bool:
        return self._table.rows[row].scores[column] is not None and self._rows.known(row, self._tasks[column])

    def _tied(self, column: int) -> set[int]:
        """Rows that are not separable from the best of the column, without the best."""
        scores = enumerate(row.scores[column] for row in self._table.rows)
        means = {row: score.mean for row, score in scores if score and self._table.rows[row].spec}
        best = max(means, key=means.__getitem__, default=-1)
        if best < 0 or not self._known(best, column):
            return set()
        others = [row for row in means if row != best and self._known(row, column)]
        p = holm([self._rows.compare(best, row, self._tasks[column]).p for row in others])
        return {row for row, value in zip(others, p, strict=True) if value is None or value >= 1 - LEVEL}


def with_verdicts(table: Table, verdicts: Sequence[Verdict]) -> Table:
    """The table with verdicts, and notes that explain them."""
    notes = []
    if any(verdict.p is not None for verdict in verdicts):
        best = "; of the best rows both are for the pairs they were chosen from" * any(v.best for v in verdicts)
        notes.append(
            f"Verdicts: {LEVEL:.0%} interval of the difference over items, and over seeds where there are several; p "
            f"corrected over the verdicts of the column{best}."
        )
    if any(verdict.this_model and verdict.separable for verdict in verdicts):
        notes.append("This model: tuned with one seed; other seeds may differ (--seeds 3).")
    return replace(table, verdicts=tuple(verdicts), notes=(*table.notes, *notes))


@dataclass(frozen=True)
class TaskComparison(Comparison):
    """Two encoders on one task.

    Attributes:
        task: the name.
        metric: the metric that is compared.
        corrected: the p-value corrected for the number of tasks (Holm).
        this_model: whether an encoder was tuned with one seed, so that the verdict is about that model.
    """

    task: str
    metric: str
    corrected: float | None
    this_model: bool

    @property
    def verdict(self) -> str:
        """The better encoder, if the corrected p-value is significant."""
        if self.corrected is None or self.corrected >= 1 - LEVEL:
            return "not separable"
        return f"{'A' if self.difference > 0 else 'B'} better{' (this model)' if self.this_model else ''}"


@dataclass(frozen=True)
class EncoderComparison:
    """Two encoders: each task that could be compared, the average over several, and notes on what was left out."""

    tasks: tuple[TaskComparison, ...]
    average: Comparison | None
    notes: tuple[str, ...]


def compare_encoders(
    first: Sequence[Stored], second: Sequence[Stored], tasks: Sequence[str], plugins: Plugins,
    allow_mixed: bool = False,
) -> EncoderComparison:  # fmt: skip
    """Compare two encoders on those of the ``tasks`` that both have; ``UsageError`` where results are not comparable.

    ``allow_mixed`` also compares results of different data or protocols.
    """
    (first, second), left_out = of_one_computation([first, second])
    pairs = {task: [[x for x in side if x.result.task == task] for side in (first, second)] for task in tasks}
    shared = [task for task, (a, b) in pairs.items() if a and b]
    mixed = [f"{t}: {why}" for t in shared for why in incomparable([x.result for side in pairs[t] for x in side])]
    mixed += [
        f"{task}: the seeds of {name} differ in recipe, corpus or precision"
        for task in shared
        for name, side in zip("AB", pairs[task], strict=True)
        if len({x.result.experiment for x in side}) > 1
    ]
    if mixed and not allow_mixed:
        raise UsageError(
            "these results do not belong together:\n  " + "\n  ".join(mixed),
            "Run one of them again, choose with --protocol or --tasks, or compare them all the same: --allow-mixed",
        )
    notes = [*left_out, *(f"not comparable: {reason}" for reason in mixed)]
    for name, side in (("A", 0), ("B", 1)):
        if only := [task for task, both in pairs.items() if both[side] and not both[1 - side]]:
            notes.append(f"only {name} has: {', '.join(only)}")
    items: dict[tuple[RowKey, str], Seeds] = {}
    for task in shared:
        read = [{entry.result.seed: items_of(entry, plugins) for entry in side} for side in pairs[task]]
        if any(own is None for side in read for own in side.values()):
            notes.append(f"{task}: not compared, since a score is undefined or cannot be computed from its predictions")
            continue
        for name, seeds in zip("AB", read, strict=True):
            items[name, task] = {seed: own for seed, own in seeds.items() if own}
    compared = Comparisons(items, plugins)
    known = [task for task in shared if ("A", task) in items]
    if not known:
        raise UsageError("there is no task on which both can be compared" + "".join(f"\n  {n}" for n in notes))
    each = {task: compared.compare("A", "B", [task]) for task in known}
    notes += [
        f"{t}: {each[t].left_out} items that only one of them has are left out" for t in known if each[t].left_out
    ]
    made = []
    for task, p in zip(known, holm([comparison.p for comparison in each.values()]), strict=True):
        results = [[entry.result for entry in side] for side in pairs[task]]
        this_model, metric = any(map(of_one_seed, results)), results[0][0].main_metric
        made.append(TaskComparison(**vars(each[task]), task=task, metric=metric, corrected=p, this_model=this_model))
    average = compared.compare("A", "B", known) if len(known) > 1 else None
    return EncoderComparison(tuple(made), average, tuple(notes))
