"""The environment in which a result was computed: versions, device, commit."""

from __future__ import annotations

import platform
import subprocess
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mirrorbench.core.identity import __version__

if TYPE_CHECKING:
    import torch

_PACKAGES = (
    "torch",
    "transformers",
    "tokenizers",
    "numpy",
    "scipy",
    "scikit-learn",
    "sentence-transformers",
)


def describe_environment(device: torch.device) -> dict[str, Any]:
    """Return the ``environment`` of a result; ``git`` is the commit of a checkout, else ``None``."""
    from mirrorbench.core.devices import describe, describe_gpu

    packages = {}
    for name in _PACKAGES:
        installed = package_version(name)
        if installed:
            packages[name] = installed
    return {
        "mirrorbench": __version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "packages": packages,
        "device": str(device),
        "device_name": describe(device),
        "git": commit(),
        **describe_gpu(device),
    }


def package_version(name: str) -> str:
    """Return the version of an installed distribution, empty if it is not installed."""
    try:
        return version(name)
    except PackageNotFoundError:
        return ""


@cache
def commit() -> str | None:
    """Return the commit of a checkout of this package; ``None`` for an installed package."""
    checkout = Path(__file__).resolve().parents[2]
    if not (checkout / ".git").exists():
        return None
    # Without tags: the commit itself.
    options = ["--always", "--dirty", "--abbrev=40", "--exclude", "*"]
    command = ["git", "-C", str(checkout), "describe", *options]
    try:
        process = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return process.stdout.strip() or None
