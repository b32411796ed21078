"""The executor ``pool``: processes on this machine, which ``local`` starts for several workers or GPUs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mirrorbench.plugin import hookimpl

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mirrorbench.plugin import CellOutcome, Job, Register


def execute(job: Job) -> Iterator[CellOutcome]:
    """Compute a job in the pool; yield its outcomes as they arrive."""
    from mirrorbench_pool.pool import execute

    return execute(job)


@hookimpl
def register_executors(register: Register) -> None:
    """Register the executor ``pool``."""
    register("pool", execute, "This machine: --workers N processes, or one for each GPU.")
