"""The workspace of a run: its settings, and the plugins, folders, device and executor that they name."""

from __future__ import annotations

import os
import platform
import subprocess
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

from mirrorbench.core.arguments import check_count, check_folder, check_type
from mirrorbench.core.errors import unknown_name
from mirrorbench.core.identity import __version__
from mirrorbench.core.plugins import Plugins
from mirrorbench.core.specs import EncoderSpec, Value, parse_params
from mirrorbench.data.store import DataStore
from mirrorbench.runs.cache import Cache
from mirrorbench.runs.outcomes import Reporter
from mirrorbench.runs.registry import plugins as process_plugins
from mirrorbench.runs.results import ResultStore

if TYPE_CHECKING:
    import torch

    from mirrorbench.core.encoder_protocol import Encoder

_ENVIRONMENT = (
    "MIRRORBENCH_DISABLE_PLUGINS",
    "MIRRORBENCH_STRICT_PLUGINS",
    "HF_HUB_OFFLINE",
    "HF_HOME",
    "HF_HUB_CACHE",
    "HF_ENDPOINT",
)
"""Variables that decide which plugins and models a worker finds."""


class SettingsFields(TypedDict, total=False):
    """Settings as keyword arguments of the Python functions; meaning and defaults are those of ``Settings``."""

    data_dir: str | Path | None
    cache: str | Path | None
    device: str
    precision: str
    eval_precision: str
    offline: bool
    deterministic: bool
    executor: str
    workers: int | None
    address: str


@dataclass(frozen=True)
class Settings:
    """Folders, device, precisions and executor, as a user names them.

    Attributes:
        results: the folder of results.
        data_dir: the folder of data files; by default ``MIRRORBENCH_DATA`` or the platform's data directory.
        cache: the folder of tuned models and embeddings; by default ``MIRRORBENCH_CACHE`` or the platform's.
        device: ``auto``, ``cpu``, ``cuda``, ``cuda:N`` or ``mps``.
        precision: of tuning: ``auto`` (on CUDA bf16, before Ampere fp16; else fp32), ``fp32``, ``bf16`` or ``fp16``.
        eval_precision: of evaluation and of encoding: ``auto`` (fp32), ``fp32``, ``bf16`` or ``fp16``.
        offline: open no socket.
        deterministic: on a GPU only algorithms that repeat bit for bit.
        executor: where cells are computed: ``NAME[:KEY=VALUE,...]``.
        workers: worker processes; by default this process, or one for each GPU.
        address: where the executor's cluster is.
    """

    results: str | Path = "results"
    data_dir: str | Path | None = None
    cache: str | Path | None = None
    device: str = "auto"
    precision: str = "auto"
    eval_precision: str = "auto"
    offline: bool = False
    deterministic: bool = False
    executor: str = "local"
    workers: int | None = None
    address: str = ""

    def __post_init__(self) -> None:
        check_folder("output", self.results)
        for name in ("data_dir", "cache"):
            if getattr(self, name) is not None:
                check_folder(name, getattr(self, name))
        for name in ("device", "precision", "eval_precision", "executor", "address"):
            check_type(
                name, getattr(self, name), (str,), f"a text, such as {name}={_USUAL[name]!r}"
            )
        for name in ("offline", "deterministic"):
            check_type(name, getattr(self, name), (bool,), "True or False")
        if self.workers is not None:
            check_count("workers", self.workers, least=1)


_USUAL = {
    "device": "cpu",
    "precision": "fp32",
    "eval_precision": "fp32",
    "executor": "local",
    "address": "auto",
}
"""Values that messages give as examples."""


class Workspace:
    """Plugins (by default those of this process), folders, device and executor of a run, made from its settings.

    An unknown executor is a ``UsageError``; device and precisions are checked at first use.
    """

    def __init__(
        self,
        settings: Settings = Settings(),
        plugins: Plugins | None = None,
        reporter: Reporter | None = None,
    ) -> None:
        from mirrorbench.core.devices import let_threads_sleep

        let_threads_sleep()
        self.settings, self.plugins, self.reporter = (
            settings,
            plugins or process_plugins(),
            reporter or Reporter(),
        )
        self.executor, _, tail = settings.executor.partition(":")
        if self.executor not in self.plugins.executors:
            unknown = unknown_name("executor", self.executor, self.plugins.executors.names())
            hint = f"{unknown.hint}. Others are packages: pip install mirrorbench-EXECUTOR"
            raise type(unknown)(unknown.message, hint)
        self.options: dict[str, Value] = dict(parse_params(tail, settings.executor))
        self.options |= {} if settings.workers is None else {"workers": settings.workers}
        self.options |= {"address": settings.address} if settings.address else {}
        self.data = DataStore(_folder(settings.data_dir), settings.offline, self.plugins.parsers)
        self.results, self.cache = (
            ResultStore(Path(settings.results)),
            Cache(_folder(settings.cache)),
        )
        self.threads = 0  # with which tuning computes on the CPU; 0: torch's own number
        self.share = 1.0  # of the GPU's memory, for this process
        # Kinds of long work on which ``runs.half_precision`` has remarked.
        self.remarked: set[str] = set()
        # Encoder systems that were planned and not loaded yet: planning needs their fingerprints.
        self.systems: dict[tuple[EncoderSpec, Path | None, str], Encoder] = {}

    @cached_property
    def torch_device(self) -> torch.device:
        """The device of this process. Where cells are computed elsewhere, the setting is not about this machine."""
        from mirrorbench.core.devices import pick_device, use_deterministic_algorithms

        if self.settings.deterministic:
            use_deterministic_algorithms()
        elsewhere = self.plugins.executors[self.executor].device and self.settings.device != "cpu"
        return pick_device("auto" if elsewhere else self.settings.device)

    @cached_property
    def planned_device(self) -> str:
        """The device that computes the cells, here or elsewhere."""
        elsewhere = self.plugins.executors[self.executor].device
        return (
            elsewhere(self.settings.device, self.options) if elsewhere else str(self.torch_device)
        )

    @cached_property
    def numeric_precision(self) -> dict[str, str]:
        """``fp32``, ``bf16`` or ``fp16`` of ``tuning`` and of ``encoding``, whose default is fp32."""
        import torch

        from mirrorbench.core.devices import pick_precision, tuning_precision

        here = self.plugins.executors[self.executor].device is None
        usual = tuning_precision(torch.device(self.planned_device), here)
        tuning = pick_precision(self.settings.precision, usual)
        return {"tuning": tuning, "encoding": pick_precision(self.settings.eval_precision, "fp32")}

    def context(self) -> WorkerContext:
        """Return the context from which a worker makes an equal workspace."""
        import torch

        settings = Settings(
            self.results.root.absolute(),
            self.data.root.absolute(),
            self.cache.root.absolute(),
            self.planned_device,
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
        space.threads, space.share = (
            self.threads if self.settings.device == "cpu" else 0,
            self.share,
        )
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
