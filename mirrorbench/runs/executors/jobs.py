"""Where a plan's groups of cells are computed: jobs for executors, and what their workers need.

An executor (hook ``register_executors``) is a function from a ``Job`` to the outcomes of its cells. It hands each group
to a worker, in whatever process, and the worker calls ``compute``: that builds everything again from a small
``Context``, takes the group's lease, and stores the results before it answers. So results never depend on the executor,
and a worker that dies loses one group at most.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from mirrorbench.core.errors import StorageError, UsageError
from mirrorbench.core.progress import Reporter, Silent
from mirrorbench.core.registry import unknown_name
from mirrorbench.core.specs import Value, parse_params
from mirrorbench.data.corpora import Corpus
from mirrorbench.runs.cells import CorpusRef
from mirrorbench.runs.outcomes import Cells, Done, Outcome, gather
from mirrorbench.runs.plan import Plan
from mirrorbench.runs.runner import Runner

if TYPE_CHECKING:
    from mirrorbench.core.plugins import Plugins
    from mirrorbench.data.store import DataStore
    from mirrorbench.runs.cache import Cache
    from mirrorbench.runs.results import ResultStore

RETRIES = 2
"""How often a group is tried again after the worker that had it died."""
_ENVIRONMENT = (
    "MIRRORBENCH_DISABLE_PLUGINS", "MIRRORBENCH_STRICT_PLUGINS", "HF_HUB_OFFLINE", "HF_HOME", "HF_HUB_CACHE",
    "HF_ENDPOINT",
)  # fmt: skip


@dataclass(frozen=True)
class Context:
    """What a worker needs to compute cells: small, picklable, the same for all groups of a run.

    Attributes:
        data: the folder of data files.
        results: the folder of results.
        cache: the folder of tuned models and embeddings.
        device: ``cpu``, ``cuda``, ``cuda:1`` ...
        plugin_files: plugins that are single files.
        offline: open no socket.
        deterministic: let torch use deterministic algorithms only.
        threads: of torch on the CPU; the same everywhere, since sums may depend on it.
        environment: variables that change what plugins and models are found.
    """

    data: Path
    results: Path
    cache: Path
    device: str
    plugin_files: tuple[Path, ...] = ()
    offline: bool = False
    deterministic: bool = False
    threads: int = 0
    environment: tuple[tuple[str, str], ...] = field(
        default_factory=lambda: tuple((name, os.environ[name]) for name in _ENVIRONMENT if name in os.environ)
    )

    def runner(self, reporter: Reporter | None = None) -> Runner:
        """A runner in this process; plugin files that it has not seen are loaded."""
        os.environ.update(self.environment)
        import torch

        from mirrorbench.core.devices import use_deterministic_algorithms
        from mirrorbench.data.store import DataStore
        from mirrorbench.runs.builtin import plugins
        from mirrorbench.runs.cache import Cache
        from mirrorbench.runs.results import ResultStore

        registered = plugins()
        for file in self.plugin_files:
            if file not in registered.files:
                registered.add_file(file)
        if self.threads:
            torch.set_num_threads(self.threads)
        if self.deterministic:
            use_deterministic_algorithms()
        data = DataStore(self.data, offline=self.offline)
        results, device = ResultStore(self.results), torch.device(self.device)
        return Runner(registered, data, results, Cache(self.cache), device, self.offline, reporter)


@dataclass(frozen=True)
class Job:
    """What an executor is given.

    Attributes:
        groups: cells that share their weights, each group for one worker.
        corpora: the strings to tune on.
        context: for the workers.
        options: ``workers``, ``address``, and what stands after the executor's name; what an executor does not know it
            must refuse (``known``).
        reporter: whom to tell.
    """

    groups: tuple[Cells, ...]
    corpora: Mapping[CorpusRef, Corpus]
    context: Context
    options: Mapping[str, Value]
    reporter: Reporter

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
        from mirrorbench.runs.cache import Cache

        cache = Cache(self.context.cache)
        for ref, corpus in self.corpora.items():
            cache.save_corpus(ref.sha256, corpus.texts)


@contextmanager
def deaf_to_interrupts() -> Iterator[None]:
    """Processes that are started inside never hear Ctrl-C, which a terminal sends to them too: their parent decides."""
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # what is blocked stays so in a new process
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


Execute = Callable[[Job], Iterator[Done]]
"""An executor: yields the outcome of every cell of the job, in any order."""


class SharedCorpora(Mapping[CorpusRef, Corpus]):
    """The corpora that ``Job.share`` put into the cache."""

    def __init__(self, cache: Cache) -> None:
        self.cache = cache
        self._read: dict[CorpusRef, Corpus] = {}

    def __getitem__(self, ref: CorpusRef) -> Corpus:
        if ref not in self._read:
            self._read[ref] = self._found(ref)
        return self._read[ref]

    def _found(self, ref: CorpusRef) -> Corpus:
        texts = self.cache.corpus(ref.sha256)
        if texts is None:
            raise StorageError(
                f"the corpus {ref.name} is not in the cache {self.cache.root} of this worker",
                "Workers need the cache folder of the run: name one on a shared file system, MIRRORBENCH_CACHE=DIR.",
            )
        return Corpus(ref.name, texts, ref.sha256, "the cache", len(texts), 0)

    def __iter__(self) -> Iterator[CorpusRef]:
        raise TypeError("the corpora in a cache are found by their checksum only")

    def __len__(self) -> int:
        raise TypeError("the corpora in a cache are found by their checksum only")


class Notes(Silent):
    """A reporter that keeps what is worth saying."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    def note(self, message: str) -> None:
        """Something worth saying that stops nothing."""
        self.notes.append(message)


