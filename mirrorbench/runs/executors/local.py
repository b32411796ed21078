"""The executor ``local``: in this process, or in a pool of processes on this machine.

One worker process for each GPU where there are several, each pinned to its own; on the CPU this process, or as many
workers as are asked for.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

from mirrorbench import hookimpl
from mirrorbench.core.errors import UsageError

if TYPE_CHECKING:
    from mirrorbench.core.hooks import Register
    from mirrorbench.runs.cells import CellOutcome
    from mirrorbench.runs.executors import Job


def execute(job: Job) -> Iterator[CellOutcome]:
    """Compute a job on this machine."""
    workers = job.known(workers=0)["workers"]
    assert isinstance(workers, int)
    if workers < 0:
        raise UsageError(f"{workers} workers cannot compute anything")
    devices = devices_for(job.context.device, workers)[: len(job.groups)]
    if len(devices) == 1 and workers < 2:
        yield from job.workspace.runner().compute(job.groups, job.corpora)
        return
    from mirrorbench.runs.executors.pool import Pool

    busy = len(devices) * job.context.threads
    if job.context.device == "cpu" and busy > (cores := os.cpu_count() or 1):
        job.reporter.note(
            f"{len(devices)} workers of {job.context.threads} threads on {cores} cores: "
            f"OMP_NUM_THREADS={max(1, cores // len(devices))} would be faster"
        )
    job.share()
    yield from Pool(job, devices).run()


def devices_for(device: str, workers: int) -> list[str]:
    """A device for each worker: every GPU for ``cuda``, in turn where there are more workers; else the one device."""
    if device == "cuda":
        import torch

        gpus = max(1, torch.cuda.device_count())
        return [f"cuda:{n % gpus}" for n in range(workers or gpus)]
    return [device] * max(1, workers)


@hookimpl
def register_executors(register: Register) -> None:
    """Make the executor known."""
    register("local", execute, "This machine: in process, --workers N processes, or one process for each GPU.")
