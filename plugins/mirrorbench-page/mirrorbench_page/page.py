"""HTML: a self-contained page to sort, filter and copy from, and a table for notebooks.

Labels must never become code: the script builds text nodes only, and the page's content security policy allows only
this script and style, by checksum. Without scripts the page shows a plain table.
"""

from __future__ import annotations

import base64
import hashlib
import json
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from mirrorbench.plugin import (
    DEFAULT_TITLE,
    DIGITS,
    MISSING,
    TIED,
    Table,
    breakable,
    ended,
    escape_latex,
    escape_markdown,
    latex,
    metric_words,
    note_lines,
    to_object,
    with_deviation,
)
from mirrorbench_page.sources import bibtex, commands, head_in_words, item_commands, with_source

if TYPE_CHECKING:
    from jinja2 import Environment

SCRIPTS = ("values.js", "drawing.js", "controls.js")
"""Parts of one script, in this order."""


def html(table: Table) -> str:
    """A self-contained page: sort by column, filter by suite, level, language and encoder, copy the shown rows.

    A table of texts, as those of the papers with measured values, is shown without these.
    """
    folder = files("mirrorbench_page") / "template"
    style, *scripts = ((folder / name).read_text(encoding="utf-8") for name in ("page.css", *SCRIPTS))
    script = "\n".join(scripts)
    # "<" could end the script element; U+2028 and U+2029, line ends in JavaScript, are escaped as not ASCII.
    if any(score and score.text for row in table.rows for score in row.scores):
        script, data = "", "null"
    else:
        data = json.dumps(_data(table), ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    for char in "<>&":
        data = data.replace(char, f"\\u{ord(char):04x}")
    return _templates().get_template("page.html").render(
        title=_line(table.title) or DEFAULT_TITLE, style=style, style_hash=_checksum(style),
        script=script, script_hash=_checksum(script), data=data, sources=with_source(table), bibtex=bibtex(table),
        commands=commands(table) if table.layout == "leaderboard" else "", **_board(table),
    )  # fmt: skip


def notebook(table: Table) -> str:
    """The table and its notes."""
    return _templates().get_template("notebook.html").render(_board(table))


@cache
def _templates() -> Environment:
    from jinja2 import Environment, PackageLoader

    loader = PackageLoader("mirrorbench_page", "template")
    return Environment(loader=loader, autoescape=True, trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True)


def _board(table: Table) -> dict[str, Any]:
    """The values of the template ``board.html``."""
    rows = []
    for row, ranks in zip(table.rows, table.ranks(), strict=True):
        cells = []
        for score, rank in zip(row.scores, ranks, strict=True):
            mean, _, deviation = with_deviation(score).partition(" ± ")
            cells.append((mean.replace("-", "−"), deviation, rank, TIED if score and score.tied else ""))
        rows.append((_line(row.label), cells))
    notes = [_line(note) for _, note in note_lines(table)]
    heads = list(map(head_in_words, table.columns))
    return {"groups": table.groups(), "corner": table.corner, "heads": heads, "rows": rows, "notes": notes}


def _data(table: Table) -> dict[str, Any]:
    """The script's data: the values, and labels escaped for Markdown and LaTeX."""
    data = to_object(table)
    errors = item_commands(table)
    del data["verdicts"]  # the notes say them
    before, _, tabular = (text := latex(table)).partition(r"\begin{tabular}")
    after = tabular.rpartition("\n\\caption")
    titles = tabular.partition("\n\\midrule")[0].rpartition("\n")[2].removesuffix(r" \\").split(" & ")[1:]
    for column, head, title in zip(data["columns"], table.heads(), titles, strict=True):
        written = {"markdown": escape_markdown(head), "latex": title}
        column |= {"written": written, "suite_latex": escape_latex(column["suite"])}
    for column, of in zip(data["columns"], table.columns, strict=True):
        column["words"] = head_in_words(of)
        column["metric_words"] = ", ".join(map(metric_words, filter(None, of.metric.split(", "))))
    for column, source, _ in with_source(table):
        next(entry for entry in data["columns"] if entry["name"] == column.name)["about"] = source.title
    for row in data["rows"]:
        row["written"] = {"markdown": escape_markdown(row["encoder"]), "latex": escape_latex(row["encoder"])}
        row["items"] = errors.get((row["spec"], row["protocol"]), {})
    return data | {
        "digits": DIGITS,
        "missing": {"plain": MISSING, "latex": escape_latex(MISSING)},
        "tied": {"plain": TIED, "latex": escape_latex(TIED)},
        "written": {
            "title": escape_markdown(table.title),
            "notes": [
                {"plain": _line(note), "markdown": escape_markdown(note), "latex": breakable(ended(note))}
                for _, note in note_lines(table)
            ],
            "before": before.rstrip(),
            "after": "\\caption" + after[2].partition(r"\end{table}")[0] + r"\end{table}",
            "below": "minipage" in text,
        },
    }


def _line(text: str) -> str:
    return " ".join(text.split())


def _checksum(text: str) -> str:
    """The hash by which a content security policy names a script or style."""
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
