"""Measured scores beside published ones, and their rendering.

A score is the mean over seeds of the mean over tasks. It differs from the published value where the difference exceeds
two sample standard deviations over seeds and one unit of the last printed digit. Untuned encoders have no seeds, so the
digit alone decides; a tuned encoder with a single seed is not judged.
"""

from __future__ import annotations

import csv
import io
import json
import math
import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from mirrorbench.plugin import (
    Column,
    EncoderSpec,
    Result,
    Row,
    Score,
    Table,
    call,
    mean_over_seeds,
    newest,
    number,
    plugins,
    provenance,
    row_label,
    without_repeats,
)
from mirrorbench_papers.tables import SCALES, FactTable, PaperTable, Printed
from mirrorbench_papers.targets import Target

NOISE = 2.0
"""Standard deviations over seeds that count as noise."""

DIFFERS = "≠"
"""Marks a difference of more than the noise of the seeds."""
ILLEGIBLE = "?"
"""Shown where the printed value is illegible in our copies of the paper."""

_DIGITS = {"fraction": 3, "percent": 2, "raw": 3}
_DIGITS_OF = {"deviation": 4, "seconds": 1, "seconds an epoch": 1}
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
    asked = {(str(target.spec), task) for target in table.targets(backbone).values() for task in target.tasks}
    usable = (r for r in results if r.protocol == protocol and not r.limit and (r.spec, r.task) in asked)
    chosen, remarks = newest(without_repeats(usable), f"mirrorbench paper {table.name} --run")
    cells = [[PaperCell(printed, comparable=backbone is None) for printed in row] for row in table.printed]
    used: dict[str, Result] = {}
    notes = dict.fromkeys(remarks)
    for (r, c), target in table.targets(backbone).items():
        own = [result for result in chosen if result.spec == str(target.spec)]
        by_task = [{result.seed: result for result in own if result.task == task} for task in target.tasks]
        if not all(by_task):
            continue
        if reason := _not_averageable(by_task, target):
            notes[reason] = None
            continue
        used |= {result.cell_id: result for task in by_task for result in task.values()}
        tuned = any(result.cell.get("recipe") for task in by_task for result in task.values())
        cells[r][c] = PaperCell(table.printed[r][c], _measure(target, by_task), tuned, backbone is None)
    for r, row in enumerate(cells):
        for c, cell in enumerate(row):
            if not cell.printed.absent and (score := _difference(table, cells, r, c)):
                row[c] = PaperCell(cell.printed, score, comparable=False)
    if len(precisions := sorted({result.evaluated_in for result in used.values()})) > 1:
        notes[f"not comparable: evaluated in {' and '.join(precisions)}"] = None
    return MeasuredTable(table, tuple(map(tuple, cells)), tuple(used.values()), backbone, tuple(notes))


def _not_averageable(by_task: Sequence[Mapping[int, Result]], target: Target) -> str:
    """The reason against averaging results (metric missing, different experiments or seeds); empty without one."""
    for task, seeds in zip(target.tasks, by_task, strict=True):
        if any(result.metrics.get(target.metric) is None for result in seeds.values()):
            return f"{task}: the results have no {target.metric}"
        if len({(json.dumps(r.data, sort_keys=True), r.experiment) for r in seeds.values()}) > 1:
            return f"{target.spec} on {task}: the seeds differ in data, recipe, corpus or precision"
    if len({frozenset(seeds) for seeds in by_task}) > 1:
        return f"{target.spec}: not all tasks have the same seeds"
    return ""


def _measure(target: Target, by_task: Sequence[Mapping[int, Result]]) -> Score | None:
    """The statistic that a cell shows; ``None`` for a deviation of one seed."""
    score = mean_over_seeds(by_task, target.metric)
    if score is None or target.statistic == "score":
        return score
    if target.statistic == "deviation":
        return None if score.sd is None else Score(score.sd, None, score.n, score.cell_ids)
    an_epoch = target.statistic == "seconds an epoch"
    by_seed = {
        seed: result.seconds.get("train", 0.0) / (result.cell["recipe"]["epochs"] if an_epoch else 1)
        for task in by_task
        for seed, result in task.items()
    }
    seconds = list(by_seed.values())
    sd = statistics.stdev(seconds) if len(seconds) > 1 else None
    return Score(statistics.fmean(seconds), sd, len(seconds), score.cell_ids)


def _difference(table: PaperTable, cells: Sequence[Sequence[PaperCell]], row: int, column: int) -> Score | None:
    """The measured value of a column of differences; ``None`` for other columns, or where a score is missing."""
    pair = table.difference(column)
    if pair is None:
        return None
    first, second = pair
    against = row if first != second else table.against(row)
    left, right = cells[row][first].measured, None if against is None else cells[against][second].measured
    if left is None or right is None:
        return None
    return Score(left.mean - right.mean, None, left.n, (*left.cell_ids, *right.cell_ids))


