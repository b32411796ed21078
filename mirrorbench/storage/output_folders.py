"""Folders beside an output, in which one process at a time writes its incomplete files."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from pathlib import Path

from mirrorbench.core.errors import StorageError, UsageError
from mirrorbench.core.quoting import printable
from mirrorbench.storage.files import unwritable
from mirrorbench.storage.leases import POLL_SECONDS, Leases

PUT_ASIDE = "old"
"""Name of the old output in the folder beside it, until it is replaced."""
_LEASE = "lease"
"""Lease of the process that works in a folder beside an output."""
_MARK = "UNFINISHED"
"""File in a folder beside an output which shows that mirrorbench created the folder."""


@contextmanager
def beside(output: Path) -> Iterator[Path]:
    """Open a hidden folder beside ``output`` for incomplete files, in which no other process works at the same time.

    The folder is removed at the end if it is empty. Files left in it, also by a killed process, stay for the next
    process that writes ``output``.

    Raises:
        UsageError: another process works in the folder, or mirrorbench did not create it, which a file in it shows.
        StorageError: the folder cannot be written.
    """
    folder = place_beside(output)
    try:
        with _claim(folder, output):
            try:
                yield folder
            finally:
                if _contents(folder) == {_MARK}:
                    (folder / _MARK).unlink()
    finally:
        with suppress(OSError):  # not empty, or in use again
            folder.rmdir()


def place_beside(output: Path) -> Path:
    """Return the path of the folder that ``beside`` opens.

    ``..`` in the parent's path is kept: after a symbolic link it leads elsewhere than the path says.
    """
    name = os.path.basename(os.path.abspath(output))
    return output.parent / f".{name}.mirrorbench"


def _claim(folder: Path, output: Path) -> AbstractContextManager[object]:
    """Create and mark a folder beside an output, and return the lease on it.

    Raises:
        UsageError: mirrorbench did not create the folder, or another process works in it.
    """
    leases = Leases(folder)
    alternative = "name another output"
    try:
        if _is_foreign(folder):
            raise UsageError(
                f"{folder} exists, and mirrorbench did not create it",
                f"Move it elsewhere, or {alternative}.",
            )
        folder.mkdir(parents=True, exist_ok=True)
        lease = _take_lease(leases)
        while lease is None:
            if leases.is_fresh(_LEASE):
                holder = leases.holder(_LEASE) or "another process"
                raise UsageError(
                    f"{output} is being written by {holder}", f"Wait for it, or {alternative}."
                )
            # Wait until the lease of a process that was killed on another machine ends.
            time.sleep(POLL_SECONDS)
            lease = _take_lease(leases)
        # Release the lease if the mark cannot be written.
        with ExitStack() as held:
            held.enter_context(lease)
            mark = f"Unfinished files of mirrorbench for {printable(output.name)}\n"
            (folder / _MARK).write_text(mark, encoding="utf-8")
            return held.pop_all()
    except OSError as error:
        raise unwritable(f"Cannot write {output}", error, alternative) from error


def _is_foreign(path: Path) -> bool:
    """Return whether a path exists and is neither an empty folder nor one that mirrorbench marked."""
    if path.is_symlink() or path.is_file():
        return True
    if not path.is_dir():
        return False
    contents = _contents(path)
    return bool(contents) and _MARK not in contents


def _take_lease(leases: Leases) -> AbstractContextManager[object] | None:
    """Take the lease on the folder; try again if another process has just removed the folder after its work."""
    try:
        return leases.take(_LEASE)
    except StorageError as error:
        if not isinstance(error.__cause__, FileNotFoundError):
            raise
    return leases.take(_LEASE)


def _contents(folder: Path) -> set[str]:
    """Return the names in a folder, without the files of its lease."""
    return {name for name in os.listdir(folder) if not name.startswith(_LEASE)}
