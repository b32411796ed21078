"""Entries of the cache, for listings, and their removal.

Damage of an entry is not looked for here: a run finds it when it uses the entry.
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

from mirrorbench.core.identity import COMPUTATION, DESCRIPTION
from mirrorbench.storage.cache import CACHE_FOLDERS, STATEMENT, Cache
from mirrorbench.storage.checksums import ABOUT
from mirrorbench.storage.files import TEMPORARY, unwritable

LEFTOVER_AGE = 86_400.0
"""Seconds after which a temporary file counts as abandoned."""
_OURS = re.compile(rf"[0-9a-f]{{32,}}|{re.escape(TEMPORARY)}.*")
"""Names of entries, complete or not; all other files belong to somebody else and stay."""
_READ_HERE = (DESCRIPTION, STATEMENT, ABOUT)
"""Files that a listing reads, which is no use of their entry."""


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
    """A description: encoder spec and seed of a model, source of vectors of words; otherwise empty."""
    earlier: bool = False
    """Whether a model or vectors were made by another computation, or by none that they state."""


def entries(cache: Cache) -> list[CacheEntry]:
    """Return all entries of the cache, the largest first."""
    cache_entries = []
    for folder in CACHE_FOLDERS:
        for path in sorted(
            path for path in (cache.root / folder).glob("*") if _OURS.fullmatch(path.stem)
        ):
            with suppress(FileNotFoundError):  # removed by another process
                cache_entries.append(_entry(folder, path))
    return sorted(cache_entries, key=lambda entry: (-entry.size, entry.key))


def _entry(folder: str, path: Path) -> CacheEntry:
    files = [file for file in (path, *path.rglob("*")) if file.is_file()]
    sizes = [file.stat() for file in files]
    times = [s for file, s in zip(files, sizes, strict=True) if file.name not in _READ_HERE]
    used = max((max(s.st_mtime, s.st_atime) for s in times), default=path.stat().st_mtime)
    folder = "leftovers" if path.name.startswith(TEMPORARY) else folder
    what, computation = _stated(folder, path)
    return CacheEntry(
        folder,
        path.stem,
        path,
        sum(s.st_size for s in sizes),
        used,
        what,
        computation != COMPUTATION,
    )


def _stated(folder: str, path: Path) -> tuple[str, object]:
    """Return the description of an entry, and its computation: today's where the folder states none."""
    try:
        if folder == "models":
            made = json.loads((path / DESCRIPTION).read_text(encoding="utf-8"))
            return f"{made['spec']} seed {made['seed']}", made.get("identity", {}).get(
                "computation"
            )
        if folder == "embeddings":
            return "", int((path / STATEMENT).read_text(encoding="utf-8"))
        return (path / ABOUT).read_text(
            encoding="utf-8"
        ) if folder == "vectors" else "", COMPUTATION
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return "", None if folder in ("models", "embeddings") else COMPUTATION


def prunable(
    cache: Cache, older_than: float | None = None, everything: bool = False, earlier: bool = False
) -> list[CacheEntry]:
    """Return entries to remove: leftovers, those not used for ``older_than`` days, ``earlier`` ones, or ``everything``.

    Entries that a running process holds are left out.
    """
    now, chosen = time.time(), []
    for entry in entries(cache):
        age = now - entry.used
        if entry.folder == "leftovers":
            chosen += [entry] if age > LEFTOVER_AGE else []
            continue
        asked = (
            everything
            or (earlier and entry.earlier)
            or (older_than is not None and age > older_than * 86_400)
        )
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
        raise unwritable(
            f"{entry.path} cannot be removed", error, "have its owner remove it"
        ) from error
