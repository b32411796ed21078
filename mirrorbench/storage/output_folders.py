"""Folders beside an output, in which one process at a time makes it."""

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
"""Name, in a folder beside an output, of the old output until it is replaced."""
_LEASE, _MARK = (
    "lease",
    "UNFINISHED",
)  # in a folder beside an output: who works in it, and that it is ours


@contextmanager
def beside(output: Path) -> Iterator[Path]:
    """Open a hidden folder beside ``output`` for incomplete files, in which no second process works.

    It is removed at the end if it is empty. Files left in it, also by a killed process, stay for the next one that
    writes ``output``. A file in it marks it as ours, not a user's folder of that name.
    """
    folder = place_beside(output)
    try:
        with _claimed(folder, output):
            try:
                yield folder
            finally:
                if _contents(folder) == {_MARK}:
                    (folder / _MARK).unlink()
    finally:
        with suppress(OSError):  # there is something in it, or it is in use again
            folder.rmdir()


def place_beside(output: Path) -> Path:
    """Return the path of the folder of ``beside``; ``..`` stays, since it leads elsewhere behind a symbolic link."""
    return output.parent / f".{os.path.basename(os.path.abspath(output))}.mirrorbench"


def _claimed(folder: Path, output: Path) -> AbstractContextManager[object]:
    """The lease on a folder, which is created and marked as ours; an error where it is a user's, or in use."""
    leases, another = Leases(folder), "name another output"
    try:
        if (
            folder.is_symlink()
            or folder.is_file()
            or (folder.is_dir() and _MARK not in (_contents(folder) or _MARK))
        ):
            raise UsageError(
                f"{folder} exists, and mirrorbench did not create it",
                f"Move it elsewhere, or {another}.",
            )
        folder.mkdir(parents=True, exist_ok=True)
        while (lease := _taken(leases)) is None:
            if leases.is_fresh(_LEASE):
                holder = leases.holder(_LEASE) or "another process"
                raise UsageError(
                    f"{output} is being written by {holder}", f"Wait for it, or {another}."
                )
            time.sleep(
                POLL_SECONDS
            )  # until the lease of a process that was killed on another machine ends
        with ExitStack() as held:
            held.enter_context(lease)
            mark = f"What mirrorbench has not finished of {printable(output.name)}\n"
            (folder / _MARK).write_text(mark, encoding="utf-8")
            return held.pop_all()
    except OSError as error:
        raise unwritable(f"Cannot write {output}", error, another) from error


def _taken(leases: Leases) -> AbstractContextManager[object] | None:
    """The lease, tried again where another process has just removed the folder after its work."""
    try:
        return leases.take(_LEASE)
    except StorageError as error:
        if not isinstance(error.__cause__, FileNotFoundError):
            raise
    return leases.take(_LEASE)


def _contents(folder: Path) -> set[str]:
    """Names in a folder, those of its lease aside."""
    return {name for name in os.listdir(folder) if not name.startswith(_LEASE)}
