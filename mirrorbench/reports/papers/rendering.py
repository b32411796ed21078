"""The papers' tables as text: Markdown, LaTeX, CSV and JSON."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from mirrorbench.core.errors import UsageError
from mirrorbench.reports.papers.grid import DIFFERS, Line, PaperGrid, comparison_grid, fact_grid
from mirrorbench.reports.papers.measured import MeasuredTable
from mirrorbench.reports.papers.tables import FactTable
from mirrorbench.reports.renderers.markdown import escape_markdown
from mirrorbench.reports.renderers.tex import escape_latex, framed

Content = MeasuredTable | FactTable


def grid(content: Content) -> PaperGrid:
    """The content as lines of short texts."""
    return fact_grid(content) if isinstance(content, FactTable) else comparison_grid(content)


def check_format(format_: str) -> None:
    """Whether there is such a format.

    Raises:
        UsageError: there is not.
    """
    if format_ not in PAPER_FORMATS:
        raise UsageError(f"the papers' tables have no format {format_!r}", f"Formats: {', '.join(PAPER_FORMATS)}")


def render(content: Content, format_: str) -> str:
    """Text in one of ``PAPER_FORMATS``.

    Raises:
        UsageError: there is no such format.
    """
    check_format(format_)
    return PAPER_FORMATS[format_](content)


def markdown(content: Content) -> str:
    """A GitHub table with its notes."""
    from tabulate import tabulate

    shown = grid(content)
    marks = {0: "{}", 1: "**{}**", 2: "<u>{}</u>"}
    rows = [
        [
            escape_markdown(line.label),
            *([line.kind] if shown.kinds else []),
            *(
                marks[c.rank].format(escape_markdown(c.text)) + (f" {DIFFERS}" if c.marked else "")
                for c in line.cells
            ),
        ]
        for line in shown.lines
    ]  # fmt: skip
    heads = [shown.corner, *([""] if shown.kinds else []), *map(escape_markdown, shown.titles)]
    align = ["left"] * (len(heads) - len(shown.heads)) + ["right"] * len(shown.heads)
    text = tabulate(rows, headers=heads, tablefmt="github", disable_numparse=True, colalign=align)
    notes = "".join(f"\n\n{escape_markdown(note)}" for note in shown.notes)
    return f"**{escape_markdown(shown.title)}**\n\n{text}{notes}\n"


# Not among the letters of pdflatex's fonts; escape_latex leaves their code points.
_SYMBOLS = {"[U+2713]": r"$\surd$", "[U+2717]": r"$\times$", "[U+2260]": r"$\neq$"}


def latex(content: Content, standalone: bool = False) -> str:
    """A booktabs table, to be pasted into a paper that loads ``booktabs``; ``standalone`` is a whole document."""
    shown = grid(content)
    before = 2 if shown.kinds else 1
    types = "l" * before + ("l" if isinstance(content, FactTable) else "c") * len(shown.heads)
    tabular = [rf"\begin{{tabular}}{{{types}}}", r"\toprule", *_latex_head(shown, before), r"\midrule"]
    for i, line in enumerate(shown.lines):
        if shown.kinds and line.label and i:
            tabular.append(r"\addlinespace")
        tabular.append(_latex_line(line, shown.kinds))
    tabular += [r"\bottomrule", r"\end{tabular}"]
    return framed(tabular, _latex_text(" ".join([f"{shown.title}.", *shown.notes])), standalone)


def _latex_head(shown: PaperGrid, before: int) -> list[str]:
    blank = [""] * (before - 1)
    lines = [" & ".join([_latex_text(shown.corner), *blank, *map(_latex_text, shown.heads)]) + r" \\"]
    if not shown.groups:
        return lines
    spans = [rf"\multicolumn{{{n}}}{{c}}{{{_latex_text(group)}}}" for group, n in shown.groups]
    rules, first = [], before + 1
    for group, n in shown.groups:
        rules += [rf"\cmidrule(lr){{{first}-{first + n - 1}}}"] if group else []
        first += n
    return [" & ".join(["", *blank, *spans]).lstrip() + r" \\", " ".join(rules), *lines]


def _latex_line(line: Line, kinds: bool) -> str:
    marks = {0: "{}", 1: r"\textbf{{{}}}", 2: r"\underline{{{}}}"}
    cells = [
        marks[c.rank].format(_latex_text(c.text.replace("-", "−") if _is_number(c.text) else c.text))
        + (r"\,$\neq$" if c.marked else "")
        for c in line.cells
    ]
    return " & ".join([_latex_text(line.label), *([line.kind] if kinds else []), *cells]) + r" \\"


def _is_number(text: str) -> bool:
    return text.strip("+-.0123456789± ") == ""


def _latex_text(text: str) -> str:
    text = escape_latex(text)
    for code, symbol in _SYMBOLS.items():
        text = text.replace(code, symbol)
    return text


def comma_separated(content: Content) -> str:
    """CSV, one line a cell, in full precision and the tasks' own units; of a table of facts, the table."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    if isinstance(content, FactTable):
        writer.writerow([content.head, *content.columns])
        writer.writerows([label, *values] for label, values, _ in content.rows)
        return stream.getvalue()
    cells = as_object(content)["cells"]
    writer.writerow(cells[0])
    for cell in cells:
        writer.writerow(["" if v is None else " ".join(v) if isinstance(v, list) else v for v in cell.values()])
    return stream.getvalue()


def as_json(content: Content) -> str:
    """Everything as JSON."""
    value = asdict(content) if isinstance(content, FactTable) else as_object(content)
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


def as_object(comparison: MeasuredTable) -> dict[str, Any]:
    """A comparison as a JSON object; ``cells`` is one flat object a cell, in printed order."""
    table = comparison.table
    cells = []
    for r, (row, line) in enumerate(zip(table.rows, comparison.cells, strict=True)):
        for c, (column, cell) in enumerate(zip(table.columns, line, strict=True)):
            target, measured = table.target(r, c, comparison.backbone), cell.measured
            cells.append(
                {
                    "row": r + 1,
                    "label": row.label,
                    "column": column.title,
                    "encoder": str(target.spec) if target else None,
                    "tasks": list(target.tasks) if target else [],
                    "metric": target.metric if target else None,
                    "printed": cell.printed.text or None,
                    "published": cell.printed.value,
                    "measured": measured.mean if measured else None,
                    "sd": measured.sd if measured else None,
                    "seeds": measured.seeds if measured else None,
                    "difference": cell.difference,
                    "differs": cell.differs,
                    "cell_ids": list(measured.cell_ids) if measured else [],
                }
            )
    done, total = comparison.counts
    head = {"table": table.name, "title": table.title, "where": table.where, "scale": table.scale}
    backbone = str(comparison.backbone) if comparison.backbone else None
    notes = list(comparison_grid(comparison).notes)
    return {**head, "backbone": backbone, "measured": done, "measurable": total, "cells": cells, "notes": notes}


PAPER_FORMATS: dict[str, Callable[[Content], str]] = {
    "markdown": markdown,
    "latex": latex,
    "csv": comma_separated,
    "json": as_json,
}
