"""The float, font size and width that let a LaTeX table fit the line, from estimated widths.

Widths are estimated for Computer Modern in a class with 10 pt. The estimates are 1 to 10 % above the real widths, which
leaves room for classes with 11 pt. Times, the font of most two-column classes, is not wider.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

PAGE_LINE = 345.0
"""Points of a line of ``article``."""
COLUMN_LINE = 219.0
"""Points of a line in the narrowest column of the two-column classes (acl; article has 229, IEEEtran 252)."""
WIDE_LINE = 455.0
"""Points of both columns of such a class."""
PAGE_HEIGHT = 480.0
"""Points that a float may be high, with its notes and its caption; a class with 11 pt has a tenth more of each line."""
_CAPTION = 40.0
"""Points of a caption of two lines."""
_NARROW = 0.6
"""The share of the line to which a table with notes is stretched, since notes are as wide as their table."""


@dataclass(frozen=True, slots=True)
class Size:
    """A font size of LaTeX with the space between columns, in points.

    ``em``: the unit of ``text_width``, which is a little more than the font's size where the letters are wider.
    ``baseline``: from line to line.
    """

    name: str
    em: float
    baseline: float
    gap: float


SIZES = (
    Size("small", 9.25, 11.0, 6.0),
    Size("footnotesize", 8.5, 9.5, 4.0),
    Size("scriptsize", 7.97, 8.0, 3.0),
)
"""From the usual size to the smallest one."""
SCRIPT = SIZES[-1].em


@dataclass(frozen=True, slots=True)
class Cell:
    """The text of a cell, and of what stands behind it in script size whatever the size of the table."""

    text: str
    script: str = ""
    bold: bool = False

    def width(self, size: Size) -> float:
        """Return its points."""
        em = size.em * (1.15 if self.bold else 1.0)
        return em * text_width(self.text) + SCRIPT * text_width(self.script)


@dataclass(frozen=True, slots=True)
class Layout:
    """How a table is set.

    Attributes:
        size: of its text.
        float_name: ``table``, or ``table*`` over both columns of a page.
        scaled: whether it is scaled down to the line, since no size is small enough.
        width: its estimated points before it is scaled.
        line: points of the line.
        share: the share of the line to which it is stretched; 0 if it is not.
    """

    size: Size
    float_name: str
    scaled: bool
    width: float
    line: float
    share: float = 0.0

    @property
    def notes_size(self) -> Size:
        """The size of the notes below it, a step smaller where there is one."""
        return SIZES[1] if self.size is SIZES[0] else SIZES[2]


def text_width(text: str) -> float:
    """Return the width of a text in Computer Modern in em, estimated by classes of characters."""
    return sum(map(_character_width, text))


def _character_width(char: str) -> float:
    if char in " .,:;'`ijl!|[]":
        return 0.3
    if char in "-()frst/I":
        return 0.39
    if char in "mMwW%@—…":
        return 0.9
    if char in "+=±<>≠≤≥≈×→−&" or char.isupper():
        return 0.75
    if char > "\u017f" and char not in "†‘’“”✓✗–αβκλμρστ":
        return 4.3  # no font has it, so its code point is printed
    return 0.52


def table_width(columns: Sequence[Sequence[Cell]], size: Size) -> float:
    """Return the points of a table in which a line holds one cell of each column."""
    cells = sum(max((cell.width(size) for cell in column), default=0.0) for column in columns)
    return cells + 2 * size.gap * len(columns)


def layouts(columns_of_page: int) -> Iterator[tuple[Size, str, float]]:
    """Yield size, float and line of the ways to set a table, the preferred one first."""
    if columns_of_page == 1:
        for size in SIZES:
            yield size, "table", PAGE_LINE
        return
    yield SIZES[0], "table", COLUMN_LINE
    for size in SIZES:
        yield size, "table*", WIDE_LINE


def fitting_layout(
    columns: Sequence[Sequence[Cell]],
    n_lines: int,
    columns_of_page: int,
    notes: bool,
) -> Layout:
    """Return the first way to set a table in which it fits; the last one, scaled, if it fits in none.

    Args:
        columns: their cells, each with the lines of its heading first.
        n_lines: number of lines of the table, its heading included.
        columns_of_page: of the document class, 1 or 2.
        notes: whether notes stand below the table.
    """
    for size, float_name, line in layouts(columns_of_page):
        width = table_width(columns, size)
        if width <= line and fits_height(n_lines, size):
            share = _NARROW if notes and width < _NARROW * line else 0.0
            return Layout(size, float_name, False, width, line, share)
    return Layout(size, float_name, True, width, line)


def fits_height(n_lines: int, size: Size) -> bool:
    """Return whether so many lines and a caption fit on a page."""
    return n_lines <= lines_of_page(size)


def lines_of_page(size: Size) -> int:
    """Return how many lines fit on a page beside a caption."""
    return int((PAGE_HEIGHT - _CAPTION) / size.baseline)


def table_height(layout: Layout, n_lines: int) -> float:
    """Return the points of a table of so many lines as it is set, with its caption."""
    scale = min(1.0, layout.line / layout.width) if layout.scaled else 1.0
    return min(n_lines * layout.size.baseline * scale, 0.7 * PAGE_HEIGHT) + _CAPTION


def notes_that_fit(notes: Sequence[str], layout: Layout, used: float) -> int:
    """Return how many notes fit below a table of ``used`` points, from the first on."""
    size = layout.notes_size
    width = layout.line
    if not layout.scaled:
        width = max(min(layout.width, layout.line), layout.share * layout.line)
    height = used
    for n_fitting, note in enumerate(notes):
        lines = int(1.1 * size.em * text_width(note) / width) + 1
        height += lines * size.baseline
        if height > PAGE_HEIGHT:
            return n_fitting
    return len(notes)
