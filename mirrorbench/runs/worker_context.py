"""The context that makes a worker process compute as the process that planned the run would."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from pathlib import Path

from mirrorbench.core.plugins import Plugins
from mirrorbench.runs.compute import Compute
from mirrorbench.runs.folders import Folders
from mirrorbench.runs.registry import plugins as process_plugins
from mirrorbench.runs.settings import Settings

_ENVIRONMENT = (
    "MIRRORBENCH_DISABLE_PLUGINS",
    "MIRRORBENCH_STRICT_PLUGINS",
    "HF_HUB_OFFLINE",
    "HF_HOME",
    "HF_HUB_CACHE",
    "HF_ENDPOINT",
)
"""Environment variables that determine which plugins and models a worker finds."""


def _environment() -> tuple[tuple[str, str], ...]:
    """Return the variables of ``_ENVIRONMENT`` that are set in this process, with their values."""
    return tuple((name, os.environ[name]) for name in _ENVIRONMENT if name in os.environ)


@dataclass(frozen=True)
class WorkerContext:
    """Settings, plugin files and environment of a worker: small, picklable, the same for all groups of a run.

    mirrorbench makes it: ``job.context`` of an executor, or ``workspace.context()``. An executor sends it to its
    workers, which pass it to ``compute``. It may send a changed copy: ``context.on("cuda:1")`` for a worker with a
    device of its own, and ``dataclasses.replace(context, share=0.5)`` for two workers on one GPU.

    Attributes:
        settings: absolute folders (``results``, ``data_dir``, ``cache``), and ``device``, ``offline`` and
            ``deterministic``.
        plugin_files: the files of ``--plugin``, which ``compute`` loads in the worker.
        threads: number of threads for tuning on the CPU, the same in all workers, since sums depend on it; 0 for
            torch's own.
        share: the share of a GPU's memory for each worker, from 0 to 1.
        environment: environment variables with their values that decide which plugins and models the worker finds.

    Example:
        >>> import pickle
        >>> from mirrorbench import Session
        >>> context = Session("results", device="cpu").workspace.context()
        >>> context.settings.device
        'cpu'
        >>> context.on("cuda:1").settings.device
        'cuda:1'
        >>> pickle.loads(pickle.dumps(context)) == context
        True
    """

    settings: Settings
    plugin_files: tuple[Path, ...] = ()
    threads: int = 0
    share: float = 1.0
    environment: tuple[tuple[str, str], ...] = field(default_factory=_environment)

    @classmethod
    def of(cls, plugins: Plugins, folders: Folders, compute: Compute) -> WorkerContext:
        """Return the context of a run's workers, with absolute folders."""
        import torch

        settings = Settings(
            results=folders.results.root.absolute(),
            data_dir=folders.data.root.absolute(),
            cache=folders.cache.root.absolute(),
            device=compute.planned_device,
            offline=folders.offline,
            deterministic=compute.deterministic,
        )
        return cls(settings, tuple(plugins.files), torch.get_num_threads())

    def on(self, device: str) -> WorkerContext:
        """Return the same context on another device (``cpu``, ``cuda``, ``cuda:N``)."""
        return replace(self, settings=replace(self.settings, device=device))

    def enter(self) -> tuple[Plugins, Folders, Compute]:
        """Set the environment of this process; return plugins, with the plugin files, folders and device.

        ``compute`` calls it in the worker.
        """
        os.environ.update(self.environment)
        import torch

        plugins = process_plugins()
        for file in self.plugin_files:
            if file not in plugins.files:
                plugins.add_file(file)
        # For tokenisers, which start their threads at first use; for torch OMP_NUM_THREADS was read already.
        os.environ.setdefault("RAYON_NUM_THREADS", str(torch.get_num_threads()))
        compute = Compute(self.settings, plugins)
        if self.settings.device == "cpu":
            compute.threads = self.threads
        compute.share = self.share
        return plugins, Folders.of(self.settings, plugins), compute
