"""Measured scores beside published ones; ``rendering`` turns them into text.

A score is the mean over seeds of the mean over tasks. It differs from the published value where the difference exceeds
two sample standard deviations over seeds and one unit of the last printed digit. Untuned encoders have no seeds, so the
digit alone decides; a tuned encoder with a single seed is not judged.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

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


@dataclass(frozen=True, slots=True)
class PaperCell:
    """The printed and the measured value, in the task's own unit.

    ``tuned``: whether the score varies by seed; ``comparable``: whether the two values may be compared.
    """

    printed: Printed
    measured: Score | None = None
    tuned: bool = True
    comparable: bool = True

    @property
    def difference(self) -> float | None:
        """Measured minus published, ``None`` where one is missing."""
        if self.measured is None or self.printed.value is None:
            return None
        return self.measured.mean - self.printed.value

    @property
    def differs(self) -> bool | None:
        """Whether the difference is more than the noise of the seeds; ``None`` where this is unknown."""
        if self.difference is None or self.measured is None or not self.comparable:
            return None
        size = abs(self.difference)
        if not self.tuned:
            return size > self.printed.unit + _ROUNDING
        if self.measured.sd is None:
            return None
        return size > NOISE * self.measured.sd + _ROUNDING and size > self.printed.unit + _ROUNDING


@dataclass(frozen=True, slots=True)
class MeasuredTable:
    """A paper's table with measured scores; ``backbone``, if given, replaces the paper's backbones."""

    table: PaperTable
    cells: tuple[tuple[PaperCell, ...], ...]
    results: tuple[Result, ...] = ()
    backbone: EncoderSpec | None = None
    notes: tuple[str, ...] = ()

    @property
    def counts(self) -> tuple[int, int]:
        """Numbers of measured and of measurable cells; differences of other cells do not count."""
        targets = self.table.targets(self.backbone)
        return sum(self.cells[r][c].measured is not None for r, c in targets), len(targets)


def measured_table(
    table: PaperTable,
    results: Iterable[Result],
    protocol: str = "paper",
    backbone: EncoderSpec | None = None,
) -> MeasuredTable:
    """Put the latest results of a protocol beside published scores; those of another ``backbone`` are not compared."""
    wanted = {
        (str(target.spec), task)
        for target in table.targets(backbone).values()
        for task in target.tasks
    }
    usable = (
        r for r in results if r.protocol == protocol and not r.limit and (r.spec, r.task) in wanted
    )
    chosen, remarks = newest(without_repeats(usable), f"mirrorbench paper {table.name} --run")
    cells = [
        [PaperCell(printed, comparable=backbone is None) for printed in row]
        for row in table.printed
    ]
    used: dict[str, Result] = {}
    notes = dict.fromkeys(remarks)
    for (r, c), target in table.targets(backbone).items():
        own = [result for result in chosen if result.spec == str(target.spec)]
        by_task = [
            {result.seed: result for result in own if result.task == task} for task in target.tasks
        ]
        if not all(by_task):
            continue
        if reason := _not_averageable(by_task, target):
            notes[reason] = None
            continue
        used |= {result.cell_id: result for task in by_task for result in task.values()}
        tuned = any(result.cell.get("recipe") for task in by_task for result in task.values())
        cells[r][c] = PaperCell(
            table.printed[r][c], _measure(target, by_task), tuned, backbone is None
        )
    for r, row in enumerate(cells):
        for c, cell in enumerate(row):
            if not cell.printed.absent and (score := _difference(table, cells, r, c)):
                row[c] = PaperCell(cell.printed, score, comparable=False)
    if len(precisions := sorted({result.evaluated_in for result in used.values()})) > 1:
        notes[f"not comparable: evaluated in {' and '.join(precisions)}"] = None
    return MeasuredTable(
        table, tuple(map(tuple, cells)), tuple(used.values()), backbone, tuple(notes)
    )


def _not_averageable(by_task: Sequence[Mapping[int, Result]], target: Target) -> str:
    """The reason against averaging results (missing metric, different experiments or seeds), or ""."""
    for task, seeds in zip(target.tasks, by_task, strict=True):
        if any(result.metrics.get(target.metric) is None for result in seeds.values()):
            return f"{task}: the results have no {target.metric}"
        if len({(json.dumps(r.data, sort_keys=True), r.experiment) for r in seeds.values()}) > 1:
            return f"{target.spec} on {task}: the seeds differ in data, recipe, corpus or precision"
    if len({frozenset(seeds) for seeds in by_task}) > 1:
        return f"{target.spec}: not all tasks have the same seeds"
    return ""


def _measure(target: Target, by_task: Sequence[Mapping[int, Result]]) -> Score | None:
    """The statistic of a cell; ``None`` for the deviation of a single seed."""
    score = mean_over_seeds(by_task, target.metric)
    if score is None or target.statistic == "score":
        return score
    if target.statistic == "deviation":
        return None if score.sd is None else Score(score.sd, None, score.n, score.cell_ids)
    per_epoch = target.statistic == "seconds an epoch"
    by_seed = {
        seed: result.seconds.get("train", 0.0)
        / (result.cell["recipe"]["epochs"] if per_epoch else 1)
        for task in by_task
        for seed, result in task.items()
    }
    seconds = list(by_seed.values())
    sd = statistics.stdev(seconds) if len(seconds) > 1 else None
    return Score(statistics.fmean(seconds), sd, len(seconds), score.cell_ids)


def _difference(
    table: PaperTable, cells: Sequence[Sequence[PaperCell]], row: int, column: int
) -> Score | None:
    """The measured difference in a column of differences, if both of its scores are measured."""
    pair = table.difference(column)
    if pair is None:
        return None
    first, second = pair
    against = row if first != second else table.against(row)
    left, right = (
        cells[row][first].measured,
        None if against is None else cells[against][second].measured,
    )
    if left is None or right is None:
        return None
    return Score(left.mean - right.mean, None, left.n, (*left.cell_ids, *right.cell_ids))


Content = MeasuredTable | FactTable
