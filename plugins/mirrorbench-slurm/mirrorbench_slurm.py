"""The executor ``slurm``: groups of cells become jobs of a Slurm array, submitted and monitored through submitit.

All data are exchanged through the folders of the run, which every node must see. A lost job (node failure, time limit,
preemption) is submitted again and finds the results that it had stored.
"""

from __future__ import annotations

import os
import re
import signal
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from mirrorbench.plugin import (
    CellGroup,
    CellOutcome,
    GroupOutcome,
    Job,
    MirrorbenchError,
    Register,
    UsageError,
    Value,
    WorkerContext,
    compute,
    failed,
    hookimpl,
    interrupts_blocked,
    worker_device,
)

POLL_SECONDS = {"slurm": 10.0, "local": 0.2, "debug": 0.0}
"""Seconds between two checks of the jobs, by cluster; submitit asks Slurm once for all of them."""


class SlurmError(MirrorbenchError):
    """A job cannot be submitted, or was lost too often."""


@dataclass
class _Part:
    """The groups of cells that one Slurm job computes."""

    groups: tuple[CellGroup, ...]
    slurm_job: Any = None
    """Submitit's object, once the part is submitted."""
    losses: int = 0
    """How many of its jobs were lost."""


def compute_all(context: WorkerContext, groups: Sequence[CellGroup]) -> list[GroupOutcome]:
    """Compute groups in a Slurm job; a cancelled job returns its lease, or other runs would wait for it.

    A job that loses its GPU raises an error, which ends its process: it counts as lost.
    """
    # Submitit ignores the signal; here it raises ``KeyboardInterrupt``.
    handler_before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        return [compute(context, cells) for cells in groups]
    finally:
        signal.signal(signal.SIGTERM, handler_before)


def device(asked: str, options: Mapping[str, Value]) -> str:
    """Return the device of the jobs: a GPU if they request one, which this machine need not have on a Slurm cluster."""
    return worker_device(
        asked, options.get("gpus"), here=options.get("cluster", "slurm") != "slurm"
    )


def execute(job: Job) -> Iterator[CellOutcome]:
    """Compute a run's job as an array of Slurm jobs.

    Options: ``workers`` (most Slurm jobs at a time, 16), ``groups`` (number of groups of cells in a Slurm job, 1),
    ``partition``, ``account``, ``minutes`` (of a job, 60), ``memory`` (GB, 16), ``cpus`` (4), ``gpus`` (1 for a CUDA
    device, else 0), ``cluster`` (``slurm``; ``local`` runs the jobs as processes of this machine, ``debug`` runs them
    in this process).
    """
    on_gpu = job.context.settings.device == "cuda"
    options = job.known(
        workers=16,
        groups=1,
        partition="",
        account="",
        minutes=60,
        memory=16,
        cpus=4,
        gpus=int(on_gpu),
        cluster="slurm",
    )
    cluster = str(options["cluster"])
    if cluster not in POLL_SECONDS:
        raise UsageError(
            f"the Slurm executor knows no cluster {cluster!r}",
            f"Clusters: {', '.join(POLL_SECONDS)}",
        )
    for name in ("workers", "groups"):
        if int(options[name]) < 1:
            raise UsageError(
                f"executor option {name}={options[name]}: nothing could be computed",
                "The least is 1.",
            )
    job.share()  # writes the corpora where the jobs find them
    groups_per_job = int(options["groups"])
    starts = range(0, len(job.groups), groups_per_job)
    parts = [_Part(job.groups[start : start + groups_per_job]) for start in starts]
    yield from _Array(job, options, cluster).run(parts)


