"""Files and folders that are complete or absent: atomic writing, checksums, and where the cache is."""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TypeVar

from mirrorbench.core.errors import StorageError

TEMPORARY = ".part-"
"""What the name of a file begins with until it is complete."""

_T = TypeVar("_T")


@contextmanager
def writing(target: Path, store: Path | None = None) -> Iterator[IO[bytes]]:
    """Write a file atomically: a temporary file beside it is renamed once complete, or removed on an error.

    The message of a ``StorageError`` names ``store``, if given, in place of ``target``.
    """
    temporary = ""
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(prefix=TEMPORARY, dir=target.parent)
        with os.fdopen(handle, "wb") as sink:
            yield sink
            sink.flush()
            os.fsync(sink.fileno())  # or a power cut could leave the new name with no content
        os.chmod(temporary, 0o644)
        os.replace(temporary, target)
        temporary = ""
        sync_folder(target.parent)
    except OSError as error:
        problem = f"Cannot write {f'to {store}' if store else target}: {error.strerror or error}."
        raise StorageError(problem, "Free some space, or name another folder.") from error
    finally:
        if temporary:
            Path(temporary).unlink(missing_ok=True)


@contextmanager
def building(target: Path, prefix: str, problem: str, hint: str) -> Iterator[Path]:
    """A new folder beside ``target``, removed at the end unless the caller renamed it; errors are ``StorageError``."""
    from safetensors import SafetensorError  # what a full disk raises under safetensors

    temporary = ""
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary = tempfile.mkdtemp(prefix=prefix, dir=target.parent)
        yield Path(temporary)
    except (OSError, SafetensorError) as error:
        raise StorageError(f"{problem}: {getattr(error, 'strerror', None) or error}", hint) from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def again_if_swept(write: Callable[[], _T]) -> _T:
    """Call ``write``, and again if its temporary files were swept away (a suspended process loses its lease)."""
    try:
        return write()
    except StorageError as error:
        if not isinstance(error.__cause__, FileNotFoundError):
            raise
    return write()


def sync_folder(folder: Path) -> None:
    """Flush a folder's list of names to the disk, where the system has such a thing; Windows has not."""
    if os.name == "nt":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError as error:  # some network file systems refuse it, and write names at once
        if error.errno not in (errno.EINVAL, errno.ENOTSUP, errno.EBADF):
            raise
    finally:
        os.close(handle)


def sync_tree(folder: Path) -> None:
    """Flush every file below a folder to the disk, then the folders."""
    for parent, _, names in os.walk(folder, topdown=False):
        for name in names:
            with open(Path(parent, name), "rb") as file:
                os.fsync(file.fileno())
        sync_folder(Path(parent))


def cache_root() -> Path:
    """The cache folder: ``MIRRORBENCH_CACHE``, or else the platform's cache directory of the user."""
    if configured := os.environ.get("MIRRORBENCH_CACHE"):
        return Path(configured).expanduser()
    import platformdirs

    return Path(platformdirs.user_cache_dir("mirrorbench", appauthor=False))


CHECKSUMS = "SHA256SUMS"


def write_checksums(folder: Path) -> None:
    """Write a folder's list of checksums; the last file that it gets."""
    lines = "".join(f"{checksum}  {name}\n" for name, checksum in _checksums(folder).items())
    (folder / CHECKSUMS).write_text(lines, encoding="utf-8")


def damaged_files(folder: Path) -> str:
    """Files of a folder that differ from its list of checksums, or that there is no list; empty if all agree."""
    try:
        lines = (folder / CHECKSUMS).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return f"no {CHECKSUMS}"
    expected = {name: checksum for checksum, _, name in (line.partition("  ") for line in lines)}
    found = _checksums(folder)
    return ", ".join(name for name, checksum in expected.items() if found.get(name) != checksum)


def _checksums(folder: Path) -> dict[str, str]:
    """SHA-256 by name of every file below a folder except the list itself."""
    found = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if path.is_file() and name != CHECKSUMS:
            with path.open("rb") as stream:
                found[name] = hashlib.file_digest(stream, "sha256").hexdigest()
    return found
