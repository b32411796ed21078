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
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mirrorbench import hookimpl
from mirrorbench.core.devices import worker_device
from mirrorbench.core.errors import MirrorbenchError, UsageError
from mirrorbench.runs.cells import CellGroup
from mirrorbench.runs.executors import RETRIES, GroupOutcome, Job, compute, interrupts_blocked
from mirrorbench.runs.outcomes import CellOutcome, failed

if TYPE_CHECKING:
    from mirrorbench.core.hooks import Register
    from mirrorbench.core.specs import Value
    from mirrorbench.runs.worker_context import WorkerContext

POLL_SECONDS = {"slurm": 10.0, "local": 0.2, "debug": 0.0}
"""Seconds between two checks of the jobs, by cluster; submitit asks Slurm once for all of them."""


class SlurmError(MirrorbenchError):
    """A job cannot be submitted, or was lost too often."""


@dataclass
class _Part:
    """The groups of one job."""

    groups: tuple[CellGroup, ...]
    job: Any = None
    losses: int = 0


def compute_all(context: WorkerContext, groups: Sequence[CellGroup]) -> list[GroupOutcome]:
    """Compute groups in a job; a cancelled job returns its lease, or other runs would wait for it.

    A job that loses its GPU raises, which ends its process: it counts as lost.
    """
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)  # submitit ignores it
    try:
        return [compute(context, cells) for cells in groups]
    finally:
        signal.signal(signal.SIGTERM, before)


def device(asked: str, options: Mapping[str, Value]) -> str:
    """Return the device of the jobs: a GPU if they request one; Slurm's nodes may have one that is not here."""
    return worker_device(
        asked, options.get("gpus"), here=options.get("cluster", "slurm") != "slurm"
    )


def execute(job: Job) -> Iterator[CellOutcome]:
    """Compute a job as a Slurm array.

    Options: ``workers`` (most jobs at a time, 16), ``groups`` (number of groups of cells in a job, 1), ``partition``,
    ``account``, ``minutes`` (of a job, 60), ``memory`` (GB, 16), ``cpus`` (4), ``gpus`` (1 for a CUDA device, else 0),
    ``cluster`` (``slurm``; ``local`` runs the jobs as processes of this machine, ``debug`` in this process).
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
    job.share()
    size = int(options["groups"])
    parts = [_Part(job.groups[start : start + size]) for start in range(0, len(job.groups), size)]
    yield from _Array(job, options, cluster).run(parts)


class _Array:
    """An array of jobs: submission, monitoring, cancellation."""

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
        named = {"slurm_partition": options["partition"], "slurm_account": options["account"]}
        self.executor.update_parameters(
            name="mirrorbench",
            timeout_min=options["minutes"],
            mem_gb=options["memory"],
            cpus_per_task=options["cpus"],
            gpus_per_node=options["gpus"],
            slurm_array_parallelism=self.limit,
            **{name: value for name, value in named.items() if value},
        )

    def run(self, parts: list[_Part]) -> Iterator[CellOutcome]:
        """Yield outcomes in the order of their arrival."""
        waiting = deque(parts)
        running: list[_Part] = []
        try:
            while waiting or running:
                # Slurm itself holds back excess jobs; nothing would hold back processes of this machine.
                count = (
                    len(waiting) if self.executor.cluster == "slurm" else self.limit - len(running)
                )
                batch = [waiting.popleft() for _ in range(min(count, len(waiting)))]
                self._submit(batch)
                running += batch
                for part in [part for part in running if part.job.done()]:
                    running.remove(part)
                    yield from self._gather(part, waiting)
                time.sleep(self.poll if running else 0)
        finally:
            for part in running:
                self._cancel(part)

    def _cancel(self, part: _Part) -> None:
        if self.executor.cluster != "local":
            part.job.cancel(
                check=False
            )  # no error for a job that Slurm no longer knows, so that the others are cancelled too
            return
        with suppress(
            ProcessLookupError
        ):  # submitit's signal makes its controller print a traceback
            os.kill(int(part.job.job_id), signal.SIGTERM)

    def _submit(self, parts: Sequence[_Part]) -> None:
        if not parts:
            return
        import submitit

        try:
            with interrupts_blocked(), self.executor.batch():
                for part in parts:
                    part.job = self.executor.submit(compute_all, self.job.context, part.groups)
        except (
            submitit.core.utils.FailedJobError
        ) as error:  # an unknown partition, more than an account may have ...
            raise SlurmError(
                f"Slurm does not take the jobs: {' '.join(str(error).split())[:300]}",
                "Options follow the executor's name: --executor slurm:partition=gpu,account=me,gpus=1",
            ) from error

    def _gather(self, part: _Part, waiting: deque[_Part]) -> Iterator[CellOutcome]:
        import submitit

        try:
            answers = part.job.result()
        except (
            submitit.core.utils.UncompletedJobError,
            submitit.core.utils.FailedJobError,
            OSError,
        ) as error:
            part.losses += 1
            lines = str(error).strip().splitlines() or ["no output"]
            first = next(
                (line for line in reversed(lines) if re.match(r"[\w.]+Error: ", line)), lines[0]
            )
            if part.losses <= RETRIES:
                self.job.reporter.note(
                    f"job {part.job.job_id} was lost ({first[:200]}); it is submitted again"
                )
                waiting.append(part)
                return
            lost = SlurmError(
                f"{part.losses} jobs were lost at it, the last was {part.job.job_id}: {first[:300]}",
                f"Its output: {part.job.paths.stderr}",
            )
            yield from failed((cell for cells in part.groups for cell in cells), lost)
            return
        for answer in answers:
            for note in answer.notes:
                self.job.reporter.note(note)
            yield from answer.done


@hookimpl
def register_executors(register: Register) -> None:
    """Register the executor ``slurm``."""
    summary = "A Slurm cluster through submitit: --executor slurm:partition=gpu,minutes=60,gpus=1"
    register("slurm", execute, summary, device)
