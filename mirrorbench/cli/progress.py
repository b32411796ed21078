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

from mirrorbench.cli.display import stderr, summary
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
"""The most seconds between two lines while nothing happens, before which each interval is twice the last one."""
MEASURED = 10.0
"""Seconds of a run after which its end is estimated from what is done so far."""
LEAST_MEASURED = 3.0
"""Seconds of a stage whose throughput is known well enough."""
LOG = "failures.log"
"""File in the folder of results with the reason of each failure, in full."""


def in_words(seconds: float) -> str:
    """Return a duration for people: ``40 s``, ``12 min 5 s``, ``3 h 20 min``."""
    whole = round(seconds)
    if whole < 120:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


class Display(Reporter):
    """Reports a run on standard error: by one bar, or by lines of ``tell`` where ``progress`` is ``None``."""

    def __init__(self, progress: Progress | None = None, quiet: bool = False) -> None:
        self.total = self.done = self.cached = self.failed = 0
        self.progress, self.quiet = progress, quiet
        self._said: set[str] = set()
        self._began = time.monotonic()
        self._stage, self._unit, self._size, self._count = "", "", 0, 0
        self._stage_began = self._began
        # What the last line said was done, its time, and the seconds after which the same may be said again.
        self._told = ""
        self._told_at = 0.0
        self._silence = 0.0
        self._bar = progress.add_task("", total=1) if progress else None

    @property
    def elapsed(self) -> str:
        """The time since the display was made, in words."""
        return in_words(time.monotonic() - self._began)

    def begin(self, cells: int) -> None:
        """Add the cells of a plan to the total."""
        self.total += cells

    def stage(self, name: Stage, of: str, total: int = 0, unit: str = "") -> None:
        """Show a stage."""
        self._stage, self._size, self._unit, self._count = f"{name} {of}", total, unit, 0
        self._stage_began = time.monotonic()
        self._update()

    def advance(self, n: int) -> None:
        """Units of the stage are done."""
        self._count += n
        self._update()

    def cell(self, cell: Cell, score: float | None, cached: bool) -> None:
        """Count a cell that is stored."""
        self.done += 1
        self.cached += cached
        self._update()

    def _update(self) -> None:
        if self.progress and self._bar is not None:
            part = self._count / self._size if self._size else self.done / (self.total or 1)
            self.progress.update(self._bar, completed=part, description=self._state())

    def tell(self) -> None:
        """Print in a line what the bar shows, with the seconds elapsed; seldom while nothing changes."""
        done = self._done()
        now = time.monotonic()
        if not done or (done == self._told and now < self._told_at + self._silence):
            return
        changed = done != self._told
        self._silence = PLAIN_INTERVAL if changed else min(2 * self._silence, LONGEST_INTERVAL)
        self._told = done
        self._told_at = now
        self._line(f"{self._state()}; {self.elapsed}")

    def _state(self) -> str:
        """Return what is done, and when the stage is likely to end."""
        return ", ".join(filter(None, (self._done(), self._remaining())))

    def _remaining(self) -> str:
        """Estimate the time to the end of the run from its cells, before the first one to that of the stage.

        Empty in the first seconds, and where a size is unknown.
        """
        now = time.monotonic()
        spent = now - self._stage_began
        computed = self.done - self.cached
        if now - self._began < MEASURED:
            return ""
        if computed:
            left = (now - self._began) / computed * (self.total - self.done)
            return f"about {in_words(left)} left" if left >= 1 else ""
        if spent < LEAST_MEASURED or not self._count or self._size <= self._count:
            return ""
        left = spent / self._count * (self._size - self._count)
        of_stage = " of this step" if self.total > 1 else ""
        return f"about {in_words(left)} left{of_stage}"

    def _done(self) -> str:
        """Return the cells that are done, the stage and its units that are done, and the number of failures."""
        cells = f"{self.done:,} of {self.total:,} cells" if self.total > 1 else ""
        stage = self._stage + (
            f": {self._count:,} of {self._size:,} {self._unit}" if self._size else ""
        )
        stage += f": {self._count:,} {self._unit}" if self._count and not self._size else ""
        return ", ".join(
            filter(None, (cells, stage, f"{self.failed} failed" if self.failed else ""))
        )

    def failure(self, failure: Failure) -> None:
        """Count a failed cell; its reason is printed at the end."""
        self.failed += 1
        self._update()

    def note(self, message: str) -> None:
        """Print a message for the user, once: each seed of an encoder may send it."""
        if message not in self._said:
            self._said.add(message)
            self._line(message)

    def _line(self, text: str) -> None:
        if self.quiet:
            return
        # Text, not markup: a path or an error may hold square brackets.
        (self.progress.console if self.progress else stderr).print(Text(text), soft_wrap=True)

    def finish(
        self, outcome: Outcome | Leaderboard, root: Path, tables: Sequence[str] = ()
    ) -> None:
        """Print the summary of a run: failures with their reasons, results, their folder, and ``tables`` in it."""
        if outcome.failures:
            self._explain(outcome, root)
        if not outcome.results:
            stderr.print("No results.")
            return
        if self.quiet:
            return
        from mirrorbench.reports.leaderboard import kept_models

        some = "" if self.cached == len(outcome.results) else f" {self.cached} of them"
        again = f",{some} from earlier runs" if self.cached else ""
        again += kept_models(outcome.results)
        written = f"; table of all results in this folder: {', '.join(tables)}" if tables else ""
        count = f"{len(outcome.results)} result{'s' if len(outcome.results) > 1 else ''}"
        stderr.print(Text(f"{count} in {root}{again} ({self.elapsed}){written}"), soft_wrap=True)

    def _explain(self, outcome: Outcome | Leaderboard, root: Path) -> None:
        """Reasons of failed cells: those without data or a model together, the others by reason."""
        stderr.print()
        table = getattr(outcome, "table", None)
        labels = {row.spec: row.label for row in table.rows} if table else {}
        reasons: dict[tuple[str, str], list[str]] = {}
        for failure in outcome.failures:
            if not failure.lacks:
                label = labels.get(str(failure.spec), str(failure.spec))
                cells = reasons.setdefault((failure.reason, failure.hint), [])
                cells.append(f"{label} on {failure.task}")
        for (reason, hint), cells in reasons.items():
            names = list(dict.fromkeys(cells))
            shown = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
            stderr.print(Text.assemble(("Failed: ", "bold red"), shown), soft_wrap=True)
            # One or two failures are told in full; of more, only the first line of each.
            text = f"{reason}\n{hint}" if len(reasons) <= 2 else f"{reason.splitlines()[0]}\n{hint}"
            stderr.print(Text("  " + text.strip().replace("\n", "\n  ")), soft_wrap=True)
        if short := [failure for failure in outcome.failures if failure.lacks]:
            count = f"{len(short)} of {len(outcome.results) + len(outcome.failures)} cells"
            stderr.print(
                Text.assemble((count, "bold red"), " cannot run, since these are not available:")
            )
            for line in summary(lack for failure in short for lack in failure.lacks):
                stderr.print(Text(line), soft_wrap=True)
        print_logged(outcome.failures, root, more=bool(short) or len(reasons) > 2)


