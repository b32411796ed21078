"""Fixtures: separate folders for each test, the plugin, and MTEB tasks with data in memory."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

HERE = Path(__file__).resolve().parent
# The plugin, installed or not, and the fixtures of a checkout of mirrorbench.
sys.path[:0] = [str(HERE), str(HERE.parent), str(HERE.parents[2] / "tests")]

pytest.importorskip("mteb")
import mirrorbench_mteb
from helpers.plugin_fixtures import own_folders, plugins, said
from memory import SPEC, similarity_task

import mirrorbench
from mirrorbench.plugin import DataStore, Pair, Plugins

__all__ = ["own_folders", "plugins", "said"]


@pytest.fixture(autouse=True)
def _own_folders_of_mteb(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("MTEB_CACHE", str(tmp_path / "mteb-cache"))
    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", tmp_path / "datasets")


@pytest.fixture(scope="session")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of results of a tuned and an untuned encoder, with the cache beside it."""
    folder = tmp_path_factory.mktemp("results")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MIRRORBENCH_CACHE", str(folder / "cache"))
        mirrorbench.run([SPEC, "tiny+base"], "quick-sts", output=folder / "results", offline=True)
    return folder / "results"


@pytest.fixture
def plugin() -> ModuleType:
    return mirrorbench_mteb


@pytest.fixture
def sts17(plugins: Plugins, tmp_path: Path) -> list[Pair]:
    """The 250 pairs inside the package, read by the task of mirrorbench."""
    pairs: list[Pair] = plugins.tasks["quick-sts"].load(DataStore(tmp_path / "data", offline=True))
    assert len(pairs) == 250
    return pairs


@pytest.fixture
def similarity(sts17: list[Pair]) -> Any:
    """A task of MTEB on these pairs, in memory."""
    return similarity_task(sts17)
