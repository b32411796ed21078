"""Devices and numeric precision: what ``--device auto`` means, and what is a GPU."""

from __future__ import annotations

import ctypes
import os
import re
import sys
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

from mirrorbench.core.errors import UsageError

if TYPE_CHECKING:
    import torch

PRECISIONS = ("auto", "fp32", "bf16")
GPUS = ("cuda",)
"""Types of device that take the code's branches for a GPU; tests add ``meta``."""


def kind(device: torch.device) -> str:
    """``cpu``, ``mps``, or ``cuda`` for a GPU: the key of tables of sizes."""
    return "cuda" if device.type in GPUS else device.type


def on_gpu(device: torch.device) -> bool:
    """Whether a device is a GPU of CUDA (or ROCm, which has the same name in torch)."""
    return kind(device) == "cuda"


def gpu_count() -> int:
    """How many GPUs this machine has for torch."""
    import torch

    return torch.cuda.device_count()


def capability(device: torch.device) -> tuple[int, int]:
    """The compute capability of a GPU (8.0: Ampere, 9.0: Hopper), ``(0, 0)`` for any other device."""
    import torch

    return torch.cuda.get_device_capability(device) if on_gpu(device) else (0, 0)


def pick_device(name: str = "auto") -> torch.device:
    """The device called ``auto`` (CUDA, else Apple's MPS, else the CPU), ``cpu``, ``cuda``, ``cuda:N`` or ``mps``."""
    import torch

    if not re.fullmatch(r"auto|cpu|mps|cuda(:\d+)?", name):
        raise UsageError(f"unknown device {name!r}", "Devices: auto, cpu, cuda, cuda:N, mps")
    if name == "auto":
        name = "cuda" if gpu_count() else "mps" if torch.backends.mps.is_available() else "cpu"
    device = torch.device(name)
    if on_gpu(device):
        if not gpu_count():
            built = "this torch was built without CUDA" if not torch.version.cuda else "no CUDA device is visible"
            raise UsageError(f"--device {name}: {built}", "Use --device cpu, or install a CUDA build of torch.")
        if (device.index or 0) >= gpu_count():
            raise UsageError(f"--device {name}: this machine has {gpu_count()} CUDA devices")
    if device.type == "mps" and not torch.backends.mps.is_available():
        raise UsageError("--device mps: this machine has no Apple GPU that torch can use", "Use --device cpu.")
    if on_gpu(device):
        # A fixed workspace makes cuBLAS give the same sums in the same order; must be set before the first product.
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    return device


def pick_precision(name: str, device: torch.device) -> str:
    """``fp32`` or ``bf16``; ``auto`` is bf16 on CUDA devices that compute in it, fp32 elsewhere."""
    if name not in PRECISIONS:
        raise UsageError(f"unknown precision {name!r}", f"Precisions: {', '.join(PRECISIONS)}")
    if name != "auto":
        return name
    # Not torch.cuda.is_bf16_supported(): older GPUs emulate bf16, slower than fp32 and with fewer digits.
    return "bf16" if capability(device) >= (8, 0) else "fp32"


def use_deterministic_algorithms() -> None:
    """Let torch use only algorithms that repeat bit for bit, on one kind of GPU and version of torch and CUDA."""
    import torch

    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.use_deterministic_algorithms(True)
    torch.backends.cudnn.benchmark = False


def describe(device: torch.device) -> str:
    """A device's name as it stands in results: the GPU's product name, or the processor's."""
    import platform

    import torch

    if on_gpu(device):
        return str(torch.cuda.get_device_name(device))
    return f"{platform.machine()} ({torch.get_num_threads()} threads)" if device.type == "cpu" else "Apple GPU"


def autocast(device: torch.device, precision: str) -> AbstractContextManager[object]:
    """The context in which a model with float32 weights computes in ``fp32`` or ``bf16``."""
    import torch

    return torch.autocast(device.type, dtype=torch.bfloat16) if precision == "bf16" else nullcontext()


def out_of_memory(error: RuntimeError) -> bool:
    """Whether an error says that a device has no memory left: on CUDA it is of a type of its own, on MPS it is not."""
    import torch

    return isinstance(error, torch.OutOfMemoryError) or "MPS backend out of memory" in str(error)


def release_memory(device: torch.device) -> None:
    """Give memory back that torch keeps for later, or on a CPU glibc, in an arena for each thread that used it."""
    import torch

    if kind(device) in ("cuda", "mps"):
        torch.get_device_module(device).empty_cache()
    elif sys.platform == "linux" and (trim := getattr(ctypes.CDLL(None), "malloc_trim", None)):
        trim(0)
