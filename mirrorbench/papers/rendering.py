"""Papers' tables as text: as a leaderboard's ``Table`` in its formats, and as CSV and JSON of every cell."""

from __future__ import annotations

import csv
import io
import json
import math
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from mirrorbench.core.plugins import call
from mirrorbench.papers.measured_tables import Content, MeasuredTable, PaperCell
from mirrorbench.papers.notes import DIFFERS, ILLEGIBLE, table_notes
from mirrorbench.papers.table_files import SCALES, FactTable, PaperRow, PaperTable, Printed
from mirrorbench.reports.leaderboard import row_label
from mirrorbench.reports.renderers import number
from mirrorbench.reports.table import Column, Row, Score, Table
from mirrorbench.runs.registry import plugins

_DIGITS = {"fraction": 3, "percent": 2, "raw": 3}
"""Digits after the point by scale, where no cell has any."""
_STATISTIC_DIGITS = {"deviation": 4, "seconds": 1, "seconds an epoch": 1}


def as_table(content: Content) -> Table:
    """Return facts as printed, or published values with the measured ones below them."""
    paper = content if isinstance(content, FactTable) else content.table
    title = f"{paper.title} ({paper.where})"
    if isinstance(content, FactTable):
        columns = tuple(Column(head, head) for head in content.columns)
        rows = [Row(row.label, "", tuple(map(_text, row.values))) for row in content.rows]
        return Table(title, columns, tuple(rows), content.notes, "facts", content.head)
    columns = tuple(Column(c.title, c.head, c.group) for c in content.table.columns)
    notes = tuple(table_notes(content))
    return Table(
        title, columns, tuple(_rows(content)), notes, "scores", "model", content.table.sweeps
    )


def _text(text: str, value: float = math.nan) -> Score:
    """A cell with a fixed text, ranked by ``value``."""
    return Score(value, None, 0, text=text)


def _rows(content: MeasuredTable) -> list[Row]:
    """Up to three rows for each row of the paper: published values, measured values, differences."""
    texts, rows = _CellTexts(content.table), []
    for r, (row, cells) in enumerate(zip(content.table.rows, content.cells, strict=True)):
        parts = [("published", row.label, texts.published)]
        if any(cell.measured for cell in cells):
            parts.append(("measured", _measured_label(content, r), texts.measured))
        if content.backbone is None and any(cell.difference is not None for cell in cells):
            parts.append(("difference", "", texts.difference))
        for part, label, text_of in parts:
            scores = tuple(text_of(cell, row, column) for column, cell in enumerate(cells))
            rows.append(Row(label, row.label, scores, part=part))
    return rows


class _CellTexts:
    """The texts of a table's cells, each of a row and a column, in the scale and digits of the paper."""

    def __init__(self, table: PaperTable) -> None:
        self.table, self.scale, self.digits = table, SCALES[table.scale], _digits(table)

    def published(self, cell: PaperCell, row: PaperRow, column: int) -> Score | None:
        if cell.printed.absent or (row.source and not cell.printed.text):
            return None
        return _text(cell.printed.text or ILLEGIBLE, self._rank(cell.printed.value, row, column))

    def measured(self, cell: PaperCell, row: PaperRow, column: int) -> Score | None:
        if cell.measured is None:
            return None
        text = self._number(
            cell.measured.mean, column, "+" if self.table.columns[column].difference else ""
        )
        text += "" if cell.measured.sd is None else f" ± {self._number(cell.measured.sd, column)}"
        return _text(text, self._rank(cell.measured.mean, row, column))

    def difference(self, cell: PaperCell, row: PaperRow, column: int) -> Score | None:
        if cell.measured is None or self.table.columns[column].difference:
            return _text("")
        if cell.difference is None:
            return None
        return _text(
            self._number(cell.difference, column, "+") + (f" {DIFFERS}" if cell.differs else "")
        )

    def _number(self, value: float, column: int, sign: str = "") -> str:
        scaled, n = value * self.scale, self.digits[column]
        text = (
            f"{scaled:z.{n}f}" if self.table.scale == "percent" else number(scaled, n)
        )  # .743, but 0.16 per cent
        return text if text.startswith("-") else f"{sign}{text}"

    def _rank(self, value: float | None, row: PaperRow, column: int) -> float:
        """The value that ranks a cell; NaN for cells without a rank."""
        if (
            value is None
            or self.table.scale == "raw"
            or self.table.columns[column].difference
            or row.source
        ):
            return math.nan
        return round(value * self.scale, self.digits[column])


