"""Fixtures for all tests. The toys themselves are in ``toys.py``, the random models in ``random_models.py``."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import settings

from mirrorbench.data.store import DataStore
from mirrorbench.plugins import Plugins

# Processes side by side take a thread each: two threads in each of two would mostly wait for one another.
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("OMP_NUM_THREADS", "1")
# Properties write files, and a busy disk is no failure: no deadline. The suite draws the same examples every time, so
# that a run that passes passes again; `nox -s fuzz` (--hypothesis-profile=search) looks for new ones.
settings.register_profile("suite", deadline=None, derandomize=True, database=None)
settings.register_profile("search", deadline=None, max_examples=2000)
settings.load_profile("suite")


@pytest.fixture(autouse=True)
def _own_folders(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No test reads or writes the data and cache of whoever runs it."""
    monkeypatch.setenv("MIRRORBENCH_DATA", str(tmp_path / "default-data"))
    monkeypatch.setenv("MIRRORBENCH_CACHE", str(tmp_path / "default-cache"))
    for name in ("MIRRORBENCH_DISABLE_PLUGINS", "MIRRORBENCH_STRICT_PLUGINS", "MIRRORBENCH_DEBUG"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of original data sets beside the repository; tests that need it are skipped without it."""
    folder = Path(__file__).resolve().parents[2] / "shared" / "data"
    if not folder.is_dir():
        pytest.skip(f"no original data at {folder}")
    return folder


@pytest.fixture(scope="session")
def real_store(shared_data: Path, tmp_path_factory: pytest.TempPathFactory) -> DataStore:
    """A data store with the original English STS sets and the tuning sentences."""
    from mirrorbench.data.catalogue import builtin_cards
    from mirrorbench.data.importing import import_folder

    store = DataStore(tmp_path_factory.mktemp("real") / "data", offline=True)
    for folder in ("sts", "train"):
        import_folder(shared_data / folder, store, dict(builtin_cards()))
    return store


@pytest.fixture(scope="session")
def random_model(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The directory of a tiny model with random weights, by architecture; built once in a session."""
    from random_models import build

    folder = tmp_path_factory.mktemp("models")

    def directory(architecture: str) -> Path:
        path = folder / architecture
        if not path.is_dir():
            build(architecture, path)
        return path

    return directory


@pytest.fixture
def plugins() -> Plugins:
    """The built-in plugins alone."""
    return Plugins(discover=False)


@pytest.fixture
def rows_stand_alone() -> None:
    """Skips where a row of a matrix product depends on how many rows there are: a matter of the matrix library."""
    import torch

    from mirrorbench.encoding.batching import FEWEST_TOKENS

    weights, rows = torch.randn(512, 128), torch.randn(700, 128)
    whole = rows @ weights.T
    sizes = (FEWEST_TOKENS, 33, 45, 64, 100, 257, 500)
    if not all(torch.equal(rows[9 : 9 + n] @ weights.T, whole[9 : 9 + n]) for n in sizes):
        pytest.skip("this machine's matrix library makes a row of a product depend on how many rows there are")


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """What is flushed to the disk and what is renamed to what, as it happens: ``flush PATH``, ``rename TARGET``."""
    events: list[tuple[str, str]] = []
    flush, rename = os.fsync, os.replace

    def fsync(handle: int) -> None:
        events.append(("flush", os.readlink(f"/proc/self/fd/{handle}")))
        flush(handle)

    def replace(source: object, target: object) -> None:
        events.append(("rename", str(target)))
        rename(source, target)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(os, "replace", replace)
    return events
