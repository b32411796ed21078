"""The maintenance of the cache: its entries, their damage, and what may be removed."""

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
from zipfile import BadZipFile

import numpy as np

from mirrorbench.core.checksums import ABOUT, CHECKSUMS, damaged_files, noted
from mirrorbench.core.files import TEMPORARY, unwritable
from mirrorbench.core.identity import COMPUTATION
from mirrorbench.runs.cache import SHARD, STATEMENT, Cache, is_whole
from mirrorbench.runs.kinds import KINDS_FOLDER, stored_kind
from mirrorbench.training.checkpoints import CHECKPOINTS, damaged

LEFTOVER_AGE = 86_400.0
"""Seconds after which a temporary file counts as abandoned."""


@dataclass(frozen=True, slots=True)
class CacheEntry:
    """An entry of the cache."""

    kind: str
    """``models``, ``checkpoints`` of tunings, ``embeddings``, ``vectors`` of words and tokens, ``corpora``,
    ``transformations``, ``checksums`` of files of word vectors, ``kinds`` of models, or ``leftovers`` of killed
    processes and earlier versions."""
    key: str
    path: Path
    size: int
    """Bytes."""
    used: float
    """Time of the last write or, where the file system records it, the last read; seconds since 1970."""
    what: str
    """A description: encoder spec and seed of a model, number and dimensions of vectors."""
    earlier: bool = False
    """Whether another computation made it, or none that it states: no run of this version has read it."""


_FILES = {"corpora": ".json", "transformations": ".npz", "checksums": ".json", KINDS_FOLDER: ".json"}
"""Kinds of which each entry is one file."""
_KINDS = ("models", CHECKPOINTS, "embeddings", "vectors", *_FILES)


def entries(cache: Cache) -> list[CacheEntry]:
    """All entries of the cache, the largest first."""
    found = [entry for kind in _KINDS for entry in _of_kind(cache, kind)]
    return sorted(found, key=lambda entry: (-entry.size, entry.key))


def damage(cache: Cache, entry: CacheEntry) -> str:
    """What is wrong with an entry, found by hashing it; empty if it is whole. Changes nothing."""
    with _access_times_kept(entry.path):
        if entry.kind in ("models", "vectors"):
            return damaged_files(entry.path)
        if entry.kind == "checksums":
            return "" if noted(entry.path) else "its checksum is not the one that was written"
        if entry.kind == KINDS_FOLDER:
            return "" if stored_kind(entry.path) else "its checksum is not the one that was written"
        if entry.kind == CHECKPOINTS:
            return damaged(entry.path)
        if entry.kind == "corpora":
            return "" if cache.corpus(entry.key) is not None else "its strings are not those of its checksum"
        if entry.kind == "transformations":
            return "" if cache.transformation(entry.key) else "its numbers are not those that were written"
        if entry.kind == "embeddings":
            broken = [name[:12] for name in _shards(entry.path) if not is_whole(entry.path, name)]
            return f"{len(broken)} of its files ({', '.join(broken)})" if broken else ""
    return "an unfinished file"


def prunable(
    cache: Cache, older_than: float | None = None, everything: bool = False, earlier: bool = False
) -> list[CacheEntry]:
    """What may be removed: leftovers, entries not used for ``older_than`` days, those ``earlier``, or ``everything``.

    Entries that a running process holds are left out.
    """
    now, chosen = time.time(), []
    for entry in entries(cache):
        age = now - entry.used
        if entry.kind == "leftovers":
            chosen += [entry] if age > LEFTOVER_AGE else []
            continue
        asked = everything or (earlier and entry.earlier) or (older_than is not None and age > older_than * 86_400)
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
        raise unwritable(f"{entry.path} cannot be removed", error, "have its owner remove it") from error


def _of_kind(cache: Cache, kind: str) -> Iterator[CacheEntry]:
    folder = cache.root / kind
    for path in sorted(folder.iterdir()) if folder.is_dir() else []:
        if path.name.startswith(TEMPORARY):
            yield _entry("leftovers", path.name, path)
        elif kind == "vectors" and not (path / CHECKSUMS).is_file():
            if path.is_dir() or path.suffix in (".npy", ".sha256"):
                yield _entry("leftovers", path.name, path, "word vectors of an earlier version")
        elif path.suffix == _FILES[kind] if kind in _FILES else path.is_dir():  # others are not ours (.DS_Store)
            for left in sorted(path.glob(f"{TEMPORARY}*")) if kind in ("embeddings", CHECKPOINTS) else ():
                yield _entry("leftovers", left.name, left)
            with _access_times_kept(path):
                what, earlier = _what(kind, path), _computation(kind, path) != COMPUTATION
            yield _entry(kind, path.name.removesuffix(_FILES.get(kind, "")), path, what, earlier)


def _computation(kind: str, path: Path) -> object:
    """The computation that a model or vectors state, ``None`` where they state none; of other kinds today's."""
    with suppress(OSError, ValueError, KeyError, TypeError, RecursionError):
        if kind == "models":
            return json.loads((path / "mirrorbench.json").read_text(encoding="utf-8"))["identity"]["computation"]
        return int((path / STATEMENT).read_text(encoding="utf-8")) if kind == "embeddings" else COMPUTATION
    return None


def _entry(kind: str, key: str, path: Path, what: str = "", earlier: bool = False) -> CacheEntry:
    stats = [found for _, found in _stats(path)]
    used = max((max(found.st_mtime, found.st_atime) for found in stats), default=0.0)
    return CacheEntry(kind, key, path, sum(found.st_size for found in stats), used, what, earlier)


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
    if kind == "vectors":
        with suppress(OSError, UnicodeDecodeError):
            return (path / ABOUT).read_text(encoding="utf-8")
        return "unreadable"
    if kind == "checksums":
        return "of a file of word vectors" if noted(path) else "unreadable"
    if kind == KINDS_FOLDER:
        return "what was seen of a model that was tried" if stored_kind(path) else "unreadable"
    if kind == CHECKPOINTS:
        return "a tuning that was interrupted, or goes on"
    if kind == "transformations":
        try:
            with np.load(path) as arrays:
                return str(arrays["what"])
        except (OSError, ValueError, EOFError, KeyError, BadZipFile):
            return "unreadable"
    if kind == "models":
        try:
            made = json.loads((path / "mirrorbench.json").read_text(encoding="utf-8"))
            return f"{made['spec']} seed {made['seed']}"
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            return "unreadable"
    shapes = []
    for name in _shards(path):
        with suppress(OSError, ValueError, EOFError):
            shapes.append(np.load(path / f"{name}.npy", mmap_mode="r").shape)
    n = sum(shape[0] for shape in shapes)
    return f"{n:,} vectors of {shapes[-1][1]} dimensions" if n else "nothing that this version reads"


def _shards(folder: Path) -> list[str]:
    return sorted(path.stem for path in folder.glob("*.npy") if SHARD.fullmatch(path.stem))
