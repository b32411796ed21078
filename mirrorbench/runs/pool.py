"""A pool of processes on this machine, one for each GPU, on the CPU as many as requested.

A group that was lost with its worker, or for which a GPU had no memory, goes to another slot: a GPU, or a process on
the CPU. A GPU that a new process cannot use is retired at once. A later failure of a GPU may be the fault of the group
that it computes: a new process takes over, and a slot is retired if it lost two groups that no other slot lost, with no
result between them.
"""

from __future__ import annotations

import os
import signal
import time
from collections import Counter, defaultdict, deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from multiprocessing import current_process, get_context, resource_tracker
from multiprocessing.connection import Connection, wait
from typing import TYPE_CHECKING, Any

from mirrorbench.core.errors import DeviceError, StorageError, UsageError
from mirrorbench.core.hooks import Register, hookimpl
from mirrorbench.runs.cells import CellGroup
from mirrorbench.runs.executors import (
    RETRIES,
    Job,
    interrupts_blocked,
    runner_of,
    worker_devices,
)
from mirrorbench.runs.outcomes import CellOutcome, Failure, failed
from mirrorbench.storage.leases import POLL_SECONDS

if TYPE_CHECKING:
    from mirrorbench.runs.runner import Runner
    from mirrorbench.runs.worker_context import WorkerContext

SUSPICIOUS = 2
"""Number of groups that a slot alone loses one after another before it is retired: fewer may be a group's fault."""


class _UnusableError(DeviceError):
    """A new process cannot use its GPU, whatever its group."""


@contextmanager
def _defaults(**variables: str) -> Iterator[None]:
    """Set environment variables for processes started inside, unless the user has set them."""
    ours = variables.keys() - os.environ.keys()
    os.environ.update({name: variables[name] for name in ours})
    try:
        yield
    finally:
        for name in ours:
            del os.environ[name]


UNGUARDED_SCRIPT = 78
"""Exit code of a worker that is asked to start workers while it imports the script of the user."""


@hookimpl
def register_executors(register: Register) -> None:
    """Register the executor ``pool``."""
    register("pool", execute, "This machine: --workers N processes, or one for each GPU.")


def execute(job: Job) -> Iterator[CellOutcome]:
    """Compute a job in a process for each of its devices."""
    if getattr(current_process(), "_inheriting", False):
        # This process is a worker that imports the user's script, whose call brought it here. It cannot start others.
        os._exit(UNGUARDED_SCRIPT)
    devices = worker_devices(job)
    job.share()
    yield from Pool(job, devices).run()


def serve(pipe: Connection, context: WorkerContext) -> None:
    """Run a worker process: receive groups until the pipe closes, send notes and outcomes.

    After each group the worker sends whether it was computed; if not, another run has its lease. A signal ends the
    worker at once, since an exception raised there could be lost in code that ignores exceptions; the pool cleans up.
    """
    signal.signal(
        signal.SIGINT, signal.SIG_IGN
    )  # for systems that cannot block the signal in a new process
    with suppress(EOFError, ConnectionError):  # the pool is gone
        try:
            runner = runner_of(context, pipe.send)
            _enter_device(runner)
            while True:
                outcomes = runner.attempt(pipe.recv())
                for outcome in outcomes or ():
                    pipe.send(outcome)
                pipe.send(outcomes is not None)
        except DeviceError as error:
            pipe.send(error)
            os._exit(1)  # clearing up would ask the lost GPU


def _enter_device(runner: Runner) -> None:
    """Open the GPU of a worker; ``_UnusableError`` if it is missing or cannot be used."""
    try:
        _ = runner.loader
    except (UsageError, RuntimeError) as error:
        message, hint = (
            (error.message, error.hint) if isinstance(error, UsageError) else (str(error), "")
        )
        raise _UnusableError(message, hint) from error


@dataclass
class _Worker:
    """A process, its group (empty if idle), and the cells of the group that are not done."""

    process: Any
    pipe: Connection
    device: str
    slot: str
    """The GPU of the process, or on the CPU the process itself."""
    group: CellGroup = ()
    cells: CellGroup = ()
    full: list[CellOutcome] = field(default_factory=list)
    """Failures of cells for want of memory."""
    lost: DeviceError | None = None
    """Error for which the process is about to end."""
    ended: bool = False


