"""The table model of leaderboards and the papers' tables: rows of encoders, columns of tasks, a score in each cell.

Ranks are computed only here; text is made only by renderers.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import Any, Literal

import msgspec

from mirrorbench.core.errors import DataFormatError, unknown_name

AVERAGE = "avg."
NOTES = ("none", "short", "all")
"""How much of its notes a table shows: nothing, at most six lines, or every one."""
DIGITS = 3
"""Digits after the point, as in the papers; scores that are equal when rounded share their rank."""
TABLE_SCHEMA = 1
"""Version of the JSON layout."""


@dataclass(frozen=True, slots=True)
class Score:
    """One cell of a table.

    Attributes:
        mean: over seeds; NaN where a paper's cell holds no number.
        sd: sample standard deviation over seeds; ``None`` for a single seed.
        n: number of seeds.
        cell_ids: ids of the results.
        seeds: (seed, value) of each seed, ordered by seed.
        interval: lower and upper end of a confidence interval, where computed; the table's notes say which kind.
        tied: not separable from the best score of its column by the test that the notes name.
        text: printed instead of the number in a paper's table; ``None`` in a leaderboard.
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
class TaskSource:
    """The origin of a task's data, as its card has it.

    Attributes:
        title: one line on the data set.
        citation: BibTeX.
        homepage: an address; empty where there is none.
        licence: its name, or those of several.
        licence_url: the address of its text; empty where there is none.
    """

    title: str
    citation: str
    homepage: str = ""
    licence: str = ""
    licence_url: str = ""


@dataclass(frozen=True, slots=True)
class Column:
    """A column: a task, or an average over tasks.

    Attributes:
        name: the task's name, unique in a table.
        title: the heading.
        suite: the task's suite; empty for none, and for an average over several.
        level: the task's level; empty for an average.
        languages: the task's languages; empty for an average.
        metric: the metric of the scores; empty for an average.
        average_of: names of the averaged columns; empty for a task.
        items: word for the test items, such as ``word pairs``.
        n_items: their number; 0 where unknown.
        seen: the largest share of them, over the rows, that holds a text that was tuned on.
        source: of the task's data; ``None`` for an average, and where no card says it.
    """

    name: str
    title: str
    suite: str = ""
    level: str = ""
    languages: tuple[str, ...] = ()
    metric: str = ""
    average_of: tuple[str, ...] = ()
    items: str = "items"
    n_items: int = 0
    seen: float = 0.0
    source: TaskSource | None = None


@dataclass(frozen=True, slots=True)
class Row:
    """A row: an encoder, or a baseline that needs none.

    Attributes:
        label: the printed name.
        spec: the encoder spec; empty for a baseline, which has no rank.
        scores: in the order of the columns; ``None`` where missing.
        backbone: as the spec names it.
        method: the spec's method, such as ``base`` or ``mirror``; empty for an encoder system.
        protocol: the evaluation protocol.
        part: ``published``, ``measured`` or ``difference`` in a paper's table, each ranked separately; otherwise empty.
        parameters: of the encoder; ``None`` where unknown.
        dimensions: of its vectors; ``None`` where unknown.
        tuned: whether its model was tuned.
    """

    label: str
    spec: str
    scores: tuple[Score | None, ...]
    backbone: str = ""
    method: str = ""
    protocol: str = ""
    part: str = ""
    parameters: int | None = None
    dimensions: int | None = None
    tuned: bool = False


@dataclass(frozen=True, slots=True)
class Unseen:
    """A gain on the test items without a text that either row was tuned on.

    Attributes:
        share: of the items that are left out.
        difference: of the scores on the others; ``None`` where undefined.
        interval: lower and upper end of its confidence interval.
    """

    share: float
    difference: float | None = None
    interval: tuple[float, float] | None = None


