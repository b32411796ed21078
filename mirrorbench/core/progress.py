"""Progress of a run as events."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mirrorbench.runs.cells import Cell, Failure


class Reporter:
    """Receives the events of a run, in order and from one thread; this one ignores them, subclasses use some."""

    def begin(self, cells: int) -> None:
        """A plan of so many cells is about to be computed."""

    def stage(self, name: str, total: int, unit: str) -> None:
        """A stage begins (``train roberta+mirror``): ``total`` units of work (strings, texts)."""

    def advance(self, n: int) -> None:
        """``n`` more units of the current stage are done."""

    def cell(self, cell: Cell, score: float | None, cached: bool) -> None:
        """A cell is stored, or was found in the store."""

    def failure(self, failure: Failure) -> None:
        """A cell, or a row of cells, could not be computed."""

    def note(self, message: str) -> None:
        """Something worth saying that stops nothing."""
