"""Verdicts: what each step of a ladder gained, by paired tests, Holm-corrected over the columns of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace
from itertools import groupby

from mirrorbench.core.specs import EncoderSpec, parse_spec
from mirrorbench.reports.statistics.encoders import incomparable
from mirrorbench.reports.statistics.marker import Marker
from mirrorbench.reports.statistics.resampling import LEVEL, RESAMPLES, corrected
from mirrorbench.reports.table import Table, Verdict
from mirrorbench.runs.results import Result
from mirrorbench.runs.rows import POOLING_KEYS

MOST_TASKS = 4
"""An average over more tasks than this is compared in their place: it says more, and a long table stays quick."""

_NO_STEPS = {*POOLING_KEYS, "path", "model", "language"}
"""Settings that read the same model in another way, or name another model."""

Readout = tuple[str, str]
"""Pooling and layers by which a row was read on a task."""


@dataclass(frozen=True, slots=True)
class Step:
    """Two rows of a table and a column, by their indices; ``why_not`` says why they cannot be compared."""

    row: int
    over: int
    column: int
    why_not: str = ""
    chosen_from: int = 0
    """Pairs of a tuned and an untuned row of a backbone of which these are the best ones; 0 for a step of a ladder."""


def below(spec: EncoderSpec, readouts: Mapping[EncoderSpec, Readout]) -> EncoderSpec | None:
    """The row of the same backbone that ``spec`` is one step above on a task: the two differ in as little as can be.

    That is the row to whose settings ``spec`` only adds, under the same method and readout; the nearest of several.
    Where there is none, it is an untuned row without other settings than its readout: one read as ``spec`` is, else
    one with the same pooling, else with mean pooling, else read at the target word; of several one of the layers that
    ``spec`` names, else the first.

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

    return max(untuned, key=likeness, default=None)


def _only_adds(spec: EncoderSpec, other: EncoderSpec) -> bool:
    added = set(spec.params) - set(other.params)
    return len(added) == len(spec.params) - len(other.params) > 0 and not dict(added).keys() & _NO_STEPS


def find_steps(table: Table, results: Sequence[Result]) -> list[Step]:
    """The steps between the rows of a leaderboard, in its order; ``results`` are those behind its scores.

    At the end, where a backbone has a row whose vectors are changed without tuning: its best tuned row in each column
    over the best without tuning.
    """
    behind = {result.cell_id: result for result in results}
    found: dict[tuple[int, int], list[Step]] = {}  # by pair of rows
    for c in (c for c, column in enumerate(table.columns) if not column.average_of):
        for protocol in {row.protocol for row in table.rows}:
            cells = {  # results of each row's seeds
                parse_spec(row.spec): (r, [behind[cell] for cell in score.cell_ids])
                for r, row in enumerate(table.rows)
                if row.spec and row.protocol == protocol and (score := row.scores[c])
            }
            readouts = {spec: _readout(own[0]) for spec, (_, own) in cells.items()}
            for spec in readouts:
                if lower := below(spec, readouts):
                    (row, own), (over, others) = cells[spec], cells[lower]
                    step = Step(row, over, c, "; ".join(incomparable([*own, *others])))
                    found.setdefault((row, over), []).append(step)
    steps = [step for pair in sorted(found) for step in _shortened(table, found[pair])]
    return steps + _best(table, behind, {step.row for step in steps})


def _best(table: Table, behind: Mapping[str, Result], changed: Set[int]) -> list[Step]:
    """In each column the best tuned row of a backbone over its best untuned one; ``changed`` are rows with a step."""
    found: dict[tuple[str, str, str], tuple[set[int], set[int]]] = {}  # of a backbone: untuned rows, tuned ones
    for r, row in enumerate(table.rows):
        if cells := [cell for score in row.scores if score for cell in score.cell_ids]:
            tuned = bool(behind[cells[0]].cell.get("recipe"))
            found.setdefault((row.backbone, parse_spec(row.spec).revision, row.protocol), (set(), set()))[tuned].add(r)
    steps = []
    for kinds in (kinds for kinds in found.values() if changed & kinds[0]):
        for c in _shown(table, {column.name for column in table.columns if not column.average_of}):
            scores = {r: score for r, row in enumerate(table.rows) if (score := row.scores[c])}
            over, best = (max(scores.keys() & rows, key=lambda r: (scores[r].mean, -r), default=-1) for rows in kinds)
            if min(over, best) >= 0:
                tasks: dict[str, list[Result]] = {}
                for result in (behind[cell] for r in (over, best) for cell in scores[r].cell_ids):
                    tasks.setdefault(result.task, []).append(result)
                why_not = dict.fromkeys(why for results in tasks.values() for why in incomparable(results))
                pairs = len(scores.keys() & kinds[0]) * len(scores.keys() & kinds[1])
                steps.append(Step(best, over, c, "; ".join(why_not), pairs))
    return steps


def _readout(result: Result) -> Readout:
    return str(result.encoder.get("pooling", "")), str(result.encoder.get("layers", ""))


def _shortened(table: Table, steps: list[Step]) -> list[Step]:
    """The steps of two rows, averages in place of their tasks where these are many."""
    tested = [step for step in steps if not step.why_not]
    columns = _shown(table, {table.columns[step.column].name for step in tested})
    made = [replace(tested[0], column=c) for c in columns]
    return sorted([*made, *(step for step in steps if step.why_not)], key=lambda step: step.column)


def _shown(table: Table, names: Set[str]) -> list[int]:
    """The columns of tasks, averages in place of their tasks where these are many."""
    for column in table.columns:
        if len(column.average_of) > MOST_TASKS and names >= set(column.average_of):
            names = {*names, column.name} - set(column.average_of)
    return [c for c, column in enumerate(table.columns) if column.name in names]


def with_verdicts(table: Table, steps: Sequence[Step], marker: Marker) -> Table:
    """The table with a verdict for each step, and a note that explains them.

    P-values are corrected within a line (two rows, all columns): what else a table shows changes no verdict.
    """
    if not steps:
        return table

    def line(step: Step) -> tuple[object, ...]:
        row = table.rows[step.row]
        return (row.backbone, row.protocol) if step.chosen_from else (step.row, step.over)

    made: list[Verdict] = []
    for _, of_line in groupby(steps, line):
        own = list(of_line)
        count = len(own)
        found = [marker.verdict(s.row, s.over, s.column, s.why_not, count * max(1, s.chosen_from)) for s in own]
        p = corrected([v.p for v in found], [max(1, step.chosen_from) for step in own])
        made += [
            replace(v, corrected=value, separable=value is not None and value < 1 - LEVEL, best=step.chosen_from > 0)
            for v, value, step in zip(found, p, own, strict=True)
        ]
    if all(verdict.p is None for verdict in made):
        return replace(table, verdicts=tuple(made))
    best = ", and over the pairs of rows that the best were chosen from" if any(v.best for v in made) else ""
    notes = [
        f"Verdicts: paired tests over items, given the seeds ({RESAMPLES:,} permutations; McNemar for right and wrong "
        f"answers of one seed each, bootstrap for AUC), Holm-corrected over the columns of each line{best}, level "
        f"{1 - LEVEL:.2f}; {LEVEL:.0%} percentile bootstrap of the difference ({RESAMPLES // 5:,} resamples, of an "
        "average shared among its tasks); both widened where items share texts.",
        *marker.unshared(((step.row, step.over), step.column) for step in steps),
    ]
    return replace(table, verdicts=tuple(made), notes=(*table.notes, *notes))