@dataclass(frozen=True, slots=True)
class Verdict:
    """The gain of a row of a leaderboard over the row that it changes, in one column.

    Attributes:
        spec: of the row.
        over: spec of the row that it is compared with.
        protocol: of both.
        column: its name.
        difference: of the scores on the items that both have.
        interval: lower and upper end of its confidence interval over items and seeds; ``None`` where undefined.
        p: the two-sided p-value; ``None`` where undefined.
        corrected: the p-value corrected for the verdicts of the column, that of the best rows for what they were chosen
            from.
        separable: whether that is significant.
        why_not: why there is no p-value; empty where there is one.
        best: whether these are the best tuned row of a backbone in that column, and the best without tuning; their
            interval is simultaneous for all pairs that they were chosen from.
        this_model: whether a row was tuned with one seed, so that the verdict is about that model.
        unseen: the difference on items without a tuned text; computed for the first headline alone.
    """

    spec: str
    over: str
    protocol: str
    column: str
    difference: float | None = None
    interval: tuple[float, float] | None = None
    p: float | None = None
    corrected: float | None = None
    separable: bool = False
    why_not: str = ""
    best: bool = False
    this_model: bool = False
    unseen: Unseen | None = None


@dataclass(frozen=True, slots=True)
class Table:
    """A leaderboard, or a table of a paper.

    Attributes:
        title: one line.
        columns: tasks, and averages after each of several suites and at the end.
        rows: encoders; the measured and difference rows of a paper's row follow it without a label.
        notes: provenance and caveats, one line each.
        layout: ``leaderboard``, or for a paper's table ``scores`` or ``facts``.
        corner: heading of the column of labels.
        sweeps: groups of columns, by index, that are ranked along each row instead of down each column.
        verdicts: of a leaderboard, on the steps between its rows; those of two rows follow each other.
        warnings: reasons to distrust the whole table, which short notes hold too.
        shown: which notes are rendered, one of ``NOTES``.
    """

    title: str
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    notes: tuple[str, ...] = ()
    layout: Literal["leaderboard", "scores", "facts"] = "leaderboard"
    corner: str = "encoder"
    sweeps: tuple[tuple[int, ...], ...] = ()
    verdicts: tuple[Verdict, ...] = ()
    warnings: tuple[str, ...] = ()
    shown: str = "all"

    def with_notes(self, level: str) -> Table:
        """A copy that is rendered with these notes, one of ``NOTES``; ``UnknownNameError`` for another level."""
        if level not in NOTES:
            raise unknown_name("level of notes", level, list(NOTES))
        return replace(self, shown=level)

    def ranks(self) -> list[list[int]]:
        """For each row and column: 1 for the best score, 2 for the second best, 0 otherwise.

        They are ranked down the columns, and along the rows in ``sweeps``. Scores that are equal as printed share a
        rank. A single score has none, nor have those of a paper's table that are all equal.
        """
        marks = [[0] * len(self.columns) for _ in self.rows]
        for cells in self._ranked_together():
            shown = {
                (i, column): round(score.mean, DIGITS)
                for i, column in cells
                if self.rows[i].spec and (score := self.rows[i].scores[column]) and not math.isnan(score.mean)
            }
            best = sorted(set(shown.values()), reverse=True)[:2]
            if len(shown if self.layout == "leaderboard" else best) > 1:
                for (i, column), value in shown.items():
                    marks[i][column] = best.index(value) + 1 if value in best else 0
        return marks

    def _ranked_together(self) -> Iterator[list[tuple[int, int]]]:
        """Rows and columns of the cells of each ranking."""
        swept = {column for group in self.sweeps for column in group}
        for column in range(len(self.columns)):
            for part in {row.part for row in self.rows} if column not in swept else ():
                yield [(i, column) for i, row in enumerate(self.rows) if row.part == part]
        for group in self.sweeps:
            yield from ([(i, column) for column in group] for i in range(len(self.rows)))

    def heads(self) -> list[str]:
        """Headings for formats with a single heading line: a repeated title is preceded by its suite."""
        titles = [column.title for column in self.columns]
        return [
            f"{c.suite} {c.title}".strip() if titles.count(c.title) > 1 or self.layout == "scores" else c.title
            for c in self.columns
        ]

    def groups(self) -> list[tuple[str, int]]:
        """Suites and the number of neighbouring columns of each; empty with no suite, or one on a leaderboard."""
        if len({column.suite for column in self.columns} - {""}) < (2 if self.layout == "leaderboard" else 1):
            return []
        return [(suite, len(list(columns))) for suite, columns in groupby(self.columns, lambda c: c.suite)]

    def sorted_by(self, column: str) -> Table:
        """The rows by their scores in a column, best first; without a score, and baselines, last.

        Raises:
            UnknownNameError: no such column.
        """
        names = [c.name for c in self.columns]
        if column not in names:
            titles = [*self.heads()[:-1], "avg"] if AVERAGE in names else self.heads()
            if column not in titles:
                raise unknown_name("column", column, [*dict.fromkeys((*names, *titles))])
            column = names[titles.index(column)]

        def place(row: Row) -> tuple[bool, bool, float]:
            score = row.scores[names.index(column)]
            return not row.spec, score is None, -score.mean if score else 0.0

        return replace(self, rows=tuple(sorted(self.rows, key=place)))

    def column_blocks(self, fits: Callable[[Sequence[int]], bool]) -> list[list[int]]:
        """Columns in blocks that fit, each of whole suites as far as they fit."""
        blocks: list[list[int]] = [[]]
        for _, group in groupby(range(len(self.columns)), lambda i: self.columns[i].suite):
            columns = list(group)
            for part in [columns] if fits(columns) else [[i] for i in columns]:
                if blocks[-1] and not fits([*blocks[-1], *part]):
                    blocks.append([])
                blocks[-1] += part
        return blocks

    def labels(self) -> list[list[str]]:
        """The cells before the scores, of the heading and of each row: a label and, where rows have parts, the part."""
        parts = self.layout != "leaderboard" and any(row.part not in ("", "published") for row in self.rows)
        return [[self.corner, ""][: 1 + parts], *([row.label, row.part][: 1 + parts] for row in self.rows)]

    def blocks(self) -> list[int]:
        """Numbers of the rows where a new backbone (or row of a paper) begins; empty where each has only one row."""
        if self.layout != "leaderboard":
            starts = [i for i, row in enumerate(self.rows) if row.part in ("", "published") and i]
            return starts if len(self.labels()[0]) > 1 else []
        names = [row.backbone for row in self.rows]
        starts = [i for i in range(1, len(names)) if names[i] != names[i - 1]]
        together = len(starts) + 1 == len(set(names))  # not so where rows are sorted by a score
        return starts if together and len(starts) + 1 < len(names) else []


