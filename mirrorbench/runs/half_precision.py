"""The remark that long work on a processor with AMX would be faster in bf16.

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
LONG = 60.0
"""Seconds of work from which on the remark is made."""
SETTLED = 5.0
"""Seconds after which the time of the whole work is estimated."""
GAIN = {"encoding": 2.3, "tuning": 1.35}
"""How many times as fast bf16 is with AMX: ``benchmarks/RESULTS.md``."""
OPTION = {"encoding": "--eval-precision bf16", "tuning": "--precision bf16"}


def advancing(
    compute: Compute, reporter: Reporter, work: Work, precision: str, total: int
) -> Callable[[int], None]:
    """Return what is called with the number of units done; it reports them, and remarks once on long work in fp32.

    Args:
        compute: with the device.
        reporter: of the run.
        work: what is done.
        precision: in which it is computed.
        total: number of all units; 0 if unknown.
    """
    advance = reporter.advance
    if precision != "fp32" or compute.device.type != "cpu" or not has_amx():
        return advance
    started, done = time.perf_counter(), 0

    def watched(n: int) -> None:
        nonlocal done
        done += n
        advance(n)
        seconds = time.perf_counter() - started
        whole = seconds * total / done if total and done else seconds
        if seconds >= SETTLED and whole > LONG and work not in compute.remarked:
            compute.remarked.add(work)
            reporter.note(_remark(work, whole))

    return watched


def _remark(work: Work, seconds: float) -> str:
    minutes = seconds / 60
    return (
        f"{work} takes about {minutes:.1f} min in fp32; this processor has AMX, with which {OPTION[work]} would take "
        f"about {minutes / GAIN[work]:.1f} min"
    )
