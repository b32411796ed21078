"""Writing of files and folders that are either complete or absent, and the cache's folder."""

from __future__ import annotations

import errno
import os
import re
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from hashlib import sha256
from io import BufferedReader
from pathlib import Path
from secrets import token_hex
from typing import IO

from mirrorbench.core.errors import StorageError

TEMPORARY = ".part-"
"""Prefix of the name of a file until it is complete."""
_IN_THE_WAY = "A file is where a folder must be: {}"
_REMEDIES = {
    errno.ENOSPC: "Free some space, or {}",
    errno.EDQUOT: "Your quota is used up: free some space, or {}",
    errno.EROFS: "Nothing can be written there: {}",
    errno.EACCES: "You may not write there: {}",
    errno.EPERM: "You may not write there: {}",
    errno.ENOTDIR: _IN_THE_WAY,
    errno.EEXIST: _IN_THE_WAY,
    errno.ENAMETOOLONG: "Use a shorter name",
}
"""Remedies by the number of the system's error; ``{}`` is replaced by the way to name another place to write to."""


def unwritable(
    problem: str, error: Exception, alternative: str = "name another folder"
) -> StorageError:
    """Return the error for a refused write: the system's reason, and a remedy.

    Args:
        problem: the failed action, as the message begins.
        error: an ``OSError``, or the ``SafetensorError`` that safetensors makes of one.
        alternative: the user's way to name another place to write to.
    """
    message = str(error)
    number: int = getattr(error, "errno", None) or 0
    reason = getattr(error, "strerror", None) or message
    number_in_message = re.search(r"\(os error (\d+)\)", message)
    if number_in_message:
        # safetensors quotes the system's error in its message.
        number = int(number_in_message[1])
        reason = os.strerror(number)
    elif " requested and " in message:
        # NumPy's error for a full disk has no number.
        number = number or errno.ENOSPC
        reason = os.strerror(number)
    hint = _REMEDIES.get(number, "{}").format(alternative)
    return StorageError(f"{problem}: {reason}.", f"{hint[0].upper()}{hint[1:]}.")


def temporary_prefix(target: Path) -> str:
    """Return the prefix of names of temporary files for ``target``, different for each file of its folder."""
    name_hash = sha256(os.fsencode(target.name)).hexdigest()
    return f"{TEMPORARY}{name_hash[:16]}-"


@contextmanager
def writing(target: Path, store: Path | None = None, flush: bool = True) -> Iterator[IO[bytes]]:
    """Write a file atomically: a temporary file beside it is renamed once complete, or removed on an error.

    For a symbolic link, the file that it points to is written; a pipe or a device is written to directly.

    Args:
        target: the file.
        store: the folder that the message of a ``StorageError`` names instead of ``target``, if given.
        flush: whether to flush the file to the disk. Otherwise a power cut can leave an empty file, which is acceptable
            for files that readers check and that can be made again.
    """
    try:
        if target.exists() and not target.is_file():
            with target.open("wb") as sink:
                yield sink
            return
        destination = Path(os.path.realpath(target))
        temporary = destination.with_name(f"{temporary_prefix(destination)}{token_hex(8)}")
        try:
            destination.parent.mkdir(parents=True, exist_ok=True)
            with temporary.open("xb") as sink:
                yield sink
                if flush:
                    sink.flush()
                    os.fsync(sink.fileno())
            os.replace(temporary, destination)
            if flush:
                sync_folder(destination.parent)
        finally:
            with suppress(OSError):
                temporary.unlink()
    except OSError as error:
        place = f"to {store}" if store else str(target)
        raise unwritable(f"Cannot write {place}", error) from error


@contextmanager
def building(target: Path, prefix: str, problem: str, alternative: str) -> Iterator[Path]:
    """Make a new folder beside ``target`` for the block, which renames it when it is complete; otherwise remove it.

    Args:
        target: the path for which the folder is made.
        prefix: beginning of the folder's name.
        problem: beginning of the message of a ``StorageError`` if something cannot be written.
        alternative: the user's way to name another place to write to.
    """
    # safetensors raises it when the disk is full.
    from safetensors import SafetensorError

    folder = target.with_name(f"{prefix}{token_hex(8)}")
    try:
        folder.mkdir(parents=True)
        yield folder
    except (OSError, SafetensorError) as error:
        raise unwritable(problem, error, alternative) from error
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def sync_folder(folder: Path) -> None:
    """Flush a folder's list of names to the disk, where the system can (Windows cannot)."""
    if os.name == "nt":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError as error:
        # Some network file systems refuse to flush a folder, but write names at once.
        if error.errno not in (errno.EINVAL, errno.ENOTSUP, errno.EBADF):
            raise
    finally:
        os.close(handle)


def sync_tree(folder: Path) -> None:
    """Flush the files and folders below a folder to the disk, and give the files the permissions of the folder.

    Without this, only their owner could read the files that safetensors writes.
    """
    for parent, _, names in os.walk(folder, topdown=False):
        for name in names:
            with open(Path(parent, name), "rb") as file:
                os.chmod(file.name, folder.stat().st_mode & 0o666)
                os.fsync(file.fileno())
        sync_folder(Path(parent))


def open_regular(path: Path) -> BufferedReader:
    """Open a file for reading; raise an ``OSError`` for a folder, and for a pipe or device, which would block."""
    # O_NONBLOCK does not exist on Windows, and O_BINARY exists only there.
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    handle = os.open(path, flags)
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise OSError(errno.EINVAL, "it is not a regular file", str(path))
    return os.fdopen(handle, "rb")


def cache_root() -> Path:
    """Return the cache folder: ``MIRRORBENCH_CACHE``, or else the platform's cache directory of the user."""
    configured = os.environ.get("MIRRORBENCH_CACHE")
    if configured:
        return Path(configured).expanduser()
    import platformdirs

    return Path(platformdirs.user_cache_dir("mirrorbench", appauthor=False))


def resolved(path: str | Path) -> Path:
    """Return the absolute path of a file or folder with symbolic links followed; a loop of links stays a link."""
    return Path(os.path.realpath(os.path.expanduser(path)))
