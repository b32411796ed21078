"""LaTeX tables with booktabs rules, for a paper or as a whole document, and the templates' environment."""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import accumulate, groupby
from typing import TYPE_CHECKING, Any, NamedTuple

from mirrorbench.core.errors import UsageError
from mirrorbench.reports.renderers.notes import note_lines
from mirrorbench.reports.renderers.words import TIED, number, with_deviation, with_marks
from mirrorbench.reports.table import Score, Table

if TYPE_CHECKING:
    from jinja2 import Environment

_ESCAPES = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "±": r"$\pm$", "–": "--", "—": "---", "<": r"$<$",
    ">": r"$>$", "|": r"$|$", '"': r"\textquotedbl{}", "×": r"$\times$", "→": r"$\rightarrow$", "≤": r"$\leq$",
    "≥": r"$\geq$", "−": "$-$", "…": r"\ldots{}", "†": r"$^\dagger$", "‘": "`", "’": "'", "“": "``", "”": "''",
    "α": r"$\alpha$", "β": r"$\beta$", "κ": r"$\kappa$", "λ": r"$\lambda$", "μ": r"$\mu$", "ρ": r"$\rho$",
    "σ": r"$\sigma$", "τ": r"$\tau$", "≠": r"$\neq$", "≈": r"$\approx$", "✓": r"$\surd$", "✗": r"$\times$",
}  # fmt: skip
_LAST_LATIN = "\u017f"  # T1 has Latin letters up to here
_MARKS = ("{}", r"\textbf{{{}}}", r"\underline{{{}}}")
DEFAULT_TITLE = "Leaderboard"
_PAGE, _LINE, _GAP = 510.0, 11.0, 6.0
"""Points: height of a page of ``article`` without a caption, of a line in ``\\small``, and space beside a column."""
_NOTES = 0.86
"""Size of notes, to that of the table."""
_BOLD, _SCRIPT = 1.15, 0.8
"""Size of bold digits, and of intervals."""
_POINTS = {
    char: points
    for points, chars in {
        2.6: "!',.:;[]_il|", 3.1: " -fjI", 3.65: "()trs", 5.15: "bdhnpukqvxy", 6.8: "w",
        7.3: "+=±<>×≠−&@OQK", 7.8: "%m—", 8.5: "M", 9.5: "W",
    }.items()
    for char in chars
}  # fmt: skip
"""Widths of characters of Computer Modern in 9 points, where they are not those of a digit or of most capitals."""
_LONG, _BREAKS = 16, ",:=/+_.-"
"""Characters of a word that may have to break, and after which it does."""


def escape_latex(text: str) -> str:
    """Text escaped for pdflatex; a character that its fonts lack becomes its code point."""
    return "".join(map(_escape, " ".join(text.split())))


def _escape(char: str) -> str:
    if char in _ESCAPES:
        return _ESCAPES[char]
    if unicodedata.category(char).startswith("C"):  # control characters and surrogates
        return " "
    return char if char <= _LAST_LATIN else f"[U+{ord(char):04X}]"


def latex(
    table: Table, *, split: bool = False, resize: bool = False, percent: bool = False, deviations: bool = True,
    standalone: bool = False, width: int = 345, label: str = "",
) -> str:  # fmt: skip
    r"""A booktabs table: bold best, underlined second, suites above their columns, a rule between backbones.

    The title is the caption; notes stand below the table. Comments at the top name the packages that it needs.

    Args:
        table: the table.
        split: columns in blocks by suite, long tables in several floats, so that nothing leaves the page.
        resize: scale a table that is wider than the line down to it (graphicx).
        percent: scores times 100 with one digit.
        deviations: print standard deviations over seeds.
        standalone: a document that compiles; it is split unless it is resized.
        width: of a line in points: 345 in article, 219 in a column of ACL's style, 455 across its page.
        label: for \ref; by default made from the title.

    Raises:
        UsageError: percent or deviations are asked of a paper's table, which is as printed.
    """
    if table.kind != "leaderboard" and (percent or not deviations):
        raise UsageError("a paper's table has the numbers as printed", "Leave --percent and --no-deviations out.")
    title, split = table.title or DEFAULT_TITLE, split or (standalone and not resize)
    if not deviations:
        rows = (replace(row, scores=tuple(s and replace(s, sd=None) for s in row.scores)) for row in table.rows)
        table = replace(table, rows=tuple(rows))
    setting = _Setting(
        _percent if percent else number, bool(table.groups()), 0.4 * width if split else math.inf, table.ranks(),
    )  # fmt: skip
    notes = [ended(str(note)) for _, note in note_lines(table, setting.show)]
    floats, left = _floats(table, setting, width if split else math.inf, _PAGE - _LINE * len(_lines(title, width)))
    whole = len(_lines(" ".join(notes), width / _NOTES)) * _NOTES * _LINE < left  # or behind the table
    words = " ".join([title, *notes, *(row.label for row in table.rows), *(column.title for column in table.columns)])
    return render_template(
        "table.tex", floats=floats, notes=" ".join(map(breakable, notes)), whole=whole, caption=breakable(title),
        label=label or f"tab:{re.sub(r'[^a-z0-9]+', '-', title.lower()).strip('-')}", standalone=standalone,
        resize=resize, width=width,
        t1=any(c == '"' or (not c.isascii() and c not in _ESCAPES) for c in words),
    )  # fmt: skip


