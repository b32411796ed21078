"""Checksums of files, kept until the file system reports a change, and of folders with a list of checksums."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from mirrorbench.core.errors import ModelUnavailableError
from mirrorbench.core.identity import checksum, digest
from mirrorbench.storage.files import (
    TEMPORARY,
    building,
    cache_root,
    open_regular,
    sync_folder,
    sync_tree,
    writing,
)

SETTLED = 3.0
"""Seconds after which a second change gives a file another time: file systems count in steps of up to two seconds."""
CHECKSUMS = "SHA256SUMS"
ABOUT = "about.txt"
"""A file in a cached folder with the line that ``cache list`` shows for it."""

NamedFiles = Sequence[tuple[str, Path]]
"""Files with the names that enter their checksum."""


class FileState(NamedTuple):
    """What the file system says of a file."""

    name: str
    """Name that enters the checksum."""
    path: str
    device: int
    inode: int
    size: int
    """Bytes."""
    modified: int
    """Time of the last write, in nanoseconds; ``os.utime`` can set it."""
    changed: int
    """Time of the last change of content or metadata, in nanoseconds; ``os.utime`` changes it too."""


FileStates = tuple[FileState, ...]

_content_checksums: dict[FileStates, str] = {}
"""Results of ``content`` that hold as long as the files are in these states."""
_undamaged: set[FileStates] = set()
"""States of the files of folders that agreed with their list of checksums."""
_logger = logging.getLogger(__name__)


def state(files: NamedFiles) -> FileStates:
    """Return the state of each file; it differs after any change to the file."""
    states = []
    for name, file in files:
        try:
            status = file.stat()
        except OSError as error:
            problem = f"{error.filename} cannot be read: {error.strerror}"
            raise ModelUnavailableError(problem) from error
        states.append(
            FileState(
                name=name,
                path=str(file),
                device=status.st_dev,
                inode=status.st_ino,
                size=status.st_size,
                modified=status.st_mtime_ns,
                changed=status.st_ctime_ns,
            )
        )
    return tuple(states)


def settled(states: FileStates, began: int) -> bool:
    """Return whether any change to the files after the time ``began`` (nanoseconds) also changes their state.

    Only then is a checksum remembered. Otherwise a file that is written twice within one step of the file system's
    clock would keep the checksum of the first content, and the vectors of one model would be stored as another's.
    """
    return all(file.changed + SETTLED * 1e9 <= began for file in states)


def content(files: NamedFiles) -> str:
    """Return the SHA-256 of names and contents of files, which are read again only after one of them changed.

    Raises:
        ModelUnavailableError: a file cannot be read.
    """
    before = state(files)
    began = time.time_ns()
    if before in _content_checksums:
        return _content_checksums[before]
    hashed = hashlib.sha256()
    for name, file in files:
        hashed.update(name.encode())
        hashed.update(_sha256(file).digest())
    sha256 = hashed.hexdigest()
    # Remember it only if the files did not change meanwhile, and any later change will show in their state.
    if settled(before, began) and state(files) == before:
        _content_checksums[before] = sha256
    return sha256


@contextmanager
def unchanged(list_files: Callable[[], NamedFiles], expected: str, what: str) -> Iterator[None]:
    """Raise a ``ModelUnavailableError`` if files changed during the block, or their ``content`` is not ``expected``.

    The error is raised at the end of the block. ``list_files`` returns the files then as well as before the block, so
    that new files count as a change; ``what`` names the files in the message.
    """
    before = state(list_files())
    yield
    if state(list_files()) != before or content(list_files()) != expected:
        raise ModelUnavailableError(
            f"the files of {what} changed after they were checksummed", "Run it again."
        )


def _sha256(file: Path) -> hashlib._Hash:
    try:
        with open_regular(file) as stream:
            return hashlib.file_digest(stream, "sha256")
    except OSError as error:
        raise ModelUnavailableError(f"{file} cannot be read: {error.strerror}") from error


def kept_checksum(path: Path) -> str:
    """Return the SHA-256 of a file, which the cache keeps until the file changes: word vectors take gigabytes."""
    before = state([("", path)])
    began = time.time_ns()
    entry_file = cache_root() / "checksums" / f"{digest({'file': before})}.json"
    if entry_file.is_file():
        with suppress(OSError, ValueError, TypeError, KeyError):
            entry = json.loads(entry_file.read_bytes())
            if entry["check"] == checksum(f"{entry_file.stem} {entry['sha256']}"):
                return str(entry["sha256"])
        _logger.warning(
            "The checksum of %s in the cache is damaged (%s); the file is read again.",
            path,
            entry_file,
        )
    sha256 = _sha256(path).hexdigest()
    # Keep it only if the file did not change meanwhile, and any later change will show in its state.
    if settled(before, began) and state([("", path)]) == before:
        check = checksum(f"{entry_file.stem} {sha256}")
        new_entry = {"file": str(path), "sha256": sha256, "check": check}
        with writing(entry_file, flush=False) as sink:
            sink.write(json.dumps(new_entry).encode())
    return sha256


def write_checksums(folder: Path) -> None:
    """Write a folder's list of checksums, as its last file."""
    lines = []
    for name, file in _files(folder):
        if name != CHECKSUMS:
            lines.append(f"{_sha256(file).hexdigest()}  {name}\n")
    (folder / CHECKSUMS).write_text("".join(lines), encoding="utf-8")


