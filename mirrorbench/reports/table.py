"""The table model: rows of encoders, columns of tasks, a score in each cell; leaderboards and the papers' tables alike.

No text is made here, but best and second are found here alone. A table can be kept as JSON and rendered again without
its results.
"""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass
from itertools import groupby
from pathlib import Path
from typing import Any, Literal

import msgspec

from mirrorbench.core.errors import DataFormatError

AVERAGE = "avg."
INTERVALS = "[low, high]"
"""How the note about intervals begins, for the formats that show none."""
DIGITS = 3
"""Digits after the point, as the papers print; two scores equal to this many digits share their rank."""
TABLE_SCHEMA = 1
"""Version of the JSON layout."""


@dataclass(frozen=True, slots=True)
class Score:
    """One cell of a table.

    Attributes:
        mean: over seeds; NaN for a cell of a paper that holds no number.
        sd: sample standard deviation over seeds; ``None`` for a single one.
        n: number of seeds.
        cell_ids: the results behind it.
        seeds: the single values, as (seed, value), ordered by seed.
        interval: lower and upper end of a confidence interval of the mean, where one was computed; the table's notes
            say of which kind.
        tied: not separable from the best score of its column by the test that the notes name.
        text: what is printed in place of the number, in a paper's table; ``None`` in a leaderboard.
    """

    mean: float
    sd: float | None
    n: int
    cell_ids: tuple[str, ...] = ()
    seeds: tuple[tuple[int, float], ...] = ()
    interval: tuple[float, float] | None = None
    tied: bool = False
    text: str | None = None


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
        part: in a paper's table ``published``, ``measured`` or ``difference``, each ranked apart; otherwise empty.
    """

    label: str
    spec: str
    scores: tuple[Score | None, ...]
    backbone: str = ""
    method: str = ""
    protocol: str = ""
    part: str = ""


@dataclass(frozen=True, slots=True)
class Table:
    """A leaderboard, or a table of a paper.

    Attributes:
        title: one line.
        columns: tasks, then the average where there is more than one task; of several suites each has its own average.
        rows: encoders; a row of a paper goes on, without a label, in the rows of its other parts.
        notes: provenance and caveats, one line each.
        kind: ``leaderboard``, or of a paper: ``scores`` or ``facts``.
        corner: head of the labels.
    """

    title: str
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    notes: tuple[str, ...] = ()
    kind: Literal["leaderboard", "scores", "facts"] = "leaderboard"
    corner: str = "encoder"

    def ranks(self) -> list[list[int]]:
        """For each row and column 1 for the best score, 2 for the second best, 0 for all others and for missing ones.

        Scores that are printed alike share a rank. A column with a single score ranks nothing, and in a paper's table
        one whose scores are all alike.
        """
        marks = [[0] * len(self.columns) for _ in self.rows]
        for column in range(len(self.columns)):
            for part in {row.part for row in self.rows}:
                shown = {
                    i: round(score.mean, DIGITS)
                    for i, row in enumerate(self.rows)
                    if row.part == part and row.spec and (score := row.scores[column]) and not math.isnan(score.mean)
                }
                best = sorted(set(shown.values()), reverse=True)[:2]
                if len(shown if self.kind == "leaderboard" else best) > 1:
                    for i, value in shown.items():
                        marks[i][column] = best.index(value) + 1 if value in best else 0
        return marks

    def heads(self) -> list[str]:
        """Heads for formats that have a single line of them: a title that occurs twice is preceded by its suite."""
        titles = [column.title for column in self.columns]
        return [
            f"{c.suite} {c.title}".strip() if titles.count(c.title) > 1 or self.kind == "scores" else c.title
            for c in self.columns
        ]

    def groups(self) -> list[tuple[str, int]]:
        """Suites and how many neighbouring columns each spans; empty where there is nothing to tell apart."""
        if len({column.suite for column in self.columns} - {""}) < (2 if self.kind == "leaderboard" else 1):
            return []
        return [(suite, len(list(columns))) for suite, columns in groupby(self.columns, lambda c: c.suite)]

    def labels(self) -> list[list[str]]:
        """What stands before the scores, of the head and of each row: a label and, where rows have parts, the part."""
        parts = any(row.part not in ("", "published") for row in self.rows)
        return [[self.corner, ""][: 1 + parts], *([row.label, row.part][: 1 + parts] for row in self.rows)]

    def blocks(self) -> list[int]:
        """Rows at which another backbone begins; empty where no backbone has more than one row."""
        if self.kind != "leaderboard":
            starts = [i for i, row in enumerate(self.rows) if row.label and i]
            return starts if len(self.labels()[0]) > 1 else []
        names = [row.backbone for row in self.rows]
        starts = [i for i in range(1, len(names)) if names[i] != names[i - 1]]
        return starts if len(starts) + 1 < len(names) else []


_ROW = ("spec", "backbone", "method", "protocol")


def to_object(table: Table) -> dict[str, Any]:
    """A leaderboard as a JSON object; scores are keyed by the column's name."""
    rows = []
    for row in table.rows:
        scores = [score and {k: v for k, v in asdict(score).items() if k != "text"} for score in row.scores]
        texts = {"encoder": row.label, **{name: getattr(row, name) for name in _ROW}}
        rows.append({**texts, "scores": dict(zip([column.name for column in table.columns], scores, strict=True))})
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
        columns = msgspec.convert(data["columns"], tuple[Column, ...])
        rows = []
        for row in data["rows"]:
            scores = msgspec.convert([row["scores"][c.name] for c in columns], tuple[Score | None, ...])
            rows.append(Row(str(row["encoder"]), scores=scores, **{name: str(row[name]) for name in _ROW}))
        return Table(str(data["title"]), columns, tuple(rows), tuple(map(str, data["notes"])))
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise DataFormatError(
            f"{path} is no table: {type(error).__name__}: {error}", "Make one: mirrorbench leaderboard --format json"
        ) from error