def _percent(value: float) -> str:
    return f"{100 * value:z.1f}"  # z: no -0.0


class _Setting(NamedTuple):
    """How cells are written: ``box`` is the widest text on one line, in points, and ``ranks`` are by row and column."""

    show: Callable[[float], str]
    grouped: bool
    box: float
    ranks: list[list[int]]


class _Tabular(NamedTuple):
    """A ``tabular``: the types of its columns, its lines, and its height in points."""

    types: str
    head: list[str]
    body: list[str]
    height: float


def _floats(table: Table, setting: _Setting, width: float, room: float) -> tuple[list[list[_Tabular]], float]:
    """The tabulars of each float, so that they fit into the width and height, and what is left of the last height."""
    edges = 2 * _GAP
    names = sum(min(setting.box, max(map(_points, part))) + edges for part in zip(*table.labels(), strict=True))
    widths = [_column_width(table, column, setting) + edges for column in range(len(table.columns))]

    def fits(columns: Sequence[int]) -> bool:
        suites = groupby(columns, lambda i: table.columns[i].suite)
        spans = (max(sum(widths[i] for i in c), min(setting.box, _points(suite)) + edges) for suite, c in suites)
        return names + sum(spans) <= width

    if width == math.inf:
        return [[whole := _tabular(table, setting)]], room - whole.height
    floats: list[list[_Tabular]] = [[]]
    left, blocks = room, table.column_blocks(fits)
    for columns in blocks:
        all_rows = len(blocks) == 1 or table.kind != "leaderboard"
        rows = [i for i, row in enumerate(table.rows) if all_rows or any(row.scores[c] for c in columns)]
        for part in _pages(table, rows, setting, room - _tabular(table, setting, [], columns).height):
            block = _tabular(table, setting, part, columns)
            if floats[-1] and block.height > left:
                floats.append([])
                left = room
            floats[-1].append(block)
            left -= block.height
    return floats, left


def _pages(table: Table, rows: Sequence[int], setting: _Setting, room: float) -> list[list[int]]:
    """Rows that fit into a height, cut where a backbone begins if one does."""
    pages: list[list[int]] = [[]]
    starts = table.blocks()
    for i in rows:
        if pages[-1] and sum(_height(table, row, setting) for row in (*pages[-1], i)) > room:
            inside = [] if i in starts else [n for n, row in enumerate(pages[-1]) if n and row in starts]
            cut = inside[-1] if inside else len(pages[-1])
            pages[-1:] = [pages[-1][:cut], pages[-1][cut:]]
        pages[-1].append(i)
    return pages


def _height(table: Table, row: int, setting: _Setting) -> float:
    """Points of a row: of its highest cell, and of a rule above it."""
    above = 0.5 if row in table.blocks() else 0.0
    texts = [*table.labels()[row + 1], *(s.text or "" for s in table.rows[row].scores if s)]
    return _LINE * (max(len(_lines(text, setting.box)) for text in texts) + above)


def _tabular(
    table: Table, setting: _Setting, rows: Sequence[int] | None = None, columns: Sequence[int] | None = None
) -> _Tabular:
    """Some rows and columns, by default all."""
    rows = range(len(table.rows)) if rows is None else rows
    columns = range(len(table.columns)) if columns is None else columns
    types = "l" * len(table.labels()[0]) + ("l" if table.kind == "facts" else "c") * len(columns)
    head, lines = _head(table, columns, setting)
    height = _LINE * (lines + 2) + sum(_height(table, row, setting) for row in rows)
    return _Tabular(types, head, _body(table, rows, columns, setting), height)


def ended(text: str) -> str:
    """Text with a mark at its end."""
    text = text.strip()
    return text if not text or text.endswith((".", "!", "?", ":")) else f"{text}."


