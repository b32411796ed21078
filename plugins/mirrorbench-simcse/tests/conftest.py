"""Folders of their own for the tests, and the embedded model as the backbone."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))  # the plugin, installed or not

import mirrorbench_simcse  # noqa: E402

from mirrorbench import plugins as plugin_manager  # noqa: E402
from mirrorbench.plugins import Plugins  # noqa: E402


@pytest.fixture(autouse=True)
def _own_folders(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("MIRRORBENCH_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("MIRRORBENCH_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")


@pytest.fixture
def plugins() -> Iterator[Plugins]:
    plugin_manager.plugins.cache_clear()
    loaded = plugin_manager.plugins()
    if "simcse" not in loaded.methods:  # installed, it has registered itself
        loaded.add(mirrorbench_simcse, "simcse")
    yield loaded
    plugin_manager.plugins.cache_clear()
