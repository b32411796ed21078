"""A reporter that records events."""

from __future__ import annotations

from mirrorbench.runs.cells import Cell
from mirrorbench.runs.outcomes import Failure, Reporter, Stage


class Log(Reporter):
    """A reporter that remembers the events of a run.

    Attributes:
        lines: cells (``SPEC TASK computed`` or ``cached``), failures (``SPEC TASK failed``) and notes, as they came.
        stages: units of work by the name of their stage.
        done: how many of them were done.
    """

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.stages: dict[str, int] = {}
        self.done: dict[str, int] = {}

    def stage(self, name: Stage, of: str, total: int = 0, unit: str = "") -> None:
        """Remember the stage and its number of units."""
        self._current = f"{name} {of}"
        if name in ("tuning", "encoding"):
            self.stages[self._current] = total

    def advance(self, n: int) -> None:
        """Count units of the current stage."""
        if self._current in self.stages:
            self.done[self._current] = self.done.get(self._current, 0) + n

    def cell(self, cell: Cell, score: float | None, cached: bool) -> None:
        """Remember a computed or cached cell."""
        self.lines.append(f"{cell.spec} {cell.task} {'cached' if cached else 'computed'}")

    def failure(self, failure: Failure) -> None:
        """Remember a failed cell."""
        self.lines.append(f"{failure.spec} {failure.task} failed")

    def note(self, message: str) -> None:
        """Remember a note."""
        self.lines.append(message)
