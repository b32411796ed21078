"""The papers' tables and figures as values: rows of encoders, columns of tasks, printed cells."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from mirrorbench.core.errors import UsageError
from mirrorbench.core.specs import EncoderSpec, Value

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
