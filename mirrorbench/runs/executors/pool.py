"""A pool of worker processes that outlives its workers: a group whose worker died goes to another one."""

from __future__ import annotations

import signal
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from multiprocessing import get_context, resource_tracker
from multiprocessing.connection import Connection, wait
from typing import Any

from mirrorbench.core.errors import StorageError
from mirrorbench.core.locks import POLL_SECONDS, Leases
from mirrorbench.core.progress import Silent
from mirrorbench.runs.cells import CellGroup, CellOutcome, failed
from mirrorbench.runs.executors import RETRIES, Job, SharedCorpora, deaf_to_interrupts
from mirrorbench.runs.workspace import WorkerContext

_BUSY, _FREE = "busy", "free"
"""What a worker says besides outcomes and notes: another run has the group's lease; the group is finished."""


class _Speaker(Silent):
    """A worker's reporter: sends notes to the pool."""

    def __init__(self, pipe: Connection) -> None:
        self.pipe = pipe

    def note(self, message: str) -> None:
        """Something worth saying that stops nothing."""
        self.pipe.send((message, None))


def serve(pipe: Connection, context: WorkerContext) -> None:
    """The worker process: receives groups until the pipe closes, sends outcomes.

    It ends at once when it is told to, wherever it is: an exception that a signal raises may be lost in code that
    passes over exceptions. What it leaves behind the pool clears away.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # for systems that cannot start a process deaf to it
    workspace = context.workspace(_Speaker(pipe))
    runner, corpora = workspace.runner(), SharedCorpora(workspace.cache)
    while True:
        try:
            cells = pipe.recv()
            done = runner.attempt(cells, corpora)
            for item in done or ():
                pipe.send((None, item))
            pipe.send((_FREE if done is not None else _BUSY, None))
        except (EOFError, ConnectionError):  # the pool is gone
            return


@dataclass
class _Worker:
    """A process, the group that it is at work on, and its cells that are not done."""

    process: Any
    pipe: Connection
    group: CellGroup = ()
    cells: CellGroup = ()
    at_work: bool = False


class Pool:
    """Worker processes, one for each of ``devices``.

    Args:
        job: what to compute.
        devices: ``cpu``, ``cuda:0`` ...
    """

    def __init__(self, job: Job, devices: Sequence[str]) -> None:
        self.job = job
        self.devices = devices
        self.waiting = deque(job.groups)
        self.deaths: dict[str, int] = {}
        self.busy = 0  # groups in a row that another run holds
        self.told = False

    def run(self) -> Iterator[CellOutcome]:
        """Outcomes as they come."""
        workers: list[_Worker] = []
        try:
            workers += (self._start(device) for device in self.devices)
            for worker in workers:
                self._give(worker)
            while any(worker.at_work for worker in workers):
                ready = wait([worker.pipe for worker in workers if worker.at_work])
                for number, worker in enumerate(workers):
                    if worker.pipe in ready:
                        try:
                            yield from self._hear(worker)
                        except (EOFError, OSError):
                            yield from self._bury(worker)
                            workers[number] = self._start(self.devices[number])
                            self._give(workers[number])
                for worker in workers:
                    if not worker.at_work:
                        self._give(worker)
        finally:
            _end(workers)
            for worker in workers:
                if worker.at_work:
                    self._clear_away(worker.group)

    def _start(self, device: str) -> _Worker:
        context = get_context("spawn")  # a forked process cannot use CUDA
        ours, theirs = context.Pipe()
        process = context.Process(target=serve, args=(theirs, replace(self.job.context, device=device)), daemon=True)
        resource_tracker.ensure_running()  # with the first process it would start, and let Ctrl-C through again
        with deaf_to_interrupts():
            process.start()
        theirs.close()  # or the end of the process would not end the pipe
        return _Worker(process, ours)

    def _give(self, worker: _Worker) -> None:
        if not self.waiting:
            return
        if self.busy >= len(self.waiting):
            if not self.told:
                self.job.reporter.note("another process is at work on what is left; waiting for its results")
            self.told = True
            time.sleep(POLL_SECONDS)
            self.busy = 0
        worker.group = worker.cells = self.waiting.popleft()
        worker.at_work = True
        try:
            worker.pipe.send(worker.cells)
        except OSError:  # it died meanwhile: the pipe's end will say so
            return

    def _hear(self, worker: _Worker) -> Iterator[CellOutcome]:
        word, done = worker.pipe.recv()
        if done is not None:
            worker.cells = tuple(cell for cell in worker.cells if cell != done.cell)
            self.busy = 0
            yield done
        elif word == _BUSY:
            self.waiting.append(worker.cells)
            worker.at_work, self.busy = False, self.busy + 1
        elif word == _FREE:
            worker.at_work = False
        else:
            self.job.reporter.note(word)

    def _clear_away(self, group: CellGroup) -> None:
        """Give back the leases of a worker that died at a group, and remove what it left half-written."""
        model = group[0].model
        results, cache = self.job.workspace.results, self.job.workspace.cache
        with suppress(StorageError):
            with _of_the_dead(results.leases, model.key) as mine:
                for cell in group if mine else ():
                    results.sweep(cell)
            for key in (model.key, *(member.key for _, member in model.members)):
                with _of_the_dead(cache.leases, key) as mine:
                    if mine:
                        cache.sweep_model(key)

    def _bury(self, worker: _Worker) -> Iterator[CellOutcome]:
        """Let another worker try what a dead one had, unless it has cost too many already."""
        worker.process.join()
        self._clear_away(worker.group)
        if not worker.cells:
            return
        key = worker.cells[0].model.key
        self.deaths[key] = self.deaths.get(key, 0) + 1
        how = f"exit code {worker.process.exitcode}"
        if self.deaths[key] <= RETRIES:
            self.job.reporter.note(f"{worker.cells[0].spec}: its worker process died ({how}); another one tries again")
            self.waiting.appendleft(worker.cells)
            return
        error = StorageError(
            f"{self.deaths[key]} worker processes died at it, the last with {how}",
            "Exit code -9 is most often the system's want of memory: try fewer --workers.",
        )
        yield from failed(worker.cells, error)


@contextmanager
def _of_the_dead(leases: Leases, key: str) -> Iterator[bool]:
    """A lease that somebody left, given back at the end; and whether it was one, of somebody who has ended."""
    held = leases.take(key) if leases.holder(key) else None
    with held or nullcontext():
        yield held is not None


def _end(workers: Sequence[_Worker]) -> None:
    for worker in workers:
        worker.pipe.close()
        if worker.at_work:
            worker.process.terminate()
    for worker in workers:
        worker.process.join(timeout=10)
        if worker.process.is_alive():
            worker.process.kill()
            worker.process.join()
