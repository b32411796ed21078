"""Tables of leaderboards and papers as values: rows of encoders, columns of tasks, a score in each cell.

Ranks are computed only here; renderers make the text.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import Any, Literal

import msgspec

from mirrorbench.core.errors import DataFormatError, unknown_name

AVERAGE = "avg."
NOTES = ("none", "short", "all")
"""Levels of notes: nothing, at most six lines, or every note."""
DIGITS = 3
"""Digits after the point, as in the papers; scores that are equal when rounded share their rank."""
TABLE_SCHEMA = 1
"""Version of the JSON layout."""


@dataclass(frozen=True, slots=True)
class Score:
    """A cell of a table: the score of an encoder on a task, over ``n`` seeds.

    mirrorbench makes the scores of a ``Table``; a renderer reads them, and its test makes them as below. Numbers are in
    the unit of the metric (0.82, not 82).

    Attributes:
        mean: mean over seeds; NaN where a paper's cell holds no number.
        sd: sample standard deviation over seeds; ``None`` for a single seed.
        n: number of seeds.
        cell_ids: ids of the results (``Result.cell_id``).
        seeds: (seed, value) of each seed, ordered by seed.
        interval: lower and upper end of a confidence interval, where computed; the table's notes define it.
        tied: not separable from the best score of its column by the test in the table's notes.
        text: what is printed instead of the number in a paper's table; ``None`` in a leaderboard.

    Example:
        >>> from mirrorbench.plugin import Score
        >>> score = Score(mean=0.82, sd=0.01, n=2, seeds=((0, 0.81), (1, 0.83)))
        >>> f"{100 * score.mean:.1f} ± {100 * score.sd:.1f}"
        '82.0 ± 1.0'
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
    """The origin of a task's data, as stated in its card; empty where unknown. ``citation`` is BibTeX."""

    title: str
    citation: str
    homepage: str = ""
    licence: str = ""
    licence_url: str = ""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table: a task, or an average of tasks.

    mirrorbench makes the columns of a ``Table``; a renderer reads them, and its test makes them as below. An average
    has no level, languages, metric and source; it has no suite if its tasks are from several suites.

    Attributes:
        name: the task's name, unique in a table; ``avg.`` for the average over all tasks.
        title: the heading; ``Table.heads`` makes headings that are unique.
        suite: the suite of tasks that it belongs to; may be empty.
        level: ``word``, ``phrase``, ``sentence`` or ``wic``.
        languages: ISO 639-1 codes.
        metric: name of the metric of the scores.
        average_of: names of the averaged columns; empty for a task.
        items: what the test items are, such as ``word pairs``.
        n_items: number of test items; 0 where unknown.
        seen: share of the test items with a text of the tuning corpus, from 0 to 1, the largest of all rows.
        source: origin of the task's data, an object with the texts ``title``, ``citation`` (BibTeX), ``homepage``,
            ``licence`` and ``licence_url``; ``None`` without a card.

    Example:
        >>> from mirrorbench.plugin import Column
        >>> stsb = Column("stsb", "STS-B", level="sentence", languages=("en",), metric="spearman")
        >>> sickr = Column("sickr", "SICK-R", level="sentence", languages=("en",), metric="spearman")
        >>> average = Column("avg.", "avg.", average_of=("stsb", "sickr"))
        >>> [column.title for column in (stsb, sickr, average) if not column.average_of]
        ['STS-B', 'SICK-R']
        >>> stsb.tasks, average.tasks
        (('stsb',), ('stsb', 'sickr'))
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

    @property
    def tasks(self) -> tuple[str, ...]:
        """Names of the averaged columns, or of the task."""
        return self.average_of or (self.name,)


