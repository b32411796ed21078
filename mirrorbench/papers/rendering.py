"""Papers' tables as text: as a leaderboard's ``Table`` in its formats, and as CSV and JSON of every cell."""

from __future__ import annotations

import csv
import io
import itertools
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
    """Return a ``Table``: facts as printed, or published values with the measured ones below them."""
    paper = content if isinstance(content, FactTable) else content.table
    title = f"{paper.title} ({paper.where})"
    if isinstance(content, FactTable):
        columns = tuple(Column(head, head) for head in content.columns)
        rows = [Row(row.label, "", tuple(map(_text_score, row.values))) for row in content.rows]
        return Table(title, columns, tuple(rows), content.notes, "facts", content.head)
    columns = tuple(
        Column(column.title, column.head, column.group) for column in content.table.columns
    )
    rows = _table_rows(content)
    notes = tuple(table_notes(content))
    return Table(title, columns, tuple(rows), notes, "scores", "model", content.table.sweeps)


def _text_score(text: str, value: float = math.nan) -> Score:
    """Return a cell that shows a text and is ranked by ``value``; NaN: not ranked."""
    return Score(value, None, 0, text=text)


def _table_rows(content: MeasuredTable) -> list[Row]:
    """Return up to three rows for each row of the paper: published values, measured values, differences."""
    texts = _CellTexts(content.table)
    rows = []
    for index, (row, cells) in enumerate(zip(content.table.rows, content.cells, strict=True)):
        parts = [("published", row.label, texts.published)]
        if any(cell.measured for cell in cells):
            parts.append(("measured", _measured_label(content, index), texts.measured))
        if content.backbone is None and any(cell.difference is not None for cell in cells):
            parts.append(("difference", "", texts.difference))
        for part, label, text_of in parts:
            scores = tuple(text_of(cell, row, column) for column, cell in enumerate(cells))
            rows.append(Row(label, row.label, scores, part=part))
    return rows


class _CellTexts:
    """The texts of a table's cells, in the scale and with the digits of the paper.

    Each method takes a cell, its row and the index of its column; it returns ``None`` for a missing value.
    """

    def __init__(self, table: PaperTable) -> None:
        self.table = table
        self.scale = SCALES[table.scale]
        self.digits = _digits_by_column(table)

    def published(self, cell: PaperCell, row: PaperRow, column: int) -> Score | None:
        """Return the printed text; ``ILLEGIBLE`` for a cell that is not legible."""
        printed = cell.printed
        if printed.absent:
            return None
        # A row that the paper does not print has no illegible cells, only missing ones.
        if row.source and not printed.text:
            return None
        return _text_score(printed.text or ILLEGIBLE, self._rank(printed.value, row, column))

    def measured(self, cell: PaperCell, row: PaperRow, column: int) -> Score | None:
        """Return the measured value with its deviation over seeds, if it has one."""
        score = cell.measured
        if score is None:
            return None
        sign = "+" if self.table.columns[column].difference else ""
        text = self._number(score.mean, column, sign)
        if score.sd is not None:
            text += f" ± {self._number(score.sd, column)}"
        return _text_score(text, self._rank(score.mean, row, column))

    def difference(self, cell: PaperCell, row: PaperRow, column: int) -> Score | None:
        """Return measured minus published, marked if it exceeds the noise; empty in a column of differences."""
        if cell.measured is None or self.table.columns[column].difference:
            return _text_score("")
        if cell.difference is None:
            return None
        text = self._number(cell.difference, column, "+")
        if cell.differs:
            text += f" {DIFFERS}"
        return _text_score(text)

    def _number(self, value: float, column: int, sign: str = "") -> str:
        """Return a value with the digits of its column, and ``sign`` before it unless it is negative."""
        scaled = value * self.scale
        digits = self.digits[column]
        if self.table.scale == "percent":
            # Percentages keep the zero before the point: .743, but 0.16 per cent.
            text = f"{scaled:z.{digits}f}"
        else:
            text = number(scaled, digits)
        return text if text.startswith("-") else f"{sign}{text}"

    def _rank(self, value: float | None, row: PaperRow, column: int) -> float:
        """Return the value that ranks a cell; NaN for cells without a rank."""
        if value is None or row.source:
            return math.nan
        if self.table.scale == "raw" or self.table.columns[column].difference:
            return math.nan
        return round(value * self.scale, self.digits[column])


def _measured_label(content: MeasuredTable, row: int) -> str:
    """Return the label of the encoder that was measured for a row on another backbone.

    Columns may add parameters to its spec: the label has only those that all measured columns share. Empty for the
    paper's own backbones, and if nothing is measured.
    """
    if content.backbone is None:
        return ""
    specs = []
    for column, cell in enumerate(content.cells[row]):
        if not cell.measured:
            continue
        target = content.table.target(row, column, content.backbone)
        if target:
            specs.append(target.spec)
    if not specs:
        return ""
    shared_params = set(specs[0].params)
    for spec in specs:
        shared_params &= set(spec.params)
    # In the order of the first spec.
    params = tuple(param for param in specs[0].params if param in shared_params)
    return row_label(replace(specs[0], params=params), plugins())


