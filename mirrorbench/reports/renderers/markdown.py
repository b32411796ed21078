"""Markdown, as GitHub reads it."""

from __future__ import annotations

import re

from mirrorbench.reports.renderers.numbers import with_deviation, with_legend, with_marks
from mirrorbench.reports.table import Score, Table

# Characters that Markdown could take for markup; "_" only at the edge of a word, "]" only where a link would follow.
_SPECIAL = re.compile(
    r"[\\`*|<$]|&(?=[#A-Za-z0-9])|~(?=~)|\](?=\()|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])|^(?:[#>+-]|\d+[.)])(?=\s)"
)
_MARKS = {0: "{}", 1: "**{}**", 2: "<u>{}</u>"}


def escape_markdown(text: str) -> str:
    """Text that stands in a rendered page, or in a cell of a table, as it is."""
    return _SPECIAL.sub(lambda match: "\\" + match[0], " ".join(text.split()))


def markdown(table: Table) -> str:
    """A GitHub table: bold best, ``<u>`` second."""
    from tabulate import tabulate

    rows = [
        [escape_markdown(row.label), *(_cell(s, mark) for s, mark in zip(row.scores, ranks, strict=True))]
        for row, ranks in zip(table.rows, table.ranks(), strict=True)
    ]
    heads = ["encoder", *map(escape_markdown, table.heads())]
    align = ["left"] + ["right"] * len(table.columns)
    text = tabulate(rows, headers=heads, tablefmt="pipe", disable_numparse=True, colalign=align if rows else None)
    title = f"**{escape_markdown(table.title)}**\n\n" if table.title else ""
    notes = "".join(f"\n\n{escape_markdown(note)}" for note in with_legend(table))
    return f"{title}{text}{notes}\n"


def _cell(score: Score | None, rank: int) -> str:
    return _MARKS[rank].format(with_deviation(score)) + with_marks(score)
