"""The papers' tables and figures, read from YAML files of one table each; leaderboards/README.md lists the keys.

Every scalar is read as text, so that ``.790`` keeps its last digit.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Literal

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

_ILLEGIBLE = "null"
_NUMBER = re.compile(r"([+-]?)(\d*)\.(\d+)")
_BOUND = re.compile(r"[<≈] ?\d*\.?\d+|\d+-\d+")
"""A text in place of a number: ``< 0.002``, ``≈ 30``, ``10-20``."""
_COLUMN_SOURCES = ("task", "suite", "average", "difference", "analysis")
"""Keys of which a column has exactly one."""

NameOfFile = Annotated[str, msgspec.Meta(max_length=0)]
"""Name of a table; no key of the file, but set by ``read_paper_table``."""


@dataclass(frozen=True, slots=True)
class Printed:
    """A printed cell.

    ``text`` is as printed, ``-`` where the paper prints nothing, empty where our copies are illegible; ``value`` is in
    the task's own unit (0.743 for .743 and for 74.3), and ``unit`` is one unit of the last digit. A bound or a range
    (``< 0.002``, ``10-20``) has a text alone.
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

    ``set`` is added to each row's spec, ``backbone`` replaces the row's; ``statistic`` of the tasks' results is shown;
    ``unavailable`` is the reason why the column cannot be measured.
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
        """Task of the column, or tasks of its suite."""
        if self.suite and self.suite not in builtin_suites():
            raise unknown_name("suite", self.suite, list(builtin_suites()))
        return builtin_suites()[self.suite] if self.suite else (self.task,) if self.task else ()


class PaperRow(_Spec):
    """A row: printed label, encoder spec (``null`` where no spec exists), and a value for each column.

    ``against`` is the number of the row that differences are taken to; ``defaults`` are the paper's own values of the
    keys that the table varies (``None``: the table's); ``note`` is the reason for a missing spec, or the source of the
    value. ``source`` is the source of a row that the paper does not print: such a row is not ranked, and is not
    measured on another backbone.
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
        return None if self.encoder == _ILLEGIBLE else parse_spec(self.encoder)


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


class PaperTable(_Spec, tag="scores", tag_field="kind", dict=True):
    """A table or figure with scores, in printed order; ``where`` is paper, section and number."""

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
    name: NameOfFile = ""

    def __post_init__(self) -> None:
        """Run every method that reads text once, so that a mistake in the file is an error now."""
        _check_lengths((row.values for row in self.rows), len(self.columns))
        for i, column in enumerate(self.columns):
            _params(column.set)
            if column.tasks and not self.metric_of(column):
                raise ValueError(f"column {i + 1} has tasks, but no metric")
            self.averaged(i)
            self.difference(i)
        for r, row in enumerate(self.rows):
            self.defaults_of(row)
            self.against(r)
        for remark in (*self.inconsistencies, *self.disagreements):
            self.cell_of(remark)
        self.targets()

    @cached_property
    def printed(self) -> tuple[tuple[Printed, ...], ...]:
        """Printed cells, by row and column."""
        return tuple(
            tuple(_printed(text, self.scale, f"row {i}") for text in row.values)
            for i, row in enumerate(self.rows, 1)
        )

    def metric_of(self, column: PaperColumn) -> str:
        """Return the metric of a column's tasks."""
        return column.metric or self.metric

    def averaged(self, column: int) -> list[int]:
        """Return the indices of the columns that a column averages; ``ValueError`` unless they are comparable."""
        heads, where = self.columns[column].average, f"column {column + 1}"
        if not heads:
            return []
        preceding = [i for i in range(column) if self.columns[i].tasks]
        indices = (
            preceding
            if heads == "all"
            else [self._column_headed(head, where, column) for head in heads]
        )
        settings = {
            (self.metric_of(c), _params(c.set), c.backbone)
            for c in (self.columns[i] for i in indices)
        }
        if len(indices) < 2 or len(settings) != 1:
            raise ValueError(f"{where} averages columns that do not belong together")
        return indices

    def difference(self, column: int) -> tuple[int, int] | None:
        """Return the indices of the columns that are subtracted; twice the same for the difference to ``against``."""
        head, where = self.columns[column], f"column {column + 1}"
        if not head.difference:
            return None
        first, second = (
            self._column_headed(h, where, column)
            for h in (head.difference, head.minus or head.difference)
        )
        return first, second

    @property
    def sweeps(self) -> tuple[tuple[int, ...], ...]:
        """Groups of columns with one metric of the same tasks, which are ranked along the row."""
        groups: dict[tuple[tuple[str, ...], str], list[int]] = {}
        for i, column in enumerate(self.columns):
            if column.tasks and column.statistic == "score":
                groups.setdefault((column.tasks, self.metric_of(column)), []).append(i)
        return tuple(tuple(group) for group in groups.values() if len(group) > 1)

    def against(self, row: int) -> int | None:
        """Return the index of the row that a row's differences are taken to."""
        number = self.rows[row].against
        return self._row_numbered(number, f"row {row + 1}") if number else None

    def defaults_of(self, row: PaperRow) -> tuple[tuple[str, Value], ...]:
        """Return the paper's own values, in a row, of the keys that the table varies."""
        return _params(self.defaults if row.defaults is None else row.defaults)

    def cell_of(self, remark: Remark) -> tuple[int, int]:
        """Return the indices of row and column of a remark."""
        return self._row_numbered(remark.row, "a remark"), self._column_headed(
            remark.column, "a remark"
        )

    def target(self, row: int, column: int, backbone: EncoderSpec | None = None) -> Target | None:
        """Return the target of a cell; ``None`` where it cannot be measured."""
        line, head = self.rows[row], self.columns[column]
        members = [self.columns[i] for i in self.averaged(column)] or [head]
        spec, first, analysis = line.spec, members[0], head.analysis
        tasks = (
            (analysis.task_name,)
            if analysis
            else tuple(task for member in members for task in member.tasks)
        )
        if spec is None or self.printed[row][column].absent or head.unavailable or not tasks:
            return None
        if backbone is not None and line.source:
            return None
        if spec.method:  # not for an encoder system
            spec = spec.with_params(**dict(_params(first.set)))
            spec = replace(spec, backbone=first.backbone) if first.backbone else spec
        defaults, metric = (
            dict(self.defaults_of(line)),
            analysis.value if analysis else self.metric_of(first),
        )
        if backbone is not None:
            return Target(
                _on_backbone(spec, backbone, defaults), tasks, metric, first.statistic, analysis
            )
        # Keys with the paper's own value are left out, as in ``mirrorbench run``.
        kept = tuple(
            (key, value)
            for key, value in spec.params
            if key not in defaults or defaults[key] != value
        )
        return Target(replace(spec, params=kept), tasks, metric, first.statistic, analysis)

    def targets(self, backbone: EncoderSpec | None = None) -> dict[tuple[int, int], Target]:
        """Return the targets of all measurable cells, by row and column."""
        cells = ((r, c) for r in range(len(self.rows)) for c in range(len(self.columns)))
        return {
            cell: target for cell in cells if (target := self.target(*cell, backbone)) is not None
        }

    def _column_headed(self, head: str, where: str, before: int | None = None) -> int:
        """The index of the column with a heading, or with a group and heading."""
        matches = [
            i
            for i, column in enumerate(self.columns[:before])
            if head in (column.head, column.title)
        ]
        if len(matches) != 1:
            raise ValueError(f"{where}: {len(matches)} columns are headed {head!r}")
        return matches[0]

    def _row_numbered(self, text: str, where: str) -> int:
        """The index from 0 of a row that the file numbers from 1."""
        if not re.fullmatch(r"[1-9]\d*", text):
            raise ValueError(f"{where}: {text!r} is not the number of a row")
        if int(text) > len(self.rows):
            raise ValueError(f"{where}: there is no row {text}")
        return int(text) - 1


