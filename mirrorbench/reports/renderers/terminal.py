"""A table drawn on a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mirrorbench.reports.renderers.text import with_deviation, with_legend, with_marks
from mirrorbench.reports.table import Table

if TYPE_CHECKING:
    from rich.console import Console

_STYLES = ("", "bold", "underline")


def draw(table: Table, console: Console) -> None:
    """Print the table and its notes."""
    from rich.markup import escape
    from rich.table import Table as RichTable
    from rich.text import Text

    drawn = RichTable(title=escape(table.title) or None, header_style="")
    (corner, *part), *labels = table.labels()
    drawn.add_column(Text(corner), no_wrap=True)
    for head in part:
        drawn.add_column(head)
    for head in table.heads():
        drawn.add_column(Text(head), justify="right")
    breaks = table.blocks() if table.kind != "leaderboard" else []
    for i, (label, row, ranks) in enumerate(zip(labels, table.rows, table.ranks(), strict=True)):
        if i in breaks:
            drawn.add_section()
        cells = [
            Text.assemble((with_deviation(s), _STYLES[rank]), with_marks(s))
            for s, rank in zip(row.scores, ranks, strict=True)
        ]
        drawn.add_row(*map(Text, label), *cells)
    console.print(drawn)
    for note in with_legend(table):
        console.print(Text(note, style="dim"))
