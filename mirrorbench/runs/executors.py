"""Executors: the interface of jobs and workers, and the executor ``local``.

An executor (hook ``register_executors``) is a function from a ``Job`` to the outcomes of its cells. It hands each group
of cells to a worker in any process, which calls ``compute``: that takes the group's lease and stores the results before
it returns. So results do not depend on the executor, and a worker that dies loses one group at most.

``local`` computes in this process or in a pool of processes: by default one for each GPU where there are several, on
the CPU as many as requested. A group whose worker died goes to another worker.
"""

from __future__ import annotations

import os
import platform
import signal
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cache, partial
from multiprocessing import get_context, resource_tracker
from multiprocessing.connection import Connection, wait
from typing import TYPE_CHECKING, Any, NamedTuple

from mirrorbench.core.devices import check_half_precision, gpu_count
from mirrorbench.core.errors import DeviceError, StorageError, UsageError, unknown_name
from mirrorbench.core.files import POLL_SECONDS, Leases
from mirrorbench.core.hooks import hookimpl
from mirrorbench.core.shown import NO_TEXTS, without_texts
from mirrorbench.core.specs import Value
from mirrorbench.data.corpora import Corpus
from mirrorbench.runs.cells import CellGroup, CellOutcome, CorpusRef, Reporter, failed

if TYPE_CHECKING:
    from mirrorbench.core.hooks import Register
    from mirrorbench.runs.cache import Cache
    from mirrorbench.runs.runner import Runner
    from mirrorbench.runs.workspace import WorkerContext, Workspace

RETRIES = 2
"""How often a group is tried again after its worker died."""


@dataclass(frozen=True)
class Job:
    """What an executor is given.

    Attributes:
        groups: cells that share their model, each group for one worker.
        corpora: the strings to tune on.
        context: the argument of ``compute`` for workers.
        options: ``workers``, ``address``, and the options after the executor's name; ``known`` refuses unknown ones.
        reporter: reports progress.
        workspace: the workspace of this process.
    """

    groups: tuple[CellGroup, ...]
    corpora: Mapping[CorpusRef, Corpus]
    context: WorkerContext
    options: Mapping[str, Value]
    reporter: Reporter
    workspace: Workspace

    def known(self, **defaults: Value) -> dict[str, Value]:
        """The options, with defaults for those not given.

        Args:
            **defaults: every option that the executor has, with its default.

        Raises:
            UsageError: an option is not among the defaults, or its value is of another type.
        """
        found = dict(defaults)
        for key, value in self.options.items():
            if key not in defaults:
                raise unknown_name("executor option", key, list(defaults))
            want = type(defaults[key])
            if want in (str, float) and type(value) is int:  # a name of digits, or a whole number for a float
                value = want(value)
            if type(value) is not want:
                raise UsageError(f"executor option {key}={value} is not of type {want.__name__}")
            found[key] = value
        return found

    def share(self) -> None:
        """Write the corpora into the cache, where workers in other processes find them.

        Raises:
            StorageError: the cache cannot be written.
            UsageError: texts are to be left out of what is stored.
        """
        if self.corpora and without_texts():
            raise UsageError(
                f"workers find the strings to tune on in the cache, and {NO_TEXTS} keeps texts out of it",
                "Run with one worker on this machine, or without that variable.",
            )
        for ref, corpus in self.corpora.items():
            self.workspace.cache.save_corpus(ref.sha256, corpus.texts)


class Executor(NamedTuple):
    """What ``register_executors`` registers."""

    execute: Callable[[Job], Iterator[CellOutcome]]
    device: Callable[[str, Mapping[str, Value]], str] | None
    """The device of workers elsewhere, from ``--device`` and the options; ``None`` for workers of this machine."""


