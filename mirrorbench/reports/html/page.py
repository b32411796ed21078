"""HTML: a self-contained page to sort, filter and copy from, and a table for notebooks.

Labels must never become code: the script builds text nodes only, and the page's content security policy allows only
this script and style, by checksum. Without scripts the page shows a plain table.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from dataclasses import replace
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from mirrorbench.reports.html.sources import (
    bibtex,
    column_sources,
    error_commands,
    full_heading,
    leaderboard_commands,
)
from mirrorbench.reports.renderers import escape_latex, latex
from mirrorbench.reports.renderers.notes import answer_lines, note_lines
from mirrorbench.reports.renderers.numbers import MISSING, TIED, metric_words, with_deviation
from mirrorbench.reports.renderers.tex import latex_heading, protect_start
from mirrorbench.reports.renderers.text import escape_markdown
from mirrorbench.reports.renderers.titles import title_of
from mirrorbench.reports.renderers.verdicts import names_of, sentence
from mirrorbench.reports.table import DIGITS, Table, to_object

if TYPE_CHECKING:
    from jinja2 import Environment

SCRIPTS = ("values.js", "drawing.js", "controls.js")
"""Parts of one script, in this order."""


def html(table: Table) -> str:
    """Render a self-contained page: sort by column, filter by suite, level, language and encoder, copy the shown rows.

    A table whose scores are texts, such as a paper's, has no script: it can only be read.
    """
    style = _template_file("page.css")
    has_texts = any(score and score.text for row in table.rows for score in row.scores)
    if has_texts:
        script = ""
        data = None
    else:
        script = "\n".join(map(_template_file, SCRIPTS))
        data = page_data(table)
    commands = leaderboard_commands(table) if table.layout == "leaderboard" else ""
    # The banner has its own place on the page, beside the title.
    title = title_of(replace(table, banner=""))
    page = _templates().get_template("page.html")
    return page.render(
        title=_on_one_line(title),
        banner=_on_one_line(table.banner),
        answers=_answers(table),
        style=style,
        style_hash=_checksum(style),
        script=script,
        script_hash=_checksum(script),
        data=_embedded(data),
        sources=column_sources(table),
        bibtex=bibtex(table),
        commands=commands,
        **_template_values(table),
    )


def notebook(table: Table) -> str:
    """Render an HTML fragment for notebooks: the table and its notes."""
    values = {"banner": table.banner, **_template_values(table)}
    # A fragment has no sentences above the table, so all notes stand below it.
    values["notes"] = [_on_one_line(note) for _, note in note_lines(table)]
    return _templates().get_template("notebook.html").render(values)


def page_data(table: Table) -> dict[str, Any]:
    """Build the data of the script: the table as in the format ``json`` and, under ``display``, its texts as shown."""
    data = to_object(table)
    del data["verdicts"]  # the notes state them
    for column, heading, entry in zip(table.columns, table.heads(), data["columns"], strict=True):
        metrics = [metric_words(name) for name in column.metric.split(", ") if name]
        entry["display"] = {
            "heading": full_heading(column),
            "markdown": escape_markdown(heading),
            "latex": latex_heading(column.title),
            "suite_latex": escape_latex(column.suite),
            "metric": ", ".join(metrics),
            "source": column.source.title if column.source else "",
        }
    commands = error_commands(table)
    for row, entry in zip(table.rows, data["rows"], strict=True):
        entry["display"] = {
            "markdown": escape_markdown(row.label),
            "latex": protect_start(escape_latex(row.label)),
            "error_commands": commands.get((row.spec, row.protocol), {}),
        }
    notes = []
    for _, note in note_lines(table):
        notes.append({"plain": _on_one_line(note), "markdown": escape_markdown(note)})
    # What belongs to the whole table, for the plot of differences and for copies as Markdown or LaTeX.
    data["display"] = {
        "differences": _differences(table),
        "digits": DIGITS,
        "missing": {"plain": MISSING, "latex": escape_latex(MISSING)},
        "tied": {"plain": TIED, "latex": escape_latex(TIED)},
        "title": escape_markdown(table.heading),
        "notes": notes,
        "latex": _around_tabular(latex(table)),
    }
    return data


_ANSWER_CLASSES = {"+": "gain", "-": "loss", "=": "neither", "!": "warning"}
"""CSS classes of the sentences above the table, by mark."""


def _answers(table: Table) -> list[tuple[str, str, str]]:
    """Return the CSS class, mark and text of each sentence above the table."""
    answers = []
    for mark, text in answer_lines(table):
        answers.append((_ANSWER_CLASSES.get(mark, ""), mark.replace("-", "−"), _typeset(text)))
    return answers


def _differences(table: Table) -> list[dict[str, Any]]:
    """Return the verdicts with an interval, for a plot: names, rows, numbers, and whether they are significant."""
    differences = []
    for verdict in table.verdicts:
        if verdict.difference is None or verdict.interval is None:
            continue
        names = names_of(table, verdict)
        _, text = sentence(verdict, names)
        differences.append(
            {
                "column": verdict.column,
                "rows": [[verdict.spec, verdict.protocol], [verdict.over, verdict.protocol]],
                "row": names.row,
                "over": names.over,
                "difference": verdict.difference,
                "interval": verdict.interval,
                "separable": verdict.separable,
                "sentence": _typeset(text),
            }
        )
    return differences


def _around_tabular(text: str) -> dict[str, str]:
    """Split LaTeX at the ``tabular`` of the scores, whose lines the script writes anew for the shown rows."""
    above, _, rest = text.partition("\n\\toprule\n")
    _, _, below = rest.partition("\n\\bottomrule\n")
    # The types of the columns, such as "lcc}", depend on what is shown.
    before = re.sub(r"lc*\}$", "", above)
    return {"before": before, "after": below}


def _embedded(data: dict[str, Any] | None) -> str:
    """Return data as JSON that can stand in a script element; ``null`` for ``None``."""
    text = json.dumps(data, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    # "<" could end the script element; ">" and "&" are escaped for safety. U+2028 and U+2029, which are line ends in
    # JavaScript, are escaped already, as they are not ASCII.
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def _template_file(name: str) -> str:
    """Return the text of a file beside the templates."""
    path = files("mirrorbench.reports.html") / "template" / name
    return path.read_text(encoding="utf-8")


@cache
def _templates() -> Environment:
    from jinja2 import Environment, PackageLoader

    loader = PackageLoader("mirrorbench.reports.html", "template")
    return Environment(
        loader=loader,
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )


def _template_values(table: Table) -> dict[str, Any]:
    """Return the values of the template ``board.html``; its notes are those that are not above the table."""
    rows = []
    for row, ranks in zip(table.rows, table.ranks(), strict=True):
        cells = []
        for score, rank in zip(row.scores, ranks, strict=True):
            # The deviation is empty if there is none.
            mean, _, deviation = with_deviation(score).partition(" ± ")
            dagger = TIED if score and score.tied else ""
            cells.append((mean.replace("-", "−"), deviation, rank, dagger))
        rows.append((_on_one_line(row.label), cells))
    lines_above = [text for _, text in answer_lines(table)]
    notes = [_typeset(note) for _, note in note_lines(table) if note not in lines_above]
    return {
        "groups": table.groups(),
        "corner": table.corner,
        "heads": [full_heading(column) for column in table.columns],
        "rows": rows,
        "notes": notes,
    }


def _typeset(text: str) -> str:
    """Return a sentence on one line, with minus signs, and without breaks inside an interval or a p-value."""
    text = re.sub(r"(?<=[\s\[(])-(?=\.?\d)", "−", _on_one_line(text))
    text = re.sub(r"\[([^\[\]]*), ([^\[\]]*)\]", "[\\1,\u00a0\\2]", text)
    return re.sub(r"\bp ([<=]) ", "p\u00a0\\1\u00a0", text)


def _on_one_line(text: str) -> str:
    """Return a text on one line."""
    return " ".join(text.split())


def _checksum(text: str) -> str:
    """Return the hash by which a content security policy names a script or style."""
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
