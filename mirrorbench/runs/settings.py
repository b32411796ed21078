"""The settings of a run, as a user writes them: folders, device, precisions, executor."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TypedDict

from mirrorbench.core.arguments import check_count, check_folder, check_type


class SettingsFields(TypedDict, total=False):
    """Settings as keyword arguments of the Python functions, with the meaning and defaults of ``Settings``."""

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
    """Folders, device, precisions and executor, as a user writes them.

    Attributes:
        results: the folder of results.
        data_dir: the folder of data files; by default ``MIRRORBENCH_DATA`` or the platform's data directory.
        cache: the folder of tuned models and embeddings; by default ``MIRRORBENCH_CACHE`` or the platform's.
        device: ``auto``, ``cpu``, ``cuda``, ``cuda:N`` or ``mps``.
        precision: precision of tuning: ``auto`` (on CUDA bf16, before Ampere fp16; else fp32), ``fp32``, ``bf16`` or
            ``fp16``.
        eval_precision: precision of evaluation and of encoding: ``auto`` (fp32), ``fp32``, ``bf16`` or ``fp16``.
        offline: open no socket.
        deterministic: use only algorithms that repeat bit for bit on a GPU.
        executor: where cells are computed: ``NAME[:KEY=VALUE,...]``.
        workers: number of worker processes; by default this process, or one for each GPU.
        address: address of the executor's cluster.
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
            folder = getattr(self, name)
            if folder is not None:
                check_folder(name, folder)
        for name, example in _EXAMPLES.items():
            check_type(name, getattr(self, name), (str,), f"a text, such as {name}={example!r}")
        for name in ("offline", "deterministic"):
            check_type(name, getattr(self, name), (bool,), "True or False")
        if self.workers is not None:
            check_count("workers", self.workers, least=1)


_EXAMPLES = {
    "device": "cpu",
    "precision": "fp32",
    "eval_precision": "fp32",
    "executor": "local",
    "address": "auto",
}
"""Settings that are texts, each with the value that messages give as an example."""
