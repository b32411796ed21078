"""The papers' tables and figures, read from YAML files of one table each; ``docs/papers.md`` describes the keys.

Every scalar is read as text, so that ``.790`` keeps its last digit.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Literal

import msgspec

from mirrorbench.core.errors import DataFormatError, UsageError, unknown_name
from mirrorbench.core.schema import read
from mirrorbench.core.specs import EncoderSpec, Value, parse_params, parse_spec
from mirrorbench.data.cardfile import builtin_suites

SCALES = {"fraction": 1.0, "percent": 100.0, "raw": 1.0}
"""Factor from score to printed value; ``raw`` scores (isotropy) are neither fractions nor percentages."""

ABSENT = "-"
"""Written in a spec where the paper prints nothing."""


@dataclass(frozen=True, slots=True)
class Printed:
    """A cell of the paper.

    ``text`` is as printed, ``-`` where the paper prints nothing, empty where our copies are illegible; ``value`` is in
    the task's own unit (0.743 for .743 and for 74.3), and ``unit`` is one unit of the last digit.
    """

    text: str
    value: float | None = None
    unit: float = 0.0

    @property
    def absent(self) -> bool:
        """Whether the paper has no such cell."""
        return self.text == ABSENT


@dataclass(frozen=True, slots=True)
class PaperColumn:
    """A column: tasks with a metric, an average or difference of other columns (by index), or an analysis.

    A difference of a column with itself is the difference to the row ``against``. ``params`` are added to each row's
    spec, ``backbone`` replaces the row's; ``unavailable`` says why the column cannot be measured.
    """

    head: str
    group: str = ""
    tasks: tuple[str, ...] = ()
    metric: str = ""
    average: tuple[int, ...] = ()
    difference: tuple[int, int] | None = None
    analysis: str = ""
    corpus: str = ""
    params: tuple[tuple[str, Value], ...] = ()
    backbone: str = ""
    unavailable: str = ""

    @property
    def title(self) -> str:
        """Group and heading."""
        return f"{self.group} {self.head}".strip()


@dataclass(frozen=True, slots=True)
class PaperRow:
    """A row: printed label, encoder spec (``None`` where no spec exists), and a cell for each column.

    ``against`` is the index of the row that differences are taken to, ``defaults`` are the paper's own values of the
    keys that the table varies, ``note`` says why there is no spec, or the source of the value.
    """

    label: str
    encoder: EncoderSpec | None
    printed: tuple[Printed, ...]
    against: int | None = None
    defaults: tuple[tuple[str, Value], ...] = ()
    note: str = ""


@dataclass(frozen=True, slots=True)
class Remark:
    """A cell (by indices) that another table (``where``) prints differently, or that should be ``recomputed``."""

    row: int
    column: int
    note: str
    where: str = ""
    recomputed: str = ""


@dataclass(frozen=True, slots=True)
class PaperTable:
    """A table or figure with scores, in printed order; ``where`` is paper, section and number.

    ``inconsistencies`` are averages and differences that do not follow from the printed values, ``disagreements``
    values that another table prints differently.
    """

    name: str
    title: str
    where: str
    scale: str
    columns: tuple[PaperColumn, ...]
    rows: tuple[PaperRow, ...]
    notes: tuple[str, ...] = ()
    inconsistencies: tuple[Remark, ...] = ()
    disagreements: tuple[Remark, ...] = ()

    def target(self, row: int, column: int, backbone: EncoderSpec | None = None) -> Target | None:
        """What a cell is measured by; ``None`` where it cannot be measured."""
        line, head = self.rows[row], self.columns[column]
        members = [self.columns[i] for i in head.average] or [head]
        tasks = tuple(task for member in members for task in member.tasks)
        if line.encoder is None or line.printed[column].absent or head.unavailable or not tasks:
            return None
        spec, first = line.encoder, members[0]
        if spec.method:  # not for an encoder system
            spec = spec.with_params(**dict(first.params))
            spec = replace(spec, backbone=first.backbone) if first.backbone else spec
        defaults = dict(line.defaults)
        if backbone is not None:
            return Target(_on_backbone(spec, backbone, defaults), tasks, first.metric)
        # Keys with the paper's own value are left out, as in ``mirrorbench run``.
        kept = tuple((key, value) for key, value in spec.params if key not in defaults or defaults[key] != value)
        return Target(replace(spec, params=kept), tasks, first.metric)

    def targets(self, backbone: EncoderSpec | None = None) -> dict[tuple[int, int], Target]:
        """The targets of all measurable cells, by row and column."""
        places = ((r, c) for r in range(len(self.rows)) for c in range(len(self.columns)))
        return {place: target for place in places if (target := self.target(*place, backbone)) is not None}


@dataclass(frozen=True, slots=True)
class Target:
    """What a cell is measured by: the mean of a metric over tasks."""

    spec: EncoderSpec
    tasks: tuple[str, ...]
    metric: str


@dataclass(frozen=True, slots=True)
class FactTable:
    """A table of models or hyper-parameters; ``head`` is the heading of the labels.

    A row is a label, its values, and the name of our preset that must agree (empty for none).
    """

    name: str
    title: str
    where: str
    head: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, tuple[str, ...], str], ...]
    notes: tuple[str, ...] = ()


def _on_backbone(spec: EncoderSpec, backbone: EncoderSpec, defaults: Mapping[str, Value]) -> EncoderSpec:
    """The spec on another backbone, with the paper's values explicit, since a backbone may have presets."""
    if not spec.method:
        return spec
    if backbone.method or backbone.params:
        raise UsageError(
            f"{backbone} is more than a backbone",
            "A table says itself what is done to each backbone: name only that, e.g. --encoder tiny",
        )
    dropped = {"dropout"} if spec.get("controlled_dropout") else set()
    written = {key: value for key, value in defaults.items() if key not in dropped} | dict(spec.params)
    return replace(spec, backbone=backbone.backbone, revision=backbone.revision, params=tuple(written.items()))


