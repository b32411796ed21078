"""LaTeX tables with booktabs rules, for a paper or as a whole document."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import groupby
from textwrap import wrap
from typing import TYPE_CHECKING, Any

from mirrorbench.core.errors import UsageError
from mirrorbench.reports.renderers.notes import HINT_AT_ALL_NOTES, note_lines
from mirrorbench.reports.renderers.numbers import TIED, number, with_deviation
from mirrorbench.reports.renderers.tex_layout import (
    COLUMN_LINE,
    PAGE_LINE,
    SIZES,
    WIDE_LINE,
    Cell,
    Layout,
    count_fitting_notes,
    fits_height,
    fitting_layout,
    lines_of_page,
    table_height,
    table_width,
)
from mirrorbench.reports.renderers.titles import DEFAULT_TITLE, title_of
from mirrorbench.reports.table import Score, Table

if TYPE_CHECKING:
    from jinja2 import Template

_ESCAPES = {
    "\\": r"\textbackslash{}",
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "#": r"\#",
    "_": r"\_",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "±": r"$\pm$",
    "–": "--",
    "—": "---",
    "<": r"$<$",
    ">": r"$>$",
    "|": r"$|$",
    '"': r"\textquotedbl{}",
    "×": r"$\times$",
    "→": r"$\rightarrow$",
    "≤": r"$\leq$",
    "≥": r"$\geq$",
    "−": "$-$",
    "…": r"\ldots{}",
    "†": r"$^\dagger$",
    "‘": "`",
    "’": "'",
    "“": "``",
    "”": "''",
    "α": r"$\alpha$",
    "β": r"$\beta$",
    "κ": r"$\kappa$",
    "λ": r"$\lambda$",
    "μ": r"$\mu$",
    "ρ": r"$\rho$",
    "σ": r"$\sigma$",
    "τ": r"$\tau$",
    "≠": r"$\neq$",
    "≈": r"$\approx$",
    "✓": r"$\surd$",
    "✗": r"$\times$",
}
_LAST_LATIN = "\u017f"  # T1 has Latin letters up to here
_RANK_MARKS = ("{}", r"\textbf{{{}}}", r"\underline{{{}}}")
_HEADING_WIDTH = 12
"""Characters of a line of a column's heading."""
_LONGEST_UNBROKEN = 16
"""Characters of the longest word that is never broken."""
_BREAK_MARKS = ",:=/+_.-"
"""Characters after which a longer word may break."""


def escape_latex(text: str) -> str:
    """Escape text for pdflatex; a character that its fonts lack becomes its code point, such as ``[U+4E2D]``."""
    text = re.sub(r"(?<![\w-])-(?=\.?\d)", "−", " ".join(text.split()))
    # Two hyphens would be printed as a dash, so they are separated.
    parts = re.split(r"(?<=-)(?=-)", text)
    return "{}".join("".join(map(_escape, part)) for part in parts)


def protect_start(tex: str) -> str:
    r"""Protect LaTeX that follows ``\\`` or ``\item``, which would take a star or a bracket as an argument."""
    return f"{{}}{tex}" if tex.startswith(("[", "*")) else tex


def _escape(character: str) -> str:
    if character in _ESCAPES:
        return _ESCAPES[character]
    is_control = unicodedata.category(character).startswith("C")  # or a surrogate
    if is_control:
        return " "
    return character if character <= _LAST_LATIN else f"[U+{ord(character):04X}]"


