"""The papers' tables and figures, each read from a YAML file; leaderboards/README.md lists the keys.

Every scalar is read as text, so that ``.790`` keeps its last digit.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Literal, NamedTuple

import msgspec

from mirrorbench.core.errors import DataFormatError, UsageError, unknown_name
from mirrorbench.core.plugins import Plugins
from mirrorbench.core.schema import read
from mirrorbench.core.specs import EncoderSpec, Value, parse_params, parse_spec
from mirrorbench.data.card_files import builtin_suites
from mirrorbench.papers.targets import AskedAnalysis, CellStatistic, Target, Text
from mirrorbench.reports.selection import Layout

SCALES = {"fraction": 1.0, "percent": 100.0, "raw": 1.0}
"""Factor from score to printed value; ``raw`` scores (isotropy) are neither fractions nor percentages."""
ABSENT = "-"
"""Value in a file where the paper prints nothing."""

_NULL = "null"
"""Value in a file for an illegible number, and for an encoder without a spec."""
_NUMBER = re.compile(r"[+-]?\d*\.(?P<decimals>\d+)")
_BOUND = re.compile(r"[<≈] ?\d*\.?\d+|\d+-\d+")
"""A text in place of a number: ``< 0.002``, ``≈ 30``, ``10-20``."""
_COLUMN_SOURCES = ("task", "suite", "average", "difference", "analysis")
"""Keys of which a column has exactly one."""

NoKey = Annotated[str, msgspec.Meta(max_length=0)]
"""The name of a table, which ``read_paper_table`` sets: as a key of the file it could only be empty."""


@dataclass(frozen=True, slots=True)
class Printed:
    """A printed cell.

    Attributes:
        text: the text as printed; ``-`` where the paper prints nothing, empty where our copies are illegible.
        value: the number in the task's own unit (0.743 for .743 and for 74.3); ``None`` for a bound or a range
            (``< 0.002``, ``10-20``), and without a number.
        unit: one unit of the last printed digit, in the same unit.
    """

    text: str
    value: float | None = None
    unit: float = 0.0

    @property
    def absent(self) -> bool:
        """Whether the paper has no such cell."""
        return self.text == ABSENT


class _Spec(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """A mapping in the file of a table; unknown keys are errors."""


class PaperColumn(_Spec):
    """A column: tasks with a metric, an average or difference of other columns (by heading), or an analysis.

    ``set`` is added to the spec of each row, and ``backbone`` replaces the backbone of each row. ``statistic`` of the
    tasks' results is shown. ``unavailable`` is the reason why the column cannot be measured.
    """

    head: Text
    group: str = ""
    task: str = ""
    suite: str = ""
    metric: str = ""
    statistic: CellStatistic = "score"
    average: Literal["all"] | tuple[str, ...] = ()
    difference: str = ""
    minus: str = ""
    analysis: AskedAnalysis | None = None
    set: dict[str, str] = {}
    backbone: str = ""
    unavailable: str = ""

    def __post_init__(self) -> None:
        sources = [key for key in _COLUMN_SOURCES if getattr(self, key)]
        if len(sources) != 1:
            raise ValueError(
                f"must have one of the keys {', '.join(_COLUMN_SOURCES)}, not {sources}"
            )

    @property
    def title(self) -> str:
        """Group and heading, joined."""
        return f"{self.group} {self.head}".strip()

    @property
    def tasks(self) -> tuple[str, ...]:
        """Task of the column, or tasks of its suite; empty for other columns."""
        if self.suite:
            suites = builtin_suites()
            if self.suite not in suites:
                raise unknown_name("suite", self.suite, list(suites))
            return suites[self.suite]
        if self.task:
            return (self.task,)
        return ()


class PaperRow(_Spec):
    """A row: printed label, encoder spec (``null`` where no spec exists), and a value for each column.

    ``against`` is the number of the row that is subtracted in differences. ``defaults`` are the paper's own values of
    the keys that the table varies; ``None`` stands for those of the table. ``note`` is the reason for a missing spec,
    or the source of the values. ``source`` is the source of a row that the paper does not print: such a row is not
    ranked, and not measured on another backbone.
    """

    label: Text
    encoder: Text
    values: tuple[str, ...]
    against: str = ""
    defaults: dict[str, str] | None = None
    note: str = ""
    source: str = ""

    @property
    def spec(self) -> EncoderSpec | None:
        """Encoder spec; ``None`` where none exists."""
        return None if self.encoder == _NULL else parse_spec(self.encoder)


class Remark(_Spec):
    """A remark on a cell, by the number of its row and the heading of its column."""

    row: str
    column: str
    note: Text


class Inconsistency(Remark):
    """An average or difference that does not follow from the printed values."""

    recomputed: Text


class Disagreement(Remark):
    """A value that another table, named in ``where`` (key ``with``), prints differently."""

    where: Text = msgspec.field(name="with")


class DifferenceColumns(NamedTuple):
    """Indices of the columns behind a difference; both are the same for a difference to the row ``against``."""

    minuend: int
    """The column from which the other column is subtracted."""
    subtrahend: int
    """The column that is subtracted."""


class PaperTable(_Spec, tag="scores", tag_field="kind", dict=True):
    """A table or figure with scores, in printed order; ``where`` names the paper, the section and the number."""

    title: Text
    where: Text
    scale: Literal["fraction", "percent", "raw"]
    columns: Annotated[tuple[PaperColumn, ...], msgspec.Meta(min_length=1)]
    rows: Annotated[tuple[PaperRow, ...], msgspec.Meta(min_length=1)]
    metric: str = ""
    defaults: dict[str, str] = {}
    notes: tuple[str, ...] = ()
    inconsistencies: tuple[Inconsistency, ...] = ()
    disagreements: tuple[Disagreement, ...] = ()
    name: NoKey = ""

    def __post_init__(self) -> None:
        """Run every method that reads text once, so that a mistake in the file is an error now."""
        _check_lengths((row.values for row in self.rows), len(self.columns))
        for index, column in enumerate(self.columns):
            _parse_params(column.set)
            if column.tasks and not self.metric_of(column):
                raise ValueError(f"column {index + 1} has tasks, but no metric")
            self.averaged(index)
            self.difference(index)
        for index, row in enumerate(self.rows):
            self.defaults_of(row)
            self.against(index)
        for remark in (*self.inconsistencies, *self.disagreements):
            self.cell_of(remark)
        self.targets()

    @cached_property
    def printed(self) -> tuple[tuple[Printed, ...], ...]:
        """Printed cells, by row and column."""
        rows = []
        for number, row in enumerate(self.rows, 1):
            cells = [_parse_printed(text, self.scale, f"row {number}") for text in row.values]
            rows.append(tuple(cells))
        return tuple(rows)

    def metric_of(self, column: PaperColumn) -> str:
        """Return the metric of a column's tasks: its own, or that of the table."""
        return column.metric or self.metric

    def averaged(self, column: int) -> list[int]:
        """Return the indices of the columns that a column averages; empty for a column that is not an average.

        Raises:
            ValueError: they are fewer than two, or differ in metric or settings.
        """
        heads = self.columns[column].average
        if not heads:
            return []
        where = f"column {column + 1}"
        if heads == "all":
            indices = [i for i in range(column) if self.columns[i].tasks]
        else:
            indices = [self._find_column(head, where, column) for head in heads]
        settings = set()
        for i in indices:
            member = self.columns[i]
            settings.add((self.metric_of(member), _parse_params(member.set), member.backbone))
        if len(indices) < 2 or len(settings) != 1:
            raise ValueError(f"{where} averages columns that do not belong together")
        return indices

    def difference(self, column: int) -> DifferenceColumns | None:
        """Return the columns that a column of differences subtracts; ``None`` for other columns."""
        head = self.columns[column].difference
        if not head:
            return None
        subtracted_head = self.columns[column].minus or head
        where = f"column {column + 1}"
        return DifferenceColumns(
            self._find_column(head, where, column),
            self._find_column(subtracted_head, where, column),
        )

    @property
    def sweeps(self) -> tuple[tuple[int, ...], ...]:
        """Groups of columns with the same tasks and metric, which are ranked along the row."""
        groups: dict[tuple[tuple[str, ...], str], list[int]] = {}
        for i, column in enumerate(self.columns):
            if column.tasks and column.statistic == "score":
                groups.setdefault((column.tasks, self.metric_of(column)), []).append(i)
        return tuple(tuple(group) for group in groups.values() if len(group) > 1)

    def against(self, row: int) -> int | None:
        """Return the index of the row that is subtracted in a row's differences; ``None`` if it has none."""
        number = self.rows[row].against
        return self._find_row(number, f"row {row + 1}") if number else None

    def defaults_of(self, row: PaperRow) -> tuple[tuple[str, Value], ...]:
        """Return the paper's own values, in a row, of the keys that the table varies."""
        return _parse_params(self.defaults if row.defaults is None else row.defaults)

    def cell_of(self, remark: Remark) -> tuple[int, int]:
        """Return the indices of the row and the column of a remark; ``ValueError`` if there is no such cell."""
        row = self._find_row(remark.row, "a remark")
        column = self._find_column(remark.column, "a remark")
        return row, column

    def target(self, row: int, column: int, backbone: EncoderSpec | None = None) -> Target | None:
        """Return what measures a cell: spec, tasks and metric; ``None`` if it cannot be measured.

        The spec is the row's, with the settings of the column. With a ``backbone`` it is on that one, with the paper's
        own values explicit; without one, parameters that have these values are left out.
        """
        paper_row = self.rows[row]
        paper_column = self.columns[column]
        spec = paper_row.spec
        if spec is None or self.printed[row][column].absent or paper_column.unavailable:
            return None
        # Rows that the paper does not print are not measured on another backbone.
        if backbone is not None and paper_row.source:
            return None
        # An average covers the tasks of several columns, which have the same settings; another column its own alone.
        members = [self.columns[i] for i in self.averaged(column)] or [paper_column]
        # Settings are read from the first.
        first = members[0]
        analysis = paper_column.analysis
        if analysis:
            tasks: tuple[str, ...] = (analysis.task_name,)
            metric = analysis.value
        else:
            tasks = tuple(task for member in members for task in member.tasks)
            metric = self.metric_of(first)
        # A column of differences has no tasks: it follows from other columns.
        if not tasks:
            return None
        # An encoder system has no method; its spec stays as it is.
        if spec.method:
            spec = spec.with_params(**dict(_parse_params(first.set)))
            if first.backbone:
                spec = replace(spec, backbone=first.backbone)
        defaults = dict(self.defaults_of(paper_row))
        if backbone is None:
            spec = _without_defaults(spec, defaults)
        else:
            spec = _on_backbone(spec, backbone, defaults)
        return Target(spec, tasks, metric, first.statistic, analysis)

    def targets(self, backbone: EncoderSpec | None = None) -> dict[tuple[int, int], Target]:
        """Return the targets of all measurable cells, by row and column."""
        targets = {}
        for row in range(len(self.rows)):
            for column in range(len(self.columns)):
                target = self.target(row, column, backbone)
                if target is not None:
                    targets[row, column] = target
        return targets

    def _find_column(self, head: str, where: str, before: int | None = None) -> int:
        """Return the index of the only column with a heading, or with a group and heading.

        Args:
            head: the heading.
            where: where the file names the column, for the error.
            before: search only the columns before this one; by default all.

        Raises:
            ValueError: no column has the heading, or several have it.
        """
        matches = [
            i
            for i, column in enumerate(self.columns[:before])
            if head in (column.head, column.title)
        ]
        if len(matches) != 1:
            raise ValueError(f"{where}: {len(matches)} columns are headed {head!r}")
        return matches[0]

    def _find_row(self, text: str, where: str) -> int:
        """Return the index of a row that the file numbers from 1; ``ValueError`` if there is no such row."""
        if not re.fullmatch(r"[1-9]\d*", text):
            raise ValueError(f"{where}: {text!r} is not the number of a row")
        if int(text) > len(self.rows):
            raise ValueError(f"{where}: there is no row {text}")
        return int(text) - 1