@dataclass(frozen=True)
class Computed:
    """A worker's answer: what became of the cells, and what is worth saying."""

    done: tuple[Done, ...]
    notes: tuple[str, ...] = ()


@cache
def _worker(context: Context) -> tuple[Runner, SharedCorpora]:
    runner = context.runner(Notes())
    return runner, SharedCorpora(runner.cache)


def compute(context: Context, cells: Cells) -> Computed:
    """What a worker of any executor calls: compute a group, or wait for whoever is at work on it.

    The process keeps what it loaded for the next group of the same context.
    """
    runner, corpora = _worker(context)
    notes = runner.reporter = runner.opener.reporter = Notes()
    return Computed(tuple(runner.compute([cells], corpora)), tuple(notes.notes))


def context_here(
    plugins: Plugins, data: DataStore, results: ResultStore, device: str, offline: bool, deterministic: bool
) -> Context:
    """The context of a run that this process starts: absolute folders, its plugin files and number of threads."""
    import torch

    from mirrorbench.core.files import cache_root

    return Context(
        data=data.root.absolute(),
        results=results.root.absolute(),
        cache=cache_root().absolute(),
        device=device,
        plugin_files=tuple(plugins.files),
        offline=offline,
        deterministic=deterministic,
        threads=torch.get_num_threads(),
    )


def parse_executor(text: str, workers: int | None, address: str, plugins: Plugins) -> tuple[str, dict[str, Value]]:
    """An executor's name and options from ``NAME[:KEY=VALUE,...]``.

    Args:
        text: as written.
        workers: becomes the option of that name; ``None`` to leave it away.
        address: likewise; empty to leave it away.
        plugins: for the executors.

    Raises:
        UsageError: no such executor, or options that are no ``KEY=VALUE``.
    """
    name, _, tail = text.partition(":")
    plugins.executors.entry(name)
    options = dict(parse_params(tail, text))
    if workers is not None:
        options["workers"] = workers
    if address:
        options["address"] = address
    return name, options


def execute(
    plan: Plan, context: Context, executor: str, options: Mapping[str, Value], plugins: Plugins, reporter: Reporter
) -> Outcome:
    """Compute a plan where an executor says.

    Args:
        plan: the cells.
        context: for the workers.
        executor: the name of a registered executor.
        options: its options.
        plugins: for the executor.
        reporter: whom to tell.

    Raises:
        UsageError: no such executor, or an option that it does not know.
    """
    from mirrorbench.runs.results import ResultStore

    chosen: Execute = plugins.executors[executor]

    def run(groups: list[Cells]) -> Iterator[Done]:
        wanted = {cell.weights.corpus for cells in groups for cell in cells}
        wanted |= {member.corpus for cells in groups for cell in cells for _, member in cell.weights.members}
        corpora = {ref: corpus for ref, corpus in plan.corpora.items() if ref in wanted}
        return chosen(Job(tuple(groups), corpora, context, options, reporter))

    return gather(plan, ResultStore(context.results), reporter, run)