Content = MeasuredTable | FactTable


def as_table(content: Content) -> Table:
    """Facts as printed, or published values with measured ones below them."""
    paper = content if isinstance(content, FactTable) else content.table
    title = f"{paper.title} ({paper.where})"
    if isinstance(content, FactTable):
        columns = tuple(Column(head, head) for head in content.columns)
        rows = [Row(row.label, "", tuple(map(_text, row.values))) for row in content.rows]
        return Table(title, columns, tuple(rows), content.notes, "facts", content.head)
    columns = tuple(Column(c.title, c.head, c.group) for c in content.table.columns)
    shown, notes = tuple(_rows(content)), tuple(_notes(content))
    return Table(title, columns, shown, notes, "scores", "model", content.table.sweeps)


def _text(text: str, value: float = math.nan) -> Score:
    """A cell with a fixed text, ranked by ``value``."""
    return Score(value, None, 0, text=text)


def _rows(content: MeasuredTable) -> list[Row]:
    """Each row of the paper: published values, then measured values and differences where there are any."""
    table, rows = content.table, []
    digits, scale = _digits(table), SCALES[table.scale]

    def number_of(value: float, column: int, sign: str = "") -> str:
        shown, n = value * scale, digits[column]
        text = f"{shown:z.{n}f}" if table.scale == "percent" else number(shown, n)  # .743, but 0.16 per cent
        return text if text.startswith("-") else f"{sign}{text}"

    def rank(value: float | None, column: int) -> float:
        unranked = value is None or table.scale == "raw" or table.columns[column].difference or row.source
        return math.nan if unranked or value is None else round(value * scale, digits[column])

    def published(cell: PaperCell, column: int) -> Score | None:
        if cell.printed.absent or (row.source and not cell.printed.text):
            return None
        return _text(cell.printed.text or ILLEGIBLE, rank(cell.printed.value, column))

    def measured(cell: PaperCell, column: int) -> Score | None:
        if cell.measured is None:
            return None
        text = number_of(cell.measured.mean, column, "+" if table.columns[column].difference else "")
        text += "" if cell.measured.sd is None else f" ± {number_of(cell.measured.sd, column)}"
        return _text(text, rank(cell.measured.mean, column))

    def difference(cell: PaperCell, column: int) -> Score | None:
        if cell.measured is None or table.columns[column].difference:
            return _text("")
        if cell.difference is None:
            return None
        return _text(number_of(cell.difference, column, "+") + (f" {DIFFERS}" if cell.differs else ""))

    for r, (row, cells) in enumerate(zip(table.rows, content.cells, strict=True)):
        known = any(cell.measured for cell in cells)
        different = content.backbone is None and any(cell.difference is not None for cell in cells)
        parts = [published, measured, difference][: 1 + known + different]
        for part in parts:
            scores = tuple(part(cell, column) for column, cell in enumerate(cells))
            label = row.label if part is published else _run_as(content, r) if part is measured else ""
            rows.append(Row(label, row.label, scores, part=part.__name__))
    return rows


def _run_as(content: MeasuredTable, row: int) -> str:
    """The encoder that was run on another backbone, with the keys that it has in all columns; empty for the paper's."""
    if content.backbone is None:
        return ""
    measured = [i for i, cell in enumerate(content.cells[row]) if cell.measured]
    specs = [target.spec for i in measured if (target := content.table.target(row, i, content.backbone))]
    if not specs:
        return ""
    shared = tuple(item for item in specs[0].params if all(item in spec.params for spec in specs))
    return row_label(replace(specs[0], params=shared), plugins())


def _digits(table: PaperTable) -> list[int]:
    """Digits after the point in each column: the most common number in the column, or else in the table."""

    def usual(cells: Iterable[Printed]) -> int | None:
        counts = Counter(len(cell.text.partition(".")[2]) for cell in cells if cell.value is not None)
        return counts.most_common(1)[0][0] if counts else None

    default = usual(cell for row in table.printed for cell in row) or _DIGITS[table.scale]
    return [
        _DIGITS_OF.get(head.statistic) or usual(row[i] for row in table.printed) or default
        for i, head in enumerate(table.columns)
    ]