class FactRow(_Spec):
    """A row of facts: label, values, and the name of our preset that must agree with them; empty without one."""

    label: Text
    values: tuple[str, ...]
    preset: str = ""


class FactTable(_Spec, tag="facts", tag_field="kind"):
    """A table of models or hyper-parameters; ``head`` is the heading of the labels."""

    title: Text
    where: Text
    head: Text
    columns: Annotated[tuple[str, ...], msgspec.Meta(min_length=1)]
    rows: Annotated[tuple[FactRow, ...], msgspec.Meta(min_length=1)]
    notes: tuple[str, ...] = ()
    name: NoKey = ""

    def __post_init__(self) -> None:
        _check_lengths((row.values for row in self.rows), len(self.columns))


def paper_tables(plugins: Plugins | None = None) -> Mapping[str, PaperTable | FactTable]:
    """Return all tables and figures of the registered papers by name; by default of the process's ``plugins``."""
    from mirrorbench.runs.registry import plugins as process_plugins

    tables: dict[str, PaperTable | FactTable] = {}
    for entry in (plugins or process_plugins()).papers:
        tables.update(_tables_of(entry.name, entry.value))
    return tables


@lru_cache(maxsize=64)
def _tables_of(paper: str, folder: Path) -> Mapping[str, PaperTable | FactTable]:
    """Return the tables and figures in the folder of a paper, in printed order."""

    def printed_order(path: Path) -> tuple[bool, str, int]:
        """Sort tables before figures, and each kind by its number."""
        letters = re.sub(r"\d", "", path.stem)
        digits = re.sub(r"\D", "", path.stem)
        return letters != "table", letters, int(digits or 0)

    paths = sorted(folder.glob("*.yaml"), key=printed_order)
    tables = [read_paper_table(path, paper) for path in paths]
    return MappingProxyType({table.name: table for table in tables})