def _measured_label(content: MeasuredTable, row: int) -> str:
    """The label of the encoder on another backbone, with the parameters that all columns share."""
    if content.backbone is None:
        return ""
    measured = [i for i, cell in enumerate(content.cells[row]) if cell.measured]
    specs = [
        target.spec for i in measured if (target := content.table.target(row, i, content.backbone))
    ]
    if not specs:
        return ""
    shared = tuple(item for item in specs[0].params if all(item in spec.params for spec in specs))
    return row_label(replace(specs[0], params=shared), plugins())


def _digits(table: PaperTable) -> list[int]:
    """Digits after the point of each column: the most common number in the column, or else in the table."""

    def most_common(cells: Iterable[Printed]) -> int | None:
        counts = Counter(
            len(cell.text.partition(".")[2]) for cell in cells if cell.value is not None
        )
        return counts.most_common(1)[0][0] if counts else None

    default = most_common(cell for row in table.printed for cell in row) or _DIGITS[table.scale]
    return [
        _STATISTIC_DIGITS.get(head.statistic)
        or most_common(row[i] for row in table.printed)
        or default
        for i, head in enumerate(table.columns)
    ]


def _comma_separated(content: Content) -> str:
    """CSV with a line for each cell, in full precision and the tasks' own units; facts as printed."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    if isinstance(content, FactTable):
        writer.writerow([content.head, *content.columns])
        writer.writerows([row.label, *row.values] for row in content.rows)
        return stream.getvalue()
    cells = _cells(content)
    writer.writerow(cells[0])
    writer.writerows(
        [" ".join(v) if isinstance(v, list) else v for v in cell.values()] for cell in cells
    )
    return stream.getvalue()


def _json(content: Content) -> str:
    """JSON with a flat object for each cell, in printed order."""
    value: dict[str, Any]
    if isinstance(content, FactTable):
        value = {
            name: getattr(content, name) for name in ("name", "title", "where", "head", "columns")
        }
        value |= {
            "rows": [(row.label, row.values, row.preset) for row in content.rows],
            "notes": content.notes,
        }
    else:
        table, (done, total) = content.table, content.counts
        value = {
            "table": table.name,
            "title": table.title,
            "where": table.where,
            "scale": table.scale,
        }
        value |= {"backbone": str(content.backbone) if content.backbone else None, "measured": done}
        value |= {"measurable": total, "cells": _cells(content), "notes": table_notes(content)}
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


def _cells(content: MeasuredTable) -> list[dict[str, Any]]:
    """The columns of the CSV by name, for each cell."""
    cells = []
    for r, (row, line) in enumerate(zip(content.table.rows, content.cells, strict=True)):
        for c, (column, cell) in enumerate(zip(content.table.columns, line, strict=True)):
            target, score = content.table.target(r, c, content.backbone), cell.measured
            cells.append(
                {
                    "row": r + 1,
                    "label": row.label,
                    "column": column.title,
                    "encoder": target and str(target.spec),
                    "tasks": list(target.tasks) if target else [],
                    "metric": target and target.metric,
                    "printed": cell.printed.text or None,
                    "published": cell.printed.value,
                    "measured": score and score.mean,
                    "sd": score and score.sd,
                    "seeds": score and score.n,
                    "difference": cell.difference,
                    "differs": cell.differs,
                    "cell_ids": list(score.cell_ids) if score else [],
                }
            )
    return cells


_FULL: dict[str, Callable[[Content], str]] = {"csv": _comma_separated, "json": _json}
"""Formats with every value of a cell; all others are formats of a ``Table``."""


def check_paper_format(format_: str) -> None:
    """Raise ``UsageError`` for an unknown format of a paper's table."""
    if format_ not in _FULL:
        plugins().renderers.entry(format_)


def render_paper(content: Content, format_: str, notes: str = "all", **options: Any) -> str:
    """Render a table in one of the registered formats; ``options`` are those of its renderer."""
    if full := _FULL.get(format_):
        return full(content)
    entry = plugins().renderers.entry(format_)
    return call(entry, str, entry.value.render, as_table(content).with_notes(notes), **options)
