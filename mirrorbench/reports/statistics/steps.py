"""Verdicts: what each step of a ladder gained, by the paired tests of ``encoders``, Holm-corrected over the table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from mirrorbench.core.specs import EncoderSpec, parse_spec
from mirrorbench.reports.statistics.encoders import TABLE_RESAMPLES, Marker, incomparable
from mirrorbench.reports.statistics.resampling import LEVEL, RESAMPLES, holm
from mirrorbench.reports.table import Table
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


def below(spec: EncoderSpec, readouts: Mapping[EncoderSpec, Readout]) -> EncoderSpec | None:
    """The row of the same backbone that ``spec`` is one step above on a task: the two differ in as little as can be.

    That is the row to whose settings ``spec`` only adds, under the same method and readout; the nearest of several.
    Where there is none, it is an untuned row without other settings than its readout: one read as ``spec`` is, else
    one with the same pooling, else with mean pooling, else read at the target word, else the first.

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
        return readouts[row] == readouts[spec], own == pooling, own.startswith("mean"), own.startswith("target")

    return max(untuned, key=likeness, default=None)


def _only_adds(spec: EncoderSpec, other: EncoderSpec) -> bool:
    added = set(spec.params) - set(other.params)
    return len(added) == len(spec.params) - len(other.params) > 0 and not dict(added).keys() & _NO_STEPS


def find_steps(table: Table, results: Sequence[Result]) -> list[Step]:
    """The steps between the rows of a leaderboard, in its order; ``results`` are those behind its scores."""
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
    return [step for pair in sorted(found) for step in _shortened(table, found[pair])]


def _readout(result: Result) -> Readout:
    return str(result.encoder.get("pooling", "")), str(result.encoder.get("layers", ""))


def _shortened(table: Table, steps: list[Step]) -> list[Step]:
    """The steps of two rows, averages in place of their tasks where these are many."""
    names = [column.name for column in table.columns]
    left = {names[step.column]: step for step in steps if not step.why_not}
    for c, column in enumerate(table.columns):
        if len(column.average_of) > MOST_TASKS and left.keys() >= set(column.average_of):
            left = {name: step for name, step in left.items() if name not in column.average_of}
            left[column.name] = replace(steps[0], column=c)
    return sorted([*left.values(), *(step for step in steps if step.why_not)], key=lambda step: step.column)


def with_verdicts(table: Table, steps: Sequence[Step], marker: Marker) -> Table:
    """The table with a verdict for each step, and a note that explains them."""
    if not steps:
        return table
    made = [marker.verdict(step.row, step.over, step.column, step.why_not) for step in steps]
    p = {i: verdict.p for i, verdict in enumerate(made) if verdict.p is not None}
    for i, corrected in zip(p, holm(list(p.values())), strict=True):
        made[i] = replace(made[i], corrected=corrected, separable=corrected < 1 - LEVEL)
    note = (
        f"Verdicts: paired tests over items, given the seeds ({RESAMPLES:,} permutations; McNemar for right and wrong "
        f"answers of one seed each, bootstrap for AUC), Holm-corrected over {len(p)} comparison{'s' * (len(p) > 1)}, "
        f"level {1 - LEVEL:.2f}; {LEVEL:.0%} percentile bootstrap of the difference ({TABLE_RESAMPLES:,} resamples, "
        "of an average shared among its tasks)."
    )
    return replace(table, verdicts=tuple(made), notes=(*table.notes, note) if p else table.notes)
