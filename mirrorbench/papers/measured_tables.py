"""Measured scores beside published ones; ``rendering`` turns them into text.

A score is the mean over seeds of the mean over tasks. It differs from the published value where the difference exceeds
two sample standard deviations over seeds and one unit of the last printed digit. Untuned encoders have no seeds, so the
digit alone decides; a tuned encoder with a single seed is not judged.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from mirrorbench.core.specs import EncoderSpec
from mirrorbench.papers.table_files import FactTable, PaperTable, Printed
from mirrorbench.papers.targets import Target
from mirrorbench.reports.comparable import newest, without_repeats
from mirrorbench.reports.leaderboard import mean_over_seeds
from mirrorbench.reports.table import Score
from mirrorbench.storage.results import Result

NOISE = 2.0
"""Standard deviations over seeds that count as noise."""
_ROUNDING = 1e-9
"""Differences that exceed a limit by less than this are due to rounding."""


@dataclass(frozen=True, slots=True)
class PaperCell:
    """The printed and the measured value, in the task's own unit.

    Attributes:
        printed: the printed cell.
        measured: the measured score; ``None`` without results.
        tuned: whether the score depends on the seed.
        comparable: whether the two values may be compared.
    """

    printed: Printed
    measured: Score | None = None
    tuned: bool = True
    comparable: bool = True

    @property
    def difference(self) -> float | None:
        """Measured minus published value; ``None`` if one of them is missing."""
        if self.measured is None or self.printed.value is None:
            return None
        return self.measured.mean - self.printed.value

    @property
    def differs(self) -> bool | None:
        """Whether the difference is more than the noise of the seeds; ``None`` where this is unknown."""
        if self.difference is None or self.measured is None or not self.comparable:
            return None
        size = abs(self.difference)
        exceeds_digit = size > self.printed.unit + _ROUNDING
        if not self.tuned:
            return exceeds_digit
        if self.measured.sd is None:
            return None
        exceeds_noise = size > NOISE * self.measured.sd + _ROUNDING
        return exceeds_noise and exceeds_digit


class CellCounts(NamedTuple):
    """How many cells of a table are measured."""

    measured: int
    """Number of cells with a measured score."""
    measurable: int
    """Number of cells that a run can measure, the measured ones included."""


@dataclass(frozen=True, slots=True)
class MeasuredTable:
    """A paper's table with measured scores; ``backbone``, if not ``None``, replaces the paper's backbones."""

    table: PaperTable
    cells: tuple[tuple[PaperCell, ...], ...]
    results: tuple[Result, ...] = ()
    backbone: EncoderSpec | None = None
    notes: tuple[str, ...] = ()

    @property
    def counts(self) -> CellCounts:
        """Numbers of cells; cells that are differences of others are not counted."""
        targets = self.table.targets(self.backbone)
        measured = sum(1 for row, column in targets if self.cells[row][column].measured)
        return CellCounts(measured, len(targets))


def measured_table(
    table: PaperTable,
    results: Iterable[Result],
    protocol: str = "paper",
    backbone: EncoderSpec | None = None,
) -> MeasuredTable:
    """Put the scores of the latest results under a protocol beside the published ones, in a table of the same cells.

    A cell without results of all its tasks stays unmeasured; so does one whose results cannot be averaged, for which a
    note says why. Scores on another ``backbone`` are not compared with the published ones.
    """
    # Choose the latest results of the table's targets.
    comparable = backbone is None
    targets = table.targets(backbone)
    results_of_table = _results_of(targets.values(), results, protocol)
    latest, remarks = newest(
        without_repeats(results_of_table), anew=f"mirrorbench paper {table.name} --run"
    )
    # All cells are unmeasured first; then those with complete results are replaced.
    cells = []
    for printed_row in table.printed:
        cells.append([PaperCell(printed, comparable=comparable) for printed in printed_row])
    # Results and notes are dictionaries, since several cells may have the same ones.
    shown: dict[str, Result] = {}
    notes = dict.fromkeys(remarks)
    for (row, column), target in targets.items():
        # A dictionary for each task of the cell: its results by seed.
        results_by_task = _results_by_task(target, latest)
        # One of its tasks has no results yet.
        if not all(results_by_task):
            continue
        reason = _reason_against_average(results_by_task, target)
        if reason:
            notes[reason] = None
            continue
        # The score depends on the seed if a result has a tuning recipe.
        tuned = False
        for result_by_seed in results_by_task:
            for result in result_by_seed.values():
                shown[result.cell_id] = result
                if result.cell.get("recipe"):
                    tuned = True
        printed = table.printed[row][column]
        score = _measured_score(target, results_by_task)
        cells[row][column] = PaperCell(printed, score, tuned, comparable)
    _fill_differences(table, cells)
    precisions = sorted({result.evaluated_in for result in shown.values()})
    if len(precisions) > 1:
        notes[f"not comparable: evaluated in {' and '.join(precisions)}"] = None
    measured_cells = tuple(map(tuple, cells))
    return MeasuredTable(table, measured_cells, tuple(shown.values()), backbone, tuple(notes))


def _results_of(
    targets: Iterable[Target], results: Iterable[Result], protocol: str
) -> Iterator[Result]:
    """Yield the results of some targets under a protocol; results of smoke runs are left out."""
    measurable = {(str(target.spec), task) for target in targets for task in target.tasks}
    for result in results:
        if result.protocol != protocol or result.limit:
            continue
        if (result.spec, result.task) in measurable:
            yield result


def _results_by_task(target: Target, results: Sequence[Result]) -> list[dict[int, Result]]:
    """Return the results by seed for each task of a target, in the order of its tasks; empty for a missing task."""
    spec = str(target.spec)
    by_task: dict[str, dict[int, Result]] = {task: {} for task in target.tasks}
    for result in results:
        if result.spec == spec and result.task in by_task:
            by_task[result.task][result.seed] = result
    return [by_task[task] for task in target.tasks]


def _reason_against_average(by_task: Sequence[Mapping[int, Result]], target: Target) -> str:
    """Return the reason against averaging results: a missing metric, different experiments or seeds; else empty."""
    for task, seeds in zip(target.tasks, by_task, strict=True):
        if any(result.metrics.get(target.metric) is None for result in seeds.values()):
            return f"{task}: the results have no {target.metric}"
        experiments = {
            (json.dumps(result.data, sort_keys=True), result.experiment)
            for result in seeds.values()
        }
        if len(experiments) > 1:
            return f"{target.spec} on {task}: the seeds differ in data, recipe, corpus or precision"
    if len({frozenset(seeds) for seeds in by_task}) > 1:
        return f"{target.spec}: not all tasks have the same seeds"
    return ""


def _measured_score(target: Target, by_task: Sequence[Mapping[int, Result]]) -> Score | None:
    """Return what a cell shows: the mean score over seeds, its deviation, or the mean seconds of tuning over seeds.

    ``None`` if it is undefined, such as the deviation of a single seed.
    """
    score = mean_over_seeds(by_task, target.metric)
    if score is None or target.statistic == "score":
        return score
    if target.statistic == "deviation":
        if score.sd is None:
            return None
        # The deviation takes the place of the mean, and has no deviation itself.
        return Score(score.sd, None, score.n, score.cell_ids)
    # The statistic is "seconds" or "seconds an epoch". All tasks share the tuning of a seed, so its seconds count once.
    seconds_by_seed: dict[int, float] = {}
    for seeds in by_task:
        for seed, result in seeds.items():
            train_seconds = result.seconds.get("train", 0.0)
            if target.statistic == "seconds an epoch":
                train_seconds /= result.cell["recipe"]["epochs"]
            seconds_by_seed[seed] = train_seconds
    seconds = list(seconds_by_seed.values())
    sd = statistics.stdev(seconds) if len(seconds) > 1 else None
    return Score(statistics.fmean(seconds), sd, len(seconds), score.cell_ids)


def _fill_differences(table: PaperTable, cells: list[list[PaperCell]]) -> None:
    """Fill in the columns of differences, where both scores are measured."""
    for row_index, row in enumerate(cells):
        for column, cell in enumerate(row):
            if cell.printed.absent:
                continue
            difference = _measured_difference(table, cells, row_index, column)
            if difference:
                row[column] = PaperCell(cell.printed, difference, comparable=False)


def _measured_difference(
    table: PaperTable, cells: Sequence[Sequence[PaperCell]], row: int, column: int
) -> Score | None:
    """Return the measured difference in a column of differences; ``None`` unless both scores are measured."""
    columns = table.difference(column)
    if columns is None:
        return None
    # A column minus itself stands for a difference from another row.
    subtracted_row: int | None = row
    if columns.minuend == columns.subtrahend:
        subtracted_row = table.against(row)
    if subtracted_row is None:
        return None
    left = cells[row][columns.minuend].measured
    right = cells[subtracted_row][columns.subtrahend].measured
    if left is None or right is None:
        return None
    return Score(left.mean - right.mean, None, left.n, (*left.cell_ids, *right.cell_ids))


Content = MeasuredTable | FactTable
