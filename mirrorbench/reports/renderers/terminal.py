"""A table drawn on a terminal, in which a number is never cut.

Where the terminal is too narrow, first deviations and intervals go, then the names of encoders wrap, then the table is
split into blocks of columns, each with the rows that have a score there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from mirrorbench.reports.renderers.notes import TIED, note_lines, number, with_deviation, with_marks
from mirrorbench.reports.table import Score, Table

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table as Grid

_STYLES = ("", "bold", "italic")
_MARKS = {"+": "green", "-": "red", "!": "yellow"}
_NARROWEST = 28
"""Characters to which the names of encoders are wrapped at most."""
_FRAME = 3
"""Characters that a column takes beside its text: a line and two spaces."""


class _Text(NamedTuple):
    """The text of a score: the part that its rank marks, and the rest."""

    score: str
    rest: str = ""

    @property
    def width(self) -> int:
        return len(self.score) + len(self.rest)


def draw(table: Table, console: Console) -> None:
    """Print the table and its notes."""
    from rich.table import Table as Grid
    from rich.text import Text

    labels, room, title = table.labels(), console.width, table.title
    names = [max(map(len, part)) for part in zip(*labels, strict=True)]
    cells = [[_Text(with_deviation(score), with_marks(score)) for score in row.scores] for row in table.rows]
    widths = _widths(table, cells)
    if table.layout != "facts" and _needed(names, widths) > room:
        whole, cells = cells, [[_shortened(score) for score in row.scores] for row in table.rows]
        widths = _widths(table, cells)
        names[0] = max(min(names[0], _NARROWEST, room // 3), names[0] + min(0, room - _needed(names, widths)))
        if cells != whole and table.shown != "none":
            title = f"{table.title} (no room for deviations and intervals in {room} columns)".strip()
    if title:
        console.print(Text(title, style="italic"))
    blocks = table.column_blocks(
        lambda columns: table.layout == "facts" or _needed(names, [widths[i] for i in columns]) <= room
    )
    for columns in blocks:
        rows = [i for i, row in enumerate(table.rows) if len(blocks) == 1 or any(row.scores[c] for c in columns)]
        console.print(_block(table, cells, rows, columns, names, widths))
    console.print()
    lines, notes = note_lines(table), Grid.grid(padding=(0, 1, 0, 0))
    marked = any(mark for mark, _ in lines)
    for mark, note in lines:
        notes.add_row(*[Text(mark, style=_MARKS.get(mark, ""))][:marked], Text(note))
    console.print(notes)


def _block(
    table: Table, cells: list[list[_Text]], rows: list[int], columns: list[int], names: list[int], widths: list[int]
) -> Grid:
    """Some rows and columns as a table."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table as Grid
    from rich.text import Text

    drawn = Grid(header_style="", box=SIMPLE_HEAD, pad_edge=False, show_edge=False)
    heads, ranks, (corner, *labels) = table.heads(), table.ranks(), table.labels()
    for part, width in zip(corner, names, strict=True):
        drawn.add_column(Text(part), width=width, overflow="fold")
    for i in columns:
        fixed: dict[str, Any] = {} if table.layout == "facts" else {"width": widths[i]}
        drawn.add_column(Text(heads[i]), justify="right", **fixed)
    breaks = table.blocks() if table.layout != "leaderboard" else []
    for i in rows:
        if i in breaks:
            drawn.add_section()
        texts = (Text.assemble((cells[i][c].score, _STYLES[ranks[i][c]]), cells[i][c].rest) for c in columns)
        drawn.add_row(*map(Text, labels[i]), *texts)
    return drawn


def _needed(names: list[int], widths: list[int]) -> int:
    return 1 + sum(width + _FRAME for width in (*names, *widths))


def _widths(table: Table, cells: list[list[_Text]]) -> list[int]:
    """The width of each column: of its widest cell and of the longest word of its heading."""
    heads = (max(map(len, head.split()), default=0) for head in table.heads())
    return [max([head, *(row[i].width for row in cells)]) for i, head in enumerate(heads)]


def _shortened(score: Score | None) -> _Text:
    """The mean alone, and the dagger."""
    if score is None or score.text is not None:
        return _Text(with_deviation(score))
    return _Text(number(score.mean), TIED if score.tied else "")
