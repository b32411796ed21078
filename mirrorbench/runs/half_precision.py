"""A note that long work on a processor with AMX would be faster in bf16.

fp32 stays the default, so that results do not depend on the processor.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Literal

from mirrorbench.core.devices import has_amx

if TYPE_CHECKING:
    from mirrorbench.runs.compute import Compute
    from mirrorbench.runs.outcomes import Reporter

Work = Literal["encoding", "tuning"]
LONG_SECONDS = 60.0
"""Seconds of work above which the note is made."""
SETTLED_SECONDS = 5.0
"""Seconds after which the time of the whole work is estimated."""
GAIN = {"encoding": 2.3, "tuning": 1.35}
"""Speed of bf16 with AMX relative to fp32: ``benchmarks/RESULTS.md``."""
OPTION = {"encoding": "--eval-precision bf16", "tuning": "--precision bf16"}


def progress_callback(
    compute: Compute, reporter: Reporter, work: Work, precision: str, total: int
) -> Callable[[int], None]:
    """Return a function that reports progress; call it with the number of units done since its last call.

    If the work is long and in fp32, on a processor with AMX, it also notes, once for each kind of work, that bf16 would
    be faster.

    Args:
        compute: holds the device, and the kinds of work already noted.
        reporter: receives progress and the note.
        work: kind of work.
        precision: precision of the computation.
        total: total number of units; 0 if unknown.
    """
    advance = reporter.advance
    if precision != "fp32" or compute.device.type != "cpu" or not has_amx():
        return advance
    started = time.perf_counter()
    done = 0

    def advance_and_note(n: int) -> None:
        nonlocal done
        done += n
        advance(n)
        seconds = time.perf_counter() - started
        total_seconds = seconds
        if total and done:
            total_seconds = seconds * total / done
        is_long = seconds >= SETTLED_SECONDS and total_seconds > LONG_SECONDS
        if is_long and work not in compute.noted_work:
            compute.noted_work.add(work)
            reporter.note(_amx_note(work, total_seconds))

    return advance_and_note


def _amx_note(work: Work, seconds: float) -> str:
    minutes = seconds / 60
    return (
        f"{work} takes about {minutes:.1f} min in fp32; this processor has AMX, with which {OPTION[work]} would take "
        f"about {minutes / GAIN[work]:.1f} min"
    )