def print_logged(failures: Sequence[Failure], root: Path, more: bool = False) -> None:
    """Write the log of failures, and print its name, if it says ``more`` than was printed, as a traceback does.

    With MIRRORBENCH_DEBUG=1 tracebacks are printed too.
    """
    tracebacks = list(dict.fromkeys(own.traceback for own in failures if own.traceback))
    if os.environ.get("MIRRORBENCH_DEBUG") == "1":
        for traceback in tracebacks:
            stderr.print(Text(traceback), soft_wrap=True)
    if not more and not tracebacks:
        return
    content = "Every reason in full" + (", with tracebacks" if tracebacks else "")
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
    """Make a display: a bar where standard error is a terminal, else a line every ten seconds."""
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
    """Write every failure into the folder of results, those of one reason together; returns the file's path."""
    cells: dict[str, list[str]] = {}
    for failure in failures:
        seed = "" if failure.seed is None else f" seed {failure.seed}"
        parts = [failure.reason, failure.hint, failure.traceback]
        reason = "\n".join(filter(None, parts)).strip().replace("\n", "\n  ")
        cells.setdefault(reason, []).append(f"{failure.spec} {failure.task}{seed}\n")
    with writing(folder / LOG) as sink:
        sink.writelines(
            f"{''.join(names)}  {reason}\n\n".encode() for reason, names in cells.items()
        )
    return folder / LOG
