"""Checksums of files, kept until the file system says that a file changed, and of folders that list their own."""

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
"""Seconds after which a second change to a file has another time: file systems count in steps of up to two seconds."""
CHECKSUMS = "SHA256SUMS"
ABOUT = "about.txt"
"""A file of a cached folder: the line that ``cache list`` shows for it."""

Named = Sequence[tuple[str, Path]]
"""Files with the names under which they count."""
FileStates = tuple[tuple[str, str, int, int, int, int, int], ...]

_known: dict[FileStates, str] = {}  # checksums of files that have not changed since
_whole: set[FileStates] = (
    set()
)  # folders that agreed with their list, until one of their files changes
_logger = logging.getLogger(__name__)


def state(named: Named) -> FileStates:
    """Return the state of files: names, paths, devices, inodes, sizes and times, also that of the last ``os.utime``."""
    try:
        stats = [(name, str(file), file.stat()) for name, file in named]
    except OSError as error:
        raise ModelUnavailableError(f"{error.filename} cannot be read: {error.strerror}") from error
    return tuple(
        (n, path, s.st_dev, s.st_ino, s.st_size, s.st_mtime_ns, s.st_ctime_ns)
        for n, path, s in stats
    )


def settled(seen: FileStates, began: int) -> bool:
    """Whether no file was changed so shortly before a time that a later change could have left the same state.

    Only then is a checksum remembered. Otherwise a file that is written twice within one step of the file system's
    clock would keep the checksum of the first content, and the vectors of one model would be stored as another's.
    """
    return all(entry[-1] + SETTLED * 1e9 <= began for entry in seen)


def content(named: Named) -> str:
    """Return the SHA-256 of names and contents of files; they are read again once one of them changed."""
    before, began = state(named), time.time_ns()
    if before in _known:
        return _known[before]
    hashed = hashlib.sha256()
    for name, file in named:
        hashed.update(name.encode())
        hashed.update(_sha256(file).digest())
    sha256 = hashed.hexdigest()
    if settled(before, began) and state(named) == before:
        _known[before] = sha256
    return sha256


@contextmanager
def unchanged(named: Callable[[], Named], expected: str, what: str) -> Iterator[None]:
    """Check that the ``content`` of files is ``expected`` until the block ends; a ``ModelUnavailableError`` if not."""
    before = state(named())
    yield
    if state(named()) != before or content(named()) != expected:
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
    """Return the SHA-256 of a file, kept in the cache until the file changes: files of word vectors have gigabytes."""
    before, began = state([("", path)]), time.time_ns()
    note = cache_root() / "checksums" / f"{digest({'file': before})}.json"
    if note.is_file():
        with suppress(OSError, ValueError, TypeError, KeyError):
            kept = json.loads(note.read_bytes())
            if kept["check"] == checksum(f"{note.stem} {kept['sha256']}"):
                return str(kept["sha256"])
        _logger.warning(
            "The checksum of %s in the cache is damaged (%s); the file is read again.", path, note
        )
    sha256 = _sha256(path).hexdigest()
    if settled(before, began) and state([("", path)]) == before:
        kept = {"file": str(path), "sha256": sha256, "check": checksum(f"{note.stem} {sha256}")}
        with writing(note, flush=False) as sink:
            sink.write(json.dumps(kept).encode())
    return sha256


def write_checksums(folder: Path) -> None:
    """Write a folder's list of checksums, its last file."""
    lines = "".join(
        f"{_sha256(file).hexdigest()}  {name}\n"
        for name, file in _files(folder)
        if name != CHECKSUMS
    )
    (folder / CHECKSUMS).write_text(lines, encoding="utf-8")


def damaged_files(folder: Path) -> str:
    """Return the files of a folder that differ from its list of checksums, or that it has none; empty if all agree."""
    try:
        before = state(_files(folder))
        if before in _whole:
            return ""
        lines = (folder / CHECKSUMS).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError, ModelUnavailableError):
        return f"no {CHECKSUMS}"
    listed = [line.partition("  ") for line in lines]
    wrong = [name for expected, _, name in listed if not _matches(folder / name, expected)]
    if not wrong:
        _whole.add(before)
    return ", ".join(wrong)


def _matches(file: Path, expected: str) -> bool:
    with suppress(ModelUnavailableError):
        return _sha256(file).hexdigest() == expected
    return False


def _files(folder: Path) -> list[tuple[str, Path]]:
    return [
        (file.relative_to(folder).as_posix(), file)
        for file in sorted(folder.rglob("*"))
        if file.is_file()
    ]


def store_folder(target: Path, write: Callable[[Path], None], what: str) -> Path:
    """Fill ``target`` by ``write``, with a list of checksums, unless another process stored it."""
    problem, another = (
        f"{what} cannot be written to {target.parent}",
        "set MIRRORBENCH_CACHE=FOLDER",
    )
    with building(target, f"{TEMPORARY}{target.name}-", problem, another) as folder:
        write(folder)
        write_checksums(folder)
        sync_tree(folder)
        if not damaged_files(target):  # it may be in use
            return target
        shutil.rmtree(target, ignore_errors=True)  # incomplete or damaged
        try:
            os.replace(folder, target)
        except OSError:
            if damaged_files(target):
                raise
            return target  # another process was faster
        sync_folder(target.parent)
        _whole.add(state(_files(target)))
    return target


def kept_folder(target: Path, write: Callable[[Path], None], what: str) -> Path:
    """Return a folder of the cache with a list of checksums; made by ``write`` if it is missing or damaged."""
    if target.is_dir():
        if not (wrong := damaged_files(target)):
            return target
        _logger.warning(
            "In the cache, %s is damaged (%s: %s); it is made again.", what, target, wrong
        )

    def make(folder: Path) -> None:
        write(folder)
        (folder / ABOUT).write_text(what, encoding="utf-8")

    return store_folder(target, make, what)
