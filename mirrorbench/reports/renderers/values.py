"""Values for other programs: nothing is rounded."""

from __future__ import annotations

import csv
import io
import json

from mirrorbench.reports.table import Score, Table, to_object


def comma_separated(table: Table) -> str:
    """CSV with full precision: encoder, spec, then for each column mean, standard deviation and number of seeds.

    Where the table holds confidence intervals, their ends (``low``, ``high``) follow.
    """
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    intervals = any(score and score.interval for row in table.rows for score in row.scores)
    parts = ("", " sd", " seeds", *((" low", " high") if intervals else ()))
    writer.writerow(["encoder", "spec", *(f"{column.name}{part}" for column in table.columns for part in parts)])
    for row in table.rows:
        values: list[float | None] = []
        for score in row.scores:
            values += _values(score)[: len(parts)]
        writer.writerow([row.label, row.spec, *("" if v is None else v for v in values)])
    return stream.getvalue()


def _values(score: Score | None) -> list[float | None]:
    return [score.mean, score.sd, score.n, *(score.interval or (None, None))] if score else [None] * 5


def as_json(table: Table) -> str:
    """The table's values as JSON, which ``mirrorbench leaderboard`` also reads."""
    return json.dumps(to_object(table), indent=2, ensure_ascii=False) + "\n"
