"""Measured scores beside published ones, and the requests that measure a table.

A score is the mean over seeds of the mean over tasks. It differs from the published value where the difference exceeds
two sample standard deviations over seeds and one unit of the last printed digit. Untuned encoders have no seeds, so the
digit alone decides; a tuned encoder with a single seed is not judged.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from mirrorbench.core.specs import EncoderSpec
from mirrorbench.reports.build import mean_over_seeds
from mirrorbench.reports.papers.tables import PaperTable, Printed, Target
from mirrorbench.reports.provenance import without_repeats
from mirrorbench.reports.table import Score
from mirrorbench.runs.plan import Request, papers_row
from mirrorbench.runs.results import Result

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
    """A paper's table with measured scores; ``backbone``, if given, was used instead of the paper's backbones."""

    table: PaperTable
    cells: tuple[tuple[PaperCell, ...], ...]
    results: tuple[Result, ...] = ()
    backbone: EncoderSpec | None = None
    notes: tuple[str, ...] = ()

    @property
    def counts(self) -> tuple[int, int]:
        """Numbers of measured and of measurable cells, without those that are differences of others."""
        targets = self.table.targets(self.backbone)
        return sum(self.cells[r][c].measured is not None for r, c in targets), len(targets)


def measured_table(
    table: PaperTable, results: Iterable[Result], protocol: str = "paper", backbone: EncoderSpec | None = None
) -> MeasuredTable:
    """Put the latest results of a protocol beside published scores; on another ``backbone`` they are not compared."""
    stored: dict[tuple[str, str], dict[int, Result]] = {}
    for result in without_repeats(result for result in results if result.protocol == protocol):
        stored.setdefault((result.spec, result.task), {})[result.seed] = result
    cells = [[PaperCell(printed, comparable=backbone is None) for printed in row.printed] for row in table.rows]
    used: dict[str, Result] = {}
    notes: dict[str, None] = {}
    for (r, c), target in table.targets(backbone).items():
        spec = str(papers_row(target.spec, protocol))
        found = [stored.get((spec, task), {}) for task in target.tasks]
        if not all(found):
            continue
        if reason := _not_averageable(found, target):
            notes[reason] = None
            continue
        own = {result.cell_id: result for task in found for result in task.values()}
        used |= own
        score = mean_over_seeds(found, target.metric)
        tuned = any(result.cell.get("recipe") for result in own.values())
        cells[r][c] = PaperCell(table.rows[r].printed[c], score, tuned, backbone is None)
    for r, row in enumerate(cells):
        for c, cell in enumerate(row):
            if not cell.printed.absent and (score := _difference(table, cells, r, c)):
                row[c] = PaperCell(cell.printed, score, comparable=False)
    return MeasuredTable(table, tuple(map(tuple, cells)), tuple(used.values()), backbone, tuple(notes))


def _not_averageable(found: Sequence[Mapping[int, Result]], target: Target) -> str:
    """Why results must not be averaged (metric missing, different experiments or seeds); empty where they may."""
    for task, seeds in zip(target.tasks, found, strict=True):
        if any(result.metrics.get(target.metric) is None for result in seeds.values()):
            return f"{task}: the results have no {target.metric}"
        if len({(json.dumps(r.data, sort_keys=True), r.experiment) for r in seeds.values()}) > 1:
            return f"{target.spec} on {task}: the seeds differ in data, recipe, corpus or precision"
    if len({frozenset(seeds) for seeds in found}) > 1:
        return f"{target.spec}: not all tasks have the same seeds"
    return ""


def _difference(table: PaperTable, cells: Sequence[Sequence[PaperCell]], row: int, column: int) -> Score | None:
    """The measured value of a column of differences; ``None`` for other columns, or where a score is missing."""
    pair = table.columns[column].difference
    if pair is None:
        return None
    first, second = pair
    other = row if first != second else table.rows[row].against
    one, two = cells[row][first].measured, None if other is None else cells[other][second].measured
    if one is None or two is None:
        return None
    return Score(one.mean - two.mean, None, one.n, (*one.cell_ids, *two.cell_ids))


def paper_requests(
    table: PaperTable, seeds: int, protocol: str = "paper", backbone: EncoderSpec | None = None
) -> list[Request]:
    """Requests for exactly the measurable cells of a table; on another ``backbone`` without encoder systems."""
    tasks: dict[EncoderSpec, dict[str, None]] = {}
    for target in table.targets(backbone).values():
        if backbone is None or target.spec.method:
            tasks.setdefault(papers_row(target.spec, protocol), {}).update(dict.fromkeys(target.tasks))
    by_tasks: dict[tuple[str, ...], list[EncoderSpec]] = {}
    for spec, names in tasks.items():
        by_tasks.setdefault(tuple(names), []).append(spec)
    return [Request(tuple(specs), names, tuple(range(seeds)), "", protocol) for names, specs in by_tasks.items()]