PAPERS = ("mirror-bert", "mirrorwic", "poster")
"""The folders of the specs, in the order of lists."""

_ILLEGIBLE = "null"
_NUMBER = re.compile(r"([+-]?)(\d*)\.(\d+)")
_KINDS_OF_COLUMN = ("task", "suite", "average", "difference", "analysis")

Text = Annotated[str, msgspec.Meta(pattern=r"\S")]


class _Spec(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """A mapping of a spec; unknown keys are errors."""


class _Column(_Spec):
    head: Text
    group: str = ""
    task: str = ""
    suite: str = ""
    metric: str = ""
    average: Literal["all"] | list[str] = []
    difference: str = ""
    minus: str = ""
    analysis: str = ""
    corpus: str = ""
    set: dict[str, str] = {}
    backbone: str = ""
    unavailable: str = ""

    def __post_init__(self) -> None:
        kinds = [key for key in _KINDS_OF_COLUMN if getattr(self, key)]
        if len(kinds) != 1:
            raise ValueError(f"must have one of the keys {', '.join(_KINDS_OF_COLUMN)}, not {kinds}")


class _Row(_Spec):
    label: Text
    encoder: Text
    values: list[str]
    against: str = ""
    defaults: dict[str, str] | None = None
    note: str = ""


class _Remark(_Spec):
    row: str
    column: str
    note: Text


class _Inconsistency(_Remark):
    recomputed: Text


class _Disagreement(_Remark):
    where: Text = msgspec.field(name="with")


class _Scores(_Spec, tag="scores", tag_field="kind"):
    title: Text
    where: Text
    scale: Literal["fraction", "percent", "raw"]
    columns: Annotated[list[_Column], msgspec.Meta(min_length=1)]
    rows: Annotated[list[_Row], msgspec.Meta(min_length=1)]
    metric: str = ""
    defaults: dict[str, str] = {}
    notes: list[str] = []
    inconsistencies: list[_Inconsistency] = []
    disagreements: list[_Disagreement] = []


class _FactRow(_Spec):
    label: Text
    values: list[str]
    preset: str = ""


class _Facts(_Spec, tag="facts", tag_field="kind"):
    title: Text
    where: Text
    head: Text
    columns: Annotated[list[str], msgspec.Meta(min_length=1)]
    rows: Annotated[list[_FactRow], msgspec.Meta(min_length=1)]
    notes: list[str] = []


def specs_folder() -> Path:
    """The folder of the specs: ``mirrorbench/reports/papers/specs`` in a wheel, ``leaderboards`` in a checkout."""
    here = Path(__file__).resolve().parent
    candidates = (here / "specs", here.parents[2] / "leaderboards")
    for folder in candidates:
        if (folder / PAPERS[0]).is_dir():
            return folder
    raise DataFormatError(
        f"The papers' tables are in neither {candidates[0]} nor {candidates[1]}.", "Install mirrorbench again."
    )


@lru_cache(maxsize=1)
def paper_tables() -> Mapping[str, PaperTable | FactTable]:
    """All tables and figures by name, in the order of the papers; read once per process."""

    def printed_order(path: Path) -> tuple[bool, str, int]:
        letters, digits = re.sub(r"\d", "", path.stem), re.sub(r"\D", "", path.stem)
        return letters != "table", letters, int(digits or 0)

    folder = specs_folder()
    paths = [path for paper in PAPERS for path in sorted((folder / paper).glob("*.yaml"), key=printed_order)]
    tables = (read_paper_table(path) for path in paths)
    return MappingProxyType({table.name: table for table in tables})


def find_table(name: str) -> PaperTable | FactTable:
    """The table with this name; ``UnknownNameError`` where there is none."""
    tables = paper_tables()
    if name not in tables:
        raise unknown_name("table", name, list(tables), "mirrorbench paper")
    return tables[name]


def read_paper_table(path: Path) -> PaperTable | FactTable:
    """Read and check a spec; ``.../mirror-bert/table3.yaml`` is named ``mirror-bert/table3``."""
    schema: Any = _Scores | _Facts
    spec = read(path, schema, plain=str)
    try:
        shared = {"name": f"{path.parent.name}/{path.stem}", "notes": tuple(map(_line, spec.notes))}
        shared |= {"title": _line(spec.title), "where": _line(spec.where)}
        return _scores(spec, shared) if isinstance(spec, _Scores) else _facts(spec, shared)
    except (ValueError, UsageError) as problem:
        raise DataFormatError(f"{path}: {problem}") from None


def _facts(spec: _Facts, shared: dict[str, Any]) -> FactTable:
    for i, row in enumerate(spec.rows, 1):
        if len(row.values) != len(spec.columns):
            raise ValueError(f"row {i} has {len(row.values)} values for {len(spec.columns)} columns")
    rows = tuple((_line(row.label), tuple(row.values), row.preset) for row in spec.rows)
    return FactTable(head=_line(spec.head), columns=tuple(spec.columns), rows=rows, **shared)


def _scores(spec: _Scores, shared: dict[str, Any]) -> PaperTable:
    columns: list[PaperColumn] = []
    for i, column in enumerate(spec.columns, 1):
        columns.append(_column(column, f"column {i}", columns, spec.metric))
    rows = []
    for i, row in enumerate(spec.rows, 1):
        if len(row.values) != len(columns):
            raise ValueError(f"row {i} has {len(row.values)} values for {len(columns)} columns")
        encoder = None if row.encoder == _ILLEGIBLE else parse_spec(_line(row.encoder))
        printed = tuple(_printed(text, spec.scale, f"row {i}") for text in row.values)
        against = _find_row(row.against, spec.rows, f"row {i}") if row.against else None
        defaults = _params(spec.defaults if row.defaults is None else row.defaults)
        rows.append(PaperRow(_line(row.label), encoder, printed, against, defaults, row.note))
    inconsistencies = [
        Remark(*_locate(x, rows, columns, f"inconsistencies {i}"), recomputed=_line(x.recomputed))
        for i, x in enumerate(spec.inconsistencies, 1)
    ]
    disagreements = [
        Remark(*_locate(x, rows, columns, f"disagreements {i}"), where=_line(x.where))
        for i, x in enumerate(spec.disagreements, 1)
    ]
    return PaperTable(
        scale=spec.scale, columns=tuple(columns), rows=tuple(rows), inconsistencies=tuple(inconsistencies),
        disagreements=tuple(disagreements), **shared,
    )  # fmt: skip


def _locate(
    remark: _Remark, rows: Sequence[PaperRow], columns: Sequence[PaperColumn], where: str
) -> tuple[int, int, str]:
    return _find_row(remark.row, rows, where), _index_of(remark.column, columns, where), _line(remark.note)


def _column(spec: _Column, where: str, before: Sequence[PaperColumn], metric: str) -> PaperColumn:
    suites = builtin_suites()
    if spec.suite and spec.suite not in suites:
        raise unknown_name("suite", spec.suite, list(suites))
    tasks = (spec.task,) if spec.task else suites[spec.suite] if spec.suite else ()
    metric = spec.metric or metric
    if tasks and not metric:
        raise ValueError(f"{where} has tasks, but no metric")
    average, difference = [], None
    if spec.average:
        every = [i for i, column in enumerate(before) if column.tasks]
        average = every if spec.average == "all" else [_index_of(head, before, where) for head in spec.average]
        if len(average) < 2 or len({(before[i].metric, before[i].params, before[i].backbone) for i in average}) != 1:
            raise ValueError(f"{where} averages columns that do not belong together")
    if spec.difference:
        difference = _index_of(spec.difference, before, where), _index_of(spec.minus or spec.difference, before, where)
    return PaperColumn(
        _line(spec.head), spec.group, tasks, metric if tasks else "", tuple(average), difference, spec.analysis,
        spec.corpus, _params(spec.set), spec.backbone, spec.unavailable,
    )  # fmt: skip


def _index_of(head: str, columns: Sequence[PaperColumn], where: str) -> int:
    """The number of the column with this heading, or with this group and heading."""
    found = [i for i, column in enumerate(columns) if head in (column.head, column.title)]
    if len(found) != 1:
        raise ValueError(f"{where}: {len(found)} columns are headed {head!r}")
    return found[0]


def _printed(text: str, scale: str, where: str) -> Printed:
    if text in (_ILLEGIBLE, ABSENT):
        return Printed("" if text == _ILLEGIBLE else ABSENT)
    match = _NUMBER.fullmatch(text)
    if not match:
        raise ValueError(f"{where}: {text!r} is no number with a point, nor 'null', nor '-'")
    # Divided, not multiplied by 0.01: 57.10 / 100 is the nearest float to .571.
    return Printed(text, float(text) / SCALES[scale], 10.0 ** -len(match[3]) / SCALES[scale])


def _params(keys: Mapping[str, str]) -> tuple[tuple[str, Value], ...]:
    text = ",".join(f"{key}={value}" for key, value in keys.items())
    return parse_params(text, text)


def _find_row(text: str, rows: Sequence[object], where: str) -> int:
    """The index from 0 of a row that a spec numbers from 1."""
    if not re.fullmatch(r"[1-9]\d*", text):
        raise ValueError(f"{where}: {text!r} is not the number of a row")
    if int(text) > len(rows):
        raise ValueError(f"{where}: there is no row {text}")
    return int(text) - 1


def _line(text: str) -> str:
    return " ".join(text.split())
