"""Where and how a run computes: executor, device, precisions, threads."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING

from mirrorbench.core.devices import let_threads_sleep
from mirrorbench.core.errors import UsageError, unknown_name
from mirrorbench.core.plugins import Plugins
from mirrorbench.core.specs import Value, parse_params
from mirrorbench.runs.registry import Executor
from mirrorbench.runs.settings import Settings

if TYPE_CHECKING:
    import torch


class Compute:
    """Executor, device and precisions of a run.

    Args:
        settings: the settings of the run.
        plugins: plugins with the executors.

    Attributes:
        executor: name of the executor.
        options: options of the executor.
        threads: number of threads of tuning on the CPU; 0 for torch's own number.
        share: share of a GPU's memory for this process, from 0 to 1.
        noted_work: kinds of long work that ``runs.half_precision`` has already noted.

    Raises:
        UsageError: no such executor. Device and precisions are checked at first use.
    """

    def __init__(self, settings: Settings, plugins: Plugins) -> None:
        # Sets environment variables, which torch reads when it is imported.
        let_threads_sleep()
        self._settings = settings
        self._plugins = plugins
        self.executor, _, tail = settings.executor.partition(":")
        if self.executor not in plugins.executors:
            unknown = unknown_name("executor", self.executor, plugins.executors.names())
            # The same error, with a further sentence in its hint.
            hint = f"{unknown.hint}. Others are packages: pip install mirrorbench-EXECUTOR"
            raise type(unknown)(unknown.message, hint)
        self.options: dict[str, Value] = dict(parse_params(tail, settings.executor))
        for key, value in (("workers", settings.workers), ("address", settings.address or None)):
            if value is None:
                continue
            if self.options.get(key, value) != value:
                raise UsageError(
                    f"--{key} {value}, but {key}={self.options[key]} in --executor {settings.executor}",
                    "State it once.",
                )
            self.options[key] = value
        self.threads = 0
        self.share = 1.0
        self.noted_work: set[str] = set()

    @property
    def deterministic(self) -> bool:
        """Whether only algorithms that repeat bit for bit are used on a GPU."""
        return self._settings.deterministic

    @cached_property
    def device(self) -> torch.device:
        """The device of this process.

        If cells are computed on other machines, the setting is about theirs, and the device here is picked
        automatically, except that ``cpu`` applies here, too.
        """
        from mirrorbench.core.devices import pick_device, use_deterministic_algorithms

        if self.deterministic:
            use_deterministic_algorithms()
        setting = self._settings.device
        if self._remote_device and setting != "cpu":
            setting = "auto"
        return pick_device(setting)

    @cached_property
    def planned_device(self) -> str:
        """The device that computes the cells, here or elsewhere."""
        remote_device = self._remote_device
        if remote_device:
            return remote_device(self._settings.device, self.options)
        return str(self.device)

    @cached_property
    def precisions(self) -> dict[str, str]:
        """The precisions of ``tuning`` and ``encoding`` (by default fp32): ``fp32``, ``bf16`` or ``fp16``."""
        import torch

        from mirrorbench.core.devices import pick_precision, tuning_precision

        device = torch.device(self.planned_device)
        default = tuning_precision(device, here=self._remote_device is None)
        return {
            "tuning": pick_precision(self._settings.precision, default),
            "encoding": pick_precision(self._settings.eval_precision, "fp32"),
        }

    @property
    def _remote_device(self) -> Callable[[str, Mapping[str, Value]], str] | None:
        """The function that names the device of workers on other machines; ``None`` for workers on this one."""
        executor: Executor = self._plugins.executors[self.executor]
        return executor.device