def latex(
    table: Table,
    *,
    split: bool = False,
    resize: bool = False,
    percent: bool = False,
    deviations: bool = True,
    standalone: bool = False,
    label: str = "",
    columns: int = 1,
) -> str:
    r"""Render a booktabs table: bold best, underlined second, suites above their columns, a rule between backbones.

    The title is the caption. Notes stand below the table in its float (threeparttable), as many as a page has room for;
    the others are comments. A table that is wider than the line, or higher than a page, is set across both columns of a
    two-column page, then in a smaller size, and at last scaled down (graphicx). Comments at the top say why, and name
    the packages.

    Args:
        table: the table.
        split: make a float for each suite.
        resize: let LaTeX scale the table down where it is wider than the line or higher than the page, and do not
            estimate its size.
        percent: print scores times 100 with one digit after the point.
        deviations: print standard deviations over seeds.
        standalone: write a document that compiles, with ``resize``.
        label: label for \ref; by default it is made from the title.
        columns: number of columns of a page in the document class, 1 or 2.

    Raises:
        UsageError: ``percent`` or ``deviations=False`` for a paper's table, whose numbers are as printed, or
            ``columns`` is not 1 or 2.
    """
    if table.layout != "leaderboard" and (percent or not deviations):
        raise UsageError(
            "a paper's table has the numbers as printed", "Leave percent and deviations out."
        )
    if columns not in (1, 2):
        raise UsageError(
            f"latex:columns={columns}: a page has 1 or 2 columns", "Write latex:columns=2."
        )
    if not deviations:
        table = _without_deviations(table)

    # The notes, as sentences.
    show = _percent_text if percent else number
    # The hint at --notes all helps the author of a paper, but not its readers.
    lines = [note.removesuffix(HINT_AT_ALL_NOTES) for _, note in note_lines(table, show)]
    notes = [ended(line) for line in lines if line]

    # One tabular for each block of columns.
    resize = resize or standalone
    columns_by_suite = _columns_by_suite(table)
    blocks = columns_by_suite if split else [list(range(len(table.columns)))]
    tabulars = [
        _tabular(table, block, show, columns, resize, with_notes=False) for block in blocks[:-1]
    ]
    last_tabular = _tabular(table, blocks[-1], show, columns, resize, with_notes=bool(notes))
    tabulars.append(last_tabular)

    # The notes stand below the last one: as many as fit; the others become comments.
    layout = last_tabular["layout"]
    if standalone:
        # The page of the template ``table.tex`` has a longer line.
        layout = replace(layout, line=WIDE_LINE)
    n_fitting = count_fitting_notes(notes, layout, last_tabular["height"])

    title = title_of(table)
    could_be_split = not split and len(columns_by_suite) > 1
    return _template().render(
        tabulars=tabulars,
        notes=[protect_start(breakable(note)) for note in notes[:n_fitting]],
        notes_size=layout.notes_size.name,
        left_out=notes[n_fitting:],
        caption=breakable(title),
        label=label or _label_of(table),
        standalone=standalone,
        columns=columns,
        packages=_packages(tabulars, n_fitting > 0),
        splits=could_be_split,
        t1=_needs_t1_fonts(table, [title, *notes]),
    )


def _without_deviations(table: Table) -> Table:
    """Return a table without standard deviations."""
    rows = []
    for row in table.rows:
        scores = [replace(score, sd=None) if score else None for score in row.scores]
        rows.append(replace(row, scores=tuple(scores)))
    return replace(table, rows=tuple(rows))


def _label_of(table: Table) -> str:
    r"""Return a label for \ref, made from the title."""
    title = (table.title or DEFAULT_TITLE).lower()
    name = re.sub(r"[^a-z0-9]+", "-", title).strip("-")
    return f"tab:{name}"


def _needs_t1_fonts(table: Table, lines: Sequence[str]) -> bool:
    """Test whether a table, or the ``lines`` around it, have characters that the default fonts (OT1) lack."""
    labels = [row.label for row in table.rows]
    titles = [column.title for column in table.columns]
    for character in "".join([*lines, *labels, *titles]):
        if character == '"' or not (character.isascii() or character in _ESCAPES):
            return True
    return False


def _percent_text(value: float) -> str:
    return f"{100 * value:z.1f}"  # z: never -0.0


def _columns_by_suite(table: Table) -> list[list[int]]:
    """Return the indices of the columns of each suite; a column without a suite goes with the one before it."""
    blocks: list[list[int]] = [[]]
    for i, column in enumerate(table.columns):
        if i and column.suite not in ("", table.columns[i - 1].suite):
            blocks.append([])
        blocks[-1].append(i)
    return blocks


