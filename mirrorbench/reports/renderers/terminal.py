"""A table drawn on a terminal, in which a number is never cut.

Where the terminal is too narrow, first deviations and intervals go, then the names of encoders wrap, then the table is
split into blocks of columns, each with the rows that have a score there.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import groupby
from typing import TYPE_CHECKING, Any

from mirrorbench.reports.renderers.notes import note_lines
from mirrorbench.reports.renderers.numbers import marks, with_deviation
from mirrorbench.reports.table import Score, Table

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table as Grid

_RANK_STYLES = ("", "bold", "italic")
_NOTE_STYLES = {"+": "green", "-": "red", "!": "yellow"}
_NARROWEST = 28
"""Characters to which the names of encoders are wrapped at most."""
_FRAME = 3
"""Characters of a column beside its text: a line and two spaces."""

_Cell = tuple[str, str]
"""The text of a score: the part that its rank marks, and the rest."""


def draw(table: Table, console: Console) -> None:
    """Print the table and its notes."""
    from rich.table import Table as Grid
    from rich.text import Text

    room, title = console.width, table.heading
    labels = [max(map(len, part)) for part in zip(*table.labels(), strict=True)]
    cells = [list(map(_cell, row.scores)) for row in table.rows]
    widths = _widths(table, cells)
    blocks = [list(range(len(table.columns)))]
    if _needed(labels, widths) > room:
        whole = cells
        cells = [
            [_cell(s and replace(s, sd=None, interval=None)) for s in row.scores]
            for row in table.rows
        ]
        widths = _widths(table, cells)
        labels[0] = max(
            min(labels[0], _NARROWEST, room // 3),
            labels[0] + min(0, room - _needed(labels, widths)),
        )
        blocks = _column_blocks(table, labels, widths, room)
        if cells != whole and table.shown != "none":
            title = (
                f"{table.heading} (no room for deviations and intervals in {room} columns)".strip()
            )
    if title:
        console.print(Text(title, style="italic"))
    for columns in blocks:
        rows = [
            i
            for i, row in enumerate(table.rows)
            if len(blocks) == 1 or any(row.scores[c] for c in columns)
        ]
        console.print(_block(table, cells, rows, columns, labels, widths))
    console.print()
    lines, notes = note_lines(table), Grid.grid(padding=(0, 1, 0, 0))
    marked = any(mark for mark, _ in lines)
    for mark, note in lines:
        notes.add_row(*[Text(mark, style=_NOTE_STYLES.get(mark, ""))][:marked], Text(note))
    console.print(notes)


def _cell(score: Score | None) -> _Cell:
    return with_deviation(score), marks(score)


def _column_blocks(
    table: Table, labels: list[int], widths: list[int], room: int
) -> list[list[int]]:
    """Columns in blocks that fit, each of whole suites as far as they fit."""

    def fits(columns: list[int]) -> bool:
        return _needed(labels, [widths[i] for i in columns]) <= room

    blocks: list[list[int]] = [[]]
    for _, suite in groupby(range(len(table.columns)), lambda i: table.columns[i].suite):
        columns = list(suite)
        for part in [columns] if fits(columns) else [[i] for i in columns]:
            if blocks[-1] and not fits([*blocks[-1], *part]):
                blocks.append([])
            blocks[-1] += part
    return blocks


def _block(
    table: Table,
    cells: list[list[_Cell]],
    rows: list[int],
    columns: list[int],
    labels: list[int],
    widths: list[int],
) -> Grid:
    """Some rows and columns, drawn."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table as Grid
    from rich.text import Text

    drawn = Grid(header_style="", box=SIMPLE_HEAD, pad_edge=False, show_edge=False)
    heads, ranks, (corner, *row_labels) = table.heads(), table.ranks(), table.labels()
    for part, width in zip(corner, labels, strict=True):
        drawn.add_column(Text(part), width=width, overflow="fold")
    for i in columns:
        fixed: dict[str, Any] = {} if table.layout == "facts" else {"width": widths[i]}
        drawn.add_column(Text(heads[i]), justify="right", **fixed)
    breaks = table.blocks() if table.layout != "leaderboard" else []
    for i in rows:
        if i in breaks:
            drawn.add_section()
        scores = []
        for c in columns:
            marked, rest = cells[i][c]
            scores.append(Text.assemble((marked, _RANK_STYLES[ranks[i][c]]), rest))
        drawn.add_row(*map(Text, row_labels[i]), *scores)
    return drawn


def _needed(labels: list[int], widths: list[int]) -> int:
    return 1 + sum(width + _FRAME for width in (*labels, *widths))


def _widths(table: Table, cells: list[list[_Cell]]) -> list[int]:
    """The width of each column: of its widest cell and of the longest word of its heading."""
    heads = (max(map(len, head.split()), default=0) for head in table.heads())
    return [max([head, *(len("".join(row[i])) for row in cells)]) for i, head in enumerate(heads)]
