"""Tables as JSON objects and back, so that a table can be kept, and rendered anew without its results."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from mirrorbench.core.errors import DataFormatError
from mirrorbench.reports.table import Column, Row, Score, Table

SCHEMA = 1
"""Version of the object's layout."""


def to_object(table: Table) -> dict[str, Any]:
    """A table as a JSON object; scores are keyed by the column's name."""
    names = [column.name for column in table.columns]
    rows = [
        {
            "encoder": row.label,
            "spec": row.spec,
            "backbone": row.backbone,
            "method": row.method,
            "protocol": row.protocol,
            "scores": {n: asdict(s) if s else None for n, s in zip(names, row.scores, strict=True)},
        }
        for row in table.rows
    ]
    columns = [asdict(column) for column in table.columns]
    return {"schema": SCHEMA, "title": table.title, "columns": columns, "rows": rows, "notes": list(table.notes)}


def read_table(path: Path) -> Table:
    """The table in a file as ``mirrorbench leaderboard --format json`` writes it.

    Raises:
        DataFormatError: the file holds something else.
    """
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        if "cell_id" in data:
            raise DataFormatError(f"{path} is a single result", "Name the folder that it lies in.")
        if data["schema"] != SCHEMA:
            raise DataFormatError(f"{path} has schema {data['schema']!r}; this version reads schema {SCHEMA}")
        columns = tuple(_column(column) for column in data["columns"])
        rows = tuple(_row(row, columns) for row in data["rows"])
        return Table(str(data["title"]), columns, rows, tuple(map(str, data["notes"])))
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise DataFormatError(
            f"{path} is no table: {type(error).__name__}: {error}", "Make one: mirrorbench leaderboard --format json"
        ) from error


def _column(data: dict[str, Any]) -> Column:
    texts = {name: str(data[name]) for name in ("name", "title", "suite", "level", "metric")}
    return Column(languages=_texts(data["languages"]), average_of=_texts(data["average_of"]), **texts)


def _row(data: dict[str, Any], columns: tuple[Column, ...]) -> Row:
    texts = {name: str(data[name]) for name in ("spec", "backbone", "method", "protocol")}
    scores = tuple(_score(data["scores"][column.name]) for column in columns)
    return Row(label=str(data["encoder"]), scores=scores, **texts)


def _score(data: dict[str, Any] | None) -> Score | None:
    if data is None:
        return None
    interval = data["interval"]
    return Score(
        mean=float(data["mean"]),
        sd=None if data["sd"] is None else float(data["sd"]),
        n=int(data["n"]),
        cell_ids=_texts(data["cell_ids"]),
        seeds=tuple((int(seed), float(value)) for seed, value in data["seeds"]),
        interval=None if interval is None else (float(interval[0]), float(interval[1])),
        tied=bool(data["tied"]),
    )


def _texts(values: list[Any]) -> tuple[str, ...]:
    return tuple(str(value) for value in values)
