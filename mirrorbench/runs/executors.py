"""Executors: the interface of jobs and workers, and ``local``, which computes in this process.

An executor (hook ``register_executors``) is a function from a ``Job`` to the outcomes of its cells. It hands each group
of cells to a worker in any process, which calls ``compute``. ``compute`` takes the group's lease and stores the results
before it returns, so results do not depend on the executor, and a worker that dies loses one group at most.
"""

from __future__ import annotations

import platform
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING

from mirrorbench.core.devices import check_bf16, gpu_count
from mirrorbench.core.errors import StorageError, UsageError, unknown_name
from mirrorbench.core.hooks import hookimpl
from mirrorbench.core.plugins import Plugins
from mirrorbench.core.quoting import NO_TEXTS, without_texts
from mirrorbench.core.specs import Value
from mirrorbench.data.corpora import Corpus
from mirrorbench.data.readers.rows import silent
from mirrorbench.runs.cells import CellGroup, CorpusRef
from mirrorbench.runs.compute import Compute
from mirrorbench.runs.folders import Folders
from mirrorbench.runs.opened_systems import OpenedSystems
from mirrorbench.runs.outcomes import CellOutcome, Reporter, failed

if TYPE_CHECKING:
    from mirrorbench.core.hooks import Register
    from mirrorbench.runs.runner import Runner
    from mirrorbench.runs.worker_context import WorkerContext
    from mirrorbench.storage.cache import Cache

RETRIES = 2
"""Number of times that a group is tried again after its worker died."""


@dataclass(frozen=True)
class Job:
    """The groups of cells that an executor computes, and what it needs to compute them.

    mirrorbench makes one job for each run that has something to compute, and calls the executor with it (hook
    ``register_executors``). The executor yields a ``CellOutcome`` for every cell of every group, in any order. It calls
    ``known``, then ``share``; it lets workers call ``compute(job.context, cells)`` for each group; and it passes the
    notes of each ``GroupOutcome`` to ``job.reporter.note`` before it yields the outcomes. The reporter may be called
    only from the thread that runs the executor. If the run is interrupted, the generator is closed: a ``finally`` ends
    the workers.

    Attributes:
        groups: the groups of cells (``CellGroup``), none of them empty. Cells of a group share their model. Each group
            has another model, so that workers may compute groups at the same time.
        corpora: the texts to tune on, which ``share`` makes readable for workers.
        context: what a worker needs, the first argument of ``compute``. ``context.settings.device`` is the device of
            the workers (``cpu``, ``cuda``, ``cuda:1``), ``context.settings.results`` the folder of results.
        options: the options after the executor's name (``--executor NAME:KEY=VALUE,...``), with ``workers`` and
            ``address`` if they were given, as the user wrote them; ``known`` checks them.
        reporter: receives progress and notes (``Reporter``).
        plugins: everything that is registered in this process (``Plugins``). Another executor can take over the job:
            ``yield from job.plugins.executors["local"].execute(job)``.
        folders: results, data and cache of the run; workers find them through ``context``.
        compute: device, precisions and threads of this process; workers find them through ``context``.
        systems: the encoders that planning opened in this process; other processes open them again.
        retries: how often the executor should try a group again after its worker died (default 2), before it yields
            ``failed(cells, error)``.

    Example:
        An executor that computes one group after the other in this process:

        >>> from mirrorbench import Session, hookimpl
        >>> from mirrorbench.plugin import compute, load_plugins
        >>> def in_turn(job):
        ...     job.known()  # it has no options
        ...     job.share()
        ...     for cells in job.groups:
        ...         answer = compute(job.context, cells)
        ...         for note in answer.notes:
        ...             job.reporter.note(note)
        ...         yield from answer.done
        >>> class InTurnPlugin:
        ...     @hookimpl
        ...     def register_executors(self, register):
        ...         register("in-turn", in_turn, "one group after the other")
        >>> plugins = load_plugins(discover=False)
        >>> plugins.add(InTurnPlugin(), "in-turn")
        >>> session = Session("results", plugins=plugins, device="cpu", executor="in-turn")
        >>> board = session.run("tiny+base:pooling=mean", "quick-sts", limit=20)
        >>> board.failures
        ()
    """

    groups: tuple[CellGroup, ...]
    corpora: Mapping[CorpusRef, Corpus]
    context: WorkerContext
    options: Mapping[str, Value]
    reporter: Reporter
    plugins: Plugins
    folders: Folders
    compute: Compute
    systems: OpenedSystems = field(default_factory=OpenedSystems)
    retries: int = RETRIES

    def known(self, **defaults: Value) -> dict[str, Value]:
        """Return the options, with defaults for those not given.

        Args:
            **defaults: every option that the executor has, with its default: a bool, a number or a text. Name
                ``workers`` and ``address`` if the executor uses them; otherwise ``--workers`` and ``--address`` are
                refused.

        Raises:
            UsageError: an option is not among the defaults, or its value is not of the type of its default. A whole
                number is converted where the default is a float or a text.
        """
        options = dict(defaults)
        for key, value in self.options.items():
            if key not in defaults:
                raise unknown_name("executor option", key, list(defaults))
            expected_type = type(defaults[key])
            # Names may consist of digits, and floats be written as whole numbers.
            if type(value) is int and expected_type in (str, float):
                value = expected_type(value)
            if type(value) is not expected_type:
                raise UsageError(
                    f"executor option {key}={value} is not of type {expected_type.__name__}"
                )
            options[key] = value
        return options

    def share(self) -> None:
        """Write the corpora into the cache, where ``compute`` finds them in this and in other processes.

        An executor calls it once, before the first ``compute``.

        Raises:
            StorageError: the cache cannot be written.
            UsageError: texts are to be left out of what is stored.
        """
        if self.corpora and without_texts():
            raise UsageError(
                f"workers read the tuning texts from the cache, where {NO_TEXTS} forbids texts",
                "Run with one worker on this machine, or without that variable.",
            )
        for ref, corpus in self.corpora.items():
            self.folders.cache.save_corpus(ref.sha256, corpus.texts)