@dataclass
class _Record:
    """The losses of a group at each slot, and the outcomes of its cells if no slot is left."""

    slots: Counter[str] = field(default_factory=Counter)
    outcomes: list[CellOutcome] = field(default_factory=list)
    full: bool = False
    """Whether the last loss was for want of memory, so that the same slot need not be tried again."""

    def is_final(self, slots: set[str]) -> bool:
        """Whether the group is not tried again at any of the remaining slots."""
        return slots <= self.slots.keys() if self.full else self.slots.total() > RETRIES


class Pool:
    """Worker processes, one for each of ``devices``."""

    def __init__(self, job: Job, devices: Sequence[str]) -> None:
        self.job = job
        self.devices = devices
        self.waiting = deque(job.groups)
        self.lost: list[CellGroup] = []
        self.records: defaultdict[str, _Record] = defaultdict(_Record)  # by the model's key
        self.suspects: defaultdict[str, set[str]] = defaultdict(
            set
        )  # keys that a slot lost, with no result since
        self.slots: set[str] = set()
        self.passed_over = 0  # consecutive groups leased by another run
        self.noted = False

    def run(self) -> Iterator[CellOutcome]:
        """Yield outcomes in the order of their arrival."""
        workers: list[_Worker] = []
        try:
            for number, device in enumerate(self.devices, 1):
                workers.append(
                    self._start(device, device if device.startswith("cuda") else f"worker {number}")
                )
                self.slots.add(workers[-1].slot)
            self.job.reporter.stage("computing", f"in {len(workers)} processes")
            while True:
                for worker in workers:
                    if not worker.group and worker.slot in self.slots:
                        self._assign(worker)
                pipes = [worker.pipe for worker in workers if worker.group]
                if not pipes:
                    return
                ready = wait(pipes)
                for number, worker in enumerate(workers):
                    if worker.pipe in ready:
                        yield from self._receive(worker)
                        if worker.ended and worker.slot in self.slots:
                            workers[number] = self._start(worker.device, worker.slot)
        finally:
            self._end(workers)

    def _end(self, workers: Sequence[_Worker]) -> None:
        for worker in workers:
            worker.pipe.close()
            if worker.group:
                worker.process.terminate()
        for worker in workers:
            worker.process.join(timeout=10)
            if worker.process.is_alive():
                worker.process.kill()
                worker.process.join()

    def _start(self, device: str, slot: str) -> _Worker:
        spawning = get_context("spawn")  # a forked process cannot use CUDA
        ours, theirs = spawning.Pipe()
        context = replace(self.job.context.on(device), share=1 / self.devices.count(device))
        process = spawning.Process(target=serve, args=(theirs, context), daemon=True)
        resource_tracker.ensure_running()  # it would start with the first process, and unblock Ctrl-C
        # While all tune there are more threads than cores, which must sleep while they wait.
        threads = max(1, context.threads // len(self.devices))
        with (
            interrupts_blocked(),
            _defaults(OMP_NUM_THREADS=str(threads), OMP_WAIT_POLICY="PASSIVE"),
        ):
            process.start()
        theirs.close()  # otherwise the pipe would stay open when the process ends
        return _Worker(process, ours, device, slot)

    def _assign(self, worker: _Worker) -> None:
        """Send a group to an idle worker: first groups that were never lost and that no other run computes."""
        if self.waiting and self.passed_over < len(self.waiting):
            cells = self.waiting.popleft()
        elif suitable := [
            cells for cells in self.lost if not self._has_better_slot(cells, worker.slot)
        ]:
            cells = suitable[0]
            self.lost.remove(cells)
        elif self.waiting:
            if not self.noted:
                self.job.reporter.note(
                    "another process is computing the remaining cells; waiting for its results"
                )
            self.noted = True
            time.sleep(POLL_SECONDS)
            self.passed_over = 0
            cells = self.waiting.popleft()
        else:
            return
        worker.group = worker.cells = cells
        worker.full = []
        with suppress(OSError):  # it died; the closed pipe will show that
            worker.pipe.send(worker.cells)

    def _has_better_slot(self, cells: CellGroup, slot: str) -> bool:
        """Whether a group was lost at a slot, but not at every slot."""
        slots_of_losses = self.records[cells[0].model.key].slots.keys()
        return slot in slots_of_losses and not self.slots <= slots_of_losses

    def _receive(self, worker: _Worker) -> Iterator[CellOutcome]:
        try:
            message: CellOutcome | DeviceError | str | bool = worker.pipe.recv()
        except (EOFError, OSError):
            yield from self._handle_death(worker)
            return
        if (
            isinstance(message, CellOutcome)
            and isinstance(message.outcome, Failure)
            and message.outcome.full
        ):
            worker.full.append(message)
        elif isinstance(message, CellOutcome):
            worker.cells = tuple(cell for cell in worker.cells if cell != message.cell)
            self.passed_over = 0
            self.suspects[worker.slot].clear()
            yield message
        elif isinstance(message, str):
            self.job.reporter.note(message)
        elif isinstance(message, DeviceError):
            worker.lost = message
        else:
            worker.group = ()
            if not message:
                self.waiting.append(worker.cells)
                self.passed_over += 1
            elif worker.full:
                yield from self._return_group(worker, "no memory left there", worker.full)

    def _handle_death(self, worker: _Worker) -> Iterator[CellOutcome]:
        """Return the group of a worker that died."""
        worker.process.join()
        if worker.process.exitcode == UNGUARDED_SCRIPT:
            raise UsageError(
                "workers are processes that import your script first, and it starts them again",
                'Put the call below the line: if __name__ == "__main__":',
            )
        worker.ended, worker.group, worker.full = True, (), []
        if isinstance(worker.lost, _UnusableError):
            self.waiting.extend([worker.cells] if worker.cells else [])
            self._retire(worker.slot, worker.lost.message, worker.lost)
            yield from self._final_outcomes()
            return
        if not worker.cells:
            return
        lost, times = worker.lost, self.records[worker.cells[0].model.key].slots.total() + 1
        cause = lost.message if lost else f"exit code {worker.process.exitcode}"
        if times <= RETRIES:
            self.job.reporter.note(
                f"{worker.cells[0].spec}: its worker process died ({cause}); another one tries again"
            )
        error = StorageError(
            f"{times} worker processes died while computing it, the last with {cause}",
            lost.hint
            if lost
            else "Exit code -9 most often means that the system is out of memory: try fewer --workers.",
        )
        yield from self._return_group(worker, cause, failed(worker.cells, error))

    def _return_group(
        self, worker: _Worker, reason: str, outcomes: list[CellOutcome]
    ) -> Iterator[CellOutcome]:
        """Leave the rest of a group to another slot; without one, ``outcomes`` are final."""
        slot, key = worker.slot, worker.cells[0].model.key
        record = self.records[key]
        record.slots[slot] += 1
        record.outcomes, record.full = outcomes, bool(worker.full)
        self.lost.append(worker.cells)
        self.suspects[slot].add(key)
        alone = [key for key in self.suspects[slot] if self.records[key].slots.keys() == {slot}]
        if len(alone) >= SUSPICIOUS and (worker.lost or self.slots - {slot}):
            for key in alone:
                self.records[key].slots[slot] = (
                    0  # not counted as a try, but another slot that loses it is not suspect
                )
            self._retire(slot, f"it lost {len(alone)} models in a row ({reason})", worker.lost)
        yield from self._final_outcomes()

    def _retire(self, slot: str, reason: str, lost: DeviceError | None) -> None:
        """Assign no more groups to a slot; raise ``lost`` if it was the last one."""
        if slot not in self.slots:
            return
        self.slots.discard(slot)
        if lost and not self.slots:
            raise lost
        self.job.reporter.note(f"{slot} is not used any more: {reason}")

    def _final_outcomes(self) -> Iterator[CellOutcome]:
        """The outcomes of the lost groups that are not tried again."""
        for cells in list(self.lost):
            record = self.records[cells[0].model.key]
            if record.is_final(self.slots):
                self.lost.remove(cells)
                yield from record.outcomes