def _digits_by_column(table: PaperTable) -> list[int]:
    """Return the digits after the point of each column: the most common number in the column, or else in the table."""
    default = _most_common_digits(itertools.chain(*table.printed)) or _DIGITS[table.scale]
    digits = []
    for i, column in enumerate(table.columns):
        if column.statistic in _STATISTIC_DIGITS:
            digits.append(_STATISTIC_DIGITS[column.statistic])
        else:
            digits.append(_most_common_digits(row[i] for row in table.printed) or default)
    return digits


def _most_common_digits(cells: Iterable[Printed]) -> int | None:
    """Return the most common number of digits after the point; ``None`` without a printed number."""
    counts = Counter(len(cell.text.partition(".")[2]) for cell in cells if cell.value is not None)
    if not counts:
        return None
    ((digits, _),) = counts.most_common(1)
    return digits


def _comma_separated(content: Content) -> str:
    """Return CSV with a line for each cell, in full precision and the task's own unit; facts as printed."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    if isinstance(content, FactTable):
        writer.writerow([content.head, *content.columns])
        writer.writerows([row.label, *row.values] for row in content.rows)
        return stream.getvalue()
    cells = _cell_objects(content)
    writer.writerow(cells[0])  # the keys, which are the same for all cells
    for cell in cells:
        fields = []
        for value in cell.values():
            fields.append(" ".join(value) if isinstance(value, list) else value)
        writer.writerow(fields)
    return stream.getvalue()


def _json(content: Content) -> str:
    """Return a JSON document: the table's header, then a flat object for each cell in printed order, and the notes.

    A table of facts has its rows as printed instead.
    """
    document: dict[str, Any]
    if isinstance(content, FactTable):
        document = {
            "name": content.name,
            "title": content.title,
            "where": content.where,
            "head": content.head,
            "columns": content.columns,
            "rows": [(row.label, row.values, row.preset) for row in content.rows],
            "notes": content.notes,
        }
    else:
        table = content.table
        counts = content.counts
        document = {
            "table": table.name,
            "title": table.title,
            "where": table.where,
            "scale": table.scale,
            "backbone": str(content.backbone) if content.backbone else None,
            "measured": counts.measured,
            "measurable": counts.measurable,
            "cells": _cell_objects(content),
            "notes": table_notes(content),
        }
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def _cell_objects(content: MeasuredTable) -> list[dict[str, Any]]:
    """Return an object for each cell, in printed order: its fields in the JSON, and columns in the CSV."""
    cells = []
    for row in range(len(content.table.rows)):
        for column in range(len(content.table.columns)):
            cells.append(_cell_object(content, row, column))
    return cells


def _cell_object(content: MeasuredTable, row: int, column: int) -> dict[str, Any]:
    """Return one cell as an object: its fields in the JSON, and columns in the CSV.

    What is missing is ``None`` or an empty list: ``encoder``, ``tasks`` and ``metric`` if the cell cannot be measured,
    ``measured`` to ``seeds`` and ``cell_ids`` if it is not measured yet.
    """
    table = content.table
    cell = content.cells[row][column]
    values: dict[str, Any] = {
        "row": row + 1,
        "label": table.rows[row].label,
        "column": table.columns[column].title,
        "encoder": None,
        "tasks": [],
        "metric": None,
        "printed": cell.printed.text or None,
        "published": cell.printed.value,
        "measured": None,
        "sd": None,
        "seeds": None,
        "difference": cell.difference,
        "differs": cell.differs,
        "cell_ids": [],
    }
    target = table.target(row, column, content.backbone)
    if target is not None:
        values["encoder"] = str(target.spec)
        values["tasks"] = list(target.tasks)
        values["metric"] = target.metric
    score = cell.measured
    if score is not None:
        values["measured"] = score.mean
        values["sd"] = score.sd
        values["seeds"] = score.n
        values["cell_ids"] = list(score.cell_ids)
    return values


_CELL_FORMATS: dict[str, Callable[[Content], str]] = {"csv": _comma_separated, "json": _json}
"""Formats with all values of each cell; all other formats show the table as a ``Table``."""


def check_paper_format(format_: str) -> None:
    """Raise ``UnknownNameError`` for an unknown format of a paper's table."""
    if format_ not in _CELL_FORMATS:
        plugins().renderers.entry(format_)


def render_paper(content: Content, format_: str, notes: str = "all", **options: Any) -> str:
    """Render a table in a registered format, or as CSV or JSON of every cell, which have no notes and options.

    Args:
        content: the table.
        format_: name of the format; ``UnknownNameError`` for an unknown one.
        notes: level of the notes, as in ``mirrorbench.reports.table.NOTES``.
        **options: options of the renderer.
    """
    if format_ in _CELL_FORMATS:
        return _CELL_FORMATS[format_](content)
    entry = plugins().renderers.entry(format_)
    return call(entry, str, entry.value.render, as_table(content).with_notes(notes), **options)