@hookimpl
def register_executors(register: Register) -> None:
    """Register the executor ``local``."""
    register(
        "local",
        local,
        "This machine: in process, --workers N processes, or one process for each GPU.",
    )


def local(job: Job) -> Iterator[CellOutcome]:
    """Compute a job in this process; with several workers or GPUs, in the executor ``pool``."""
    # Workers that the user asks for are processes even if there is a single group for them.
    asks_for_workers = job.known(workers=0)["workers"] not in (0, 1)
    if len(worker_devices(job)) > 1 or asks_for_workers:
        yield from job.plugins.executors["pool"].execute(job)
        return
    from mirrorbench.runs.runner import Runner

    runner = Runner(job.plugins, job.folders, job.compute, job.reporter, job.corpora, job.systems)
    yield from runner.compute(job.groups)


def worker_devices(job: Job) -> list[str]:
    """Return a device for each worker on this machine, at most one per group.

    For ``cuda`` the workers use all GPUs in turn; otherwise each uses the given device. Without the option ``workers``
    there is one for each GPU, or a single one.

    Raises:
        UsageError: an option is wrong, or the number of workers is negative.
    """
    device = job.context.settings.device
    # 0 if the option is not given.
    workers = job.known(workers=0)["workers"]
    assert isinstance(workers, int)
    if workers < 0:
        raise UsageError(f"{workers} workers cannot compute anything")
    if device == "cuda":
        gpus = max(1, gpu_count())
        devices = [f"cuda:{n % gpus}" for n in range(workers or gpus)]
    else:
        devices = [device] * max(1, workers)
    return devices[: len(job.groups)]


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
        corpus = Corpus(ref.name, texts, ref.sha256, "the cache", len(texts), 0)
        self[ref] = corpus
        return corpus


class NoteReporter(Reporter):
    """The reporter of a worker, which passes notes to ``send`` and ignores everything else."""

    def __init__(self, send: Callable[[str], None]) -> None:
        self.send = send

    def note(self, message: str) -> None:
        """Pass the note on."""
        self.send(message)


@dataclass(frozen=True)
class GroupOutcome:
    """The outcomes of a group's cells, and notes for the user.

    ``compute`` returns it to the worker that called it. It can be pickled, so that the worker can send it to the
    process of the executor, which passes on the notes and yields the outcomes.

    Attributes:
        done: a ``CellOutcome`` for each cell of the group; their results are stored already.
        notes: messages for the user, for ``job.reporter.note``.

    Example:
        >>> from mirrorbench import Session
        >>> from mirrorbench.plugin import Request, compute, make_plan, parse_spec
        >>> workspace = Session("results", device="cpu").workspace
        >>> request = Request((parse_spec("tiny+base:pooling=mean"),), ("quick-sts",), limit=20)
        >>> cells = make_plan(workspace, request).cells
        >>> answer = compute(workspace.context(), cells)
        >>> [outcome.cell.task for outcome in answer.done], answer.notes
        (['quick-sts'], ())
    """

    done: tuple[CellOutcome, ...]
    notes: tuple[str, ...] = ()


