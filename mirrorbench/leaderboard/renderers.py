"""From a table to text: Markdown, LaTeX, CSV, JSON. The best score of a column is bold, the second underlined."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import asdict
from typing import Any

from mirrorbench.hooks import Register, hookimpl
from mirrorbench.leaderboard.table import DIGITS, Score, Table

MISSING = "–"


def number(value: float, digits: int = DIGITS) -> str:
    """A score as the papers print it: ``.743``, ``-.012``, ``1.000``."""
    text = f"{value:z.{digits}f}"  # z: what rounds to zero has no sign
    return text.replace("0.", ".", 1) if abs(float(text)) < 1 else text


def with_deviation(score: Score | None) -> str:
    """A score and, where there are several seeds, its standard deviation: ``.743 ± .002``."""
    if score is None:
        return MISSING
    return number(score.mean) if score.sd is None else f"{number(score.mean)} ± {number(score.sd)}"


def markdown(table: Table) -> str:
    """A GitHub table: bold best, ``<u>`` second."""
    from tabulate import tabulate

    marks = {0: "{}", 1: "**{}**", 2: "<u>{}</u>"}
    rows = [
        [
            _escape_markdown(row.label),
            *(marks[m].format(with_deviation(s)) for s, m in zip(row.scores, ranks, strict=True)),
        ]
        for row, ranks in zip(table.rows, table.ranks(), strict=True)
    ]
    heads = ["encoder", *(_escape_markdown(c.title) for c in table.columns)]
    align = ["left"] + ["right"] * len(table.columns)
    text = tabulate(rows, headers=heads, tablefmt="github", disable_numparse=True, colalign=align if rows else None)
    title = f"**{table.title}**\n\n" if table.title else ""
    notes = "".join(f"\n\n{_escape_markdown(note)}" for note in table.notes)
    return f"{title}{text}{notes}\n"


def _escape_markdown(text: str) -> str:
    return text.replace("|", "\\|").replace("*", "\\*").replace("<", "&lt;").replace("\n", " ")


_LATEX = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "±": r"$\pm$", "–": "--", "<": r"$<$", ">": r"$>$",
    "ρ": r"$\rho$",
}  # fmt: skip


def escape_latex(text: str) -> str:
    """Text that pdflatex prints as it stands."""
    return "".join(_LATEX.get(char, char) for char in text.replace("\n", " "))


def latex(table: Table) -> str:
    """A booktabs table, to be pasted into a paper that loads ``booktabs``."""
    marks = {0: "{}", 1: r"\textbf{{{}}}", 2: r"\underline{{{}}}"}
    lines = [
        r"\begin{table}[t]",
        r"\centering",
        r"\small",
        rf"\begin{{tabular}}{{l{'c' * len(table.columns)}}}",
        r"\toprule",
        " & ".join(["encoder", *(escape_latex(c.title) for c in table.columns)]) + r" \\",
        r"\midrule",
    ]
    for row, ranks in zip(table.rows, table.ranks(), strict=True):
        cells = [
            marks[mark].format(escape_latex(with_deviation(score)))
            for score, mark in zip(row.scores, ranks, strict=True)
        ]
        lines.append(" & ".join([escape_latex(row.label), *cells]) + r" \\")
    caption = " ".join([table.title, *table.notes]).strip()
    lines += [r"\bottomrule", r"\end{tabular}"]
    lines += [rf"\caption{{{escape_latex(caption)}}}"] if caption else []
    return "\n".join([*lines, r"\end{table}"]) + "\n"


def comma_separated(table: Table) -> str:
    """CSV with full precision: encoder, spec, then mean, standard deviation and number of seeds for each task."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    names = [c.name for c in table.columns]
    writer.writerow(["encoder", "spec", *(f"{name}{part}" for name in names for part in ("", " sd", " seeds"))])
    for row in table.rows:
        values: list[Any] = []
        for score in row.scores:
            values += [score.mean, score.sd, score.n] if score else [None, None, None]
        writer.writerow([row.label, row.spec, *("" if v is None else v for v in values)])
    return stream.getvalue()


def as_json(table: Table) -> str:
    """The table's values as JSON, scores keyed by task."""
    names = [c.name for c in table.columns]
    rows = [
        {
            "encoder": row.label,
            "spec": row.spec,
            "scores": {n: asdict(s) if s else None for n, s in zip(names, row.scores, strict=True)},
        }
        for row in table.rows
    ]
    head = {"title": table.title, "columns": [asdict(c) for c in table.columns]}
    return json.dumps({**head, "rows": rows, "notes": list(table.notes)}, indent=2, ensure_ascii=False) + "\n"


@hookimpl
def register_renderers(register: Register) -> None:
    """The built-in formats."""
    register("markdown", markdown, "a GitHub table")
    register("latex", latex, "a booktabs table")
    register("csv", comma_separated, "comma-separated values, full precision")
    register("json", as_json, "values with standard deviations and cell ids")