def _head(table: Table, columns: Sequence[int], setting: _Setting) -> tuple[list[str], int]:
    """The lines of the heading, and how many lines they take on the page."""
    shown = [table.columns[i] for i in columns]
    parts = [_lines(table.columns[i].title, _column_width(table, i, setting)) for i in columns]
    texts = [r" \\{} ".join(_boxed(line, setting.box) for line in lines) for lines in parts]
    titles = [rf"\shortstack{{{text}}}" if len(lines) > 1 else text for text, lines in zip(texts, parts, strict=True)]
    labels = [escape_latex(part) for part in table.labels()[0]]
    head = [" & ".join([*labels, *titles]) + r" \\"]
    if setting.grouped and any(column.suite for column in shown):
        groups = [(suite, len(list(members))) for suite, members in groupby(shown, lambda column: column.suite)]
        suites = [(_boxed(suite, setting.box), n) for suite, n in groups]
        lasts = [len(labels) + end for end in accumulate(n for _, n in groups)]
        rules = [
            rf"\cmidrule(lr){{{last - n + 1}-{last}}}" for (suite, n), last in zip(suites, lasts, strict=True) if suite
        ]
        above = [rf"\multicolumn{{{span}}}{{c}}{{{suite}}}" for suite, span in suites]
        head = [" & ".join([*("" for _ in labels), *above]).lstrip() + r" \\", " ".join(rules), *head]
    return head, max(map(len, parts), default=1) + 2 * setting.grouped


def _body(table: Table, rows: Sequence[int], columns: Sequence[int], setting: _Setting) -> list[str]:
    lines, starts, labels, before = [], table.blocks(), table.labels()[1:], None
    for i in rows:
        if before is not None and any(before < start <= i for start in starts):
            lines.append(r"\midrule" if table.kind == "leaderboard" else r"\addlinespace")
        cells = [_cell(table.rows[i].scores[c], setting.ranks[i][c], setting) for c in columns]
        lines.append(" & ".join([*(_boxed(text, setting.box) for text in labels[i]), *cells]) + r" \\")
        before = i
    return lines


def _boxed(text: str, box: float) -> str:
    """A text that is wrapped where it is wider than the box."""
    if _points(text) <= box:
        return escape_latex(text)
    return rf"\parbox[t]{{{box:.0f}pt}}{{\raggedright {breakable(text)}\strut}}"


def _cell(score: Score | None, rank: int, setting: _Setting) -> str:
    text = with_deviation(score, setting.show)
    if text.strip("+-.0123456789± ≠") == "":  # a number, in which "-" is a minus sign and no hyphen
        text = text.replace("-", "−")
    text = _boxed(text, setting.box).replace(r" $\neq$", r"\,$\neq$")
    tied = escape_latex(TIED) if score and score.tied else ""
    return _MARKS[rank].format(text) + tied + _interval(score, setting)


def _interval(score: Score | None, setting: _Setting) -> str:
    if not (score and score.interval):
        return ""
    low, high = (escape_latex(setting.show(end).replace("-", "−")) for end in score.interval)
    return rf"\,{{\scriptsize [{low}, {high}]}}"


def _column_width(table: Table, column: int, setting: _Setting) -> float:
    """Points of a column: of its widest cell, bold, and of the longest word of its heading."""
    widest = max((_cell_width(row.scores[column], setting) for row in table.rows), default=0.0)
    return max(widest, *(min(setting.box, _points(word)) for word in table.columns[column].title.split() or [""]))


def _cell_width(score: Score | None, setting: _Setting) -> float:
    text = min(setting.box, _BOLD * _points(with_deviation(score, setting.show).replace("-", "−")))
    return text + _SCRIPT * _points(with_marks(score, setting.show))


def _points(text: str) -> float:
    """About how wide a text is in Computer Modern of 9 points."""
    return sum(_POINTS.get(c, 7.0 if c.isupper() else 4.7 if c <= _LAST_LATIN or c in _ESCAPES else 45.0) for c in text)


def _lines(text: str, width: float) -> list[str]:
    """A text in lines of so many points, as far as its words permit."""
    lines = [""]
    for word in text.split():
        joined = f"{lines[-1]} {word}".strip()
        if lines[-1] and _points(joined) > width:
            lines.append(word)
        else:
            lines[-1] = joined
    return lines


def breakable(text: str) -> str:
    """An escaped text in which long words may break: after a mark, very long ones anywhere."""

    def of(word: str) -> str:
        if len(word) <= _LONG:
            return escape_latex(word)
        marks = "" if max(map(len, re.split(f"[{_BREAKS}]", word))) > _LONG else _BREAKS
        return "".join(escape_latex(c) + (r"\allowbreak{}" if not marks or c in marks else "") for c in word)

    return " ".join(map(of, text.split()))


def render_template(name: str, **values: Any) -> str:
    """A rendered template; values in HTML are escaped."""
    return _environment(name.endswith(".html")).get_template(name).render(values)


@lru_cache
def _environment(html: bool) -> Environment:
    from jinja2 import Environment, PackageLoader

    loader = PackageLoader("mirrorbench.reports.renderers", "template")
    marks: dict[str, Any] = {} if html else {
        "block_start_string": "((*", "block_end_string": "*))",
        "variable_start_string": "(((", "variable_end_string": ")))",
    }  # fmt: skip
    return Environment(
        loader=loader, autoescape=html, trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True, **marks
    )
