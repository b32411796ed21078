"""Steps of a leaderboard: which row is compared with which other one, in each column."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from mirrorbench.core.specs import EncoderSpec, parse_spec
from mirrorbench.reports.comparable import incomparable, tuned_with
from mirrorbench.reports.statistics.comparisons import RowKey
from mirrorbench.reports.table import Table, Verdict
from mirrorbench.runs.ladder import POOLING_KEYS
from mirrorbench.storage.results import Result

_NO_STEPS = {*POOLING_KEYS, "path", "model", "language"}
"""Settings that read the same model in another way, or name another model."""

Readout = tuple[str, str]
"""Pooling and layers of a row on a task."""
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


def find_steps(table: Table, results: Sequence[Result]) -> list[Verdict]:
    """Find the steps between the rows of a leaderboard, in its order, as verdicts that are not tested yet.

    ``results`` are those behind the scores. The best tuned row of each backbone over its best untuned one follow, in
    the columns where these are no step; their ``n_tests`` is the number of pairs from which they are chosen.
    """
    by_cell = by_row_and_task(results)
    steps = _step_pairs(table, by_cell)
    verdicts = [_untested(table, by_cell, pair) for pair in steps]
    for pair, chosen_from in _best_pairs(table).items():
        if pair not in steps:
            verdict = _untested(table, by_cell, pair)
            verdicts.append(replace(verdict, best=True, n_tests=chosen_from))
    return verdicts


def by_row_and_task(results: Sequence[Result]) -> _Results:
    """Group results by row and task, so that a group has the seeds of one score."""
    groups: _Results = {}
    for result in results:
        groups.setdefault(((result.spec, result.protocol), result.task), []).append(result)
    return groups


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
    row, over, column = table.rows[pair[0]], table.rows[pair[1]], table.columns[pair[2]]
    sides = [[results[row.key, task], results[over.key, task]] for task in column.tasks]
    verdict = Verdict(row.spec, over.spec, row.protocol, column.name)
    return with_caveats(verdict, sides)


def with_caveats(verdict: Verdict, tasks: Sequence[Sequence[Sequence[Result]]]) -> Verdict:
    """Return a verdict with the reasons against a test, and whether it is about one or two tuned models.

    Args:
        verdict: not tested yet.
        tasks: for each task the results of the seeds of both rows.
    """
    why_not: dict[str, None] = {}
    this_model = two_seeds = False
    for sides in tasks:
        why_not |= dict.fromkeys(incomparable([result for side in sides for result in side]))
        this_model = this_model or any(tuned_with(1, side) for side in sides)
        two_seeds = two_seeds or any(tuned_with(2, side) for side in sides)
    return replace(verdict, why_not="; ".join(why_not), this_model=this_model, two_seeds=two_seeds)
