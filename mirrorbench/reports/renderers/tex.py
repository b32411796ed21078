"""LaTeX with booktabs rules, to be pasted into a paper, or as a document of its own."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from itertools import accumulate

from mirrorbench.reports.renderers.numbers import TIED, number, with_deviation, with_legend
from mirrorbench.reports.table import DIGITS, INTERVALS, Score, Table

_ESCAPES = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "±": r"$\pm$", "–": "--", "—": "---", "<": r"$<$",
    ">": r"$>$", "|": r"$|$", '"': r"\textquotedbl{}", "×": r"$\times$", "→": r"$\rightarrow$", "≤": r"$\leq$",
    "≥": r"$\geq$", "−": "$-$", "…": r"\ldots{}", "†": r"$^\dagger$", "‘": "`", "’": "'", "“": "``", "”": "''",
    "α": r"$\alpha$", "β": r"$\beta$", "κ": r"$\kappa$", "λ": r"$\lambda$", "μ": r"$\mu$", "ρ": r"$\rho$",
    "σ": r"$\sigma$", "τ": r"$\tau$",
}  # fmt: skip
_LAST_LATIN = "\u017f"  # T1 has Latin letters up to here
_PREAMBLE = r"""\documentclass{article}
\usepackage[T1]{fontenc}
\IfFileExists{lmodern.sty}{\usepackage{lmodern}}{}
\usepackage[a4paper,landscape,margin=15mm]{geometry}
\usepackage{booktabs}
\usepackage{graphicx}
"""
_SIUNITX_SETUP = r"\sisetup{print-zero-integer=false, text-series-to-math=true, propagate-math-font=true}"


def escape_latex(text: str) -> str:
    """Text that pdflatex prints as it stands; a character that its fonts lack becomes its code point."""
    return "".join(map(_escape, " ".join(text.split())))


def _escape(char: str) -> str:
    if char in _ESCAPES:
        return _ESCAPES[char]
    if unicodedata.category(char).startswith("C"):  # control characters and halves of pairs
        return " "
    return char if char <= _LAST_LATIN else f"[U+{ord(char):04X}]"


def latex(table: Table, siunitx: bool = False, standalone: bool = False) -> str:
    r"""A booktabs table: bold best, underlined second, suites over their columns, a rule between backbones.

    Args:
        table: what to render.
        siunitx: align numbers at the point by siunitx's ``S`` columns (version 3); the paper must load it.
        standalone: a whole document; otherwise a ``table`` for a paper that loads ``booktabs``.
    """
    aligned = siunitx and bool(table.rows)
    tabular = [
        rf"\begin{{tabular}}{{l{_column_types(table, aligned)}}}",
        r"\toprule",
        *_head(table, aligned),
        r"\midrule",
        *_body(table, aligned),
        r"\bottomrule",
        r"\end{tabular}",
    ]
    return framed(tabular, escape_latex(caption(table)), standalone, aligned)


def framed(tabular: Sequence[str], caption: str, standalone: bool, siunitx: bool = False) -> str:
    """The lines of a ``tabular`` as a ``table`` with its caption, both in LaTeX.

    Args:
        tabular: its lines.
        caption: text; empty for none.
        standalone: a whole document, on whose page a wide table is made to fit.
        siunitx: whether there are ``S`` columns.
    """
    fit = [r"\resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}{!}{%", *tabular, "}"]
    lines = [
        rf"\begin{{table}}[{'h' if standalone else 't'}]",
        r"\centering",
        r"\small",
        *([_SIUNITX_SETUP] if siunitx else []),
        *(fit if standalone else tabular),
        *([rf"\caption{{{caption}}}"] if caption else []),
        r"\end{table}",
    ]
    if standalone:
        packages = _PREAMBLE + ("\\usepackage{siunitx}\n" if siunitx else "")
        lines = [packages + r"\begin{document}", *lines, r"\end{document}"]
    return "\n".join(lines) + "\n"


def caption(table: Table) -> str:
    """Title and notes as the sentences of one caption, less the note about intervals, which LaTeX does not show."""
    notes = [note for note in with_legend(table) if not note.startswith(INTERVALS)]
    return " ".join(map(_sentence, filter(None, (table.title.strip(), *notes))))


def _sentence(text: str) -> str:
    return text.strip() if text.rstrip().endswith((".", "!", "?", ":")) else f"{text.strip()}."


def _deviates(table: Table) -> list[bool]:
    """For each column whether any score has a standard deviation: with siunitx it takes a column of its own."""
    return [any(s and s.sd is not None for s in scores) for scores in _columns(table)]


def _columns(table: Table) -> list[list[Score | None]]:
    return [[row.scores[i] for row in table.rows] for i in range(len(table.columns))]


def _column_types(table: Table, aligned: bool) -> str:
    if not aligned:
        return "c" * len(table.columns)
    types = []
    for scores, deviates in zip(_columns(table), _deviates(table), strict=True):
        shown = [number(s.mean) for s in scores if s] or [number(0.0)]
        sign = "-" if any(text.startswith("-") for text in shown) else ""
        whole = max(len(text.lstrip("-").split(".")[0]) for text in shown)
        types.append(f"S[table-format={sign}{whole}.{DIGITS}]" + ("@{}l" if deviates else ""))
    return "".join(types)


def _head(table: Table, aligned: bool) -> list[str]:
    widths = [2 if aligned and deviates else 1 for deviates in _deviates(table)]
    titles = [_spanning(escape_latex(c.title), w, aligned) for c, w in zip(table.columns, widths, strict=True)]
    lines = [" & ".join(["encoder", *titles]) + r" \\"]
    groups = table.groups()
    if groups:
        ends = list(accumulate(n for _, n in groups))
        spans = [sum(widths[end - n : end]) for (_, n), end in zip(groups, ends, strict=True)]
        lasts = [1 + last for last in accumulate(spans)]
        heads = [
            rf"\multicolumn{{{span}}}{{c}}{{{escape_latex(suite)}}}"
            for (suite, _), span in zip(groups, spans, strict=True)
        ]
        rules = [
            rf"\cmidrule(lr){{{last - span + 1}-{last}}}"
            for (suite, _), span, last in zip(groups, spans, lasts, strict=True)
            if suite
        ]
        lines = [" & ".join(["", *heads]).lstrip() + r" \\", " ".join(rules), *lines]
    return lines


def _spanning(text: str, width: int, aligned: bool) -> str:
    if width > 1:
        return rf"\multicolumn{{{width}}}{{c}}{{{text}}}"
    return f"{{{text}}}" if aligned else text


def _body(table: Table, aligned: bool) -> list[str]:
    lines = []
    breaks = table.blocks()
    deviates = _deviates(table)
    for i, (row, ranks) in enumerate(zip(table.rows, table.ranks(), strict=True)):
        if i in breaks:
            lines.append(r"\midrule")
        if aligned:
            cells = [_aligned_cell(*cell) for cell in zip(row.scores, ranks, deviates, strict=True)]
        else:
            cells = [_cell(*cell) for cell in zip(row.scores, ranks, strict=True)]
        lines.append(" & ".join([escape_latex(row.label), *cells]) + r" \\")
    return lines


_MARKS = {0: "{}", 1: r"\textbf{{{}}}", 2: r"\underline{{{}}}"}


def _cell(score: Score | None, rank: int) -> str:
    # In text a "-" is a hyphen; a minus is mathematics.
    text = escape_latex(with_deviation(score).replace("-", "−"))
    return _MARKS[rank].format(text) + (escape_latex(TIED) if score and score.tied else "")


def _aligned_cell(score: Score | None, rank: int, deviates: bool) -> str:
    """A number for an ``S`` column and, in a column of its own, its deviation."""
    if score is None:
        return r"\multicolumn{2}{c}{--}" if deviates else "{--}"
    mean = number(score.mean)
    tied = escape_latex(TIED) if score.tied else ""
    # siunitx takes no number inside a command: the line under it is drawn afterwards, backwards from its end.
    after = rf"\llap{{\underline{{\phantom{{{mean.lstrip('-')}}}}}}}" if rank == 2 else ""
    bold = r"\bfseries " if rank == 1 else ""
    if not deviates:
        hanging = rf"\rlap{{{tied}}}" if tied else ""
        return f"{bold}{mean}" + (f" {{{after}{hanging}}}" if after or tied else "")
    spread = rf"{bold}\,$\pm$\,{number(score.sd)}" if score.sd is not None else ""
    return f"{bold}{mean}" + (f" {{{after}}}" if after else "") + f" & {spread}{tied}"
