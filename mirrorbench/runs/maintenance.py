"""Maintenance of the cache: lists, verifies and removes entries. All of them can be made again."""

from __future__ import annotations

import json
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mirrorbench.core.errors import StorageError
from mirrorbench.core.files import TEMPORARY, damaged_files
from mirrorbench.runs.cache import SHARD, Cache, is_whole

LEFTOVER_AGE = 86_400.0
"""Seconds after which a temporary file counts as abandoned."""


@dataclass(frozen=True, slots=True)
class CacheEntry:
    """An entry of the cache."""

    kind: str
    """``models``, ``embeddings``, ``corpora``, or ``leftovers`` of killed processes."""
    key: str
    path: Path
    size: int
    """Bytes."""
    used: float
    """Time of the last write or, where the file system records it, the last read; seconds since 1970."""
    what: str
    """A description: encoder spec and seed of a model, number and dimensions of vectors."""


def entries(cache: Cache) -> list[CacheEntry]:
    """All entries of the cache, the largest first."""
    found = [entry for kind in ("models", "embeddings", "corpora") for entry in _of_kind(cache, kind)]
    return sorted(found, key=lambda entry: (-entry.size, entry.key))


def damage(cache: Cache, entry: CacheEntry) -> str:
    """What is wrong with an entry, found by hashing it; empty if it is whole. Changes nothing."""
    with _access_times_kept(entry.path):
        if entry.kind == "models":
            return damaged_files(entry.path)
        if entry.kind == "corpora":
            return "" if cache.corpus(entry.key) is not None else "its strings are not those of its checksum"
        if entry.kind == "embeddings":
            broken = [name[:12] for name in _shards(entry.path) if not is_whole(entry.path, name)]
            return f"{len(broken)} of its files ({', '.join(broken)})" if broken else ""
    return "an unfinished file"


def prunable(cache: Cache, older_than: float | None = None, everything: bool = False) -> list[CacheEntry]:
    """What may be removed: leftovers, entries not used for ``older_than`` days, or ``everything``.

    Entries that a running process holds are left out.
    """
    now, chosen = time.time(), []
    for entry in entries(cache):
        if entry.kind == "leftovers":
            if now - entry.used > LEFTOVER_AGE:
                chosen.append(entry)
        else:
            asked = everything or (older_than is not None and now - entry.used > older_than * 86_400)
            if asked and (lease := cache.leases.take(entry.key)):
                with lease:
                    chosen.append(entry)
    return chosen


def remove(entry: CacheEntry) -> None:
    """Remove an entry, or raise ``StorageError``. A folder is renamed first, so that no process opens part of it."""
    try:
        if not entry.path.is_dir():
            entry.path.unlink()
            return
        # A new name each time: an earlier removal may have been killed.
        doomed = Path(tempfile.mkdtemp(prefix=f"{TEMPORARY}gone-", dir=entry.path.parent))
        try:
            entry.path.rename(doomed / "entry")
        finally:
            shutil.rmtree(doomed)
    except FileNotFoundError:  # removed by another process
        return
    except OSError as error:
        raise StorageError(
            f"{entry.path} cannot be removed: {error.strerror}", "It belongs to another user, or the disk is read-only."
        ) from error


def _of_kind(cache: Cache, kind: str) -> Iterator[CacheEntry]:
    folder = cache.root / kind
    for path in sorted(folder.iterdir()) if folder.is_dir() else []:
        if path.name.startswith(TEMPORARY):
            yield _entry("leftovers", path.name, path)
        elif path.suffix == ".json" if kind == "corpora" else path.is_dir():  # others are not ours (.DS_Store)
            for left in sorted(path.glob(f"{TEMPORARY}*")) if kind == "embeddings" else ():
                yield _entry("leftovers", left.name, left)
            with _access_times_kept(path):
                what = _what(kind, path)
            yield _entry(kind, path.name.removesuffix(".json"), path, what)


def _entry(kind: str, key: str, path: Path, what: str = "") -> CacheEntry:
    stats = [found for _, found in _stats(path)]
    used = max((max(found.st_mtime, found.st_atime) for found in stats), default=0.0)
    return CacheEntry(kind, key, path, sum(found.st_size for found in stats), used, what)


def _stats(path: Path) -> list[tuple[Path, os.stat_result]]:
    """The regular files of a folder, or the file itself, with their sizes and times."""
    found = []
    for file in path.rglob("*") if path.is_dir() else [path]:
        with suppress(FileNotFoundError):  # removed or renamed by another process
            if stat.S_ISREG((now := file.stat()).st_mode):
                found.append((file, now))
    return found


@contextmanager
def _access_times_kept(path: Path) -> Iterator[None]:
    """Restore access times after reading files inside: listing or verifying an entry does not count as use."""
    before = _stats(path)
    yield
    for file, then in before:
        with suppress(OSError):
            os.utime(file, ns=(then.st_atime_ns, then.st_mtime_ns))


def _what(kind: str, path: Path) -> str:
    if kind == "corpora":
        return "strings of a corpus"
    if kind == "models":
        try:
            made = json.loads((path / "mirrorbench.json").read_text(encoding="utf-8"))
            return f"{made['spec']} seed {made['seed']}"
        except (OSError, ValueError, KeyError):
            return "unreadable"
    shapes = []
    for name in _shards(path):
        with suppress(OSError, ValueError, EOFError):
            shapes.append(np.load(path / f"{name}.npy", mmap_mode="r").shape)
    n = sum(shape[0] for shape in shapes)
    return f"{n:,} vectors of {shapes[-1][1]} dimensions" if n else "nothing that this version reads"


def _shards(folder: Path) -> list[str]:
    return sorted(path.stem for path in folder.glob("*.npy") if SHARD.fullmatch(path.stem))
