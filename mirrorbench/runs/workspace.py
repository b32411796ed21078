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

    Functions of this package take the parts that they use; only hooks receive all of them.

    Args:
        settings: settings of the session.
        plugins: by default those of this process.
        reporter: receives progress and notes; by default none.

    Attributes:
        settings: settings of the session, as the user wrote them.
        plugins: all that is registered: ``plugins.tasks["stsb"]``.
        reporter: receives progress and notes: ``reporter.note("...")``.
        results: stored results.
        data: verified data files: ``task.load(workspace.data)`` reads items.
        cache: tuned models and vectors.
        compute: device, precisions, threads and executor.

    Raises:
        UsageError: no such executor. Device and precisions are checked at first use.
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
        """Name of the executor."""
        return self.compute.executor

    @property
    def torch_device(self) -> torch.device:
        """The device of this process."""
        return self.compute.device

    @property
    def planned_device(self) -> str:
        """The device that computes the cells, here or elsewhere."""
        return self.compute.planned_device

    def context(self) -> WorkerContext:
        """Return what a worker process needs to compute as this one."""
        return WorkerContext.of(self.plugins, self.folders, self.compute)
