"""A pool of processes on this machine: one for each GPU, or as many as requested on the CPU.

A slot is a GPU, or a process on the CPU. A group that was lost with its worker, or for which a GPU had no memory, goes
to another slot. A GPU that a new process cannot use is retired at once. A later failure of a GPU may be the fault of
the group that it computes: a new process takes over, and the slot is retired if it lost two groups that no other slot
lost, with no result between them.
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

SUSPICIOUS_LOSSES = 2
"""Number of groups that only one slot lost, in a row, after which it is retired: one may be the group's fault."""


class _UnusableError(DeviceError):
    """A new process cannot use its GPU, whatever its group."""


@contextmanager
def _default_environment(**variables: str) -> Iterator[None]:
    """Set environment variables for processes started inside, unless the user has set them."""
    unset_names = variables.keys() - os.environ.keys()
    for name in unset_names:
        os.environ[name] = variables[name]
    try:
        yield
    finally:
        for name in unset_names:
            del os.environ[name]


UNGUARDED_SCRIPT = 78
"""Exit code of a worker that, while it imports the user's script, is asked to start workers itself."""


@hookimpl
def register_executors(register: Register) -> None:
    """Register the executor ``pool``."""
    register("pool", execute, "This machine: --workers N processes, or one for each GPU.")


def execute(job: Job) -> Iterator[CellOutcome]:
    """Compute a job in a process for each of its devices."""
    if getattr(current_process(), "_inheriting", False):
        # This process is a worker that is importing the user's script, which calls this function again.
        # A worker cannot start others.
        os._exit(UNGUARDED_SCRIPT)
    devices = worker_devices(job)
    job.share()
    yield from Pool(job, devices).run()


def serve(pipe: Connection, context: WorkerContext) -> None:
    """Run a worker process: receive groups until the pipe closes, send notes and outcomes.

    After each group the worker sends whether it was computed; if not, another run has its lease. A signal ends the
    worker at once, since an exception raised there could be lost in code that ignores exceptions; the pool cleans up.
    """
    # For systems that cannot block the signal in a new process.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
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
            os._exit(1)  # a normal exit would call the lost GPU


def _enter_device(runner: Runner) -> None:
    """Open the GPU of a worker; raise an ``_UnusableError`` if it is missing or cannot be used."""
    try:
        _ = runner.loader  # created at first use, it opens the GPU
    except UsageError as error:
        raise _UnusableError(error.message, error.hint) from error
    except RuntimeError as error:
        raise _UnusableError(str(error)) from error


@dataclass
class _Worker:
    """A process, and the group that it computes."""

    process: Any
    pipe: Connection
    device: str
    slot: str
    """The GPU of the process, or on the CPU the process itself."""
    group: CellGroup = ()
    """The group, empty if the process is idle."""
    pending: CellGroup = ()
    """The cells of the group that are not done."""
    memory_failures: list[CellOutcome] = field(default_factory=list)
    """Failures of cells for lack of memory."""
    device_error: DeviceError | None = None
    """The error that is about to end the process."""
    ended: bool = False
    """Whether the process has ended, and another one may be started."""


@dataclass
class _Record:
    """The losses of a group, which decide whether it is tried again."""

    losses: Counter[str] = field(default_factory=Counter)
    """Number of losses at each slot."""
    outcomes: list[CellOutcome] = field(default_factory=list)
    """The outcomes of its cells if it is not tried again."""
    memory_is_full: bool = False
    """Whether the last loss was for lack of memory, so that the same slot need not be tried again."""

    def is_final(self, slots: set[str]) -> bool:
        """Return whether the group is not tried again at any of the remaining slots."""
        if self.memory_is_full:
            return slots <= self.losses.keys()
        return self.losses.total() > RETRIES


