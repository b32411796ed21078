"""The float, font size and width that let a LaTeX table fit the line, from estimated widths.

Widths are estimated for Computer Modern in a class with 10 pt. The estimates are 1 to 10 % above the real widths, which
leaves room for classes with 11 pt. Times, the font of most two-column classes, is not wider.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

PAGE_LINE = 345.0
"""Points of a line of ``article``."""
COLUMN_LINE = 219.0
"""Points of a line in the narrowest column of the two-column classes (acl; article has 229, IEEEtran 252)."""
WIDE_LINE = 455.0
"""Points of a line across both columns of a page."""
PAGE_HEIGHT = 480.0
"""Points that a float may be high, with its notes and its caption; a class with 11 pt has a tenth more of each line."""
_CAPTION = 40.0
"""Points of a caption of two lines."""
_SHARE_WITH_NOTES = 0.6
"""The share of the line to which a narrower table with notes is stretched, since notes are as wide as their table."""


@dataclass(frozen=True, slots=True)
class Size:
    """A font size of LaTeX; all lengths are in points.

    Attributes:
        name: LaTeX's command, without its backslash.
        em: the unit of ``text_width``; a little more than the font's size, if the letters are wider in proportion.
        baseline: the distance from line to line.
        gap: half the space between two columns (``tabcolsep``).
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
    """The text of a cell.

    Attributes:
        text: in the size of the table.
        script: what follows it in script size, whatever the size of the table.
        bold: whether ``text`` is bold.
    """

    text: str
    script: str = ""
    bold: bool = False

    def width(self, size: Size) -> float:
        """Return the width of the cell in points."""
        em = size.em * (1.15 if self.bold else 1.0)
        return em * text_width(self.text) + SCRIPT * text_width(self.script)


@dataclass(frozen=True, slots=True)
class Layout:
    """How a table is set.

    Attributes:
        size: size of its text.
        float_name: ``table``, or ``table*`` across both columns of a page.
        scaled: whether it is scaled down to the line, since no size is small enough.
        width: its estimated width in points, before it is scaled.
        line: the length of the line in points.
        share: the share of the line to which the table is stretched; 0 if it is not stretched.
    """

    size: Size
    float_name: str
    scaled: bool
    width: float
    line: float
    share: float = 0.0

    @property
    def notes_size(self) -> Size:
        """The size of the notes below the table: a step smaller, if there is a smaller one."""
        return SIZES[1] if self.size is SIZES[0] else SIZES[2]


def text_width(text: str) -> float:
    """Return the estimated width of a text in Computer Modern, in em."""
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
        return 4.3  # no font has the character, so its code point is printed
    return 0.52


def table_width(columns: Sequence[Sequence[Cell]], size: Size) -> float:
    """Return the estimated width of a table in points, from the cells of each column."""
    cells = sum(max((cell.width(size) for cell in column), default=0.0) for column in columns)
    return cells + 2 * size.gap * len(columns)


def _layouts(columns_of_page: int, cells: Sequence[Sequence[Cell]]) -> Iterator[Layout]:
    """Yield the ways to set a table without scaling, whether it fits or not, the preferred one first."""
    if columns_of_page == 1:
        for size in SIZES:
            yield Layout(size, "table", False, table_width(cells, size), PAGE_LINE)
        return
    yield Layout(SIZES[0], "table", False, table_width(cells, SIZES[0]), COLUMN_LINE)
    for size in SIZES:
        yield Layout(size, "table*", False, table_width(cells, size), WIDE_LINE)


def fitting_layout(
    columns: Sequence[Sequence[Cell]],
    n_lines: int,
    columns_of_page: int,
    has_notes: bool,
) -> Layout:
    """Return the preferred layout in which a table fits; if it fits in none, the last one, scaled down.

    Args:
        columns: the cells of each column, those of its heading first.
        n_lines: number of lines of the table, its heading included.
        columns_of_page: number of columns of a page in the document class, 1 or 2.
        has_notes: whether notes stand below the table.
    """
    layouts = list(_layouts(columns_of_page, columns))
    for layout in layouts:
        if layout.width > layout.line or not fits_height(n_lines, layout.size):
            continue
        if has_notes and layout.width < _SHARE_WITH_NOTES * layout.line:
            return replace(layout, share=_SHARE_WITH_NOTES)
        return layout
    return replace(layouts[-1], scaled=True)


def fits_height(n_lines: int, size: Size) -> bool:
    """Test whether a number of lines and a caption fit on a page."""
    return n_lines <= lines_of_page(size)


def lines_of_page(size: Size) -> int:
    """Return how many lines fit on a page beside a caption."""
    return int((PAGE_HEIGHT - _CAPTION) / size.baseline)


def table_height(layout: Layout, n_lines: int) -> float:
    """Return the height of a table in points, as it is set, with its caption; lines take at most 70 % of a page."""
    scale = min(1.0, layout.line / layout.width) if layout.scaled else 1.0
    return min(n_lines * layout.size.baseline * scale, 0.7 * PAGE_HEIGHT) + _CAPTION


def count_fitting_notes(notes: Sequence[str], layout: Layout, height_of_table: float) -> int:
    """Return how many notes fit on the page below a table, counted from the first.

    Args:
        notes: the notes in their order.
        layout: how the table is set.
        height_of_table: height of the table with its caption, in points.
    """
    size = layout.notes_size
    width = layout.line
    if not layout.scaled:
        width = max(min(layout.width, layout.line), layout.share * layout.line)
    height = height_of_table
    for n_fitting, note in enumerate(notes):
        # A tenth more, since lines end at the end of a word.
        lines = int(1.1 * size.em * text_width(note) / width) + 1
        height += lines * size.baseline
        if height > PAGE_HEIGHT:
            return n_fitting
    return len(notes)
