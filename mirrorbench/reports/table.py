"""Tables as values: rows of encoders, columns of tasks, a score in each cell. No text is made here.

A missing cell is missing, not 0. A table can be kept as JSON and rendered anew without its results.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

from mirrorbench.core.errors import DataFormatError

AVERAGE = "avg."
INTERVALS = "[low, high]"
"""How the note about intervals begins, for the formats that show none."""
DIGITS = 3
"""Digits after the point, as the papers print; two scores equal to this many digits share their rank."""


@dataclass(frozen=True, slots=True)
class Score:
    """One cell of a table.

    Attributes:
        mean: over seeds.
        sd: sample standard deviation over seeds; ``None`` for a single one.
        n: number of seeds.
        cell_ids: the results behind it.
        seeds: the single values, as (seed, value), ordered by seed.
        interval: lower and upper end of a confidence interval of the mean, where one was computed; the table's notes
            say of which kind.
        tied: not separable from the best score of its column by the test that the notes name.
    """

    mean: float
    sd: float | None
    n: int
    cell_ids: tuple[str, ...] = ()
    seeds: tuple[tuple[int, float], ...] = ()
    interval: tuple[float, float] | None = None
    tied: bool = False


@dataclass(frozen=True, slots=True)
class Column:
    """A column: a task, or an average over tasks.

    Attributes:
        name: the task's name; unique in a table.
        title: its head.
        suite: the suite that it stands under; empty for none, and for an average over several.
        level: the task's level; empty for an average.
        languages: the task's languages; none for an average.
        metric: what the numbers are; empty for an average.
        average_of: names of the columns that an average is taken over; none for a task.
    """

    name: str
    title: str
    suite: str = ""
    level: str = ""
    languages: tuple[str, ...] = ()
    metric: str = ""
    average_of: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Row:
    """A row: an encoder, or a baseline that needs none.

    Attributes:
        label: how it is called.
        spec: the encoder spec; empty for a baseline, which has no rank.
        scores: in the order of the columns; ``None`` is missing.
        backbone: as the spec names it.
        method: what is done to the backbone; empty for an encoder system.
        protocol: which reading of the experiment.
    """

    label: str
    spec: str
    scores: tuple[Score | None, ...]
    backbone: str = ""
    method: str = ""
    protocol: str = ""


@dataclass(frozen=True, slots=True)
class Table:
    """A leaderboard.

    Attributes:
        title: one line.
        columns: tasks, then the average where there is more than one task; of several suites each has its own average.
        rows: encoders.
        notes: provenance and caveats, one line each.
    """

    title: str
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    notes: tuple[str, ...] = ()

    def ranks(self) -> list[list[int]]:
        """For each row and column 1 for the best score, 2 for the second best, 0 for all others and for missing ones.

        Scores that are printed alike share a rank. A column with a single score ranks nothing.
        """
        marks = [[0] * len(self.columns) for _ in self.rows]
        for column in range(len(self.columns)):
            shown = [round(s.mean, DIGITS) if row.spec and (s := row.scores[column]) else None for row in self.rows]
            values = sorted({value for value in shown if value is not None}, reverse=True)
            if sum(value is not None for value in shown) > 1:
                for row, value in enumerate(shown):
                    if value is not None and value in values[:2]:
                        marks[row][column] = values.index(value) + 1
        return marks

    def heads(self) -> list[str]:
        """Heads for formats that have a single line of them: a title that occurs twice is preceded by its suite."""
        titles = [column.title for column in self.columns]
        return [
            f"{column.suite} {column.title}".strip() if titles.count(column.title) > 1 else column.title
            for column in self.columns
        ]

    def groups(self) -> list[tuple[str, int]]:
        """Suites and how many neighbouring columns each spans; empty where there are fewer than two suites."""
        if len({column.suite for column in self.columns} - {""}) < 2:
            return []
        return [(suite, len(list(columns))) for suite, columns in groupby(self.columns, lambda c: c.suite)]

    def blocks(self) -> list[int]:
        """Rows at which another backbone begins; empty where no backbone has more than one row."""
        names = [row.backbone for row in self.rows]
        starts = [i for i in range(1, len(names)) if names[i] != names[i - 1]]
        return starts if len(starts) + 1 < len(names) else []


TABLE_SCHEMA = 1
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
    return {"schema": TABLE_SCHEMA, "title": table.title, "columns": columns, "rows": rows, "notes": list(table.notes)}


def read_table(path: Path) -> Table:
    """The table in a file as ``mirrorbench leaderboard --format json`` writes it.

    Raises:
        DataFormatError: the file holds something else.
    """
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        if "cell_id" in data:
            raise DataFormatError(f"{path} is a single result", "Name the folder that it lies in.")
        if data["schema"] != TABLE_SCHEMA:
            raise DataFormatError(f"{path} has schema {data['schema']!r}; this version reads schema {TABLE_SCHEMA}")
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