def layout_of(table: PaperTable | FactTable) -> Layout:
    """Return the encoders of a table, and the metrics of its tasks; facts and analyses have neither."""
    targets: list[Target] = []
    if isinstance(table, PaperTable):
        targets = [target for target in table.targets().values() if not target.analysis]
    specs = tuple(dict.fromkeys(target.spec for target in targets))
    metrics = {task: target.metric for target in targets for task in target.tasks}
    return Layout(table.title, table.where, specs, metrics)


def find_table(name: str, plugins: Plugins | None = None) -> PaperTable | FactTable:
    """Return the table with a name; ``UnknownNameError`` for an unknown one."""
    tables = paper_tables(plugins)
    if name not in tables:
        raise unknown_name("table", name, list(tables), "mirrorbench paper")
    return tables[name]


def read_paper_table(path: Path, paper: str = "") -> PaperTable | FactTable:
    """Read and check a table from its file; ``table3.yaml`` of ``mirror-bert`` is named ``mirror-bert/table3``."""
    schema: Any = PaperTable | FactTable
    try:
        table: PaperTable | FactTable = read(path, schema, plain=str)
    except UsageError as problem:
        raise DataFormatError(f"{path}: {problem}") from None
    return msgspec.structs.replace(table, name=f"{paper or path.parent.name}/{path.stem}")


