"""LaTeX tables with booktabs rules, for a paper or as a whole document, and the templates' environment."""

from __future__ import annotations

import unicodedata
from functools import lru_cache
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from mirrorbench.reports.renderers.text import TIED, number, with_deviation, with_legend
from mirrorbench.reports.table import DIGITS, INTERVALS, Score, Table

if TYPE_CHECKING:
    from jinja2 import Environment

_ESCAPES = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "±": r"$\pm$", "–": "--", "—": "---", "<": r"$<$",
    ">": r"$>$", "|": r"$|$", '"': r"\textquotedbl{}", "×": r"$\times$", "→": r"$\rightarrow$", "≤": r"$\leq$",
    "≥": r"$\geq$", "−": "$-$", "…": r"\ldots{}", "†": r"$^\dagger$", "‘": "`", "’": "'", "“": "``", "”": "''",
    "α": r"$\alpha$", "β": r"$\beta$", "κ": r"$\kappa$", "λ": r"$\lambda$", "μ": r"$\mu$", "ρ": r"$\rho$",
    "σ": r"$\sigma$", "τ": r"$\tau$", "≠": r"$\neq$", "✓": r"$\surd$", "✗": r"$\times$",
}  # fmt: skip
_LAST_LATIN = "\u017f"  # T1 has Latin letters up to here
_MARKS = ("{}", r"\textbf{{{}}}", r"\underline{{{}}}")


def escape_latex(text: str) -> str:
    """Text escaped for pdflatex; a character that its fonts lack becomes its code point."""
    return "".join(map(_escape, " ".join(text.split())))


def _escape(char: str) -> str:
    if char in _ESCAPES:
        return _ESCAPES[char]
    if unicodedata.category(char).startswith("C"):  # control characters and surrogates
        return " "
    return char if char <= _LAST_LATIN else f"[U+{ord(char):04X}]"


def latex(table: Table, siunitx: bool = False, standalone: bool = False) -> str:
    r"""A booktabs table: bold best, underlined second, suites above their columns, a rule between backbones.

    Args:
        table: the table.
        siunitx: align numbers at the point with siunitx's ``S`` columns (version 3); the paper must load it.
        standalone: a whole document, with the table scaled to its page; otherwise a ``table`` for a paper that loads
            ``booktabs``.
    """
    aligned = siunitx and bool(table.rows)
    # With siunitx, deviations have a separate column.
    spread = [aligned and any(s and s.sd is not None for s in scores) for scores in _columns(table)]
    labels, *_ = table.labels()
    types = "l" * len(labels)
    if aligned:
        types += "".join(_siunitx_type(s, wide) for s, wide in zip(_columns(table), spread, strict=True))
    else:
        types += ("l" if table.kind == "facts" else "c") * len(table.columns)
    return render_template(
        "table.tex", types=types, head=_head(table, spread, aligned), body=_body(table, spread, aligned),
        caption=escape_latex(caption(table)), standalone=standalone, siunitx=aligned,
    )  # fmt: skip


def caption(table: Table) -> str:
    """Title and notes as one caption, without the note about intervals, which the LaTeX table does not show."""
    notes = [note for note in with_legend(table) if not note.startswith(INTERVALS)]
    return " ".join(filter(None, map(ended, (table.title, *notes))))


def ended(text: str) -> str:
    """Text with a mark at its end."""
    text = text.strip()
    return text if not text or text.endswith((".", "!", "?", ":")) else f"{text}."


def _columns(table: Table) -> list[list[Score | None]]:
    return [[row.scores[i] for row in table.rows] for i in range(len(table.columns))]


def _siunitx_type(scores: list[Score | None], spread: bool) -> str:
    shown = [number(s.mean) for s in scores if s] or [number(0.0)]
    sign = "-" if any(text.startswith("-") for text in shown) else ""
    whole = max(len(text.lstrip("-").split(".")[0]) for text in shown)
    return f"S[table-format={sign}{whole}.{DIGITS}]" + ("@{}l" if spread else "")


def _head(table: Table, spread: list[bool], aligned: bool) -> list[str]:
    titles = []
    for column, wide in zip(table.columns, spread, strict=True):
        title = escape_latex(column.title)
        titles.append(rf"\multicolumn{{2}}{{c}}{{{title}}}" if wide else f"{{{title}}}" if aligned else title)
    labels = list(map(escape_latex, table.labels()[0]))
    lines = [" & ".join([*labels, *titles]) + r" \\"]
    if groups := table.groups():
        ends = list(accumulate(n for _, n in groups))
        spans = [n + sum(spread[end - n : end]) for (_, n), end in zip(groups, ends, strict=True)]
        suites = [(escape_latex(suite), span) for (suite, _), span in zip(groups, spans, strict=True)]
        heads = [rf"\multicolumn{{{span}}}{{c}}{{{suite}}}" for suite, span in suites]
        lasts = [len(labels) + end for end in accumulate(spans)]
        rules = [
            rf"\cmidrule(lr){{{last - n + 1}-{last}}}" for (suite, n), last in zip(suites, lasts, strict=True) if suite
        ]
        lines = [" & ".join([*("" for _ in labels), *heads]).lstrip() + r" \\", " ".join(rules), *lines]
    return lines


def _body(table: Table, spread: list[bool], aligned: bool) -> list[str]:
    lines, breaks = [], table.blocks()
    for i, (label, row, ranks) in enumerate(zip(table.labels()[1:], table.rows, table.ranks(), strict=True)):
        if i in breaks:
            lines.append(r"\midrule" if table.kind == "leaderboard" else r"\addlinespace")
        cells = [
            _siunitx_cell(s, rank, wide) if aligned else _cell(s, rank)
            for s, rank, wide in zip(row.scores, ranks, spread, strict=True)
        ]
        lines.append(" & ".join([*map(escape_latex, label), *cells]) + r" \\")
    return lines


def _cell(score: Score | None, rank: int) -> str:
    text = with_deviation(score)
    if text.strip("+-.0123456789± ≠") == "":  # a number, in which "-" is a minus sign and no hyphen
        text = text.replace("-", "−")
    text = escape_latex(text).replace(r" $\neq$", r"\,$\neq$")
    return _MARKS[rank].format(text) + (escape_latex(TIED) if score and score.tied else "")


def _siunitx_cell(score: Score | None, rank: int, spread: bool) -> str:
    """A number for an ``S`` column and, in a separate column, its deviation."""
    if score is None:
        return r"\multicolumn{2}{c}{--}" if spread else "{--}"
    mean = number(score.mean)
    tied = escape_latex(TIED) if score.tied else ""
    # siunitx does not parse a number inside a command, so the line under it is drawn after it, from its end backwards.
    after = rf"\llap{{\underline{{\phantom{{{mean.lstrip('-')}}}}}}}" if rank == 2 else ""
    bold = r"\bfseries " if rank == 1 else ""
    if not spread:
        hanging = rf"\rlap{{{tied}}}" if tied else ""
        return f"{bold}{mean}" + (f" {{{after}{hanging}}}" if after or tied else "")
    deviation = rf"{bold}\,$\pm$\,{number(score.sd)}" if score.sd is not None else ""
    return f"{bold}{mean}" + (f" {{{after}}}" if after else "") + f" & {deviation}{tied}"


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
