"""Fixtures for all tests. The toys themselves are in ``toys.py``, the random models in ``random_models.py``."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import settings

from mirrorbench.data.store import DataStore
from mirrorbench.plugins import Plugins

# Properties write files, and a busy disk is no failure: no deadline. The suite draws the same examples every time, so that
# a run that passes passes again; `nox -s fuzz` (--hypothesis-profile=search) looks for new ones.
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
    from mirrorbench.data.cards import builtin_cards
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