class FactRow(_Spec):
    """A row of facts: label, values, and the name of our preset that must agree (or "")."""

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
    name: NameOfFile = ""

    def __post_init__(self) -> None:
        _check_lengths((row.values for row in self.rows), len(self.columns))


def paper_tables(plugins: Plugins | None = None) -> Mapping[str, PaperTable | FactTable]:
    """Return all tables and figures of the registered papers by name; ``plugins``: the process's by default."""
    from mirrorbench.runs.registry import plugins as process_plugins

    known = plugins or process_plugins()
    return {
        name: table
        for entry in known.papers
        for name, table in _tables_of(entry.name, entry.value).items()
    }


@lru_cache(maxsize=64)
def _tables_of(paper: str, folder: Path) -> Mapping[str, PaperTable | FactTable]:
    """The tables and figures in the folder of a paper, in printed order."""

    def printed_order(path: Path) -> tuple[bool, str, int]:
        letters, digits = re.sub(r"\d", "", path.stem), re.sub(r"\D", "", path.stem)
        return letters != "table", letters, int(digits or 0)

    tables = (
        read_paper_table(path, paper) for path in sorted(folder.glob("*.yaml"), key=printed_order)
    )
    return MappingProxyType({table.name: table for table in tables})


def layout_of(table: PaperTable | FactTable) -> Layout:
    """Return the encoders of a table, and the metrics of its tasks."""
    targets = list(table.targets().values()) if isinstance(table, PaperTable) else []
    targets = [target for target in targets if not target.analysis]
    metrics = {task: target.metric for target in targets for task in target.tasks}
    return Layout(
        table.title, table.where, tuple(dict.fromkeys(target.spec for target in targets)), metrics
    )


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
    for i, values in enumerate(rows, 1):
        if len(values) != n:
            raise ValueError(f"row {i} has {len(values)} values for {n} columns")


def _printed(text: str, scale: str, where: str) -> Printed:
    if text in (_ILLEGIBLE, ABSENT):
        return Printed("" if text == _ILLEGIBLE else ABSENT)
    if _BOUND.fullmatch(text):
        return Printed(text)
    match = _NUMBER.fullmatch(text)
    if not match:
        raise ValueError(f"{where}: {text!r} is no number with a point, nor a bound, 'null' or '-'")
    # Divided, not multiplied by 0.01: 57.10 / 100 is the nearest float to .571.
    return Printed(text, float(text) / SCALES[scale], 10.0 ** -len(match[3]) / SCALES[scale])


def _params(keys: Mapping[str, str]) -> tuple[tuple[str, Value], ...]:
    text = ",".join(f"{key}={value}" for key, value in keys.items())
    return parse_params(text, text)


def _on_backbone(
    spec: EncoderSpec, backbone: EncoderSpec, defaults: Mapping[str, Value]
) -> EncoderSpec:
    """The spec on another backbone, with the paper's values explicit, since the backbone may have presets."""
    if not spec.method:
        return spec
    if backbone.method or backbone.params:
        raise UsageError(
            f"{backbone} is more than a backbone",
            "The rows of the table hold methods and parameters: name a backbone alone, e.g. --encoder tiny",
        )
    dropped = {"dropout"} if spec.get("controlled_dropout") else set()
    written = {key: value for key, value in defaults.items() if key not in dropped} | dict(
        spec.params
    )
    return replace(
        spec, backbone=backbone.backbone, revision=backbone.revision, params=tuple(written.items())
    )