@dataclass(frozen=True, slots=True)
class Row:
    """A row of a table: an encoder, or a baseline without one.

    mirrorbench makes the rows of a ``Table``; a renderer reads them, and its test makes them as below.

    Attributes:
        label: the name of the row.
        spec: the encoder spec, as text; empty for a baseline, which has no rank.
        scores: a ``Score`` for each column, in the order of the columns; ``None`` where missing.
        backbone: the spec's backbone, such as ``bert``; empty for a baseline.
        method: the spec's method, such as ``base`` or ``mirror``; empty for an encoder system.
        protocol: ``paper`` or ``released``; empty for a baseline.
        part: ``published``, ``measured`` or ``difference`` in a paper's table, each ranked separately; otherwise empty.
        parameters: number of the encoder's parameters; ``None`` where unknown.
        dimensions: number of dimensions of the encoder's vectors; ``None`` where unknown.
        tuned: whether a score is that of a tuned model.

    Example:
        >>> from mirrorbench.plugin import Row, Score
        >>> scores = (Score(mean=0.82, sd=None, n=1), None)
        >>> row = Row("BERT + Mirror", "bert+mirror", scores, backbone="bert", method="mirror")
        >>> ["missing" if score is None else score.mean for score in row.scores]
        [0.82, 'missing']
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

    @property
    def key(self) -> tuple[str, str]:
        """Spec and protocol, unique among the encoders of a leaderboard."""
        return self.spec, self.protocol


@dataclass(frozen=True, slots=True)
class Unseen:
    """The difference of two rows on the test items without a text of either row's tuning corpus.

    ``difference``, ``interval`` and ``p`` are ``None`` where they are undefined.
    """

    share: float
    """Share of the items that are left out."""
    difference: float | None = None
    interval: tuple[float, float] | None = None
    p: float | None = None
    """The two-sided p-value, not corrected."""


@dataclass(frozen=True, slots=True)
class Equality:
    """Whether a difference is smaller than a margin."""

    margin: float
    """In the unit of the score."""
    p: float | None = None
    """The p-value: the smallest level at which the interval lies within the margin; ``None`` without a test."""
    why_not: str = ""
    """The reason why there is no test; empty where there is one."""
    corrected: float | None = None
    """The p-value, corrected for ``n_tests`` tests."""
    n_tests: int = 1
    """Number of equalities that are tested together, those without a test included."""
    shown: bool = False
    """Whether it is significant."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The difference of two rows in one column, with its test; every command and format renders these objects.

    Attributes:
        spec: spec of the row.
        over: spec of the row that it is compared with, such as the untuned row of the same backbone.
        column: a task, or an average.
        difference: ``first`` minus ``second``; ``None`` where undefined.
        interval: lower and upper end of its confidence interval over items and seeds; ``None`` where undefined.
        p: the two-sided p-value; ``None`` where undefined.
        corrected: the p-value corrected for ``n_tests`` tests.
        separable: the corrected p-value is significant.
        why_not: reason why there is no p-value; empty where there is one.
        best: the rows are the best tuned and the best untuned one of a backbone in the column; the interval is
            simultaneous for all pairs that they are chosen from.
        this_model: a row was tuned with one seed, so the verdict is about that model, not about the method.
        unseen: the difference on unseen items; ``None`` where no item was seen.
        two_seeds: a row was tuned with two seeds, from which their spread is hardly known.
        n_tests: number of tests that ``corrected`` is corrected for, this one included: those of the column below a
            leaderboard, all pairs that ``best`` is chosen from, those of the same kind in ``compare`` and ``evaluate``.
        first: score of the row on the items that both rows have.
        second: score of the other row on the same items.
        error: standard error of the difference; ``None`` where undefined.
        n: number of items that both rows have, over all tasks of the column; 0 where unknown.
        left_out: number of items that only one of them has.
        equality: whether the rows are equal within a margin; ``None`` if no margin was given.
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
    n_tests: int = 1
    first: float | None = None
    second: float | None = None
    error: float | None = None
    n: int = 0
    left_out: int = 0
    two_seeds: bool = False
    equality: Equality | None = None

    @property
    def decided(self) -> bool:
        """Whether the rows differ, or are equal within the margin."""
        return self.separable or (self.equality is not None and self.equality.shown)

    @property
    def answer(self) -> str:
        """``better``, ``worse``, ``equal`` (within the margin), ``not separable``, or ``not tested`` without a p-value."""
        if self.corrected is None:
            return "not tested"
        if self.equality and self.equality.shown:
            return "equal"
        if not self.separable or self.difference is None:
            return "not separable"
        return "better" if self.difference > 0 else "worse"


