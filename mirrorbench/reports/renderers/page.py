"""HTML: a leaderboard as one page without network, to sort, filter and copy from.

The page is a template (``template/``) around the table's values as JSON. It stands and reads as a plain table where
scripts are off; its script builds every text as a text node, and the content security policy of the page lets only
this script and this style run, known by their checksums. So no label can become code.
"""

from __future__ import annotations

import base64
import hashlib
import json
from html import escape
from importlib.resources import files
from string import Template
from typing import Any

from mirrorbench.reports.renderers.markdown import escape_markdown
from mirrorbench.reports.renderers.numbers import MISSING, TIED, number, with_deviation, with_legend
from mirrorbench.reports.renderers.tex import caption, escape_latex
from mirrorbench.reports.table import DIGITS, Score, Table, to_object

DEFAULT_TITLE = "Leaderboard"


def html(table: Table) -> str:
    """One self-contained page: sort by a column, filter by suite, level, language and encoder, copy what is shown."""
    folder = files("mirrorbench.reports.renderers") / "template"
    parts = {name: (folder / f"page.{name}").read_text(encoding="utf-8") for name in ("html", "css", "js")}
    return Template(parts["html"]).substitute(
        title=escape(_line(table.title) or DEFAULT_TITLE),
        style=parts["css"],
        style_hash=_checksum(parts["css"]),
        script=parts["js"],
        script_hash=_checksum(parts["js"]),
        data=_embedded(_data(table)),
        head=_head(table),
        body=_body(table),
        notes="".join(f"<li>{escape(_line(note))}</li>" for note in with_legend(table)),
    )


def _data(table: Table) -> dict[str, Any]:
    """What the script reads: the values, and each label as it is written in Markdown and LaTeX."""
    data = to_object(table)
    for column, head in zip(data["columns"], table.heads(), strict=True):
        written = {"markdown": escape_markdown(head), "latex": escape_latex(column["title"])}
        column |= {"written": written, "suite_latex": escape_latex(column["suite"])}
    for row in data["rows"]:
        row["written"] = {"markdown": escape_markdown(row["encoder"]), "latex": escape_latex(row["encoder"])}
    return data | {
        "digits": DIGITS,
        "missing": {"plain": MISSING, "latex": escape_latex(MISSING)},
        "tied": {"plain": TIED, "latex": escape_latex(TIED)},
        "written": {
            "title": escape_markdown(table.title),
            "notes": [escape_markdown(note) for note in with_legend(table)],
            "caption": escape_latex(caption(table)),
        },
    }


def _line(text: str) -> str:
    return " ".join(text.split())


def _checksum(text: str) -> str:
    """As a content security policy names a script or style."""
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _embedded(data: dict[str, Any]) -> str:
    """JSON that ends no script element and holds no line end that JavaScript knows and JSON does not."""
    text = json.dumps(data, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.replace("<", r"\u003c").replace(">", r"\u003e").replace("&", r"\u0026")


def _head(table: Table) -> str:
    groups = "".join(
        f'<th scope="colgroup" colspan="{n}"><span>{escape(suite)}</span></th>' if suite else f'<td colspan="{n}"></td>'
        for suite, n in table.groups()
    )
    first = f"<tr><td></td>{groups}</tr>" if groups else ""
    titles = "".join(f'<th scope="col">{escape(column.title)}</th>' for column in table.columns)
    return f'{first}<tr><th scope="col">encoder</th>{titles}</tr>'


def _body(table: Table) -> str:
    rows = []
    for row, ranks in zip(table.rows, table.ranks(), strict=True):
        cells = "".join(_cell(score, rank) for score, rank in zip(row.scores, ranks, strict=True))
        rows.append(f'<tr><th scope="row"><span class="encoder">{escape(_line(row.label))}</span></th>{cells}</tr>')
    return "\n".join(rows)


_MARKS = {0: "{}", 1: "<b>{}</b>", 2: "<u>{}</u>"}


def _cell(score: Score | None, rank: int) -> str:
    if score is None:
        return f"<td>{MISSING}</td>"
    mean, rest = number(score.mean), with_deviation(score).removeprefix(number(score.mean))
    deviation = f" <small>{rest.strip()}</small>" if rest else ""
    return f"<td>{_MARKS[rank].format(mean.replace('-', '−'))}{deviation}{TIED if score.tied else ''}</td>"
