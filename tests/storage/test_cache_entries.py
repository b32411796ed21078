"""Entries of the cache, and which may be removed."""

from __future__ import annotations

import json
import os
import re
import shutil
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.filled_cache import KEY, fill_cache
from helpers.shell import folder, mirrorbench

from mirrorbench.core.encoder_protocol import TextInput
from mirrorbench.core.identity import COMPUTATION
from mirrorbench.storage.cache import Cache
from mirrorbench.storage.cache_entries import entries, prunable, remove
from mirrorbench.storage.embedding_cache import EmbeddingCache

__all__ = ["folder", "mirrorbench"]


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory, random_model: Callable[[str], Path]) -> Path:
    return fill_cache(tmp_path_factory.mktemp("cache"), random_model("bert"))


@pytest.fixture
def cache(tmp_path: Path, filled: Path) -> Cache:
    """A model and vectors, where MIRRORBENCH_CACHE points in tests."""
    return Cache(Path(shutil.copytree(filled, tmp_path / "default-cache")))


def age(files: Iterable[Path], days: float) -> None:
    then = time.time() - days * 86_400
    for file in files:
        os.utime(file, (then, then))


def one(cache: Cache, folder: str):
    (entry,) = (entry for entry in entries(cache) if entry.folder == folder)
    return entry


def folders(chosen: Iterable[Any]) -> list[str]:
    return sorted(entry.folder for entry in chosen)


def test_prune_spares_recent_and_leased_entries(cache: Cache) -> None:
    left = cache.root / "models" / ".part-xyz" / "half"
    left.parent.mkdir()
    left.touch()
    assert prunable(cache) == []  # a process may still be writing it
    age([left], 2)
    assert folders(prunable(cache)) == ["leftovers"]
    age(one(cache, "models").path.rglob("*"), 40)
    assert folders(prunable(cache, older_than=30)) == ["leftovers", "models"]
    age(cache.root.rglob("*"), 40)
    entries(cache)  # a look is no use
    assert folders(prunable(cache, older_than=30)) == ["embeddings", "leftovers", "models"]
    with Cache(cache.root).leases.wait(KEY):  # what a running process holds stays
        assert folders(prunable(cache, everything=True)) == ["embeddings", "leftovers"]
    for entry in (*prunable(cache), one(cache, "models"), one(cache, "models")):
        remove(entry)  # the last was removed by another process, which was faster
    assert prunable(cache) == []
    assert cache.model(KEY) is None


def test_entries_of_earlier_versions_are_listed_and_pruned(
    cache: Cache, mirrorbench: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Models and vectors of another computation or of none that they state, vectors until a run reads them."""
    for key, computation in (("c" * 64, COMPUTATION), ("d" * 64, COMPUTATION - 1)):
        (cache.root / "models" / key).mkdir()
        description = {"spec": "tiny+mirror", "seed": 3, "identity": {"computation": computation}}
        (cache.root / "models" / key / "mirrorbench.json").write_text(json.dumps(description))
    inputs = [TextInput("one")]
    vectors = np.ones((1, 5), dtype=np.float32)
    folder = cache.root / "embeddings" / ("e" * 64)
    EmbeddingCache(folder).put(inputs, vectors)
    (folder / "computation.txt").unlink()  # earlier versions did not write it
    with monkeypatch.context() as before:
        before.setattr("mirrorbench.storage.embedding_cache.COMPUTATION", COMPUTATION - 1)
        EmbeddingCache(cache.root / "embeddings" / ("f" * 64)).put(inputs, vectors)
    assert {entry.key[0] for entry in entries(cache) if entry.earlier} == {"a", "d", "e", "f"}
    said = mirrorbench("cache", "list").assert_works("seed 3, of an earlier version")
    assert re.fullmatch("4 of them .*mirrorbench cache prune --earlier", said.out.splitlines()[-1])
    assert mirrorbench("cache", "prune").assert_works("0 entries removed")
    EmbeddingCache(folder)  # a run that uses the vectors writes it
    assert {entry.key[0] for entry in entries(cache) if entry.earlier} == {"a", "d", "f"}
    mirrorbench("cache", "prune", "--earlier").assert_works("3 entries removed")
    assert {entry.key[0] for entry in entries(cache)} == {"b", "c", "e"}
    assert "earlier version" not in mirrorbench("cache", "list").assert_works().out