def to_object(table: Table) -> dict[str, Any]:
    """A leaderboard as a JSON object; a row's scores are keyed by column name."""
    data = asdict(table)
    for key in ("layout", "corner", "sweeps", "shown"):
        del data[key]
    names = [column.name for column in table.columns]
    for row in data["rows"]:
        row |= {"encoder": row.pop("label"), "scores": dict(zip(names, row["scores"], strict=True))}
    return {"schema": TABLE_SCHEMA, **data}


def read_table(path: Path) -> Table:
    """Read a table that ``mirrorbench leaderboard --format json`` wrote; ``DataFormatError`` for other files."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        if "cell_id" in data:
            raise DataFormatError(f"{path} is a single result", "Name the folder that it lies in.")
        if data["schema"] != TABLE_SCHEMA:
            raise DataFormatError(f"{path} has schema {data['schema']!r}; this version reads schema {TABLE_SCHEMA}")
        names = [column["name"] for column in data["columns"]]
        for row in data["rows"]:
            row |= {"label": row["encoder"], "scores": [row["scores"][name] for name in names]}
            row.setdefault("tuned", row["method"] not in ("", "base", "static"))  # earlier versions did not write it
        return msgspec.convert(data, Table)
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise DataFormatError(
            f"{path} is no table: {type(error).__name__}: {error}", "Make one: mirrorbench leaderboard --format json"
        ) from error