def _tabular(
    table: Table,
    columns: Sequence[int],
    show: Callable[[float], str],
    columns_of_page: int,
    resize: bool,
    with_notes: bool,
) -> dict[str, Any]:
    """Return the values of a ``tabular`` in the template; in a split leaderboard, rows without a score are left out.

    Args:
        table: the table.
        columns: indices of the columns in this ``tabular``.
        show: formats a number.
        columns_of_page: number of columns of a page in the document class, 1 or 2.
        resize: let LaTeX scale it down where it is too large, and do not estimate its size.
        with_notes: whether notes stand below it.
    """
    rows = list(range(len(table.rows)))
    if table.layout == "leaderboard" and len(columns) < len(table.columns):
        rows = [i for i in rows if any(table.rows[i].scores[column] for column in columns)]
    # The types of the columns in LaTeX, such as "lcc": those of labels, then those of scores.
    alignment = "l" if table.layout == "facts" else "c"
    types = "l" * len(table.labels()[0]) + alignment * len(columns)
    head = _head(table, columns)
    n_lines = len(rows) + len(head)

    cells = _cells_by_column(table, rows, columns, show)
    usual_width = table_width(cells, SIZES[0])
    if resize:
        line = COLUMN_LINE if columns_of_page == 2 else PAGE_LINE
        layout = Layout(
            size=SIZES[0], float_name="table", scaled=True, width=usual_width, line=line
        )
        reason = ""
    else:
        layout = fitting_layout(cells, n_lines, columns_of_page, with_notes)
        reason = _comment_on_layout(layout, usual_width, n_lines)
    return {
        "types": types,
        "head": head,
        "body": _body(table, rows, columns, show),
        "layout": layout,
        "reason": reason,
        "height": table_height(layout, n_lines),
        **_environment(layout, types),
    }


def _environment(layout: Layout, types: str) -> dict[str, str]:
    """Return the beginning and the end of a ``tabular``; it is stretched to ``layout.share`` of the line, if set."""
    if layout.share:
        width = rf"{{{layout.share:g}\linewidth}}"
        begin = rf"\begin{{tabular*}}{width}{{@{{\extracolsep{{\fill}}}}{types}}}"
        return {"begin": begin, "end": r"\end{tabular*}"}
    return {"begin": rf"\begin{{tabular}}{{{types}}}", "end": r"\end{tabular}"}


def _cells_by_column(
    table: Table, rows: Sequence[int], columns: Sequence[int], show: Callable[[float], str]
) -> list[list[Cell]]:
    """Return the cells of each column of labels and of scores, from which widths are estimated."""
    corner, *labels = table.labels()
    cells_by_column = []
    for part in range(len(corner)):
        cells = [Cell(corner[part])]
        for i in rows:
            cells.append(Cell(labels[i][part]))
        cells_by_column.append(cells)
    ranks = table.ranks()
    for column in columns:
        cells = [Cell(line) for line in _heading_lines(table.columns[column].title)]
        for i in rows:
            cells.append(_unformatted_cell(table.rows[i].scores[column], ranks[i][column], show))
        cells_by_column.append(cells)
    return cells_by_column


def _unformatted_cell(score: Score | None, rank: int, show: Callable[[float], str]) -> Cell:
    """Return a score as it is printed, without LaTeX's commands."""
    text = with_deviation(score, show)
    if score and score.tied:
        text += TIED
    interval = ""
    if score and score.interval:
        interval = f" [{', '.join(map(show, score.interval))}]"
    return Cell(text, interval, bold=rank == 1)


def _comment_on_layout(layout: Layout, width: float, n_lines: int) -> str:
    """Return a comment that says why a table is not a usual float in the usual size; empty if it is one.

    Args:
        layout: how the table is set.
        width: its width in the usual size, in points.
        n_lines: number of its lines.
    """
    usual = SIZES[0]
    if layout.size == usual and layout.float_name == "table" and not layout.scaled:
        return ""
    if layout.float_name == "table*":
        # The table is set over both columns since it did not fit into one.
        available_width = COLUMN_LINE
        noun = "a column"
    else:
        available_width = layout.line
        noun = "a line"
    reasons = []
    if width > available_width:
        reasons.append(f"about {width:.0f} pt wide ({noun}: {available_width:.0f} pt)")
    if not fits_height(n_lines, usual):
        reasons.append(f"{n_lines} lines high (a page: about {lines_of_page(usual)})")
    ways = []
    if layout.float_name == "table*":
        ways.append("over both columns")
    if layout.scaled:
        ways.append("scaled down")
    elif layout.size is not usual:
        ways.append(rf"in \{layout.size.name}")
    return rf"In \small it is {' and '.join(reasons)}, so it is set {', '.join(ways)}"


def _packages(tabulars: Sequence[dict[str, Any]], has_notes: bool) -> str:
    """Return the names of the LaTeX packages that tables need, joined by commas."""
    packages = ["booktabs"]
    if has_notes:
        packages.append("threeparttable")
    if any(tabular["layout"].scaled for tabular in tabulars):
        packages.append("graphicx")
    return ",".join(packages)