def _notes(content: MeasuredTable) -> list[str]:
    table = content.table
    notes = [*table.notes, *(f"{row.label}: {row.note}." for row in table.rows if row.note)]
    sources: dict[str, list[str]] = {}
    for line in table.rows:
        if line.source:
            sources.setdefault(line.source, []).append(line.label)
    notes += [f"Not ranked; the values are those of {where}: {', '.join(rows)}." for where, rows in sources.items()]
    reasons: dict[str, list[str]] = {}
    for head in table.columns:
        if head.unavailable:
            reasons.setdefault(head.unavailable, []).append(head.title)
    notes += [f"Not measurable: {', '.join(heads)}: {reason}." for reason, heads in reasons.items()]
    notes += [
        f"Inconsistent: {_row_name(table, row)}, {table.columns[column].title}: the printed values give "
        f"{x.recomputed}; {x.note}."
        for x in table.inconsistencies
        for row, column in [table.place(x)]
    ]
    elsewhere: dict[tuple[int, str], list[str]] = {}
    for x in table.disagreements:
        row, column = table.place(x)
        elsewhere.setdefault((row, x.where), []).append(f"{table.columns[column].title}: {x.note}")
    notes += [
        f"Elsewhere otherwise ({where}): {_row_name(table, row)}, {'; '.join(remarks)}."
        for (row, where), remarks in elsewhere.items()
    ]
    if any(not p.text for line, row in zip(table.rows, table.printed, strict=True) if not line.source for p in row):
        notes.append(f"{ILLEGIBLE}: not legible, or not printed as a number, in the copies that this was typed from.")
    shown: dict[str, list[str]] = {}
    for head in table.columns:
        if asked := head.analysis:
            shown.setdefault(f"{asked.value} by mirrorbench analyze {asked.kind}", []).append(head.title)
    notes += [f"{', '.join(heads)}: measured as {what}." for what, heads in shown.items()]
    if content.results and content.backbone is not None:
        notes.append(
            f"Measured with {content.backbone} in place of the paper's models: compare the shape, not the values."
        )
    elif content.results:
        notes.append(
            f"{DIFFERS}: differs by more than {NOISE:g} standard deviations over seeds and one unit of the last digit; "
            "untuned encoders have no seeds, so the digit decides; of a single seed of a tuned one nothing is said."
        )
    targets = table.targets(content.backbone).items()
    metrics = {target.metric for (r, c), target in targets if content.cells[r][c].measured}
    return [*notes, *content.notes, *(map(str, provenance(content.results, metrics)) if content.results else ())]


def _row_name(table: PaperTable, row: int) -> str:
    return f"{table.rows[row].label} (row {row + 1})"


def _comma_separated(content: Content) -> str:
    """CSV: a line for each cell, in full precision and the tasks' own units; a table of facts as it is."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    if isinstance(content, FactTable):
        writer.writerow([content.head, *content.columns])
        writer.writerows([row.label, *row.values] for row in content.rows)
        return stream.getvalue()
    cells = _cells(content)
    writer.writerow(cells[0])
    writer.writerows([" ".join(v) if isinstance(v, list) else v for v in cell.values()] for cell in cells)
    return stream.getvalue()


def _json(content: Content) -> str:
    """JSON; ``cells`` holds a flat object for each cell, in printed order."""
    value: dict[str, Any]
    if isinstance(content, FactTable):
        value = {name: getattr(content, name) for name in ("name", "title", "where", "head", "columns")}
        value |= {"rows": [(row.label, row.values, row.preset) for row in content.rows], "notes": content.notes}
    else:
        table, (done, total) = content.table, content.counts
        value = {"table": table.name, "title": table.title, "where": table.where, "scale": table.scale}
        value |= {"backbone": str(content.backbone) if content.backbone else None, "measured": done}
        value |= {"measurable": total, "cells": _cells(content), "notes": _notes(content)}
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


def _cells(content: MeasuredTable) -> list[dict[str, Any]]:
    cells = []
    for r, (row, line) in enumerate(zip(content.table.rows, content.cells, strict=True)):
        for c, (column, cell) in enumerate(zip(content.table.columns, line, strict=True)):
            target, score = content.table.target(r, c, content.backbone), cell.measured
            cells.append({
                "row": r + 1, "label": row.label, "column": column.title,
                "encoder": target and str(target.spec), "tasks": list(target.tasks) if target else [],
                "metric": target and target.metric,
                "printed": cell.printed.text or None, "published": cell.printed.value,
                "measured": score and score.mean, "sd": score and score.sd, "seeds": score and score.n,
                "difference": cell.difference, "differs": cell.differs,
                "cell_ids": list(score.cell_ids) if score else [],
            })  # fmt: skip
    return cells


_OWN: dict[str, Callable[[Content], str]] = {"csv": _comma_separated, "json": _json}
"""Formats that hold every value of a paper's cells; all others are those of tables."""


def check_paper_format(format_: str) -> None:
    """Raise ``UsageError`` for an unknown format."""
    if format_ not in _OWN:
        plugins().renderers.entry(format_)


def render_paper(content: Content, format_: str, notes: str = "all", **options: Any) -> str:
    """The table as text in one of the registered formats; ``options`` are those of its renderer."""
    if own := _OWN.get(format_):
        return own(content)
    entry = plugins().renderers.entry(format_)
    return call(entry, str, entry.value.render, as_table(content).with_notes(notes), **options)
