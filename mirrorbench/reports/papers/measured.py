"""Published and measured, side by side.

A measured score is the mean over seeds of the mean over tasks. It is said to differ from the published value only where
that is more than the noise of the seeds: by more than two sample standard deviations and by more than one unit of the
last printed digit. A single seed of a tuned encoder says nothing about noise, so there is no claim; an encoder that is
not tuned has no such noise, so the digit alone decides.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from mirrorbench.core.specs import EncoderSpec
from mirrorbench.reports.papers.tables import PaperTable, Printed, Target
from mirrorbench.runs.plan import papers_row
from mirrorbench.runs.results import Result

NOISE = 2.0
"""How many standard deviations over seeds count as noise."""

_FUZZ = 1e-9


@dataclass(frozen=True, slots=True)
class Measured:
    """A measured score.

    Attributes:
        mean: over seeds, in the task's own unit.
        sd: sample standard deviation over seeds, ``None`` for a single one.
        seeds: how many.
        tuned: whether the encoder was tuned, so that seeds matter.
        cell_ids: the results behind it.
    """

    mean: float
    sd: float | None = None
    seeds: int = 1
    tuned: bool = True
    cell_ids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PaperCell:
    """A cell: what is printed, what was measured (``None``: nothing), and whether the two may be compared."""

    printed: Printed
    measured: Measured | None = None
    comparable: bool = True

    @property
    def difference(self) -> float | None:
        """Measured minus published, ``None`` where one is missing."""
        if self.measured is None or self.printed.value is None:
            return None
        return self.measured.mean - self.printed.value

    @property
    def differs(self) -> bool | None:
        """Whether the difference is more than seed noise; ``None`` where nothing can be said."""
        if self.difference is None or self.measured is None or not self.comparable:
            return None
        size = abs(self.difference)
        if not self.measured.tuned:
            return size > self.printed.unit + _FUZZ
        if self.measured.sd is None:
            return None
        return size > NOISE * self.measured.sd + _FUZZ and size > self.printed.unit + _FUZZ


@dataclass(frozen=True, slots=True)
class MeasuredTable:
    """A table of a paper with what was measured.

    Attributes:
        table: as published.
        cells: rows of cells, in printed order.
        results: those that were used.
        backbone: what took the place of the papers' backbones, ``None`` for nothing.
        notes: what a reader of the measured scores must know.
    """

    table: PaperTable
    cells: tuple[tuple[PaperCell, ...], ...]
    results: tuple[Result, ...] = ()
    backbone: EncoderSpec | None = None
    notes: tuple[str, ...] = ()

    @property
    def counts(self) -> tuple[int, int]:
        """How many cells are measured, and how many could be; differences of others do not count."""
        targets = self.table.targets(self.backbone)
        return sum(self.cells[r][c].measured is not None for r, c in targets), len(targets)


class StoredScores:
    """Stored results, looked up by encoder and task.

    Args:
        results: any number of them.
        protocol: those of another protocol are left out.
    """

    def __init__(self, results: Iterable[Result], protocol: str = "paper") -> None:
        self._protocol = protocol
        self._cells: dict[tuple[str, str], dict[int, Result]] = {}
        for result in results:
            if result.protocol == protocol:
                seeds = self._cells.setdefault((result.spec, result.task), {})
                # The same cell may lie in several folders: the latest stays.
                if result.seed not in seeds or seeds[result.seed].created < result.created:
                    seeds[result.seed] = result

    def find(self, target: Target) -> list[dict[int, Result]]:
        """For each task of a target its results by seed; empty where a task has none."""
        spec = str(papers_row(target.spec, self._protocol))
        found = [self._cells.get((spec, task), {}) for task in target.tasks]
        return found if all(found) else []


def measured_table(table: PaperTable, results: StoredScores, backbone: EncoderSpec | None = None) -> MeasuredTable:
    """Put measured scores beside the published ones.

    Args:
        table: as published.
        results: what was measured.
        backbone: look for rows on this backbone instead of the papers'; such scores are not held against the published.
    """
    cells = [[PaperCell(printed, None, backbone is None) for printed in row.printed] for row in table.rows]
    used: dict[str, Result] = {}
    notes: dict[str, None] = {}
    for (r, c), target in table.targets(backbone).items():
        found = results.find(target)
        reason = _unfit(found, target)
        if reason:
            notes[reason] = None
        elif found:
            used |= {result.cell_id: result for task in found for result in task.values()}
            cells[r][c] = PaperCell(table.rows[r].printed[c], _measured(found, target), backbone is None)
    for r, row in enumerate(cells):
        for c in range(len(row)):
            if not table.rows[r].printed[c].absent and (measured := _difference(table, cells, r, c)):
                row[c] = PaperCell(row[c].printed, measured, comparable=False)
    return MeasuredTable(table, tuple(map(tuple, cells)), tuple(used.values()), backbone, tuple(notes))


def _unfit(found: Sequence[dict[int, Result]], target: Target) -> str:
    """Why results must not make up a score: they lack the metric, or were not made alike; empty where they may."""
    for task, seeds in zip(target.tasks, found, strict=False):
        if any(result.metrics.get(target.metric) is None for result in seeds.values()):
            return f"{task}: the results have no {target.metric}"
        made = {(json.dumps(r.data, sort_keys=True), r.experiment) for r in seeds.values()}
        if len(made) > 1:
            return f"{target.spec} on {task}: the seeds differ in data, recipe, corpus or precision"
    if len({frozenset(seeds) for seeds in found}) > 1:
        return f"{target.spec}: not all tasks have the same seeds"
    return ""


def _measured(found: Sequence[dict[int, Result]], target: Target) -> Measured:
    values = []
    for seed in sorted(found[0]):
        scores = [task[seed].metrics[target.metric] for task in found]
        values.append(statistics.fmean(score for score in scores if score is not None))
    results = [result for task in found for result in task.values()]
    return Measured(
        mean=statistics.fmean(values),
        sd=statistics.stdev(values) if len(values) > 1 else None,
        seeds=len(values),
        tuned=any(result.cell.get("recipe") for result in results),
        cell_ids=tuple(result.cell_id for result in results),
    )


def _difference(table: PaperTable, cells: Sequence[Sequence[PaperCell]], row: int, column: int) -> Measured | None:
    """The measured counterpart of a printed difference, ``None`` where the column is none or a part is missing."""
    pair = table.columns[column].difference
    if pair is None:
        return None
    first, second = pair
    other = row if first != second else table.rows[row].against
    if other is None:
        return None
    one, two = cells[row][first].measured, cells[other][second].measured
    if one is None or two is None:
        return None
    return Measured(one.mean - two.mean, None, one.seeds, one.tuned, (*one.cell_ids, *two.cell_ids))
