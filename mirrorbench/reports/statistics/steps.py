"""Steps of a leaderboard: which row is compared with which other row, in each column."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from mirrorbench.core.specs import EncoderSpec, parse_spec
from mirrorbench.reports.comparable import incomparable, tuned_with
from mirrorbench.reports.statistics.comparisons import RowKey
from mirrorbench.reports.table import Row, Table, Verdict
from mirrorbench.runs.ladder import POOLING_KEYS
from mirrorbench.storage.results import Result

_NO_STEPS = {*POOLING_KEYS, "path", "model", "language"}
"""Settings that do not make a step: they read the same model in another way, or name another model."""

Readout = tuple[str, str]
"""Pooling and layers of a row on a task."""
_Results = dict[tuple[RowKey, str], list[Result]]
"""Results of the seeds by row and task."""


class _Pair(NamedTuple):
    """Two rows to compare in a column, as indices in a table."""

    row: int
    over: int
    """The row that it is compared with."""
    column: int


def row_below(spec: EncoderSpec, readouts: Mapping[EncoderSpec, Readout]) -> EncoderSpec | None:
    """Return the row that ``spec`` is one step above: the row of the same backbone that differs least from it.

    Prefer the row of the same method and readout whose settings are a subset of ``spec``'s; of several, the one with
    most settings. Otherwise choose an untuned row that has no settings but its readout. Of several untuned rows prefer,
    in this order, one with the readout of ``spec``, with its pooling, with mean pooling, with pooling of the target
    word, and with the layers that ``spec`` names; of equals the first by name.

    Args:
        spec: the encoder.
        readouts: readouts of the rows that have a score on the task, in the table's order; ``spec`` is among them.

    Returns:
        The row; ``None`` if ``spec`` is itself untuned, or if there is no such row.
    """
    rows = [
        row for row in readouts if (row.backbone, row.revision) == (spec.backbone, spec.revision)
    ]
    untuned = [
        row for row in rows if row.method == "base" and dict(row.params).keys() <= set(POOLING_KEYS)
    ]
    if spec in untuned:
        return None
    simpler = [row for row in rows if row.method == spec.method and _only_adds(spec, row)]
    if simpler:
        return max(simpler, key=lambda row: len(row.params))
    pooling_of_spec, _ = readouts[spec]

    def likeness(row: EncoderSpec) -> tuple[bool, ...]:
        pooling, _ = readouts[row]
        return (
            readouts[row] == readouts[spec],
            pooling == pooling_of_spec,
            pooling.startswith("mean"),
            pooling.startswith("target"),
            row.get("layers") == spec.get("layers"),
        )

    return max(sorted(untuned, key=str), key=likeness, default=None)


def _only_adds(spec: EncoderSpec, row: EncoderSpec) -> bool:
    """Test whether ``spec`` has all settings of ``row`` and more, all of which make a step."""
    settings = set(spec.params)
    settings_of_row = set(row.params)
    added = settings - settings_of_row
    return settings_of_row < settings and not dict(added).keys() & _NO_STEPS


def find_steps(table: Table, results: Sequence[Result]) -> list[Verdict]:
    """Find the rows of a leaderboard to compare, as verdicts that are not tested yet.

    The steps come first, in the order of the rows. The best tuned row of each backbone over its best untuned row
    follows, in the columns where that is not a step; its ``n_tests`` is the number of pairs that both are chosen from.

    Args:
        table: the leaderboard.
        results: the results behind its scores.
    """
    results_by_score = by_row_and_task(results)
    steps = _step_pairs(table, results_by_score)
    verdicts = [_untested(table, results_by_score, pair) for pair in steps]
    for pair, n_pairs in _best_pairs(table).items():
        if pair not in steps:
            verdict = _untested(table, results_by_score, pair)
            verdicts.append(replace(verdict, best=True, n_tests=n_pairs))
    return verdicts


def by_row_and_task(results: Sequence[Result]) -> _Results:
    """Group results by row and task: each group has the seeds of one score."""
    groups: _Results = {}
    for result in results:
        groups.setdefault(((result.spec, result.protocol), result.task), []).append(result)
    return groups


def _step_pairs(table: Table, results: _Results) -> list[_Pair]:
    """Return the steps in all columns, ordered by row."""
    steps_by_column: dict[str, dict[int, int]] = {}
    pairs = []
    for index, column in enumerate(table.columns):
        if column.average_of:
            steps_on_tasks = [steps_by_column[task] for task in column.tasks]
            steps = _steps_in_average(table, index, steps_on_tasks)
        else:
            steps = _steps_on_task(table, index, results)
        steps_by_column[column.name] = steps
        pairs += [_Pair(row, over, index) for row, over in steps.items()]
    return sorted(pairs)


def _steps_on_task(table: Table, column_index: int, results: _Results) -> dict[int, int]:
    """Map the index of each row to that of the row of its protocol that it is compared with, if any (``row_below``)."""
    scored = _scored_rows(table, column_index)
    task = table.columns[column_index].name
    steps: dict[int, int] = {}
    for protocol in {row.protocol for row in table.rows}:
        indices: dict[EncoderSpec, int] = {}
        readouts: dict[EncoderSpec, Readout] = {}
        for index, row in scored.items():
            if row.protocol != protocol:
                continue
            spec = parse_spec(row.spec)
            # All seeds have the same readout.
            encoder = results[row.key, task][0].encoder
            indices[spec] = index
            readouts[spec] = (str(encoder.get("pooling", "")), str(encoder.get("layers", "")))
        for spec, index in indices.items():
            spec_below = row_below(spec, readouts)
            if spec_below:
                steps[index] = indices[spec_below]
    return steps


def _steps_in_average(
    table: Table, column: int, steps_on_tasks: Sequence[Mapping[int, int]]
) -> dict[int, int]:
    """Return the steps that are the same on every task of an average, if both rows have the average.

    Like ``steps_on_tasks``, by index of the row: the index of the row below.
    """
    scored = _scored_rows(table, column)
    first, *others = steps_on_tasks
    steps: dict[int, int] = {}
    for row, over in first.items():
        same_on_all = all(steps_on_task.get(row) == over for steps_on_task in others)
        if same_on_all and row in scored and over in scored:
            steps[row] = over
    return steps


def _scored_rows(table: Table, column: int) -> dict[int, Row]:
    """Return the encoders with a score in a column, by index."""
    return {index: row for index, row in enumerate(table.rows) if row.spec and row.scores[column]}


def _best_pairs(table: Table) -> dict[_Pair, int]:
    """Pair the best tuned with the best untuned row of each backbone and protocol, in each column with scores of both.

    Returns:
        For each pair, the number of pairs of a tuned and an untuned row that it was chosen from.
    """
    columns = range(len(table.columns))
    # Indices of the rows of each backbone that have a score in any column.
    # Rows of two revisions of a backbone, or of two protocols, are not compared.
    rows_by_group: dict[tuple[str, str, str], set[int]] = {}
    for column in columns:
        for index, row in _scored_rows(table, column).items():
            group = (row.backbone, parse_spec(row.spec).revision, row.protocol)
            rows_by_group.setdefault(group, set()).add(index)
    pairs: dict[_Pair, int] = {}
    for rows in rows_by_group.values():
        for column in columns:
            # Mean scores in the column by index of the row; of equal ones, the first row is the best.
            means: dict[int, float] = {}
            for index in sorted(rows):
                score = table.rows[index].scores[column]
                if score is not None:
                    means[index] = score.mean
            tuned = [index for index in means if table.rows[index].tuned]
            untuned = [index for index in means if not table.rows[index].tuned]
            if tuned and untuned:
                best_tuned = max(tuned, key=means.__getitem__)
                best_untuned = max(untuned, key=means.__getitem__)
                pair = _Pair(best_tuned, best_untuned, column)
                pairs[pair] = len(tuned) * len(untuned)
    return pairs


def _untested(table: Table, results: _Results, pair: _Pair) -> Verdict:
    row = table.rows[pair.row]
    over = table.rows[pair.over]
    column = table.columns[pair.column]
    verdict = Verdict(row.spec, over.spec, row.protocol, column.name)
    results_by_task = [[results[row.key, task], results[over.key, task]] for task in column.tasks]
    return with_caveats(verdict, results_by_task)


def with_caveats(verdict: Verdict, tasks: Sequence[Sequence[Sequence[Result]]]) -> Verdict:
    """Return a verdict with the reasons against a test, and whether it is on one or two tuned models only.

    Args:
        verdict: a verdict that is not tested yet.
        tasks: for each task, the results of the seeds of either row.
    """
    reasons: dict[str, None] = {}
    this_model = False
    two_seeds = False
    for rows in tasks:
        results = [result for seeds in rows for result in seeds]
        reasons.update(dict.fromkeys(incomparable(results)))
        for seeds in rows:
            this_model = this_model or tuned_with(1, seeds)
            two_seeds = two_seeds or tuned_with(2, seeds)
    return replace(verdict, why_not="; ".join(reasons), this_model=this_model, two_seeds=two_seeds)
