"""The formats Markdown, CSV and JSON."""

from __future__ import annotations

import csv
import io
import json
import re
from typing import Any

from mirrorbench.core.errors import UsageError
from mirrorbench.reports.renderers.notes import note_lines, summary_lines
from mirrorbench.reports.renderers.numbers import marks, with_deviation
from mirrorbench.reports.renderers.verdicts import names_of, sentence
from mirrorbench.reports.table import Score, Table, Unseen, to_object

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
            text = escape_markdown(with_deviation(score))
            cells.append(_RANK_MARKS[rank].format(text) + marks(score))
        rows.append([*map(escape_markdown, label), *cells])
    alignment = ["left"] * len(head) + ["right"] * len(table.columns)
    grid = tabulate(
        rows,
        headers=[*head, *map(escape_markdown, table.heads())],
        disable_numparse=True,
        tablefmt="pipe" if table.layout == "leaderboard" else "github",
        colalign=alignment if rows else None,  # tabulate fails on an alignment without rows
    )
    paragraphs = [grid, *(escape_markdown(note) for _, note in note_lines(table))]
    if table.heading:
        paragraphs.insert(0, f"**{escape_markdown(table.heading)}**")
    return "\n\n".join(paragraphs) + "\n"


def comma_separated(table: Table, *, long: bool = False, verdicts: bool = False) -> str:
    """Render CSV with full precision: encoder, spec, then for each column mean, sd, number of seeds, any interval.

    If the table has a banner, such as that of a smoke run, it is the first column.

    Args:
        table: the table.
        long: write a row for each encoder and task instead.
        verdicts: write a row for each verdict instead, with its caveats and its sentence.

    Raises:
        UsageError: both ``long`` and ``verdicts`` are set.
    """
    if long and verdicts:
        raise UsageError("long and verdicts are two tables", "Take one of the two options.")
    if verdicts:
        head, rows = _verdict_rows(table)
    elif long:
        head, rows = _long_rows(table)
    else:
        head, rows = _encoder_rows(table)
    if table.banner:
        head = ["banner", *head]
        rows = [[table.banner, *row] for row in rows]
    stream = io.StringIO()
    csv.writer(stream, lineterminator="\n").writerows([head, *rows])
    return stream.getvalue()


_HeadAndRows = tuple[list[str], list[list[Any]]]
"""The head of a CSV table, and its rows."""


def _encoder_rows(table: Table) -> _HeadAndRows:
    """Return a row for each encoder."""
    intervals = _has_intervals(table)
    suffixes = ["", " sd", " seeds"]
    if intervals:
        suffixes += [" low", " high"]
    head = ["encoder", "spec"]
    for column in table.columns:
        head += [f"{column.name}{suffix}" for suffix in suffixes]
    rows = []
    for row in table.rows:
        values = [value for score in row.scores for value in _values(score, intervals)]
        rows.append([row.label, row.spec, *values])
    return head, rows


def _long_rows(table: Table) -> _HeadAndRows:
    """Return a row for each encoder and column."""
    intervals = _has_intervals(table)
    head = ["encoder", "spec", "protocol", "column", "metric", "items", "score", "sd", "seeds"]
    if intervals:
        head += ["low", "high"]
    rows: list[list[Any]] = []
    for row in table.rows:
        for column, score in zip(table.columns, row.scores, strict=True):
            if score is not None:
                cell = [row.label, row.spec, row.protocol, column.name, column.metric]
                rows.append([*cell, column.n_items or None, *_values(score, intervals)])
    return head, rows


def _has_intervals(table: Table) -> bool:
    return any(score and score.interval for row in table.rows for score in row.scores)


def _values(score: Score | None, intervals: bool) -> list[float | None]:
    """Return the mean, standard deviation and number of seeds of a score; with ``intervals`` also its interval.

    All values of a missing score are ``None``.
    """
    if score is None:
        return [None] * (5 if intervals else 3)
    values = [score.mean, score.sd, score.n]
    if intervals:
        values += _ends(score.interval)
    return values


def _verdict_rows(table: Table) -> _HeadAndRows:
    """Return a row for each verdict."""
    head = ["encoder", "spec", "over", "over spec", "protocol", "column", "answer"]
    head += ["difference", "low", "high", "p", "p corrected", "tests"]
    head += ["best", "this model", "two seeds", "items", "left out"]
    head += ["seen", "unseen difference", "unseen low", "unseen high", "unseen p", "sentence"]
    rows: list[list[Any]] = []
    for verdict in table.verdicts:
        row, over = table.rows_of(verdict)
        low, high = _ends(verdict.interval)
        unseen = verdict.unseen or Unseen(0.0)  # no item was seen
        unseen_low, unseen_high = _ends(unseen.interval)
        _, text = sentence(verdict, names_of(table, verdict))
        # In the order of the head.
        values: list[Any] = [row.label, row.spec, over.label, over.spec, row.protocol]
        values += [verdict.column, verdict.answer]
        values += [verdict.difference, low, high, verdict.p, verdict.corrected, verdict.n_tests]
        values += [verdict.best, verdict.this_model, verdict.two_seeds]
        values += [verdict.n, verdict.left_out]
        values += [unseen.share, unseen.difference, unseen_low, unseen_high, unseen.p, text]
        rows.append(values)
    return head, rows


def _ends(interval: tuple[float, float] | None) -> tuple[float | None, float | None]:
    """Return the lower and the upper end of an interval; ``None`` for each without one."""
    return interval or (None, None)


def as_json(table: Table) -> str:
    """Render the table's values as JSON, which ``mirrorbench leaderboard`` can read.

    ``summary`` holds the short notes of a leaderboard; each verdict has its ``sentence``. At any level of notes but
    ``all``, the shown notes replace the others and the warnings.
    """
    data = to_object(table)
    for entry, verdict in zip(data["verdicts"], table.verdicts, strict=True):
        _, entry["sentence"] = sentence(verdict, names_of(table, verdict))
    if table.layout == "leaderboard" and table.shown != "none":
        data["summary"] = [text for _, text in summary_lines(table)]
    if table.shown != "all":
        # Short notes contain the warnings.
        data["notes"] = [note for _, note in note_lines(table)]
        data["warnings"] = []
    return json.dumps(data, indent=2, ensure_ascii=False) + "\n"
