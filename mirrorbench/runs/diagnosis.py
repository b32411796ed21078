"""What ``mirrorbench doctor`` finds: versions, devices, folders, the hub, what each suite lacks, the environment."""

from __future__ import annotations

import os
import platform
import shutil
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mirrorbench.data.store import DataStore

PACKAGES = ("torch", "transformers", "tokenizers", "huggingface_hub", "numpy", "scipy", "scikit-learn")
EXTRAS = {
    "sbert": ("sentence-transformers", "encoder sbert"),
    "static": ("gensim", "fastText binaries"),
    "words": ("wordfreq", "corpora of frequent words"),
    "parquet": ("pyarrow", "Parquet files"),
    "frames": ("pandas", "DataFrames"),
    "figures": ("matplotlib", "figures of mirrorbench analyze"),
    "hub": ("datasets", "corpora and tasks from data sets of the Hugging Face hub"),
}
"""Extras of the distribution: the package that each brings, and for what."""

VARIABLES = {
    "MIRRORBENCH_DATA": "folder of data files",
    "MIRRORBENCH_CACHE": "folder of tuned models and vectors",
    "MIRRORBENCH_DISABLE_PLUGINS": "names of plugins that are not loaded, with commas",
    "MIRRORBENCH_STRICT_PLUGINS": "1: a broken plugin is an error",
    "MIRRORBENCH_DEBUG": "1: errors keep their traceback",
    "HF_HOME": "folder of models from the hub",
    "HF_HUB_CACHE": "likewise, for the models alone",
    "HF_ENDPOINT": "address of the hub",
    "HF_HUB_OFFLINE": "1: the hub is never asked",
    "OMP_NUM_THREADS": "threads of torch on the processor",
    "CUDA_VISIBLE_DEVICES": "GPUs that torch sees",
}
"""Every environment variable that changes what mirrorbench does, and how."""

HUB_TIMEOUT = 5.0
"""Seconds that the hub has to answer."""


@dataclass(frozen=True, slots=True)
class Folder:
    """A folder that mirrorbench uses: whether it is there, can be written, what it holds and what is free (bytes)."""

    name: str
    path: Path
    exists: bool
    writable: bool
    size: int
    free: int


def versions() -> dict[str, str]:
    """Versions of Python and the packages that compute; empty for one that is not installed."""
    import mirrorbench

    return {
        "mirrorbench": mirrorbench.__version__,
        "python": f"{platform.python_version()} on {platform.platform()}",
        **{name: package_version(name) for name in PACKAGES},
    }


def package_version(name: str) -> str:
    """The version of an installed distribution, empty where there is none."""
    try:
        return version(name)
    except PackageNotFoundError:
        return ""


def devices() -> list[str]:
    """Devices that torch can use, the one that ``auto`` takes first."""
    import torch

    from mirrorbench.core.devices import describe, pick_device

    best = pick_device("auto")
    names = [f"cuda:{n}" for n in range(torch.cuda.device_count())] if torch.cuda.is_available() else []
    names += ["mps"] if torch.backends.mps.is_available() else []
    found = [torch.device(name) for name in (*names, "cpu")]
    return [f"{d}: {describe(d)}" for d in sorted(found, key=lambda d: d.type != best.type)]


def folders(data: DataStore) -> list[Folder]:
    """The data, the cache, and the hub's own cache."""
    from huggingface_hub.constants import HF_HUB_CACHE

    from mirrorbench.core.files import cache_root

    places = {"data": data.root, "cache": cache_root(), "hub": Path(HF_HUB_CACHE)}
    return [_folder(name, path) for name, path in places.items()]


def _folder(name: str, path: Path) -> Folder:
    above = next(parent for parent in (path, *path.parents) if parent.exists())
    used = 0
    for file in path.rglob("*") if path.is_dir() else ():
        # Files of the hub's cache are links to blobs: each blob counts once.
        with suppress(OSError):  # another process has just removed it
            used += file.stat().st_size if file.is_file() and not file.is_symlink() else 0
    return Folder(name, path, path.is_dir(), os.access(above, os.W_OK), used, shutil.disk_usage(above).free)


def hub(offline: bool) -> str:
    """Whether the hub answers: one request of at most ``HUB_TIMEOUT`` seconds, none if offline."""
    from huggingface_hub import HfApi
    from huggingface_hub.constants import is_offline_mode

    if offline or is_offline_mode():
        return f"not asked ({'--offline' if offline else 'HF_HUB_OFFLINE'})"
    api = HfApi()
    try:
        api.model_info("bert-base-uncased", timeout=HUB_TIMEOUT)
    except Exception as error:  # any failure of any network layer means the same here
        first = (str(error).strip().splitlines() or [""])[0]
        return f"{api.endpoint} not reachable ({type(error).__name__}: {first[:80]})"
    return f"{api.endpoint} reachable"


def lacking(data: DataStore) -> dict[str, list[str]]:
    """For each suite the tasks whose data files are not all here; those of one that is complete are none."""
    from mirrorbench.data.catalogue import builtin_cards, builtin_suites

    cards = builtin_cards()
    found = {}
    for suite, tasks in builtin_suites().items():
        known = [cards[task] for task in tasks if task in cards]
        found[suite] = [card.name for card in known if set(data.status(card).values()) - {"present"}]
    return found


def environment(variables: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The value of every variable that counts, empty where it is not set."""
    return {name: variables.get(name, "") for name in VARIABLES}