class _Array:
    """Submits, monitors and cancels an array of Slurm jobs."""

    def __init__(self, job: Job, options: dict[str, Value], cluster: str) -> None:
        import submitit

        self.job = job
        self.limit = int(options["workers"])
        self.poll = POLL_SECONDS[cluster]
        folder = Path(job.context.settings.results) / ".slurm"
        try:
            self.executor = submitit.AutoExecutor(folder=folder, cluster=cluster)
        except RuntimeError as error:
            raise SlurmError(
                f"Slurm cannot be used here: {error}",
                "Run this where sbatch is, or use --executor slurm:cluster=local.",
            ) from error
        optional = {"slurm_partition": options["partition"], "slurm_account": options["account"]}
        stated = {name: value for name, value in optional.items() if value}
        self.executor.update_parameters(
            name="mirrorbench",
            timeout_min=options["minutes"],
            mem_gb=options["memory"],
            cpus_per_task=options["cpus"],
            gpus_per_node=options["gpus"],
            slurm_array_parallelism=self.limit,
            **stated,
        )

    def run(self, parts: list[_Part]) -> Iterator[CellOutcome]:
        """Yield outcomes in the order of their arrival; cancel what still runs if the caller stops early."""
        waiting = deque(parts)
        running: list[_Part] = []
        try:
            while waiting or running:
                # Slurm itself limits the jobs that run at a time; for processes of this machine, this loop does.
                # A lost part is put back into ``waiting``, and submitted in the next round.
                n_to_submit = len(waiting)
                if self.executor.cluster != "slurm":
                    n_to_submit = min(n_to_submit, self.limit - len(running))
                batch = [waiting.popleft() for _ in range(n_to_submit)]
                self._submit(batch)
                running += batch
                finished = [part for part in running if part.slurm_job.done()]
                for part in finished:
                    running.remove(part)
                    yield from self._gather(part, waiting)
                time.sleep(self.poll if running else 0)
        finally:
            for part in running:
                self._cancel(part)

    def _cancel(self, part: _Part) -> None:
        """Cancel the job of a part."""
        if self.executor.cluster != "local":
            # Unchecked, so that a job that Slurm no longer knows does not prevent the others from being cancelled.
            part.slurm_job.cancel(check=False)
            return
        # The signal of submitit's own cancel() makes its controller print a traceback.
        with suppress(ProcessLookupError):
            os.kill(int(part.slurm_job.job_id), signal.SIGTERM)

    def _submit(self, parts: Sequence[_Part]) -> None:
        """Submit a job for each part."""
        if not parts:
            return
        import submitit

        context = self.job.context
        try:
            with interrupts_blocked(), self.executor.batch():
                for part in parts:
                    part.slurm_job = self.executor.submit(compute_all, context, part.groups)
        except submitit.core.utils.FailedJobError as error:
            # Such as for an unknown partition, or more than an account may have.
            raise SlurmError(
                f"Slurm does not take the jobs: {' '.join(str(error).split())[:300]}",
                "Options follow the executor's name: --executor slurm:partition=gpu,account=me,gpus=1",
            ) from error

    def _gather(self, part: _Part, waiting: deque[_Part]) -> Iterator[CellOutcome]:
        """Yield the outcomes of a finished part; one whose job was lost waits again, or fails after the last try."""
        from submitit.core.utils import FailedJobError, UncompletedJobError

        try:
            answers = part.slurm_job.result()
        except (UncompletedJobError, FailedJobError, OSError) as error:
            part.losses += 1
            reason = _reason(error)
            if part.losses <= self.job.retries:
                self.job.reporter.note(
                    f"job {part.slurm_job.job_id} was lost ({reason[:200]}); it is submitted again"
                )
                waiting.append(part)
                return
            loss = SlurmError(
                f"{part.losses} jobs for these cells were lost, the last one, {part.slurm_job.job_id}: "
                f"{reason[:300]}",
                f"Its output: {part.slurm_job.paths.stderr}",
            )
            yield from failed(chain.from_iterable(part.groups), loss)
            return
        for answer in answers:
            for note in answer.notes:
                self.job.reporter.note(note)
            yield from answer.done


def _reason(error: Exception) -> str:
    """Return the last line of a message that names an error, or else its first line."""
    lines = str(error).strip().splitlines() or ["no output"]
    for line in reversed(lines):
        if re.match(r"[\w.]+Error: ", line):
            return line
    return lines[0]


@hookimpl
def register_executors(register: Register) -> None:
    """Register the executor ``slurm``."""
    summary = "A Slurm cluster through submitit: --executor slurm:partition=gpu,minutes=60,gpus=1"
    register("slurm", execute, summary, device)
