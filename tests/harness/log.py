"""A reporter that records events."""

from __future__ import annotations

from mirrorbench.runs.cells import Cell, Failure, Reporter


class Log(Reporter):
    """Remembers the events of a run.

    Attributes:
        lines: cells (``SPEC TASK computed`` or ``cached``), failures (``SPEC TASK failed``) and notes, as they came.
        stages: units of work by the name of their stage.
        done: how many of them were done.
    """

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.stages: dict[str, int] = {}
        self.done: dict[str, int] = {}

    def stage(self, name: str, total: int, unit: str) -> None:
        """A stage begins."""
        self._current = name
        self.stages[name] = total

    def advance(self, n: int) -> None:
        """More of the current stage is done."""
        self.done[self._current] = self.done.get(self._current, 0) + n

    def cell(self, cell: Cell, score: float | None, cached: bool) -> None:
        """A cell is stored, or was."""
        self.lines.append(f"{cell.spec} {cell.task} {'cached' if cached else 'computed'}")

    def failure(self, failure: Failure) -> None:
        """A cell could not be computed."""
        self.lines.append(f"{failure.spec} {failure.task} failed")

    def note(self, message: str) -> None:
        """Something worth saying."""
        self.lines.append(message)
