"""The workspace: plugins, folders, device and executor of a run."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from mirrorbench.core.errors import UsageError
from mirrorbench.core.plugins import Plugins
from mirrorbench.core.specs import EncoderSpec, Value, parse_params
from mirrorbench.data.store import DataStore
from mirrorbench.runs.cache import Cache
from mirrorbench.runs.outcomes import Reporter
from mirrorbench.runs.results import ResultStore

if TYPE_CHECKING:
    import torch

    from mirrorbench.core.inputs import Encoder

IN_PACKAGES = {"ray": "mirrorbench-ray", "slurm": "mirrorbench-slurm"}
"""Executors that are installed by themselves."""
_ENVIRONMENT = (
    "MIRRORBENCH_DISABLE_PLUGINS", "MIRRORBENCH_STRICT_PLUGINS", "HF_HUB_OFFLINE", "HF_HOME", "HF_HUB_CACHE",
    "HF_ENDPOINT",
)  # fmt: skip
"""Variables that decide which plugins and models a worker finds."""


class Workspace:
    """Plugins, folders, device and executor of a run, from user input; device and precisions are checked at first use.

    ``None`` means the default of the environment; ``executor`` is ``NAME[:KEY=VALUE,...]``, and ``workers`` and
    ``address`` are options of it.
    """

    def __init__(
        self, data_dir: str | Path | None = None, output: str | Path = "results", cache: str | Path | None = None,
        device: str = "auto", precision: str = "auto", eval_precision: str = "auto", offline: bool = False,
        deterministic: bool = False, executor: str = "local", workers: int | None = None, address: str = "",
        plugins: Plugins | None = None, reporter: Reporter | None = None,
    ) -> None:  # fmt: skip
        from mirrorbench.core.devices import let_threads_sleep
        from mirrorbench.runs.builtin import plugins as of_the_process

        let_threads_sleep()
        self.plugins, (self.executor, _, tail) = plugins or of_the_process(), executor.partition(":")
        if self.executor in IN_PACKAGES and self.executor not in self.plugins.executors:
            hint = "pip install {0}, or from a clone: pip install ./plugins/{0}".format(IN_PACKAGES[self.executor])
            raise UsageError(f"the executor {self.executor} is in a package that is not installed", hint)
        self.plugins.executors.entry(self.executor)
        self.options: dict[str, Value] = dict(parse_params(tail, executor))
        self.options |= {} if workers is None else {"workers": workers}
        self.options |= {"address": address} if address else {}
        self.data = DataStore(Path(data_dir) if data_dir else None, offline, self.plugins.parsers)
        self.results, self.cache = ResultStore(Path(output)), Cache(Path(cache) if cache else None)
        self.device, self.precision, self.eval_precision = device, precision, eval_precision
        self.offline, self.deterministic, self.reporter = offline, deterministic, reporter or Reporter()
        self.threads = 0  # with which tuning computes on the CPU; 0: torch's own number
        self.share = 1.0  # of the GPU's memory, for this process
        # Encoder systems that were planned and not loaded yet: planning needs their fingerprints.
        self.systems: dict[tuple[EncoderSpec, Path | None, str], Encoder] = {}

    @cached_property
    def torch_device(self) -> torch.device:
        """The device of this process. Where cells are computed elsewhere, ``device`` is not about this machine."""
        from mirrorbench.core.devices import pick_device, use_deterministic_algorithms

        if self.deterministic:
            use_deterministic_algorithms()
        elsewhere = self.plugins.executors[self.executor].device and self.device != "cpu"
        return pick_device("auto" if elsewhere else self.device)

    @cached_property
    def planned_device(self) -> str:
        """The device that computes the cells, here or elsewhere."""
        elsewhere = self.plugins.executors[self.executor].device
        return elsewhere(self.device, self.options) if elsewhere else str(self.torch_device)

    @cached_property
    def numeric_precision(self) -> dict[str, str]:
        """``fp32``, ``bf16`` or ``fp16`` of ``tuning`` and of ``encoding``, which is fp32 unless said otherwise."""
        import torch

        from mirrorbench.core.devices import pick_precision, tuning_precision

        here = self.plugins.executors[self.executor].device is None
        tuning = pick_precision(self.precision, tuning_precision(torch.device(self.planned_device), here))
        return {"tuning": tuning, "encoding": pick_precision(self.eval_precision, "fp32")}

    def context(self) -> WorkerContext:
        """The settings from which a worker creates an equal workspace."""
        import torch

        return WorkerContext(
            self.data.root.absolute(), self.results.root.absolute(), self.cache.root.absolute(), self.planned_device,
            tuple(self.plugins.files), self.offline, self.deterministic, torch.get_num_threads(),
        )  # fmt: skip


@dataclass(frozen=True)
class WorkerContext:
    """The settings that a worker computes cells with: small, picklable, the same for all groups of a run."""

    data: Path
    results: Path
    cache: Path
    device: str
    plugin_files: tuple[Path, ...] = ()
    offline: bool = False
    deterministic: bool = False
    threads: int = 0
    """With which tuning computes on the CPU: in all workers as in one process, since its sums depend on it."""
    share: float = 1.0
    """The share of a GPU's memory for each worker, from 0 to 1."""
    environment: tuple[tuple[str, str], ...] = field(
        default_factory=lambda: tuple((name, os.environ[name]) for name in _ENVIRONMENT if name in os.environ)
    )

    def workspace(self) -> Workspace:
        """A workspace in this process, with the plugin files loaded."""
        os.environ.update(self.environment)
        import torch

        from mirrorbench.runs.builtin import plugins

        registered = plugins()
        for file in self.plugin_files:
            if file not in registered.files:
                registered.add_file(file)
        # For tokenisers, which start their threads at first use; for torch OMP_NUM_THREADS was read already.
        os.environ.setdefault("RAYON_NUM_THREADS", str(torch.get_num_threads()))
        made = Workspace(
            self.data, self.results, self.cache, self.device, offline=self.offline, deterministic=self.deterministic,
            plugins=registered,
        )  # fmt: skip
        made.threads, made.share = self.threads if self.device == "cpu" else 0, self.share
        return made
