"""The formats Markdown, CSV and JSON."""

from __future__ import annotations

import csv
import io
import json
import re

from mirrorbench.reports.renderers.notes import marks, note_lines, with_deviation
from mirrorbench.reports.table import Table, to_object

# Characters that Markdown could take for markup; "_" only at the edge of a word, "]" only where a link would follow.
_SPECIAL = re.compile(
    r"[\\`*|$]|<(?=[A-Za-z/!?])|&(?=[#A-Za-z0-9])|~(?=~)|\](?=\()|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])|^(?:[#>+-]|\d+[.)])(?=\s)"
)
_RANK_MARKS = ("{}", "**{}**", "*{}*")


def escape_markdown(text: str) -> str:
    """Escape text for Markdown, also in a cell of a table."""
    return _SPECIAL.sub(lambda match: "\\" + match[0], " ".join(text.split()))


def markdown(table: Table) -> str:
    """Render a GitHub table, and its notes as paragraphs."""
    from tabulate import tabulate

    head, *labels = table.labels()
    rows = []
    for label, row, ranks in zip(labels, table.rows, table.ranks(), strict=True):
        cells = []
        for score, rank in zip(row.scores, ranks, strict=True):
            cells.append(
                _RANK_MARKS[rank].format(escape_markdown(with_deviation(score))) + marks(score)
            )
        rows.append([*map(escape_markdown, label), *cells])
    text = tabulate(
        rows,
        headers=[*head, *map(escape_markdown, table.heads())],
        disable_numparse=True,
        tablefmt="pipe" if table.layout == "leaderboard" else "github",
        colalign=["left"] * len(head) + ["right"] * len(table.columns) if rows else None,
    )
    title = f"**{escape_markdown(table.heading)}**\n\n" if table.heading else ""
    notes = "".join(f"\n\n{escape_markdown(note)}" for _, note in note_lines(table))
    return f"{title}{text}{notes}\n"


def comma_separated(table: Table) -> str:
    """Render CSV with full precision: encoder, spec, then for each column mean, sd, number of seeds, any interval.

    A banner is the first column, as of a smoke run.
    """
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    intervals = any(score and score.interval for row in table.rows for score in row.scores)
    parts = ("", " sd", " seeds", *((" low", " high") if intervals else ()))
    banner = ["banner"] if table.banner else []
    names = [f"{column.name}{part}" for column in table.columns for part in parts]
    writer.writerow([*banner, "encoder", "spec", *names])
    for row in table.rows:
        values: list[float | None] = []
        for s in row.scores:
            values += ([s.mean, s.sd, s.n, *(s.interval or (None, None))] if s else [None] * 5)[
                : len(parts)
            ]
        writer.writerow([*([table.banner] if banner else []), row.label, row.spec, *values])
    return stream.getvalue()


def as_json(table: Table) -> str:
    """Render the table's values as JSON, which ``mirrorbench leaderboard`` can read."""
    data = to_object(table)
    if table.shown != "all":
        data |= {"notes": [note for _, note in note_lines(table)], "warnings": []}
    return json.dumps(data, indent=2, ensure_ascii=False) + "\n"