class SharedCorpora(dict[CorpusRef, Corpus]):
    """The corpora that ``Job.share`` wrote into the cache, each read at first use."""

    def __init__(self, cache: Cache) -> None:
        super().__init__()
        self.cache = cache

    def __missing__(self, ref: CorpusRef) -> Corpus:
        texts = self.cache.corpus(ref.sha256)
        if texts is None:
            raise StorageError(
                f"the corpus {ref.name} is not in the cache {self.cache.root} of this worker",
                "Workers need the cache folder of the run: name one on a shared file system, MIRRORBENCH_CACHE=DIR.",
            )
        self[ref] = Corpus(ref.name, texts, ref.sha256, "the cache", len(texts), 0)
        return self[ref]


class NoteReporter(Reporter):
    """The reporter of a worker, which only passes notes to ``send``."""

    def __init__(self, send: Callable[[str], None]) -> None:
        self.send = send

    def note(self, message: str) -> None:
        """Pass the note on."""
        self.send(message)


@dataclass(frozen=True)
class GroupOutcome:
    """What ``compute`` returns: the outcomes of a group's cells, and notes for the user."""

    done: tuple[CellOutcome, ...]
    notes: tuple[str, ...] = ()


def compute(context: WorkerContext, cells: CellGroup) -> GroupOutcome:
    """Compute a group of cells, or wait for another process that computes it; called by the workers of every executor.

    The process keeps loaded data for the next group of the same context.

    Args:
        context: the job's.
        cells: one of the job's groups.

    Returns:
        The outcomes of all cells of the group.

    Raises:
        DeviceError: this process can use its GPU no longer. It must end, and the group be tried in another one.
    """
    runner, notes = _runner(context), list[str]()
    runner.workspace.reporter = NoteReporter(notes.append)
    try:
        _check_device(runner.workspace, cells)
    except UsageError as error:
        return GroupOutcome(tuple(failed(cells, error)))
    return GroupOutcome(tuple(runner.compute([cells])), tuple(notes))


def _check_device(workspace: Workspace, cells: CellGroup) -> None:
    """Raise where this machine is not what the run was planned for."""
    precisions = {cell.precision for cell in cells}
    precisions |= {model.precision for cell in cells for model in cell.model.with_members()}
    try:
        check_half_precision(workspace.torch_device, precisions)
    except UsageError as error:
        raise UsageError(
            f"the worker on {platform.node()} is not what the run was planned for: {error.message}",
            f"{error.hint} What workers have is planned by --device, --precision, and the executor's option gpus.",
        ) from error


@cache
def _runner(context: WorkerContext) -> Runner:
    workspace = context.workspace()
    return workspace.runner(SharedCorpora(workspace.cache))


@contextmanager
def interrupts_blocked() -> Iterator[None]:
    """Processes started inside ignore Ctrl-C, which a terminal sends to them too; their parent ends them."""
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # new processes inherit what is blocked
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def _defaults(**variables: str) -> Iterator[None]:
    """Environment variables of processes started inside, where the user has set none."""
    ours = variables.keys() - os.environ.keys()
    os.environ.update({name: variables[name] for name in ours})
    try:
        yield
    finally:
        for name in ours:
            del os.environ[name]


@hookimpl
def register_executors(register: Register) -> None:
    """The executor ``local``."""
    register("local", execute, "This machine: in process, --workers N processes, or one process for each GPU.")


def execute(job: Job) -> Iterator[CellOutcome]:
    """Compute a job on this machine."""
    workers = job.known(workers=0)["workers"]
    assert isinstance(workers, int)
    if workers < 0:
        raise UsageError(f"{workers} workers cannot compute anything")
    devices = devices_for(job.context.device, workers)[: len(job.groups)]
    if len(devices) == 1 and workers < 2:
        yield from job.workspace.runner(job.corpora).compute(job.groups)
        return
    job.share()
    yield from _Pool(job, devices).run()


def devices_for(device: str, workers: int) -> list[str]:
    """A device for each worker: all GPUs in turn for ``cuda``, otherwise the given device."""
    if device == "cuda":
        gpus = max(1, gpu_count())
        return [f"cuda:{n % gpus}" for n in range(workers or gpus)]
    return [device] * max(1, workers)


