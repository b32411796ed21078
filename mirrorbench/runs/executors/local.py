"""The executor ``local``: in this process, or in a pool of processes on this machine.

One worker process for each GPU where there are several, each pinned to its own; on the CPU this process, or as many
workers as are asked for. The pool outlives its workers: a group whose worker died goes to another one.
"""

from __future__ import annotations

import os
import signal
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from multiprocessing import get_context, resource_tracker
from multiprocessing.connection import Connection, wait
from typing import TYPE_CHECKING, Any

from mirrorbench import hookimpl
from mirrorbench.core.errors import StorageError, UsageError
from mirrorbench.core.locks import POLL_SECONDS, Leases
from mirrorbench.runs.cells import CellGroup, CellOutcome, failed
from mirrorbench.runs.executors import RETRIES, Job, NoteReporter, SharedCorpora, interrupts_blocked

if TYPE_CHECKING:
    from mirrorbench.core.hooks import Register
    from mirrorbench.runs.workspace import WorkerContext

_LEASED, _FINISHED = "leased", "finished"
"""What a worker says of a group: another run has its lease; every cell was told of."""


@hookimpl
def register_executors(register: Register) -> None:
    """Make the executor known."""
    register("local", execute, "This machine: in process, --workers N processes, or one process for each GPU.")


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
    busy = len(devices) * job.context.threads
    if job.context.device == "cpu" and busy > (cores := os.cpu_count() or 1):
        job.reporter.note(
            f"{len(devices)} workers of {job.context.threads} threads on {cores} cores: "
            f"OMP_NUM_THREADS={max(1, cores // len(devices))} would be faster"
        )
    job.share()
    yield from _Pool(job, devices).run()


def devices_for(device: str, workers: int) -> list[str]:
    """A device for each worker: every GPU for ``cuda``, in turn where there are more workers; else the one device."""
    if device == "cuda":
        import torch

        gpus = max(1, torch.cuda.device_count())
        return [f"cuda:{n % gpus}" for n in range(workers or gpus)]
    return [device] * max(1, workers)


def serve(pipe: Connection, context: WorkerContext) -> None:
    """A worker process: receives groups until the pipe closes, sends notes and outcomes.

    It ends at once when it is told to, wherever it is: an exception that a signal raises may be lost in code that
    passes over exceptions. What it leaves behind the pool clears away.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # for systems that cannot block it in a new process
    workspace = context.workspace(NoteReporter(lambda message: pipe.send((message, None))))
    runner, corpora = workspace.runner(), SharedCorpora(workspace.cache)
    with suppress(EOFError, ConnectionError):  # the pool is gone
        while True:
            outcomes = runner.attempt(pipe.recv(), corpora)
            for outcome in outcomes or ():
                pipe.send((None, outcome))
            pipe.send((_LEASED if outcomes is None else _FINISHED, None))


@dataclass
class _Worker:
    """A process, the group that it is at work on (empty if on none), and those of its cells that are not done."""

    process: Any
    pipe: Connection
    group: CellGroup = ()
    cells: CellGroup = ()


class _Pool:
    """Worker processes, one for each of ``devices``."""

    def __init__(self, job: Job, devices: Sequence[str]) -> None:
        self.job = job
        self.devices = devices
        self.waiting = deque(job.groups)
        self.deaths: Counter[str] = Counter()  # by the model's key
        self.passed_over = 0  # groups in a row that another run has the lease of
        self.told = False

    def run(self) -> Iterator[CellOutcome]:
        """Outcomes as they come."""
        workers: list[_Worker] = []
        try:
            workers += (self._start(device) for device in self.devices)
            while True:
                for worker in workers:
                    if not worker.group and self.waiting:
                        self._give(worker)
                pipes = [worker.pipe for worker in workers if worker.group]
                if not pipes:
                    return
                ready = wait(pipes)
                for number, worker in enumerate(workers):
                    if worker.pipe in ready:
                        try:
                            yield from self._receive(worker)
                        except (EOFError, OSError):
                            yield from self._retry(worker)
                            workers[number] = self._start(self.devices[number])
        finally:
            for worker in workers:
                worker.pipe.close()
                if worker.group:
                    worker.process.terminate()
            for worker in workers:
                worker.process.join(timeout=10)
                if worker.process.is_alive():
                    worker.process.kill()
                    worker.process.join()
                self._clear_away(worker)

    def _start(self, device: str) -> _Worker:
        context = get_context("spawn")  # a forked process cannot use CUDA
        ours, theirs = context.Pipe()
        process = context.Process(target=serve, args=(theirs, replace(self.job.context, device=device)), daemon=True)
        resource_tracker.ensure_running()  # with the first process it would start, and let Ctrl-C through again
        with interrupts_blocked():
            process.start()
        theirs.close()  # or the end of the process would not end the pipe
        return _Worker(process, ours)

    def _give(self, worker: _Worker) -> None:
        if self.passed_over >= len(self.waiting):
            if not self.told:
                self.job.reporter.note("another process is at work on what is left; waiting for its results")
            self.told = True
            time.sleep(POLL_SECONDS)
            self.passed_over = 0
        worker.group = worker.cells = self.waiting.popleft()
        with suppress(OSError):  # it died meanwhile: the pipe's end will say so
            worker.pipe.send(worker.cells)

    def _receive(self, worker: _Worker) -> Iterator[CellOutcome]:
        message, outcome = worker.pipe.recv()
        if outcome is not None:
            worker.cells = tuple(cell for cell in worker.cells if cell != outcome.cell)
            self.passed_over = 0
            yield outcome
        elif message == _FINISHED:
            worker.group = ()
        elif message == _LEASED:
            self.waiting.append(worker.cells)
            worker.group, self.passed_over = (), self.passed_over + 1
        else:
            self.job.reporter.note(message)

    def _retry(self, worker: _Worker) -> Iterator[CellOutcome]:
        """Let another worker try what a dead one had, unless it has cost too many already."""
        worker.process.join()
        self._clear_away(worker)
        if not worker.cells:
            return
        key, how = worker.cells[0].model.key, f"exit code {worker.process.exitcode}"
        self.deaths[key] += 1
        if self.deaths[key] <= RETRIES:
            self.job.reporter.note(f"{worker.cells[0].spec}: its worker process died ({how}); another one tries again")
            self.waiting.appendleft(worker.cells)
            return
        error = StorageError(
            f"{self.deaths[key]} worker processes died at it, the last with {how}",
            "Exit code -9 is most often the system's want of memory: try fewer --workers.",
        )
        yield from failed(worker.cells, error)

    def _clear_away(self, worker: _Worker) -> None:
        """Give back the leases of a worker that died at a group, and remove what it left half-written."""
        if not worker.group:
            return
        results, cache, model = self.job.workspace.results, self.job.workspace.cache, worker.group[0].model
        left: list[tuple[Leases, str, Callable[[], None]]]
        left = [(results.leases, model.key, partial(results.sweep, *worker.group))]
        left += [(cache.leases, m.key, partial(cache.sweep_model, m.key)) for m in model.with_members()]
        for leases, key, sweep in left:
            with suppress(StorageError):
                if leases.holder(key) and (held := leases.take(key)):
                    with held:
                        sweep()
