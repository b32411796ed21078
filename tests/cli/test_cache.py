"""The commands of the cache, and what they call."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from helpers.filled_cache import KEY, fill_cache

from mirrorbench.storage.cache import Cache
from mirrorbench.storage.cache_entries import entries


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory, random_model: Callable[[str], Path]) -> Path:
    return fill_cache(tmp_path_factory.mktemp("cache"), random_model("bert"))


@pytest.fixture
def cache(tmp_path: Path, filled: Path) -> Cache:
    """A model and vectors, where MIRRORBENCH_CACHE points in tests."""
    return Cache(Path(shutil.copytree(filled, tmp_path / "default-cache")))


def one(cache: Cache, folder: str):
    (entry,) = (entry for entry in entries(cache) if entry.folder == folder)
    return entry


def test_cache_entries_are_listed_and_pruned(cache: Cache, mirrorbench: Callable) -> None:
    mirrorbench("cache", "list").assert_works("tiny+mirror seed 3", "2 entries")
    assert {row["folder"] for row in json.loads(mirrorbench("cache", "list", "--json").out)} == {
        "models",
        "embeddings",
    }
    model = one(cache, "models")
    assert model.size == sum(
        file.stat().st_size for file in model.path.rglob("*") if file.is_file()
    )
    assert time.time() - model.used < 3600
    (model.path / "mirrorbench.json").write_text("[]")  # a damaged one
    # A file of the user, which is not an entry.
    notes = model.path.parent / "notes.txt"
    notes.touch()
    mirrorbench("cache", "list").assert_works(f"{KEY[:12]}")
    mirrorbench("cache", "prune", "--all", "--dry-run").assert_works("2 entries would be removed")
    assert len(entries(cache)) == 2
    mirrorbench("cache", "prune", "--all").assert_works("2 entries removed")
    assert entries(cache) == []
    assert notes.exists()
    mirrorbench("cache", "list").assert_works("0 entries")