def _check_lengths(rows: Iterable[tuple[str, ...]], n: int) -> None:
    """Raise ``ValueError`` for a row without exactly ``n`` values."""
    for number, values in enumerate(rows, 1):
        if len(values) != n:
            raise ValueError(f"row {number} has {len(values)} values for {n} columns")


def _parse_printed(text: str, scale: str, where: str) -> Printed:
    """Parse a cell's text in a table's file: a number with a decimal point, a bound, ``null`` or ``-``.

    Only such a number gets a value, and the unit of its last digit; the other texts are kept without.

    Raises:
        ValueError: any other text; the message starts with ``where``.
    """
    # Illegible, or missing in a row that the paper does not print.
    if text == _NULL:
        return Printed("")
    if text == ABSENT:
        return Printed(ABSENT)
    if _BOUND.fullmatch(text):
        return Printed(text)
    match = _NUMBER.fullmatch(text)
    if not match:
        raise ValueError(
            f"{where}: {text!r} is not a number with a decimal point, a bound, 'null' or '-'"
        )
    # Divide instead of multiplying by 0.01: only 57.10 / 100 is the float nearest to .571.
    value = float(text) / SCALES[scale]
    n_decimals = len(match["decimals"])
    unit = 10.0**-n_decimals / SCALES[scale]
    return Printed(text, value, unit)


def _parse_params(keys: Mapping[str, str]) -> tuple[tuple[str, Value], ...]:
    """Parse keys and values of a file as the parameters of an encoder spec."""
    text = ",".join(f"{key}={value}" for key, value in keys.items())
    return parse_params(text, text)


def _without_defaults(spec: EncoderSpec, defaults: Mapping[str, Value]) -> EncoderSpec:
    """Return the spec without keys that have the paper's own value, as in ``mirrorbench run``."""
    params = []
    for key, value in spec.params:
        if key not in defaults or defaults[key] != value:
            params.append((key, value))
    return replace(spec, params=tuple(params))


def _on_backbone(
    spec: EncoderSpec, backbone: EncoderSpec, defaults: Mapping[str, Value]
) -> EncoderSpec:
    """Return the spec on another backbone, with the paper's values explicit, since the backbone may have presets.

    Raises:
        UsageError: ``backbone`` has a method or parameters.
    """
    # An encoder system has no other backbone.
    if not spec.method:
        return spec
    if backbone.method or backbone.params:
        raise UsageError(
            f"{backbone} is more than a backbone",
            "The rows of the table hold methods and parameters: name a backbone alone, e.g. --encoder tiny",
        )
    params = dict(defaults)
    if spec.get("controlled_dropout"):
        # The controlled dropout takes the place of the paper's dropout.
        params.pop("dropout", None)
    params.update(spec.params)
    return replace(
        spec,
        backbone=backbone.backbone,
        revision=backbone.revision,
        params=tuple(params.items()),
    )