def damaged_files(folder: Path) -> str:
    """Return the names of files that differ from a folder's list of checksums, joined; empty if all agree.

    ``no SHA256SUMS`` for a folder whose list cannot be read.
    """
    try:
        before = state(_files(folder))
        # The files agreed with the list earlier, and none has changed since.
        if before in _undamaged:
            return ""
        lines = (folder / CHECKSUMS).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError, ModelUnavailableError):
        return f"no {CHECKSUMS}"
    damaged = []
    for line in lines:
        expected, _, name = line.partition("  ")
        if not _matches(folder / name, expected):
            damaged.append(name)
    if not damaged:
        _undamaged.add(before)
    return ", ".join(damaged)


def _matches(file: Path, expected: str) -> bool:
    """Return whether a file can be read and has the SHA-256 ``expected``."""
    with suppress(ModelUnavailableError):
        return _sha256(file).hexdigest() == expected
    return False


def _files(folder: Path) -> list[tuple[str, Path]]:
    """Return all files below a folder, sorted, each with its path relative to the folder."""
    files = []
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            files.append((path.relative_to(folder).as_posix(), path))
    return files


def store_folder(target: Path, write: Callable[[Path], None], what: str) -> Path:
    """Fill the folder ``target`` by ``write`` and add a list of checksums, unless another process has stored it.

    ``what`` names the content in the message of a ``StorageError``.
    """
    problem = f"{what} cannot be written to {target.parent}"
    alternative = "set MIRRORBENCH_CACHE=FOLDER"
    # Write to a temporary folder beside the target, which is renamed at the end.
    with building(target, f"{TEMPORARY}{target.name}-", problem, alternative) as folder:
        write(folder)
        write_checksums(folder)
        sync_tree(folder)
        # An undamaged folder stays, since it may be in use. A folder that does not exist counts as damaged.
        if not damaged_files(target):
            return target
        shutil.rmtree(target, ignore_errors=True)
        try:
            os.replace(folder, target)
        except OSError:
            # Another process may have been faster.
            if damaged_files(target):
                raise
            return target
        sync_folder(target.parent)
        _undamaged.add(state(_files(target)))
    return target


def kept_folder(target: Path, write: Callable[[Path], None], what: str) -> Path:
    """Return a folder of the cache with a list of checksums; make it by ``write`` if it is missing or damaged.

    ``what`` describes the folder in warnings and in ``cache list``.
    """
    if target.is_dir():
        damaged = damaged_files(target)
        if not damaged:
            return target
        _logger.warning(
            "In the cache, %s is damaged (%s: %s); it is made again.", what, target, damaged
        )

    def make(folder: Path) -> None:
        write(folder)
        (folder / ABOUT).write_text(what, encoding="utf-8")

    return store_folder(target, make, what)