def serve(pipe: Connection, context: WorkerContext) -> None:
    """A worker process: receives groups until the pipe closes, sends notes and outcomes.

    After each group it sends whether it was computed; if not, another run has its lease. It ends at once on a signal,
    since an exception raised there could be lost in code that ignores exceptions; the pool removes what it leaves.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # for systems that cannot block it in a new process
    runner = _runner(context)
    runner.workspace.reporter = NoteReporter(pipe.send)
    with suppress(EOFError, ConnectionError):  # the pool is gone
        try:
            while True:
                outcomes = runner.attempt(pipe.recv())
                for outcome in outcomes or ():
                    pipe.send(outcome)
                pipe.send(outcomes is not None)
        except DeviceError as error:
            pipe.send(error)
            os._exit(1)  # clearing up would ask the lost GPU


@dataclass
class _Worker:
    """A process, its group (empty if idle), and the cells of it that are not done."""

    process: Any
    pipe: Connection
    group: CellGroup = ()
    cells: CellGroup = ()
    lost: DeviceError | None = None
    """Why it is about to end."""


class _Pool:
    """Worker processes, one for each of ``devices``."""

    def __init__(self, job: Job, devices: Sequence[str]) -> None:
        self.job = job
        self.devices = devices
        self.waiting = deque(job.groups)
        self.deaths: Counter[str] = Counter()  # by the model's key
        self.passed_over = 0  # consecutive groups leased by another run
        self.told = False

    def run(self) -> Iterator[CellOutcome]:
        """Outcomes in the order of their arrival."""
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
        spawning = get_context("spawn")  # a forked process cannot use CUDA
        ours, theirs = spawning.Pipe()
        context = replace(self.job.context, device=device, share=1 / self.devices.count(device))
        process = spawning.Process(target=serve, args=(theirs, context), daemon=True)
        resource_tracker.ensure_running()  # it would start with the first process, and unblock Ctrl-C
        # While all tune there are more threads than cores, which must sleep while they wait.
        threads = max(1, context.threads // len(self.devices))
        with interrupts_blocked(), _defaults(OMP_NUM_THREADS=str(threads), OMP_WAIT_POLICY="PASSIVE"):
            process.start()
        theirs.close()  # otherwise the pipe would stay open when the process ends
        return _Worker(process, ours)

    def _give(self, worker: _Worker) -> None:
        if self.passed_over >= len(self.waiting):
            if not self.told:
                self.job.reporter.note("another process is at work on what is left; waiting for its results")
            self.told = True
            time.sleep(POLL_SECONDS)
            self.passed_over = 0
        worker.group = worker.cells = self.waiting.popleft()
        with suppress(OSError):  # it died; the closed pipe will show that
            worker.pipe.send(worker.cells)

    def _receive(self, worker: _Worker) -> Iterator[CellOutcome]:
        message: CellOutcome | DeviceError | str | bool = worker.pipe.recv()
        if isinstance(message, CellOutcome):
            worker.cells = tuple(cell for cell in worker.cells if cell != message.cell)
            self.passed_over = 0
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

    def _retry(self, worker: _Worker) -> Iterator[CellOutcome]:
        """Give the group of a dead worker to another one, or report failures after ``RETRIES``."""
        worker.process.join()
        self._clear_away(worker)
        if not worker.cells:
            return
        key, lost = worker.cells[0].model.key, worker.lost
        how = lost.message if lost else f"exit code {worker.process.exitcode}"
        self.deaths[key] += 1
        if self.deaths[key] <= RETRIES:
            self.job.reporter.note(f"{worker.cells[0].spec}: its worker process died ({how}); another one tries again")
            self.waiting.appendleft(worker.cells)
            return
        error = StorageError(
            f"{self.deaths[key]} worker processes died at it, the last with {how}",
            lost.hint if lost else "Exit code -9 is most often the system's want of memory: try fewer --workers.",
        )
        yield from failed(worker.cells, error)

    def _clear_away(self, worker: _Worker) -> None:
        """Release the leases of a dead worker, and remove its unfinished files."""
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
