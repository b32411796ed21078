"""What a result says about where it came from: versions, device, git commit."""

from __future__ import annotations

import platform
import subprocess
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import mirrorbench

if TYPE_CHECKING:
    import torch

_PACKAGES = ("torch", "transformers", "tokenizers", "numpy", "scipy", "scikit-learn", "sentence-transformers")


def describe(device: torch.device) -> dict[str, Any]:
    """Versions of what computes, the device, and the commit of a mirrorbench checkout (null outside one)."""
    from mirrorbench.core.devices import describe as describe_device

    return {
        "mirrorbench": mirrorbench.__version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "packages": {name: found for name in _PACKAGES if (found := _version(name))},
        "device": str(device),
        "device_name": describe_device(device),
        "git": _commit(),
    }


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


@cache
def _commit() -> str | None:
    checkout = Path(__file__).resolve().parents[2]
    if not (checkout / ".git").exists():
        return None
    try:
        out = subprocess.run(
            ["git", "-C", str(checkout), "describe", "--always", "--dirty", "--abbrev=40"],
            capture_output=True, text=True, timeout=10, check=True,
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        return None
    return out.stdout.strip() or None