class Pool:
    """Worker processes, one for each of ``devices``."""

    def __init__(self, job: Job, devices: Sequence[str]) -> None:
        self.job = job
        self.devices = devices
        self.waiting = deque(job.groups)
        self.lost_groups: list[CellGroup] = []
        # By the key of the group's model.
        self.records: defaultdict[str, _Record] = defaultdict(_Record)
        # By slot: keys of the models that it lost since its last result.
        self.lost_models: defaultdict[str, set[str]] = defaultdict(set)
        # Slots that are not retired.
        self.slots: set[str] = set()
        # Consecutive groups leased by another run.
        self.n_held_elsewhere = 0
        self.noted_waiting = False

    def run(self) -> Iterator[CellOutcome]:
        """Yield outcomes in the order of their arrival."""
        workers: list[_Worker] = []
        try:
            for number, device in enumerate(self.devices, 1):
                slot = device if device.startswith("cuda") else f"worker {number}"
                workers.append(self._start(device, slot))
                self.slots.add(slot)
            self.job.reporter.stage("computing", f"in {len(workers)} processes")
            while True:
                # Give idle workers a group, except those of retired slots.
                for worker in workers:
                    if not worker.group and worker.slot in self.slots:
                        self._assign(worker)
                # No worker has a group, and none got one: all groups are done.
                pipes = [worker.pipe for worker in workers if worker.group]
                if not pipes:
                    return
                ready = wait(pipes)
                for number, worker in enumerate(workers):
                    if worker.pipe not in ready:
                        continue
                    yield from self._receive(worker)
                    # Replace a process that died, unless its slot was retired.
                    if worker.ended and worker.slot in self.slots:
                        workers[number] = self._start(worker.device, worker.slot)
        finally:
            self._end(workers)

    def _end(self, workers: Sequence[_Worker]) -> None:
        """End all workers; those at work are terminated."""
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
        """Start a worker process on a device."""
        spawning = get_context("spawn")  # a forked process cannot use CUDA
        ours, theirs = spawning.Pipe()
        context = replace(self.job.context.on(device), share=1 / self.devices.count(device))
        process = spawning.Process(target=serve, args=(theirs, context), daemon=True)
        # The tracker would start with the first process, and unblock Ctrl-C.
        resource_tracker.ensure_running()
        # While all workers tune, there are more threads than cores: threads must sleep while they wait.
        threads = max(1, context.threads // len(self.devices))
        with (
            interrupts_blocked(),
            _default_environment(OMP_NUM_THREADS=str(threads), OMP_WAIT_POLICY="PASSIVE"),
        ):
            process.start()
        theirs.close()  # otherwise the pipe would stay open when the process ends
        return _Worker(process, ours, device, slot)

    def _assign(self, worker: _Worker) -> None:
        """Send the next group to an idle worker, if there is one."""
        cells = self._next_group(worker.slot)
        if not cells:
            return
        worker.group = cells
        worker.pending = cells
        worker.memory_failures = []
        with suppress(OSError):  # the worker died; the closed pipe will show that
            worker.pipe.send(cells)

    def _next_group(self, slot: str) -> CellGroup:
        """Return the next group for a slot; empty if there is none.

        Groups that were never lost and that no other process computes come first, then groups that a worker lost, then
        those that another process computes, after a pause.
        """
        # Groups found held by another process are put back at the end of ``waiting``, and counted: those before them
        # have not been tried.
        if self.n_held_elsewhere < len(self.waiting):
            return self.waiting.popleft()
        # Groups whose worker died, or for which a slot had no memory.
        for cells in self.lost_groups:
            if not self._has_better_slot(cells, slot):
                self.lost_groups.remove(cells)
                return cells
        if not self.waiting:
            return ()
        # Other processes compute all groups that are left: try each of them again.
        if not self.noted_waiting:
            self.job.reporter.note(
                "another process is computing the remaining cells; waiting for its results"
            )
            self.noted_waiting = True
        time.sleep(POLL_SECONDS)
        self.n_held_elsewhere = 0
        return self.waiting.popleft()

    def _has_better_slot(self, cells: CellGroup, slot: str) -> bool:
        """Return whether a group was lost at this slot, but not at every slot."""
        slots_of_losses = self.records[cells[0].model.key].losses.keys()
        return slot in slots_of_losses and not self.slots <= slots_of_losses

    def _receive(self, worker: _Worker) -> Iterator[CellOutcome]:
        """Handle a message of a worker, or its death; yield the outcomes that are final now.

        A message is the outcome of a cell, a note, the error of the device that ends the process, or, at the end of a
        group, whether it was computed (``False`` if another run has its lease).
        """
        try:
            message: CellOutcome | DeviceError | str | bool = worker.pipe.recv()
        except (EOFError, OSError):
            yield from self._handle_death(worker)
            return
        if isinstance(message, CellOutcome):
            outcome = message.outcome
            if isinstance(outcome, Failure) and outcome.full:
                # Not final: the cell stays pending, since another slot may have more memory.
                worker.memory_failures.append(message)
                return
            worker.pending = tuple(cell for cell in worker.pending if cell != message.cell)
            # Time has passed: groups that other processes held may be free.
            self.n_held_elsewhere = 0
            # The slot works, so its earlier losses do not count against it.
            self.lost_models[worker.slot].clear()
            yield message
        elif isinstance(message, str):
            self.job.reporter.note(message)
        elif isinstance(message, DeviceError):
            worker.device_error = message
        else:
            # The worker is idle.
            worker.group = ()
            was_computed = message
            if not was_computed:
                self.waiting.append(worker.pending)
                self.n_held_elsewhere += 1
            elif worker.memory_failures:
                yield from self._requeue_group(
                    worker, "no memory left there", worker.memory_failures
                )

    def _handle_death(self, worker: _Worker) -> Iterator[CellOutcome]:
        """Leave the group of a worker that died to another process; yield the outcomes that are final now.

        Raises:
            UsageError: the worker was asked to start workers itself.
            DeviceError: no slot can be used any more.
        """
        worker.process.join()
        if worker.process.exitcode == UNGUARDED_SCRIPT:
            raise UsageError(
                "workers are processes that import your script first, and it starts them again",
                'Put the call below the line: if __name__ == "__main__":',
            )
        worker.ended = True
        worker.group = ()
        worker.memory_failures = []  # their cells are still pending
        device_error = worker.device_error
        # The group is not to blame if the GPU cannot be used at all.
        if isinstance(device_error, _UnusableError):
            if worker.pending:
                self.waiting.append(worker.pending)
            self._retire(worker.slot, device_error.message, device_error)
            yield from self._final_outcomes()
            return
        # The process had no cells left to compute.
        if not worker.pending:
            return
        if device_error:
            cause = device_error.message
            hint = device_error.hint
        else:
            cause = f"exit code {worker.process.exitcode}"
            hint = "Exit code -9 most often means that the system is out of memory: try fewer --workers."
        first = worker.pending[0]
        n_deaths = self.records[first.model.key].losses.total() + 1  # with this one
        if n_deaths <= RETRIES:
            self.job.reporter.note(
                f"{first.spec}: its worker process died ({cause}); another one tries again"
            )
        error = StorageError(
            f"{n_deaths} worker processes died while computing it, the last with {cause}", hint
        )
        yield from self._requeue_group(worker, cause, failed(worker.pending, error))

    def _requeue_group(
        self, worker: _Worker, reason: str, outcomes: list[CellOutcome]
    ) -> Iterator[CellOutcome]:
        """Record the loss of a group, queue what is left of it, and retire the slot if that seems to be at fault.

        Yield the outcomes of lost groups that are not tried again. ``outcomes``: what to yield for this group if it is
        one of them.
        """
        slot = worker.slot
        key = worker.pending[0].model.key
        record = self.records[key]
        record.losses[slot] += 1
        record.outcomes = outcomes
        record.memory_is_full = bool(worker.memory_failures)
        self.lost_groups.append(worker.pending)
        self.lost_models[slot].add(key)
        # If only this slot lost these groups, the slot may be at fault, not the groups.
        lost_here_only = [
            self.records[lost_key]
            for lost_key in self.lost_models[slot]
            if self.records[lost_key].losses.keys() == {slot}
        ]
        # The last slot is retired only for an error of its device.
        may_retire = bool(worker.device_error or self.slots - {slot})
        if len(lost_here_only) >= SUSPICIOUS_LOSSES and may_retire:
            # Do not count these losses against the groups. The key of the slot stays, with a count of 0: another slot
            # that loses such a group is then not the only one, and is not blamed.
            for record_of_group in lost_here_only:
                record_of_group.losses[slot] = 0
            cause = f"it lost {len(lost_here_only)} models in a row ({reason})"
            self._retire(slot, cause, worker.device_error)
        yield from self._final_outcomes()

    def _retire(self, slot: str, reason: str, device_error: DeviceError | None) -> None:
        """Assign no more groups to a slot; raise ``device_error``, if there is one, for the last slot."""
        if slot not in self.slots:
            return
        self.slots.discard(slot)
        if device_error and not self.slots:
            raise device_error
        self.job.reporter.note(f"{slot} is not used any more: {reason}")

    def _final_outcomes(self) -> Iterator[CellOutcome]:
        """Yield the outcomes of the lost groups that are not tried again."""
        for cells in list(self.lost_groups):
            record = self.records[cells[0].model.key]
            if record.is_final(self.slots):
                self.lost_groups.remove(cells)
                yield from record.outcomes
