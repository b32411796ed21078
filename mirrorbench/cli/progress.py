"""The progress of a run on standard error, and its summary at the end."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event, Thread
from typing import TYPE_CHECKING

from rich.text import Text

from mirrorbench.cli.display import lines_on_lacks, stderr
from mirrorbench.core.errors import StorageError
from mirrorbench.runs.cells import Cell
from mirrorbench.runs.outcomes import Failure, Reporter, Stage
from mirrorbench.storage.files import writing

if TYPE_CHECKING:
    from rich.progress import Progress

    from mirrorbench.reports.leaderboard import Leaderboard
    from mirrorbench.runs.outcomes import Outcome

PLAIN_INTERVAL = 10.0
"""Seconds between two progress lines where there is no terminal."""
LONGEST_INTERVAL = 120.0
"""Maximum number of seconds between two lines while nothing changes; the interval doubles up to it."""
ESTIMATED_FROM = 10.0
"""Seconds of a run before its remaining time is estimated."""
STAGE_ESTIMATED_FROM = 3.0
"""Seconds of a stage before its remaining time is estimated."""
LOG = "failures.log"
"""File in the folder of results with the full reason of each failure."""


def in_words(seconds: float) -> str:
    """Return a duration for people: ``40 s``, ``12 min 5 s``, ``3 h 20 min``."""
    whole = round(seconds)
    if whole < 120:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


class Display(Reporter):
    """Reports a run on standard error: with one bar, or with the lines of ``tell`` if ``progress`` is ``None``.

    Attributes:
        total: number of cells of the run.
        done: number of cells that are stored.
        cached: how many of these were stored by earlier runs.
        failed: number of cells that failed.
    """

    def __init__(self, progress: Progress | None = None, quiet: bool = False) -> None:
        self.total = 0
        self.done = 0
        self.cached = 0
        self.failed = 0
        self.progress = progress
        self.quiet = quiet
        self._bar = progress.add_task("", total=1) if progress else None
        self._notes: set[str] = set()
        self._start = time.monotonic()
        # The stage, the time of its start, the unit of its work, how many units it has and how many are done.
        self._stage = ""
        self._stage_start = self._start
        self._unit = ""
        self._n_units = 0
        self._n_units_done = 0
        # The state in the last line, the time of that line, and the seconds before the same state is printed again.
        self._last_state = ""
        self._last_line_at = 0.0
        self._repeat_after = 0.0

    @property
    def elapsed(self) -> str:
        """The time since the display was made, in words."""
        return in_words(time.monotonic() - self._start)

    def begin(self, cells: int) -> None:
        """Add the cells of a plan to the total."""
        self.total += cells

    def stage(self, name: Stage, of: str, total: int = 0, unit: str = "") -> None:
        """Show a stage."""
        self._stage = f"{name} {of}"
        self._stage_start = time.monotonic()
        self._unit = unit
        self._n_units = total
        self._n_units_done = 0
        self._update()

    def advance(self, n: int) -> None:
        """Count units of the stage that are done."""
        self._n_units_done += n
        self._update()

    def cell(self, cell: Cell, score: float | None, cached: bool) -> None:
        """Count a cell that is stored."""
        self.done += 1
        if cached:
            self.cached += 1
        self._update()

    def _update(self) -> None:
        if self.progress is None or self._bar is None:
            return
        if self._n_units:
            share = self._n_units_done / self._n_units
        else:
            share = self.done / (self.total or 1)
        self.progress.update(self._bar, completed=share, description=self._description())

    def tell(self) -> None:
        """Print a line with the state and the elapsed time; while nothing changes, only at growing intervals."""
        state = self._state()
        if not state:
            return
        now = time.monotonic()
        if state != self._last_state:
            self._repeat_after = PLAIN_INTERVAL
        elif now < self._last_line_at + self._repeat_after:
            return
        else:
            self._repeat_after = min(2 * self._repeat_after, LONGEST_INTERVAL)
        self._last_state = state
        self._last_line_at = now
        self._line(f"{self._description()}; {self.elapsed}")

    def _description(self) -> str:
        """Return the state and the time that is left."""
        return ", ".join(filter(None, (self._state(), self._remaining())))

    def _state(self) -> str:
        """Return the number of cells done, the stage and the number of its units done, and the number of failures."""
        parts = []
        if self.total > 1:
            parts.append(f"{self.done:,} of {self.total:,} cells")
        if self._stage:
            stage = self._stage
            if self._n_units:
                stage += f": {self._n_units_done:,} of {self._n_units:,} {self._unit}"
            elif self._n_units_done:
                stage += f": {self._n_units_done:,} {self._unit}"
            parts.append(stage)
        if self.failed:
            parts.append(f"{self.failed} failed")
        return ", ".join(parts)

    def _remaining(self) -> str:
        """Return the time that is left of the run or, until its first cell is computed, of the stage, as a phrase.

        It is empty in the first seconds, and where a size is unknown.
        """
        now = time.monotonic()
        run_seconds = now - self._start
        if run_seconds < ESTIMATED_FROM:
            return ""
        # Stored cells take no time, so the time of a cell is that of the computed ones.
        n_computed = self.done - self.cached
        if n_computed:
            seconds = run_seconds / n_computed * (self.total - self.done)
            return f"about {in_words(seconds)} left" if seconds >= 1 else ""
        stage_seconds = now - self._stage_start
        # Read once: a thread prints this while another may begin a stage, which resets the number to 0.
        n_units_done = self._n_units_done
        n_units_left = self._n_units - n_units_done
        if stage_seconds < STAGE_ESTIMATED_FROM or not n_units_done or n_units_left <= 0:
            return ""
        seconds = stage_seconds / n_units_done * n_units_left
        text = f"about {in_words(seconds)} left"
        # A stage before the first of several cells is computed is not the whole run.
        return f"{text} of this step" if self.total > 1 else text

    def failure(self, failure: Failure) -> None:
        """Count a failed cell; its reason is printed at the end."""
        self.failed += 1
        self._update()

    def note(self, message: str) -> None:
        """Print a message for the user, only once even if each seed of an encoder sends it."""
        if message not in self._notes:
            self._notes.add(message)
            self._line(message)

    def _line(self, text: str) -> None:
        if self.quiet:
            return
        console = self.progress.console if self.progress else stderr
        # Text, not markup: a path or an error may contain square brackets.
        console.print(Text(text), soft_wrap=True)

    def finish(
        self, outcome: Outcome | Leaderboard, root: Path, tables: Sequence[str] = ()
    ) -> None:
        """Print the failures of a run, then its summary; write the log of failures. A quiet display prints no summary.

        Args:
            outcome: results and failures.
            root: the folder of results.
            tables: names of the files with the table of all results, which were written into ``root``.
        """
        if outcome.failures:
            self._report_failures(outcome, root)
        if not outcome.results:
            stderr.print("No results.")
            return
        if self.quiet:
            return
        from mirrorbench.reports.leaderboard import cached_models_phrase

        n_results = len(outcome.results)
        text = "1 result" if n_results == 1 else f"{n_results} results"
        text += f" in {root}"
        if self.cached == n_results:
            text += ", from earlier runs"
        elif self.cached:
            text += f", {self.cached} of them from earlier runs"
        # Results may be new, but of models that an earlier run tuned.
        text += cached_models_phrase(outcome.results)
        text += f" ({self.elapsed})"
        if tables:
            text += f"; table of all results in this folder: {', '.join(tables)}"
        stderr.print(Text(text), soft_wrap=True)

    def _report_failures(self, outcome: Outcome | Leaderboard, root: Path) -> None:
        """Print why cells failed, by reason, then what data and models are lacking; write the log of failures."""
        stderr.print()
        unavailable = [failure for failure in outcome.failures if failure.lacks]
        cells_by_reason = self._cells_by_reason(outcome)
        # One or two reasons are printed in full; if there are three or more, only the first line of each.
        in_full = len(cells_by_reason) <= 2
        for (reason, hint), cells in cells_by_reason.items():
            names = ", ".join(cells[:3])
            if len(cells) > 3:
                names += f" and {len(cells) - 3} more"
            stderr.print(Text.assemble(("Failed: ", "bold red"), names), soft_wrap=True)
            text = reason if in_full else reason.splitlines()[0]
            text = f"{text}\n{hint}".strip()
            stderr.print(Text(f"  {_indented(text)}"), soft_wrap=True)
        # What is lacking has no reasons above: it is listed once for all cells.
        if unavailable:
            n_cells = len(outcome.results) + len(outcome.failures)
            count = f"{len(unavailable)} of {n_cells} cells"
            stderr.print(
                Text.assemble((count, "bold red"), " cannot run, since these are not available:")
            )
            for line in lines_on_lacks(lack for failure in unavailable for lack in failure.lacks):
                stderr.print(Text(line), soft_wrap=True)
        # The log has every reason in full, so it is named if less was printed here.
        log_has_more = bool(unavailable) or not in_full
        print_logged(outcome.failures, root, more=log_has_more)

    def _cells_by_reason(self, outcome: Outcome | Leaderboard) -> dict[tuple[str, str], list[str]]:
        """Return the failed cells by reason and hint, once each, without those that lack data or a model."""
        table = getattr(outcome, "table", None)
        labels = {row.spec: row.label for row in table.rows} if table else {}
        cells_by_reason: dict[tuple[str, str], list[str]] = {}
        for failure in outcome.failures:
            if failure.lacks:
                continue
            spec = str(failure.spec)
            cell = f"{labels.get(spec, spec)} on {failure.task}"
            cells_by_reason.setdefault((failure.reason, failure.hint), []).append(cell)
        # Several seeds of an encoder are one cell here.
        return {reason: list(dict.fromkeys(cells)) for reason, cells in cells_by_reason.items()}


def print_logged(failures: Sequence[Failure], root: Path, more: bool = False) -> None:
    """Write the log of failures and print its path, if the log has tracebacks or otherwise ``more`` than was printed.

    With MIRRORBENCH_DEBUG=1, print the tracebacks too.
    """
    tracebacks = list(dict.fromkeys(f.traceback for f in failures if f.traceback))
    if os.environ.get("MIRRORBENCH_DEBUG") == "1":
        for traceback in tracebacks:
            stderr.print(Text(traceback), soft_wrap=True)
    if not more and not tracebacks:
        return
    content = "Every reason in full"
    if tracebacks:
        content += ", with tracebacks"
    with suppress(StorageError):  # a full disk may be among the reasons
        log = write_log(failures, root)
        stderr.print(Text(f"{content}: {log}"), soft_wrap=True)


@contextmanager
def _telling(display: Display) -> Iterator[Display]:
    """Print the state every ten seconds from a thread, also within a long step."""
    ended = Event()

    def tell() -> None:
        while not ended.wait(PLAIN_INTERVAL):
            display.tell()

    teller = Thread(target=tell, daemon=True)
    teller.start()
    try:
        yield display
    finally:
        ended.set()
        teller.join()


@contextmanager
def progress_display(quiet: bool = False) -> Iterator[Display]:
    """Yield a display: a bar if standard error is a terminal, else a line every ten seconds; silent if ``quiet``."""
    if quiet:
        yield Display(quiet=True)
        return
    if not stderr.is_terminal:
        with _telling(Display()) as display:
            yield display
        return
    from rich.progress import (
        BarColumn,
        Progress,
        TaskProgressColumn,
        TextColumn,
        TimeElapsedColumn,
    )
    from rich.table import Column

    with Progress(
        TextColumn(
            "{task.description}", table_column=Column(no_wrap=True, overflow="ellipsis", ratio=1)
        ),
        BarColumn(bar_width=20),
        TaskProgressColumn(),
        TimeElapsedColumn(),
        console=stderr,
        transient=True,
        expand=True,
    ) as progress:
        yield Display(progress)


def write_log(failures: Sequence[Failure], folder: Path) -> Path:
    """Write all failures, grouped by reason, into a file in the folder of results; return its path."""
    cells_by_reason: dict[str, list[str]] = {}
    for failure in failures:
        parts = [failure.reason, failure.hint, failure.traceback]
        reason = "\n".join(filter(None, parts)).strip()
        cell = f"{failure.spec} {failure.task}"
        if failure.seed is not None:
            cell += f" seed {failure.seed}"
        cells_by_reason.setdefault(reason, []).append(cell)
    with writing(folder / LOG) as sink:
        for reason, cells in cells_by_reason.items():
            lines = "\n".join(cells)
            sink.write(f"{lines}\n  {_indented(reason)}\n\n".encode())
    return folder / LOG


def _indented(text: str) -> str:
    """Indent all lines of a text but the first one by two spaces."""
    return text.replace("\n", "\n  ")
