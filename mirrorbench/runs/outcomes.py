"""The outcomes of cells and of a run, and the reporter of a run's events."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from mirrorbench.core.devices import lost_device, out_of_memory
from mirrorbench.core.errors import Lack, MirrorbenchError
from mirrorbench.core.foreign_errors import describe, traceback_of
from mirrorbench.core.quoting import without_texts
from mirrorbench.core.specs import EncoderSpec
from mirrorbench.runs.cells import Cell
from mirrorbench.storage.results import Predictions, Result, hidden_id
from mirrorbench.tasks.base import Scores


@dataclass(frozen=True, slots=True)
class Failure:
    """A cell, or all seeds of an encoder on a task, that could not be computed."""

    spec: EncoderSpec
    task: str
    reason: str
    hint: str = ""
    seed: int | None = None
    """``None`` for all seeds."""
    lacks: tuple[Lack, ...] = ()
    """The data sets and models whose absence is the cause."""
    full: bool = False
    """Whether the device had no memory left for the cell."""
    traceback: str = field(default="", compare=False, repr=False)
    """Traceback of an error of a plugin or a library; empty for other errors."""

    @classmethod
    def of(
        cls, error: BaseException, spec: EncoderSpec, task: str, seed: int | None = None
    ) -> Failure:
        """Return the failure that reports an error; errors of other packages are named by their type.

        Raises:
            DeviceError: the error shows that this process has lost its device.
        """
        device_error = lost_device(error)
        if device_error:
            raise device_error from error
        hint = ""
        lacks: tuple[Lack, ...] = ()
        if isinstance(error, MirrorbenchError):
            reason = error.message
            hint = error.hint
            lacks = error.lacks
        else:
            reason = describe(error)
        full = out_of_memory(error)
        return cls(spec, task, reason, hint, seed, lacks, full, traceback_of(error))


@dataclass(frozen=True, slots=True)
class CellOutcome:
    """The outcome of a cell.

    Attributes:
        cell: the cell.
        outcome: its result, or why there is none.
        computed: whether it was computed now; false if another process had stored it since the run began.
        predictions: the arrays stored beside the result, where it was computed now.
    """

    cell: Cell
    outcome: Result | Failure
    computed: bool = True
    predictions: Predictions | None = None


def predictions_of(scores: Scores) -> Predictions:
    """Return the arrays that are stored beside a result, as ``read_predictions`` returns them.

    If texts must not be stored, ids are hidden, and predicted names left out.
    """
    arrays = {"ids": np.array(scores.ids), "scores": scores.scores, "gold": scores.gold}
    for name, values in scores.extra.items():
        arrays[name] = np.asarray(values)
    if without_texts():  # an id may be a word, a prediction a name
        arrays["ids"] = np.array([hidden_id(str(item)) for item in scores.ids])
        arrays.pop("predicted", None)
        arrays.pop("found", None)
    return arrays


def failed(cells: Iterable[Cell], error: BaseException) -> list[CellOutcome]:
    """Return the outcomes of cells that failed with the same error; errors are those of ``Failure.of``."""
    return [CellOutcome(cell, Failure.of(error, cell.spec, cell.task, cell.seed)) for cell in cells]


@dataclass(frozen=True)
class Outcome:
    """The outcome of a run."""

    results: tuple[Result, ...]
    """One for each finished cell, computed now or before, in the order of the plan."""
    failures: tuple[Failure, ...]
    """The other cells."""
    computed: int
    """Number of cells that were computed now."""
    predictions: Mapping[str, Predictions] = field(default_factory=dict)
    """The arrays stored beside the results that were computed now, by cell id."""


Stage = Literal["planning", "computing", "loading", "checking", "tuning", "encoding", "scoring"]


class Reporter:
    """Receives the events of a run, in order and from one thread. This class ignores them; subclasses use some."""

    def begin(self, cells: int) -> None:
        """Note that a plan of so many cells is about to be computed."""

    def stage(self, name: Stage, of: str, total: int = 0, unit: str = "") -> None:
        """Note that a stage of work on ``of`` begins, with ``total`` units."""

    def advance(self, n: int) -> None:
        """Note that ``n`` more units of the stage are done."""

    def cell(self, cell: Cell, score: float | None, cached: bool) -> None:
        """Note that a cell is stored, or was found in the store."""

    def failure(self, failure: Failure) -> None:
        """Note that a cell, or a row of cells, could not be computed."""

    def note(self, message: str) -> None:
        """Receive a message for the user that is not an error."""
