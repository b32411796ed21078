"""The workspace of a run: its settings, and the plugins, folders, device and executor that they name."""

from __future__ import annotations

import os
import platform
import subprocess
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mirrorbench.core.identity import __version__
from mirrorbench.core.plugins import Plugins
from mirrorbench.data.store import DataStore
from mirrorbench.runs.cache import Cache
from mirrorbench.runs.compute import Compute
from mirrorbench.runs.outcomes import Reporter
from mirrorbench.runs.registry import plugins as process_plugins
from mirrorbench.runs.results import ResultStore
from mirrorbench.runs.settings import Settings

if TYPE_CHECKING:
    import torch


_ENVIRONMENT = (
    "MIRRORBENCH_DISABLE_PLUGINS",
    "MIRRORBENCH_STRICT_PLUGINS",
    "HF_HUB_OFFLINE",
    "HF_HOME",
    "HF_HUB_CACHE",
    "HF_ENDPOINT",
)
"""Variables that decide which plugins and models a worker finds."""


class Workspace:
    """Plugins (by default those of this process), folders, device and executor of a run, made from its settings.

    An unknown executor is a ``UsageError``; device and precisions are checked at first use.
    """

    def __init__(
        self,
        settings: Settings | None = None,
        plugins: Plugins | None = None,
        reporter: Reporter | None = None,
    ) -> None:
        from mirrorbench.core.devices import let_threads_sleep

        let_threads_sleep()
        self.settings = settings = settings or Settings()
        self.plugins = plugins or process_plugins()
        self.reporter = reporter or Reporter()
        self.compute = Compute(settings, self.plugins)
        self.data = DataStore(_folder(settings.data_dir), settings.offline, self.plugins.parsers)
        self.results = ResultStore(Path(settings.results))
        self.cache = Cache(_folder(settings.cache))

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
        """Return the context from which a worker makes an equal workspace."""
        import torch

        settings = Settings(
            self.results.root.absolute(),
            self.data.root.absolute(),
            self.cache.root.absolute(),
            self.compute.planned_device,
            offline=self.settings.offline,
            deterministic=self.settings.deterministic,
        )
        return WorkerContext(settings, tuple(self.plugins.files), torch.get_num_threads())


def _folder(name: str | Path | None) -> Path | None:
    return Path(name) if name else None


@dataclass(frozen=True)
class WorkerContext:
    """Settings, plugin files and environment of a worker: small, picklable, the same for all groups of a run."""

    settings: Settings
    plugin_files: tuple[Path, ...] = ()
    threads: int = 0
    """Threads of tuning on the CPU: in all workers as in one process, since its sums depend on it."""
    share: float = 1.0
    """The share of a GPU's memory for each worker, from 0 to 1."""
    environment: tuple[tuple[str, str], ...] = field(
        default_factory=lambda: tuple(
            (name, os.environ[name]) for name in _ENVIRONMENT if name in os.environ
        )
    )

    def on(self, device: str) -> WorkerContext:
        """Return the same context on another device."""
        return replace(self, settings=replace(self.settings, device=device))

    def workspace(self) -> Workspace:
        """Make a workspace in this process, with the plugin files loaded."""
        os.environ.update(self.environment)
        import torch

        registered = process_plugins()
        for file in self.plugin_files:
            if file not in registered.files:
                registered.add_file(file)
        # For tokenisers, which start their threads at first use; for torch OMP_NUM_THREADS was read already.
        os.environ.setdefault("RAYON_NUM_THREADS", str(torch.get_num_threads()))
        space = Workspace(self.settings, registered)
        if self.settings.device == "cpu":
            space.compute.threads = self.threads
        space.compute.share = self.share
        return space


_IN_RESULTS = (
    "torch",
    "transformers",
    "tokenizers",
    "numpy",
    "scipy",
    "scikit-learn",
    "sentence-transformers",
)


def describe_environment(device: torch.device) -> dict[str, Any]:
    """Return the ``environment`` of a result; ``git`` is the commit of a checkout, otherwise null."""
    from mirrorbench.core.devices import describe, describe_gpu

    return {
        "mirrorbench": __version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "packages": {
            name: installed for name in _IN_RESULTS if (installed := package_version(name))
        },
        "device": str(device),
        "device_name": describe(device),
        "git": _commit(),
        **describe_gpu(device),
    }


def package_version(name: str) -> str:
    """Return the version of an installed distribution, empty if it is not installed."""
    try:
        return version(name)
    except PackageNotFoundError:
        return ""


@cache
def _commit() -> str | None:
    checkout = Path(__file__).resolve().parents[2]
    if not (checkout / ".git").exists():
        return None
    command = ["git", "-C", str(checkout), "describe", "--always", "--dirty", "--abbrev=40"]
    try:
        out = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return out.stdout.strip() or None
