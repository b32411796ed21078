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
    """The outcome of a cell, which an executor yields.

    Executors do not make outcomes themselves: those of computed cells are in what ``compute`` returns, those of cells
    whose worker was lost come from ``failed``. Outcomes can be pickled.

    Attributes:
        cell: the cell: one encoder on one task under one seed, with ``spec``, ``task`` and ``seed``.
        outcome: its ``Result``, or a failure that says why there is none. A failure has ``spec``, ``task``, ``seed``,
            ``reason`` and ``hint``.
        computed: whether it was computed now; false if another process had stored it since the run began (default
            true).
        predictions: arrays by name that are stored beside the result, of one value for each item: ``ids``, ``scores``,
            ``gold``, and those of ``Scores.extra``; ``None`` (the default) for a cell that was not computed now.

    Example:
        >>> from mirrorbench import Session
        >>> from mirrorbench.plugin import Request, Result, compute, make_plan, parse_spec
        >>> workspace = Session("results", device="cpu").workspace
        >>> request = Request((parse_spec("tiny+base:pooling=mean"),), ("quick-sts",), limit=20)
        >>> cells = make_plan(workspace, request).cells
        >>> for outcome in compute(workspace.context(), cells).done:
        ...     if isinstance(outcome.outcome, Result):
        ...         print(outcome.cell.task, outcome.outcome.main_metric)
        ...     else:
        ...         print(outcome.cell.task, outcome.outcome.reason)
        quick-sts spearman
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
    """Return the outcomes of cells that failed with the same error.

    An executor yields them for the cells of a group whose worker was lost, or raised an error: ``yield from
    failed(cells, error)``. The run then goes on with the other cells, and reports these as failed.

    Args:
        cells: the cells, most often a ``CellGroup``.
        error: what happened. Users are shown message and hint of a ``MirrorbenchError``; other errors are shown with
            their type, and the command line writes their traceback to ``failures.log``.

    Raises:
        DeviceError: the error shows that this process has lost its GPU, so that nothing else can be computed here.

    Example:
        >>> from mirrorbench import Session
        >>> from mirrorbench.plugin import MirrorbenchError, Request, failed, make_plan, parse_spec
        >>> workspace = Session("results", device="cpu").workspace
        >>> request = Request((parse_spec("tiny+base:pooling=mean"),), ("quick-sts",))
        >>> cells = make_plan(workspace, request).cells
        >>> error = MirrorbenchError("the node was switched off", "Run the command again.")
        >>> (outcome,) = failed(cells, error)
        >>> outcome.cell.task, outcome.outcome.reason
        ('quick-sts', 'the node was switched off')
    """
    return [CellOutcome(cell, Failure.of(error, cell.spec, cell.task, cell.seed)) for cell in cells]


@dataclass(frozen=True)
class Outcome:
    """The outcome of a run: what ``execute_plan`` returns.

    An analysis or a grid reads scores from it.

    Attributes:
        results: one ``Result`` for each finished cell, computed now or before, in the order of the plan.
        failures: why the other cells have no result. A failure has ``spec``, ``task``, ``seed`` (``None`` for all
            seeds), ``reason`` and ``hint``.
        computed: number of cells that were computed now.
        predictions: the arrays stored beside the results that were computed now, by ``Result.cell_id`` and then by
            name, such as ``ids``, ``scores`` and ``gold`` of shape (items,).

    Example:
        >>> from mirrorbench import Session
        >>> from mirrorbench.plugin import Request, execute_plan, make_plan, parse_spec
        >>> workspace = Session("results", device="cpu").workspace
        >>> request = Request((parse_spec("tiny+base:pooling=mean"),), ("quick-sts",), limit=20)
        >>> outcome = execute_plan(workspace, make_plan(workspace, request))
        >>> [(result.task, result.main_metric, result.n_items) for result in outcome.results]
        [('quick-sts', 'spearman', 20)]
        >>> outcome.failures
        ()
    """

    results: tuple[Result, ...]
    failures: tuple[Failure, ...]
    computed: int
    predictions: Mapping[str, Predictions] = field(default_factory=dict)


Stage = Literal[
    "planning", "computing", "loading", "checking", "tuning", "encoding", "scoring", "diagnosing"
]


class Reporter:
    """Receives the events of a run, in order and from one thread.

    This class ignores all events. A subclass overrides the methods of the events that it shows or records, and is
    passed to ``Session(reporter=...)``; mirrorbench then calls these methods. Executors, grids and analyses of plugins
    call ``note`` of ``job.reporter`` and ``workspace.reporter``, and perhaps ``stage`` and ``advance``; mirrorbench
    itself calls ``begin``, ``cell`` and ``failure``.

    Example:
        >>> from mirrorbench import Session
        >>> from mirrorbench.plugin import Reporter
        >>> class Lines(Reporter):
        ...     def cell(self, cell, score, cached):
        ...         print(f"{cell.spec} on {cell.task}: {'stored' if cached else 'computed'}")
        ...     def note(self, message):
        ...         print(f"note: {message}")
        >>> session = Session("results", device="cpu", reporter=Lines())
        >>> board = session.run("tiny+base:pooling=mean", "quick-sts", limit=20)
        tiny+base:pooling=mean on quick-sts: computed
        >>> session.workspace.reporter.note("half of the texts are empty")
        note: half of the texts are empty
    """

    def begin(self, cells: int) -> None:
        """Note that a plan of so many cells is about to be computed, stored ones included."""

    def stage(self, name: Stage, of: str, total: int = 0, unit: str = "") -> None:
        """Note that a stage of work begins, and that the one before has ended.

        Args:
            name: ``planning``, ``computing``, ``loading``, ``checking``, ``tuning``, ``encoding`` or ``scoring``.
            of: what is worked on, such as an encoder spec.
            total: number of units of the stage; 0 if it is unknown.
            unit: what is counted, in the plural (``strings``).
        """

    def advance(self, n: int) -> None:
        """Note that ``n`` more units of the stage are done."""

    def cell(self, cell: Cell, score: float | None, cached: bool) -> None:
        """Note that a cell is stored, or was found in the store.

        Args:
            cell: one encoder on one task under one seed, with ``spec``, ``task`` and ``seed``.
            score: its main metric, as a fraction; ``None`` if that is undefined.
            cached: whether the result was stored before.
        """

    def failure(self, failure: Failure) -> None:
        """Note that a cell, or a row of cells, could not be computed.

        ``failure`` has ``spec``, ``task``, ``seed`` (``None`` for all seeds), ``reason`` and ``hint``.
        """

    def note(self, message: str) -> None:
        """Receive a message for the user that is not an error."""