# Random numbers, the number of threads and loaded models belong to the process: groups of several threads wait for
# each other, or a tuned model would depend on what is computed beside it.
_ONE_GROUP = threading.Lock()


def compute(context: WorkerContext, cells: CellGroup) -> GroupOutcome:
    """Compute one of a job's groups, store the results, and return the outcomes.

    A worker of an executor calls it, in any process on any machine that sees the folders of the run. It wants the
    corpora of ``job.share()`` in the cache. Stored results are not computed again. If another process is computing the
    group, ``compute`` waits for its results.

    A process computes one group at a time: random numbers, the number of threads and the loaded models belong to the
    process. Calls from several threads wait for each other, so threads of one process are not faster than ``local``.
    The process keeps loaded data for the next group of the same context.

    The worker uses the built-in parts, the installed plugins and the files of ``--plugin``. What was registered only by
    ``Plugins.add`` of the process that planned the run is unknown to it.

    Args:
        context: ``job.context``. It can be pickled.
        cells: one of ``job.groups``.

    Returns:
        The outcome of each cell, and notes for the user. A cell that cannot be computed has a failure as its outcome,
        and does not stop the others.

    Raises:
        DeviceError: this process can no longer use its GPU. It must end, and another process try the group again.
        PluginError: a plugin file cannot be loaded here.

    Example:
        >>> from mirrorbench import Session
        >>> from mirrorbench.plugin import Request, compute, make_plan, parse_spec
        >>> workspace = Session("results", device="cpu").workspace
        >>> request = Request((parse_spec("tiny+base:pooling=mean"),), ("quick-sts",), limit=20)
        >>> cells = make_plan(workspace, request).cells  # of one model: a single group
        >>> (outcome,) = compute(workspace.context(), cells).done
        >>> outcome.outcome.n_items
        20
    """
    notes: list[str] = []
    with _ONE_GROUP:
        runner = runner_of(context, notes.append)
        try:
            _check_half_precision(runner.compute_settings, cells)
        except UsageError as error:
            return GroupOutcome(tuple(failed(cells, error)))
        return GroupOutcome(tuple(runner.compute([cells])), tuple(notes))


def _check_half_precision(compute: Compute, cells: CellGroup) -> None:
    """Raise a ``UsageError`` if this worker does not have the half precision of the plan."""
    precisions = set()
    for cell in cells:
        precisions.add(cell.precision)
        for model in cell.model.with_members():
            precisions.add(model.precision)
    try:
        check_bf16(compute.device, precisions)
    except UsageError as error:
        raise UsageError(
            f"the run was planned for other devices than the worker on {platform.node()} has: {error.message}",
            f"{error.hint} State the workers' devices by --device, --precision, and the executor's option gpus.",
        ) from error


def runner_of(context: WorkerContext, send: Callable[[str], None] = silent) -> Runner:
    """Return the runner of a worker process, which keeps it for its next group; ``send`` receives its notes."""
    runner, reporter = _worker(context)
    reporter.send = send
    return runner


@cache
def _worker(context: WorkerContext) -> tuple[Runner, NoteReporter]:
    from mirrorbench.runs.runner import Runner

    plugins, folders, compute = context.enter()
    reporter = NoteReporter(silent)
    corpora = SharedCorpora(folders.cache)
    return Runner(plugins, folders, compute, reporter, corpora), reporter


@contextmanager
def interrupts_blocked() -> Iterator[None]:
    """Make processes that are started inside the ``with`` block ignore Ctrl-C.

    An executor starts its worker processes inside. A terminal sends Ctrl-C to all of them; with this block only the
    process of the executor is interrupted, which then ends its workers. They inherit the blocked signal (SIGINT) from
    the thread that starts them, and keep it blocked. During the block, Ctrl-C is held back for that thread, too. On
    Windows, nothing changes.

    Example:
        >>> import subprocess
        >>> import sys
        >>> from mirrorbench.plugin import interrupts_blocked
        >>> command = [sys.executable, "-c", "print('at work')"]
        >>> with interrupts_blocked():
        ...     worker = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        >>> worker.communicate()[0].strip()
        'at work'
    """
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    # New processes inherit the blocked signals.
    previous_mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, previous_mask)
