"""Where a plan's groups of cells are computed: jobs for executors, and what their workers call.

An executor (hook ``register_executors``) is a function from a ``Job`` to the outcomes of its cells. It hands each group
to a worker, in whatever process, and the worker calls ``compute``: that builds a workspace from a small
``WorkerContext``, takes the group's lease, and stores the results before it answers. So results never depend on the
executor, and a worker that dies loses one group at most.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from mirrorbench.core.errors import StorageError, UsageError
from mirrorbench.core.progress import Reporter
from mirrorbench.core.registry import unknown_name
from mirrorbench.core.specs import Value
from mirrorbench.data.corpora import Corpus
from mirrorbench.runs.cells import CellGroup, CellOutcome, CorpusRef

if TYPE_CHECKING:
    from mirrorbench.runs.cache import Cache
    from mirrorbench.runs.runner import Runner
    from mirrorbench.runs.workspace import WorkerContext, Workspace

RETRIES = 2
"""How often a group is tried again after the worker that had it died."""


@dataclass(frozen=True)
class Job:
    """What an executor is given.

    Attributes:
        groups: cells that share their model, each group for one worker.
        corpora: the strings to tune on.
        context: for the workers.
        options: ``workers``, ``address``, and what stands after the executor's name; what an executor does not know it
            must refuse (``known``).
        reporter: is told of progress.
        workspace: of this process.
    """

    groups: tuple[CellGroup, ...]
    corpora: Mapping[CorpusRef, Corpus]
    context: WorkerContext
    options: Mapping[str, Value]
    reporter: Reporter
    workspace: Workspace

    @classmethod
    def of(cls, workspace: Workspace, groups: Sequence[CellGroup], corpora: Mapping[CorpusRef, Corpus]) -> Job:
        """The job of computing groups of cells, with those corpora only that they are tuned on."""
        wanted = {model.corpus for cells in groups for cell in cells for model in cell.model.with_members()}
        own = {ref: corpus for ref, corpus in corpora.items() if ref in wanted}
        return cls(tuple(groups), own, workspace.context(), workspace.options, workspace.reporter, workspace)

    def known(self, **defaults: Value) -> dict[str, Value]:
        """The options, with defaults for those that were not given.

        Raises:
            UsageError: an option that is not among the defaults, or whose value is of another type.
        """
        found = dict(defaults)
        for key, value in self.options.items():
            if key not in defaults:
                raise unknown_name("executor option", key, list(defaults))
            want = type(defaults[key])
            if want in (str, float) and type(value) is int:  # a name of digits, a whole number of CPUs
                value = want(value)
            if type(value) is not want:
                raise UsageError(f"executor option {key}={value} is not of type {want.__name__}")
            found[key] = value
        return found

    def share(self) -> None:
        """Put the corpora into the cache, where workers in other processes find them.

        Raises:
            StorageError: the cache cannot be written.
        """
        for ref, corpus in self.corpora.items():
            self.workspace.cache.save_corpus(ref.sha256, corpus.texts)


Execute = Callable[[Job], Iterator[CellOutcome]]
"""An executor: yields the outcome of every cell of the job, in any order."""


class SharedCorpora(dict[CorpusRef, Corpus]):
    """The corpora that ``Job.share`` put into the cache, read when they are first asked for."""

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
    """The reporter of a worker: passes on what is worth saying, and nothing else.

    Args:
        send: called with each note.
    """

    def __init__(self, send: Callable[[str], None]) -> None:
        self.send = send

    def note(self, message: str) -> None:
        """Something worth saying that stops nothing."""
        self.send(message)


@dataclass(frozen=True)
class GroupOutcome:
    """A worker's answer: what became of the cells, and what is worth saying."""

    done: tuple[CellOutcome, ...]
    notes: tuple[str, ...] = ()


def compute(context: WorkerContext, cells: CellGroup) -> GroupOutcome:
    """What a worker of any executor calls: compute a group, or wait for the process that is at work on it.

    The process keeps what it loaded for the next group of the same context.
    """
    runner, corpora = _worker(context)
    notes: list[str] = []
    runner.workspace.reporter = NoteReporter(notes.append)
    return GroupOutcome(tuple(runner.compute([cells], corpora)), tuple(notes))


@cache
def _worker(context: WorkerContext) -> tuple[Runner, SharedCorpora]:
    workspace = context.workspace()
    return workspace.runner(), SharedCorpora(workspace.cache)


@contextmanager
def interrupts_blocked() -> Iterator[None]:
    """Processes started inside never see Ctrl-C, which a terminal sends to them too: their parent decides."""
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # what is blocked stays so in a new process
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
