"""A table drawn on a terminal, in which a number is never cut.

Where the terminal is too narrow, first deviations and intervals go, then the names of encoders wrap, then the table is
split into blocks of columns, each with the rows that have a score there.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import groupby
from typing import TYPE_CHECKING

from mirrorbench.reports.renderers.notes import note_lines
from mirrorbench.reports.renderers.numbers import marks, with_deviation
from mirrorbench.reports.table import Score, Table

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table as Grid

_RANK_STYLES = ("", "bold", "italic")
_NOTE_STYLES = {"+": "green", "-": "red", "!": "yellow"}
_LEAST_LABEL_WIDTH = 28
"""Characters of a line of labels below which labels are not wrapped, unless the terminal itself is narrow."""
_COLUMN_FRAME = 3
"""Characters of a column beside its text: a line and two spaces."""

_Cell = tuple[str, str]
"""The text of a score: the part that its rank marks, and the rest."""


def draw(table: Table, console: Console) -> None:
    """Print the table and its notes; a heading says if deviations and intervals have no room."""
    from rich.text import Text

    title = table.heading
    cells = [[_cell(score) for score in row.scores] for row in table.rows]
    # A row has one label or, in a paper's table, a label and its part.
    label_widths = [max(map(len, part)) for part in zip(*table.labels(), strict=True)]
    widths = _column_widths(table, cells)
    blocks = [list(range(len(table.columns)))]
    if _needed_width(label_widths, widths) > console.width:
        # First deviations and intervals go.
        short_cells = [[_cell_of_mean(score) for score in row.scores] for row in table.rows]
        if short_cells != cells and table.shown != "none":
            title += f" (no room for deviations and intervals in {console.width} columns)"
        cells = short_cells
        widths = _column_widths(table, cells)
        # Then labels are wrapped, down to a width at which they can still be read.
        missing_width = max(0, _needed_width(label_widths, widths) - console.width)
        least_width = min(label_widths[0], _LEAST_LABEL_WIDTH, console.width // 3)
        label_widths[0] = max(least_width, label_widths[0] - missing_width)
        # At last the table is split.
        blocks = _fitting_blocks(table, label_widths, widths, console.width)
    if title:
        console.print(Text(title.strip(), style="italic"))
    for columns in blocks:
        rows = list(range(len(table.rows)))
        if len(blocks) > 1:
            # Rows without a score in a block are left out of it.
            rows = [i for i in rows if any(table.rows[i].scores[column] for column in columns)]
        console.print(_grid(table, cells, rows, columns, label_widths, widths))
    console.print()
    console.print(_notes(table))


def _notes(table: Table) -> Grid:
    """Return the notes, with their marks in a column of their own if there are any."""
    from rich.table import Table as Grid
    from rich.text import Text

    lines = note_lines(table)
    has_marks = any(mark for mark, _ in lines)
    notes = Grid.grid(padding=(0, 1, 0, 0))
    for mark, note in lines:
        if has_marks:
            notes.add_row(Text(mark, style=_NOTE_STYLES.get(mark, "")), Text(note))
        else:
            notes.add_row(Text(note))
    return notes


def _cell(score: Score | None) -> _Cell:
    """Return the text of a score with its deviation, and its interval and dagger."""
    return with_deviation(score), marks(score)


def _cell_of_mean(score: Score | None) -> _Cell:
    """Return the text of a score without its deviation and interval."""
    if score is None:
        return _cell(None)
    return _cell(replace(score, sd=None, interval=None))


def _fitting_blocks(
    table: Table, label_widths: list[int], widths: list[int], available: int
) -> list[list[int]]:
    """Split the columns into blocks that fit the available width; a suite is split only if no block holds it."""

    def fits(columns: list[int]) -> bool:
        return _needed_width(label_widths, [widths[i] for i in columns]) <= available

    blocks: list[list[int]] = [[]]
    for _, suite in groupby(range(len(table.columns)), lambda i: table.columns[i].suite):
        columns = list(suite)
        # A suite that is too wide for one block may be split after any column.
        parts = [columns] if fits(columns) else [[i] for i in columns]
        for part in parts:
            if blocks[-1] and not fits([*blocks[-1], *part]):
                blocks.append([])
            blocks[-1] += part
    return blocks


def _grid(
    table: Table,
    cells: list[list[_Cell]],
    rows: list[int],
    columns: list[int],
    label_widths: list[int],
    widths: list[int],
) -> Grid:
    """Return a grid of some rows and columns of a table, with the labels of the rows on the left.

    Args:
        table: the table.
        cells: the texts of all scores, by row and column.
        rows: indices of the rows to draw.
        columns: indices of the columns to draw.
        label_widths: widths of the label and of its other parts.
        widths: the width of each column of the table.
    """
    from rich.box import SIMPLE_HEAD
    from rich.table import Table as Grid
    from rich.text import Text

    grid = Grid(header_style="", box=SIMPLE_HEAD, pad_edge=False, show_edge=False)
    # The columns: those of the labels, then those of the scores.
    corner, *row_labels = table.labels()
    for part, width in zip(corner, label_widths, strict=True):
        grid.add_column(Text(part), width=width, overflow="fold")
    heads = table.heads()
    for i in columns:
        # Columns of facts hold texts, which may be wrapped to any width.
        width_of_column = None if table.layout == "facts" else widths[i]
        grid.add_column(Text(heads[i]), justify="right", width=width_of_column)
    ranks = table.ranks()
    # Leaderboards have no lines between blocks of rows; tables of papers and facts do.
    starts_of_sections = [] if table.layout == "leaderboard" else table.blocks()
    for i in rows:
        if i in starts_of_sections:
            grid.add_section()
        scores = []
        for column in columns:
            text, suffix = cells[i][column]
            style = _RANK_STYLES[ranks[i][column]]
            scores.append(Text.assemble((text, style), suffix))
        grid.add_row(*map(Text, row_labels[i]), *scores)
    return grid


def _needed_width(label_widths: list[int], widths: list[int]) -> int:
    return 1 + sum(width + _COLUMN_FRAME for width in (*label_widths, *widths))


def _column_widths(table: Table, cells: list[list[_Cell]]) -> list[int]:
    """Return the width of each column: the larger one of its widest cell and the longest word of its heading."""
    widths = []
    for i, head in enumerate(table.heads()):
        words = [len(word) for word in head.split()]
        scores = [len("".join(row[i])) for row in cells]
        widths.append(max([*words, *scores], default=0))
    return widths