@dataclass(frozen=True, slots=True)
class Table:
    r"""A leaderboard, or a table of a paper: what a renderer (``register_renderers``) makes text of.

    mirrorbench makes the tables: ``mirrorbench.leaderboard`` returns an object with one as ``table``. A renderer reads
    the attributes, and calls ``heads`` for the headings of the columns, ``ranks`` for the best two scores, ``groups``
    for a line of suites above the headings, ``labels`` for the cells before the scores and ``blocks`` for lines between
    rows. It chooses the lines below the table by ``shown``. Its test makes a table as below.

    Attributes:
        title: the title; may be empty.
        columns: a ``Column`` for each task, and averages after each of several suites and at the end.
        rows: a ``Row`` for each encoder; the measured and difference rows of a paper's row follow it without a label.
        notes: provenance and caveats, one line each.
        layout: ``leaderboard``, or for a paper's table ``scores`` or ``facts``.
        corner: heading of the labels.
        sweeps: groups of columns, by index, that are ranked along each row instead of down each column.
        verdicts: on differences between rows; the verdicts of two rows follow each other. A verdict has ``column`` (a
            name), ``answer`` (such as ``better`` or ``not separable``), ``difference``, ``interval``, ``p`` and
            ``corrected``, each ``None`` where undefined; ``table.rows_of(verdict)`` returns its two rows.
        warnings: reasons to distrust the whole table, shown in short notes too.
        shown: level of the rendered notes: ``none``, ``short`` (at most six lines) or ``all``.
        banner: what a reader must know before the scores, such as that they are of a smoke run; part of every heading,
            whatever notes are shown.

    Example:
        A renderer that marks the best score of each column, and its test:

        >>> from mirrorbench.plugin import Column, Row, Score, Table
        >>> def as_lines(table, *, digits=3):
        ...     lines = [" ".join([table.corner, *table.heads()])]
        ...     for row, ranks in zip(table.rows, table.ranks()):
        ...         cells = [row.label]
        ...         for score, rank in zip(row.scores, ranks):
        ...             text = "-" if score is None else f"{score.mean:.{digits}f}"
        ...             cells.append(f"*{text}*" if rank == 1 else text)
        ...         lines.append(" ".join(cells))
        ...     return "\n".join(lines)
        >>> untuned = Row("BERT", "bert+base", (Score(mean=0.31, sd=None, n=1),))
        >>> tuned = Row("Mirror", "bert+mirror", (Score(mean=0.77, sd=None, n=1),))
        >>> table = Table("Similarity", columns=(Column("stsb", "STS-B"),), rows=(untuned, tuned))
        >>> print(as_lines(table, digits=2))
        encoder STS-B
        BERT 0.31
        Mirror *0.77*
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
    banner: str = ""

    @property
    def heading(self) -> str:
        """The banner and the title, one line; empty without either."""
        return ". ".join(filter(None, (self.banner, self.title)))

    @property
    def task_columns(self) -> tuple[Column, ...]:
        """The columns without averages."""
        return tuple(column for column in self.columns if not column.average_of)

    def with_notes(self, level: str) -> Table:
        """Return a copy rendered with a level of notes (``none``, ``short`` or ``all``).

        Raises:
            UnknownNameError: there is no such level.
        """
        if level not in NOTES:
            raise unknown_name("level of notes", level, list(NOTES))
        return replace(self, shown=level)

    def rows_of(self, verdict: Verdict) -> tuple[Row, Row]:
        """Return the row of a verdict and the row that it is compared with."""
        rows = {row.key: row for row in self.rows}
        return rows[verdict.spec, verdict.protocol], rows[verdict.over, verdict.protocol]

    def ranks(self) -> list[list[int]]:
        """Return for each row and column 1 for the best score, 2 for the second best, 0 otherwise.

        Scores are ranked down the columns, but along the rows in ``sweeps``. Scores that are equal as printed share a
        rank. There are no ranks where a ranking has a single score or, in a paper's table, only equal scores.
        """
        ranks = [[0] * len(self.columns) for _ in self.rows]
        for cells in self._rankings():
            values = {}
            for row, column in cells:
                score = self.rows[row].scores[column]
                if self.rows[row].spec and score and not math.isnan(score.mean):
                    values[row, column] = round(score.mean, DIGITS)
            best_two = sorted(set(values.values()), reverse=True)[:2]
            if len(values) < 2:
                continue
            if len(best_two) < 2 and self.layout != "leaderboard":
                continue
            for (row, column), value in values.items():
                if value in best_two:
                    ranks[row][column] = best_two.index(value) + 1
        return ranks

    def _rankings(self) -> Iterator[list[tuple[int, int]]]:
        """Yield the cells of each ranking, as (row, column)."""
        swept = {column for group in self.sweeps for column in group}
        for column in range(len(self.columns)):
            if column in swept:
                continue
            for part in {row.part for row in self.rows}:
                yield [(i, column) for i, row in enumerate(self.rows) if row.part == part]
        for group in self.sweeps:
            for row in range(len(self.rows)):
                yield [(row, column) for column in group]

    def heads(self) -> list[str]:
        """Return a heading of one line for each column: its title, after its suite if the title is not unique.

        In a paper's table of scores, the suite precedes every title.
        """
        counts = Counter(column.title for column in self.columns)
        heads = []
        for column in self.columns:
            if counts[column.title] > 1 or self.layout == "scores":
                heads.append(f"{column.suite} {column.title}".strip())
            else:
                heads.append(column.title)
        return heads

    def groups(self) -> list[tuple[str, int]]:
        """Return suites and the number of neighbouring columns of each, from left to right.

        Empty without suites, and for a leaderboard of a single suite.
        """
        n_suites = len({column.suite for column in self.columns} - {""})
        fewest_suites = 2 if self.layout == "leaderboard" else 1
        if n_suites < fewest_suites:
            return []
        by_suite = groupby(self.columns, lambda column: column.suite)
        return [(suite, len(list(columns))) for suite, columns in by_suite]

    def sorted_by(self, column: str) -> Table:
        """Return a copy with rows sorted by a column, best first; rows without a score follow, baselines are last.

        Args:
            column: its name or heading; ``avg`` for the average over all tasks.

        Raises:
            UnknownNameError: the table has no such column.
        """
        names = [column.name for column in self.columns]
        heads = self.heads()
        if AVERAGE in names:
            heads[-1] = "avg"  # the average over all tasks is the last column
        if column in names:
            index = names.index(column)
        elif column in heads:
            index = heads.index(column)
        else:
            raise unknown_name("column", column, list(dict.fromkeys((*names, *heads))))

        def order(row: Row) -> tuple[bool, bool, float]:
            score = row.scores[index]
            is_baseline = not row.spec
            return is_baseline, score is None, -score.mean if score else 0.0

        return replace(self, rows=tuple(sorted(self.rows, key=order)))

    def labels(self) -> list[list[str]]:
        """Return the cells before the scores, first of the heading, then of each row.

        They are the label and, in a paper's table with other parts than published values, the part.
        """
        has_parts = any(row.part not in ("", "published") for row in self.rows)
        if self.layout == "leaderboard" or not has_parts:
            return [[self.corner], *([row.label] for row in self.rows)]
        return [[self.corner, ""], *([row.label, row.part] for row in self.rows)]

    def blocks(self) -> list[int]:
        """Return the indices of rows that begin a new block, except the first: a backbone, or a row of a paper.

        Empty if every block has a single row, or if the rows of a backbone do not follow each other.
        """
        if self.layout == "leaderboard":
            return self._starts_of_backbones()
        has_parts = len(self.labels()[0]) > 1
        if not has_parts:
            return []
        starts = [i for i, row in enumerate(self.rows) if row.part in ("", "published")]
        return [i for i in starts if i > 0]

    def _starts_of_backbones(self) -> list[int]:
        backbones = [row.backbone for row in self.rows]
        starts = [i for i in range(1, len(backbones)) if backbones[i] != backbones[i - 1]]
        n_blocks = len(starts) + 1
        # Rows that are sorted by a score have no blocks.
        are_in_blocks = n_blocks == len(set(backbones))
        return starts if are_in_blocks and n_blocks < len(backbones) else []


def to_object(table: Table) -> dict[str, Any]:
    """Convert a leaderboard to a JSON object; a row's scores are keyed by column name, its label is ``encoder``."""
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
            raise DataFormatError(
                f"{path} has schema {data['schema']!r}; this version reads schema {TABLE_SCHEMA}"
            )
        names = [column["name"] for column in data["columns"]]
        for row in data["rows"]:
            row |= {"label": row["encoder"], "scores": [row["scores"][name] for name in names]}
            # Earlier versions did not write whether a row is tuned.
            row.setdefault("tuned", row["method"] not in ("", "base", "static"))
        return msgspec.convert(data, Table)
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise DataFormatError(
            f"{path} is not a table: {type(error).__name__}: {error}",
            "Make one: mirrorbench leaderboard --format json",
        ) from error
