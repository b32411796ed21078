"""The workspace: the parts of a session that hooks of plugins receive."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mirrorbench.core.plugins import Plugins
from mirrorbench.data.store import DataStore
from mirrorbench.runs.compute import Compute
from mirrorbench.runs.folders import Folders
from mirrorbench.runs.outcomes import Reporter
from mirrorbench.runs.registry import plugins as process_plugins
from mirrorbench.runs.settings import Settings
from mirrorbench.runs.worker_context import WorkerContext
from mirrorbench.storage.cache import Cache
from mirrorbench.storage.results import ResultStore

if TYPE_CHECKING:
    import torch


class Workspace:
    """The parts of a session, which tools, tables, analyses and grids of plugins receive.

    mirrorbench passes it to what a plugin registers with ``register_analyses``, ``register_grids``, ``register_tables``
    or ``register_tools``. To try such a function, take the workspace of a session: ``Session(folder).workspace``.
    ``make_plan``, ``execute_plan`` and ``load_encoder`` take it as their first argument.

    Args:
        settings: settings of the session.
        plugins: by default those of this process.
        reporter: receives progress and notes; by default they are not shown.

    Attributes:
        settings: settings of the session, as the user wrote them: ``results``, ``data_dir``, ``cache``, ``device``,
            ``precision``, ``eval_precision``, ``offline``, ``deterministic``, ``executor``, ``workers``, ``address``.
        plugins: everything that is registered (``Plugins``): ``plugins.tasks["stsb"]`` is a ``Task``.
        reporter: receives progress and notes (``Reporter``): ``reporter.note("...")``.
        results: the store of results; ``results.root`` is its folder, which ``read_results`` reads.
        data: verified data files (``DataStore``): ``task.load(workspace.data)`` reads items.
        cache: tuned models and vectors; ``cache.root`` is its folder.
        compute: device, precisions, threads and executor; ``compute.precisions`` has those of ``tuning`` and
            ``encoding``.

    Raises:
        UsageError: no such executor. Device and precisions are checked at first use.

    Example:
        An analysis that counts the items of a task:

        >>> from mirrorbench import Session, hookimpl
        >>> from mirrorbench.plugin import load_plugins
        >>> def count_items(workspace, *, task):
        ...     items = workspace.plugins.tasks[task].load(workspace.data)
        ...     workspace.reporter.note(f"{task} is read")
        ...     return len(items)
        >>> class CountPlugin:
        ...     @hookimpl
        ...     def register_analyses(self, register):
        ...         register("items", count_items, "number of items of a task")
        >>> plugins = load_plugins(discover=False)
        >>> plugins.add(CountPlugin(), "count")
        >>> session = Session("results", plugins=plugins, device="cpu")
        >>> session.analyze("items", task="quick-sts")
        250
    """

    def __init__(
        self,
        settings: Settings | None = None,
        plugins: Plugins | None = None,
        reporter: Reporter | None = None,
    ) -> None:
        self.settings = settings or Settings()
        self.plugins = plugins or process_plugins()
        self.reporter = reporter or Reporter()
        self.compute = Compute(self.settings, self.plugins)
        folders = Folders.of(self.settings, self.plugins)
        self.results: ResultStore = folders.results
        self.data: DataStore = folders.data
        self.cache: Cache = folders.cache

    @property
    def folders(self) -> Folders:
        """Results, data and cache together."""
        return Folders(self.results, self.data, self.cache)

    @property
    def executor(self) -> str:
        """Name of the executor, such as ``local``."""
        return self.compute.executor

    @property
    def torch_device(self) -> torch.device:
        """The device of this process, on which ``load_encoder`` loads.

        Raises:
            UsageError: this machine does not have the device.
        """
        return self.compute.device

    @property
    def planned_device(self) -> str:
        """The device that computes the cells, here or elsewhere; ``cpu``, ``cuda``, ``cuda:N`` or ``mps``."""
        return self.compute.planned_device

    def context(self) -> WorkerContext:
        """Return what a worker process needs to compute as this one: the first argument of ``compute``."""
        return WorkerContext.of(self.plugins, self.folders, self.compute)