def ended(text: str) -> str:
    """Add a full stop to text without a mark at its end; empty text stays empty."""
    text = text.strip()
    if not text or text.endswith((".", "!", "?", ":")):
        return text
    return f"{text}."


def _head(table: Table, columns: Sequence[int]) -> list[str]:
    """Return the lines of the heading; if the table has several suites, a line of suites and one of rules come first.

    ``columns`` are the indices of the columns that are shown.
    """
    corner = [protect_start(escape_latex(part)) for part in table.labels()[0]]
    shown_columns = [table.columns[i] for i in columns]
    titles = [latex_heading(column.title) for column in shown_columns]
    line_of_titles = " & ".join([*corner, *titles]) + r" \\"
    if not table.groups() or not any(column.suite for column in shown_columns):
        return [line_of_titles]

    cells = [""] * len(corner)
    rules = []
    first = len(corner) + 1  # LaTeX counts columns from 1
    for suite, columns_of_suite in groupby(shown_columns, lambda column: column.suite):
        span = len(list(columns_of_suite))
        cells.append(rf"\multicolumn{{{span}}}{{c}}{{{escape_latex(suite)}}}")
        if suite:
            rules.append(rf"\cmidrule(lr){{{first}-{first + span - 1}}}")
        first += span
    line_of_suites = " & ".join(cells).lstrip() + r" \\"
    return [line_of_suites, " ".join(rules), line_of_titles]


def latex_heading(title: str) -> str:
    """Return a title in LaTeX, broken into lines if it is long."""
    lines = [escape_latex(line) for line in _heading_lines(title)]
    text = r" \\{} ".join(lines)
    return rf"\shortstack{{{text}}}" if len(lines) > 1 else text


def _heading_lines(title: str) -> list[str]:
    return wrap(title, _HEADING_WIDTH, break_long_words=False, break_on_hyphens=False)


def _body(
    table: Table, rows: Sequence[int], columns: Sequence[int], show: Callable[[float], str]
) -> list[str]:
    """Return the lines of some rows and columns, given by index, with a rule between blocks of rows."""
    rule = r"\midrule" if table.layout == "leaderboard" else r"\addlinespace"
    block_starts = table.blocks()
    labels = table.labels()[1:]  # without the heading
    ranks = table.ranks()
    lines = []
    previous = None
    for i in rows:
        # The row that begins a block may not be among ``rows``.
        if previous is not None and any(previous < start <= i for start in block_starts):
            lines.append(rule)
        first, *others = map(escape_latex, labels[i])
        cells = [protect_start(first), *others]
        for column in columns:
            cells.append(_cell(table.rows[i].scores[column], ranks[i][column], show))
        lines.append(" & ".join(cells) + r" \\")
        previous = i
    return lines


def _cell(score: Score | None, rank: int, show: Callable[[float], str]) -> str:
    """Return a score in LaTeX: bold or underlined by its rank, with dagger and interval."""
    text = with_deviation(score, show)
    is_number = text.strip("+-.0123456789± ≠") == ""
    if is_number:
        # "-" is a minus sign, not a hyphen.
        text = text.replace("-", "−")
    tex = escape_latex(text).replace(r" $\neq$", r"\,$\neq$")
    tex = _RANK_MARKS[rank].format(tex)
    if score and score.tied:
        tex += escape_latex(TIED)
    if score and score.interval:
        ends = [escape_latex(show(end).replace("-", "−")) for end in score.interval]
        tex += rf"\,{{\scriptsize [{', '.join(ends)}]}}"
    return tex


def breakable(text: str) -> str:
    """Escape text, and let long words break after marks; a word with a long part without marks breaks anywhere."""
    return " ".join(map(_breakable_word, text.split()))


def _breakable_word(word: str) -> str:
    if len(word) <= _LONGEST_UNBROKEN:
        return escape_latex(word)
    parts = re.split(f"[{_BREAK_MARKS}]", word)
    breaks_anywhere = max(map(len, parts)) > _LONGEST_UNBROKEN
    tex = ""
    for character in word:
        tex += escape_latex(character)
        if breaks_anywhere or character in _BREAK_MARKS:
            tex += r"\allowbreak{}"
    return tex


@lru_cache
def _template() -> Template:
    from jinja2 import Environment, PackageLoader

    return Environment(
        "((*",
        "*))",
        "(((",
        ")))",
        loader=PackageLoader("mirrorbench.reports.renderers", "template"),
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    ).get_template("table.tex")
