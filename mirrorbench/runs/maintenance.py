"""Upkeep of the cache: what is in it, whether it is whole, and what may go. Everything in it can be made again."""

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
from mirrorbench.runs.cache import SHARD, Cache, shard_name

ENTRY_KINDS = ("models", "embeddings", "corpora")
LEFTOVER_AGE = 86_400.0
"""Seconds after which a temporary file belongs to nobody who is still writing."""


@dataclass(frozen=True, slots=True)
class CacheEntry:
    """One thing in the cache.

    Attributes:
        kind: ``models``, ``embeddings`` or ``corpora``; ``leftovers`` for what a killed process left.
        key: its name.
        path: its folder or file.
        size: bytes.
        used: when it was last written or, where the file system keeps count, read; seconds since 1970.
        what: the encoder spec of a model, the number of vectors, the number of bytes.
    """

    kind: str
    key: str
    path: Path
    size: int
    used: float
    what: str


def entries(cache: Cache) -> list[CacheEntry]:
    """Everything in the cache, the largest first."""
    found = [entry for kind in ENTRY_KINDS for entry in _of_kind(cache, kind)]
    return sorted(found, key=lambda entry: (-entry.size, entry.key))


def damage(cache: Cache, entry: CacheEntry) -> str:
    """What is wrong with an entry, found by hashing it; empty if it is whole. Nothing is changed."""
    with _unnoticed(entry.path):
        if entry.kind == "models":
            return damaged_files(entry.path)
        if entry.kind == "corpora":
            return "" if cache.corpus(entry.key) is not None else "its strings are not those of its checksum"
        if entry.kind == "embeddings":
            broken = [name for name in _shards(entry.path) if not _whole(entry.path, name)]
            return f"{len(broken)} of its files ({', '.join(name[:12] for name in broken)})" if broken else ""
    return "an unfinished file"


def prunable(cache: Cache, older_than: float | None = None, everything: bool = False) -> list[CacheEntry]:
    """What may go.

    Args:
        cache: the cache.
        older_than: also what was not used for this many days.
        everything: also everything else.

    Returns:
        Leftovers of killed processes always; never what a running process holds.
    """
    chosen = []
    for entry in entries(cache):
        age = time.time() - entry.used
        if entry.kind == "leftovers":
            goes = age > LEFTOVER_AGE
        else:
            asked = everything or (older_than is not None and age > older_than * 86_400)
            goes = asked and not _in_use(cache, entry)
        if goes:
            chosen.append(entry)
    return chosen


def remove(entry: CacheEntry) -> None:
    """Remove an entry; a folder first takes another name, so that nobody opens half of it.

    Raises:
        StorageError: it may not be removed.
    """
    try:
        if entry.path.is_dir():
            # A new one each time: an earlier removal may have been killed in the middle.
            doomed = Path(tempfile.mkdtemp(prefix=f"{TEMPORARY}gone-", dir=entry.path.parent))
            try:
                entry.path.rename(doomed / "entry")
            finally:
                shutil.rmtree(doomed)
        else:
            entry.path.unlink()
    except FileNotFoundError:  # another process was faster
        return
    except OSError as error:
        raise StorageError(
            f"{entry.path} cannot be removed: {error.strerror}", "It belongs to another user, or the disk is read-only."
        ) from error


def _in_use(cache: Cache, entry: CacheEntry) -> bool:
    """Whether a living process holds the lease of an entry; one that a dead process left counts for nothing."""
    lease = cache.leases.take(entry.key)
    if lease is None:
        return True
    with lease:
        return False


def _of_kind(cache: Cache, kind: str) -> Iterator[CacheEntry]:
    folder = cache.root / kind
    for path in sorted(folder.iterdir()) if folder.is_dir() else []:
        if path.name.startswith(TEMPORARY):
            yield _entry("leftovers", path.name, path)
        elif path.suffix == ".json" if kind == "corpora" else path.is_dir():  # else nothing of ours, but .DS_Store ...
            for left in sorted(path.glob(f"{TEMPORARY}*")) if kind == "embeddings" else ():
                yield _entry("leftovers", left.name, left)
            with _unnoticed(path):
                what = _what(kind, path)
            yield _entry(kind, path.name.removesuffix(".json"), path, what)


def _entry(kind: str, key: str, path: Path, what: str = "") -> CacheEntry:
    stats = [found for _, found in _stats(path)]
    used = max((max(found.st_mtime, found.st_atime) for found in stats), default=0.0)
    return CacheEntry(kind, key, path, sum(found.st_size for found in stats), used, what)


def _stats(path: Path) -> list[tuple[Path, os.stat_result]]:
    """The files of a folder, or the file itself, with their sizes and times."""
    found = []
    for file in path.rglob("*") if path.is_dir() else [path]:
        with suppress(FileNotFoundError):  # another process has just removed or renamed it
            if stat.S_ISREG((now := file.stat()).st_mode):
                found.append((file, now))
    return found


@contextmanager
def _unnoticed(path: Path) -> Iterator[None]:
    """What is read inside keeps the time of its last access: to list or verify an entry is no use of it."""
    before = _stats(path)
    yield
    for file, then in before:
        with suppress(OSError):
            os.utime(file, ns=(then.st_atime_ns, then.st_mtime_ns))


def _what(kind: str, path: Path) -> str:
    if kind == "models":
        try:
            made = json.loads((path / "mirrorbench.json").read_text(encoding="utf-8"))
            return f"{made['spec']} seed {made['seed']}"
        except (OSError, ValueError, KeyError):
            return "unreadable"
    if kind == "embeddings":
        n = d = 0
        for name in _shards(path):
            try:
                shape = np.load(path / f"{name}.npy", mmap_mode="r").shape
            except (OSError, ValueError, EOFError):
                continue
            n, d = n + shape[0], shape[1]
        return f"{n:,} vectors of {d} dimensions" if n else "nothing that this version reads"
    return "strings of a corpus"


def _shards(folder: Path) -> list[str]:
    return sorted(path.stem for path in folder.glob("*.npy") if SHARD.fullmatch(path.stem))


def _whole(folder: Path, name: str) -> bool:
    try:
        keys, vectors = np.load(folder / f"{name}.keys.npy"), np.load(folder / f"{name}.npy")
    except (OSError, ValueError, EOFError):
        return False
    return shard_name(keys, vectors) == name
