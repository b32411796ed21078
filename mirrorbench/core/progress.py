"""What a run tells whoever watches it. The command line draws it; libraries may ignore it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from mirrorbench.runs.cells import Cell, Failure


class Reporter(Protocol):
    """Receives the events of a run, in order and from one thread."""

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


class Silent:
    """Tells nobody."""

    def stage(self, name: str, total: int, unit: str) -> None:
        """Nothing."""

    def advance(self, n: int) -> None:
        """Nothing."""

    def cell(self, cell: Cell, score: float | None, cached: bool) -> None:
        """Nothing."""

    def failure(self, failure: Failure) -> None:
        """Nothing."""

    def note(self, message: str) -> None:
        """Nothing."""
