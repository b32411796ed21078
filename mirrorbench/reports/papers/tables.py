"""Tables and figures of the papers as values: rows of encoders, columns of tasks, what is printed in each cell."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from mirrorbench.core.errors import UsageError
from mirrorbench.core.specs import EncoderSpec, Value

SCALES = {"fraction": 1.0, "percent": 100.0, "raw": 1.0}
"""What a score is multiplied by to be printed; ``raw`` scores (isotropy) are neither fractions nor percentages."""

ABSENT = "-"
"""What stands in a spec where the paper prints nothing."""


@dataclass(frozen=True, slots=True)
class Printed:
    """What stands in a cell of the paper.

    ``text`` is as printed, ``-`` where the paper prints nothing, empty where our copies do not show what it prints;
    ``value`` is in the task's own unit (0.743 for .743 and for 74.3), and ``unit`` is one of the last digit.
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
    """A column: tasks with a metric, an average or difference of other columns (by their numbers), or an analysis.

    A difference of a column with itself is that to the row which ``against`` names. ``params`` are added to each row's
    encoder spec, ``backbone`` takes the place of the row's; ``unavailable`` says why nothing can be measured here.
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
        """Head with its group."""
        return f"{self.group} {self.head}".strip()


@dataclass(frozen=True, slots=True)
class PaperRow:
    """A row: its label as printed, the encoder spec (``None`` where none can name it), and a cell for each column.

    ``against`` is the number of the row (from 0) that differences are taken to, ``defaults`` are the paper's own values
    of the keys that the table varies, ``note`` says why there is no spec, or where the value is from.
    """

    label: str
    encoder: EncoderSpec | None
    printed: tuple[Printed, ...]
    against: int | None = None
    defaults: tuple[tuple[str, Value], ...] = ()
    note: str = ""


@dataclass(frozen=True, slots=True)
class Remark:
    """A cell (by its numbers from 0) that is printed otherwise in another table, or that ought to be ``recomputed``."""

    row: int
    column: int
    note: str
    where: str = ""
    recomputed: str = ""


@dataclass(frozen=True, slots=True)
class PaperTable:
    """A table or figure with scores, in printed order; ``where`` is paper, section and number.

    ``inconsistencies`` are averages and differences that do not follow from the printed values, ``disagreements``
    values that another table has otherwise.
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
        """What must be measured for a cell; ``None`` where nothing can be."""
        line, head = self.rows[row], self.columns[column]
        members = [self.columns[i] for i in head.average] or [head]
        tasks = tuple(task for member in members for task in member.tasks)
        if line.encoder is None or line.printed[column].absent or head.unavailable or not tasks:
            return None
        spec, first = line.encoder, members[0]
        if spec.method:  # an encoder system stays as it is
            spec = spec.with_params(**dict(first.params))
            spec = replace(spec, backbone=first.backbone) if first.backbone else spec
        defaults = dict(line.defaults)
        if backbone is not None:
            return Target(_moved(spec, backbone, defaults), tasks, first.metric)
        # A key that has the paper's own value anyway is left out.
        kept = tuple((key, value) for key, value in spec.params if key not in defaults or defaults[key] != value)
        return Target(replace(spec, params=kept), tasks, first.metric)

    def targets(self, backbone: EncoderSpec | None = None) -> dict[tuple[int, int], Target]:
        """What must be measured, by row and column."""
        places = ((r, c) for r in range(len(self.rows)) for c in range(len(self.columns)))
        return {place: target for place in places if (target := self.target(*place, backbone)) is not None}


@dataclass(frozen=True, slots=True)
class Target:
    """What a cell of a table is measured by: the mean of a metric over tasks.

    A key of the spec with the paper's own value is left out, as in ``mirrorbench run``.
    """

    spec: EncoderSpec
    tasks: tuple[str, ...]
    metric: str


@dataclass(frozen=True, slots=True)
class FactTable:
    """A table that describes models or hyper-parameters instead of scores.

    ``head`` says what the rows are; a row is a label, its values, and the name of the preset of ours that must agree
    (empty for none).
    """

    name: str
    title: str
    where: str
    head: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, tuple[str, ...], str], ...]
    notes: tuple[str, ...] = ()


def _moved(spec: EncoderSpec, backbone: EncoderSpec, defaults: Mapping[str, Value]) -> EncoderSpec:
    """The spec on another backbone, with the paper's values written out, since a backbone may have presets of its own.

    An encoder system has no backbone and stays as it is.
    """
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
