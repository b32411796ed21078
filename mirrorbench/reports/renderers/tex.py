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
from mirrorbench.reports.renderers.notes import MORE, note_lines
from mirrorbench.reports.renderers.numbers import TIED, number, with_deviation
from mirrorbench.reports.renderers.tex_layout import (
    COLUMN_LINE,
    PAGE_LINE,
    SIZES,
    WIDE_LINE,
    Cell,
    Layout,
    fits_height,
    fitting_layout,
    lines_of_page,
    notes_that_fit,
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
_HEADING = 12
"""Characters of a line of a heading."""
_LONG, _BREAKS = 16, ",:=/+_.-"
"""The longest word that may not break, and the marks after which longer ones do."""


def escape_latex(text: str) -> str:
    """Escape text for pdflatex; a character that is not in its fonts becomes its code point."""
    text = re.sub(r"(?<![\w-])-(?=\.?\d)", "−", " ".join(text.split()))
    parts = re.split(r"(?<=-)(?=-)", text)  # two hyphens would be printed as a dash
    return "{}".join("".join(map(_escape, part)) for part in parts)


def at_start(tex: str) -> str:
    """Return LaTeX that may follow a line break or an item, which take a star or a bracket for their own."""
    return f"{{}}{tex}" if tex.startswith(("[", "*")) else tex


def _escape(char: str) -> str:
    if char in _ESCAPES:
        return _ESCAPES[char]
    if unicodedata.category(char).startswith("C"):  # control characters and surrogates
        return " "
    return char if char <= _LAST_LATIN else f"[U+{ord(char):04X}]"


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
    the others are comments. A table that is wider than the line, or higher than a page, is set over both columns of a
    page with two, then smaller, at last scaled down (graphicx). Comments at the top say why, and name the packages.

    Args:
        table: the table.
        split: a float for each suite.
        resize: scale what is wider than the line or higher than the page down to it, whatever its estimated width.
        percent: scores times 100 with one digit.
        deviations: print standard deviations over seeds.
        standalone: a document that compiles; it is resized.
        label: for \ref; by default made from the title.
        columns: of a page of the document class, 1 or 2.

    Raises:
        UsageError: percent or deviations are asked of a paper's table, which is as printed; columns are not 1 or 2.
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
        rows = (
            replace(row, scores=tuple(s and replace(s, sd=None) for s in row.scores))
            for row in table.rows
        )
        table = replace(table, rows=tuple(rows))
    title = title_of(table)
    show = _percent if percent else number
    name = re.sub(r"[^a-z0-9]+", "-", (table.title or DEFAULT_TITLE).lower()).strip("-")
    # The line on what else there is helps the author, and no reader of a paper.
    lines = [note.removesuffix(MORE) for _, note in note_lines(table, show)]
    notes = [ended(line) for line in lines if line]
    blocks = _column_blocks(table, split)
    tabulars = [
        _tabular(
            table, block, show, columns, resize or standalone, bool(notes) and block is blocks[-1]
        )
        for block in blocks
    ]
    fitting = _fitting_notes(tabulars[-1], notes, standalone)
    words = " ".join(
        [
            title,
            *notes,
            *(row.label for row in table.rows),
            *(column.title for column in table.columns),
        ]
    )
    return _template().render(
        tabulars=tabulars,
        notes=[at_start(breakable(note)) for note in notes[:fitting]],
        notes_size=tabulars[-1]["layout"].notes_size.name,
        left_out=notes[fitting:],
        caption=breakable(title),
        label=label or f"tab:{name}",
        standalone=standalone,
        columns=columns,
        packages=_packages(tabulars, bool(fitting)),
        splits=len(blocks) == 1 < len(_column_blocks(table, True)),
        t1=any(c == '"' or (not c.isascii() and c not in _ESCAPES) for c in words),
    )


def _percent(value: float) -> str:
    return f"{100 * value:z.1f}"  # z: no -0.0


def _column_blocks(table: Table, split: bool) -> list[list[int]]:
    """Columns of each tabular: all, or those of a suite and the following ones without a suite."""
    blocks: list[list[int]] = [[]]
    for i, column in enumerate(table.columns):
        if split and i and column.suite not in ("", table.columns[i - 1].suite):
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
    """The values of a ``tabular`` in the template; rows without a score in the columns are left out."""
    every = table.layout != "leaderboard" or len(columns) == len(table.columns)
    rows = [i for i, row in enumerate(table.rows) if every or any(row.scores[c] for c in columns)]
    types = "l" * len(table.labels()[0]) + ("l" if table.layout == "facts" else "c") * len(columns)
    head = _head(table, columns)
    cells = _cells_by_column(table, rows, columns, show)
    n_lines = len(rows) + len(head)
    layout = fitting_layout(cells, n_lines, columns_of_page, with_notes)
    if resize:
        line = COLUMN_LINE if columns_of_page == 2 else PAGE_LINE
        layout = Layout(SIZES[0], "table", True, table_width(cells, SIZES[0]), line)
    return {
        "types": types,
        "head": head,
        "body": _body(table, rows, columns, show),
        "layout": layout,
        "reason": "" if resize else _reason(layout, table_width(cells, SIZES[0]), n_lines),
        "height": table_height(layout, n_lines),
        **_environment(layout, types),
    }


def _environment(layout: Layout, types: str) -> dict[str, str]:
    """The beginning and the end of a ``tabular``, which is stretched where its notes need a longer line."""
    if layout.share:
        width = rf"{{{layout.share:g}\linewidth}}"
        begin = rf"\begin{{tabular*}}{width}{{@{{\extracolsep{{\fill}}}}{types}}}"
        return {"begin": begin, "end": r"\end{tabular*}"}
    return {"begin": rf"\begin{{tabular}}{{{types}}}", "end": r"\end{tabular}"}


def _cells_by_column(
    table: Table, rows: Sequence[int], columns: Sequence[int], show: Callable[[float], str]
) -> list[list[Cell]]:
    """The texts of each column, of labels and of scores, whose widths are then estimated."""
    corner, *labels = table.labels()
    cells = [
        [Cell(corner[part]), *(Cell(labels[i][part]) for i in rows)] for part in range(len(corner))
    ]
    ranks = table.ranks()
    for c in columns:
        heading = [Cell(line) for line in _heading_lines(table.columns[c].title)]
        scores = [_plain_cell(table.rows[i].scores[c], ranks[i][c], show) for i in rows]
        cells.append([*heading, *scores])
    return cells


def _plain_cell(score: Score | None, rank: int, show: Callable[[float], str]) -> Cell:
    text = with_deviation(score, show)
    if score and score.tied:
        text += TIED
    interval = ""
    if score and score.interval:
        interval = f" [{', '.join(map(show, score.interval))}]"
    return Cell(text, interval, bold=rank == 1)


def _reason(layout: Layout, width: float, n_lines: int) -> str:
    """Say why a table is not a usual float in the usual size, where it has a width; empty where it is one."""
    usual = SIZES[0]
    if (layout.size, layout.float_name, layout.scaled) == (usual, "table", False):
        return ""
    line = COLUMN_LINE if layout.float_name == "table*" else layout.line
    noun = "a column" if layout.float_name == "table*" else "a line"
    reasons = []
    if width > line:
        reasons.append(f"about {width:.0f} pt wide ({noun}: {line:.0f} pt)")
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


def _fitting_notes(tabular: dict[str, Any], notes: Sequence[str], standalone: bool) -> int:
    """The number of notes that fit below the last table."""
    layout = tabular["layout"]
    if standalone:
        layout = replace(layout, line=WIDE_LINE)
    return notes_that_fit(notes, layout, tabular["height"])


def _packages(tabulars: Sequence[dict[str, Any]], notes: bool) -> str:
    """The packages that tables need."""
    packages = ["booktabs"]
    if notes:
        packages.append("threeparttable")
    if any(tabular["layout"].scaled for tabular in tabulars):
        packages.append("graphicx")
    return ",".join(packages)


def ended(text: str) -> str:
    """Add a full stop to text that has no mark at its end."""
    text = text.strip()
    return text if not text or text.endswith((".", "!", "?", ":")) else f"{text}."


def _head(table: Table, columns: Sequence[int]) -> list[str]:
    """The lines of the heading, with suites above their columns where there are several."""
    shown = [table.columns[i] for i in columns]
    labels = [at_start(escape_latex(part)) for part in table.labels()[0]]
    head = [" & ".join([*labels, *(latex_heading(column.title) for column in shown)]) + r" \\"]
    if table.groups() and any(column.suite for column in shown):
        suites, rules, start = ["" for _ in labels], [], len(labels) + 1
        for suite, members in groupby(shown, lambda column: column.suite):
            span = len(list(members))
            suites.append(rf"\multicolumn{{{span}}}{{c}}{{{escape_latex(suite)}}}")
            if suite:
                rules.append(rf"\cmidrule(lr){{{start}-{start + span - 1}}}")
            start += span
        head = [" & ".join(suites).lstrip() + r" \\", " ".join(rules), *head]
    return head


def latex_heading(title: str) -> str:
    """Return a title in LaTeX, broken into lines if it is long."""
    lines = [escape_latex(line) for line in _heading_lines(title)]
    text = r" \\{} ".join(lines)
    return rf"\shortstack{{{text}}}" if len(lines) > 1 else text


def _heading_lines(title: str) -> list[str]:
    return wrap(title, _HEADING, break_long_words=False, break_on_hyphens=False)


def _body(
    table: Table, rows: Sequence[int], columns: Sequence[int], show: Callable[[float], str]
) -> list[str]:
    lines, starts, labels, ranks = [], table.blocks(), table.labels()[1:], table.ranks()
    for before, i in zip([None, *rows], rows, strict=False):
        if before is not None and any(before < start <= i for start in starts):
            lines.append(r"\midrule" if table.layout == "leaderboard" else r"\addlinespace")
        cells = [_cell(table.rows[i].scores[c], ranks[i][c], show) for c in columns]
        first, *others = map(escape_latex, labels[i])
        lines.append(" & ".join([at_start(first), *others, *cells]) + r" \\")
    return lines


def _cell(score: Score | None, rank: int, show: Callable[[float], str]) -> str:
    text = with_deviation(score, show)
    if text.strip("+-.0123456789± ≠") == "":  # a number, in which "-" is a minus sign and no hyphen
        text = text.replace("-", "−")
    text = _RANK_MARKS[rank].format(escape_latex(text).replace(r" $\neq$", r"\,$\neq$"))
    if score and score.tied:
        text += escape_latex(TIED)
    if score and score.interval:
        ends = ", ".join(escape_latex(show(end).replace("-", "−")) for end in score.interval)
        text += rf"\,{{\scriptsize [{ends}]}}"
    return text


def breakable(text: str) -> str:
    """Escape text in which long words may break: after a mark, very long ones anywhere."""
    return " ".join(map(_breakable_word, text.split()))


def _breakable_word(word: str) -> str:
    if len(word) <= _LONG:
        return escape_latex(word)
    anywhere = max(map(len, re.split(f"[{_BREAKS}]", word))) > _LONG
    return "".join(
        escape_latex(char) + r"\allowbreak{}" * (anywhere or char in _BREAKS) for char in word
    )


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
