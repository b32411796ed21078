"""Entries of the cache, for listings, and their removal.

Entries are not checked for damage here: a run does this when it uses an entry.
"""

from __future__ import annotations

import json
import re
import shutil
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from mirrorbench.core.identity import COMPUTATION, DESCRIPTION
from mirrorbench.storage.cache import CACHE_FOLDERS, STATEMENT, Cache
from mirrorbench.storage.checksums import ABOUT
from mirrorbench.storage.files import TEMPORARY, unwritable

LEFTOVER_AGE = 86_400.0
"""Seconds after which a temporary file counts as abandoned."""
_ENTRY_NAME = re.compile(rf"[0-9a-f]{{32,}}|{re.escape(TEMPORARY)}.*")
"""Names of entries, complete or not; mirrorbench did not create other files, and leaves them alone."""
_READ_BY_LISTINGS = (DESCRIPTION, STATEMENT, ABOUT)
"""Files that a listing reads, so that their time of access does not show a use of the entry."""


@dataclass(frozen=True, slots=True)
class CacheEntry:
    """An entry of the cache."""

    folder: str
    """One of ``CACHE_FOLDERS``, or ``leftovers`` of killed processes."""
    key: str
    path: Path
    size: int
    """Bytes."""
    used: float
    """Time of the last write or, where the file system records it, the last read; seconds since 1970."""
    what: str
    """A description: encoder spec and seed of a model, source of word vectors; otherwise empty."""
    earlier: bool = False
    """Whether a model or vectors were made by another computation, or do not state theirs."""


def entries(cache: Cache) -> list[CacheEntry]:
    """Return all entries of the cache, the largest first."""
    cache_entries = []
    for folder in CACHE_FOLDERS:
        for path in sorted((cache.root / folder).glob("*")):
            if not _ENTRY_NAME.fullmatch(path.stem):
                continue
            with suppress(FileNotFoundError):  # removed by another process
                cache_entries.append(_entry(folder, path))
    return sorted(cache_entries, key=lambda entry: (-entry.size, entry.key))


def _entry(folder: str, path: Path) -> CacheEntry:
    """Return the entry at a path in a folder of the cache, as a leftover if it is incomplete."""
    size = 0
    times = []
    for file in (path, *path.rglob("*")):
        if not file.is_file():
            continue
        status = file.stat()
        size += status.st_size
        # A listing's own reading is no use of the entry.
        if file.name not in _READ_BY_LISTINGS:
            times += [status.st_mtime, status.st_atime]
    used = max(times) if times else path.stat().st_mtime
    # Leftovers are entries of whatever folder that were not completed.
    if path.name.startswith(TEMPORARY):
        folder = "leftovers"
    statement = _read_statement(folder, path)
    return CacheEntry(
        folder=folder,
        key=path.stem,
        path=path,
        size=size,
        used=used,
        what=statement.what,
        earlier=statement.computation != COMPUTATION,
    )


class _Statement(NamedTuple):
    """What the files of an entry state."""

    what: str
    """Description of the entry; may be empty."""
    computation: object
    """Version of the computation; the current one for entries that do not depend on it, ``None`` if unknown."""


def _read_statement(folder: str, path: Path) -> _Statement:
    """Return what the files of an entry state; ``None`` as the computation of models and vectors that state none."""
    try:
        if folder == "models":
            description = json.loads((path / DESCRIPTION).read_text(encoding="utf-8"))
            what = f"{description['spec']} seed {description['seed']}"
            return _Statement(what, description.get("identity", {}).get("computation"))
        if folder == "embeddings":
            return _Statement("", int((path / STATEMENT).read_text(encoding="utf-8")))
        if folder == "vectors":
            return _Statement((path / ABOUT).read_text(encoding="utf-8"), COMPUTATION)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        if folder in ("models", "embeddings"):
            return _Statement("", None)
    return _Statement("", COMPUTATION)


def prunable(
    cache: Cache, older_than: float | None = None, everything: bool = False, earlier: bool = False
) -> list[CacheEntry]:
    """Return entries to remove, the largest first: abandoned leftovers, and entries that meet one of the conditions.

    Entries that a running process holds are left out.

    Args:
        cache: the cache.
        older_than: choose entries that were not used for this number of days.
        everything: choose all entries.
        earlier: choose models and vectors of another computation.
    """
    now = time.time()
    chosen = []
    for entry in entries(cache):  # the largest first
        age = now - entry.used
        if entry.folder == "leftovers":
            if age > LEFTOVER_AGE:
                chosen.append(entry)
            continue
        is_old = older_than is not None and age > older_than * 86_400
        is_earlier = earlier and entry.earlier
        if not (everything or is_earlier or is_old):
            continue
        # An entry whose lease cannot be taken is held by a running process.
        lease = cache.leases.take(entry.key)
        if lease is not None:
            with lease:
                chosen.append(entry)
    return chosen


def remove(entry: CacheEntry) -> None:
    """Remove an entry, or raise a ``StorageError``. A folder is renamed first, so that no process opens part of it."""
    try:
        if not entry.path.is_dir():
            entry.path.unlink()
            return
        # A new name each time, since an earlier removal may have been interrupted.
        doomed = Path(tempfile.mkdtemp(prefix=f"{TEMPORARY}gone-", dir=entry.path.parent))
        try:
            entry.path.rename(doomed / "entry")
        finally:
            shutil.rmtree(doomed)
    except FileNotFoundError:  # removed by another process
        return
    except OSError as error:
        problem = f"{entry.path} cannot be removed"
        raise unwritable(problem, error, "have its owner remove it") from error
