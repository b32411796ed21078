"""Files of a user's folder, or of a zip archive in place of one.

The path of a file in an archive is the archive's path and its name there: ``beir.zip/corpus.jsonl``. Nothing is unpacked.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path, PurePosixPath
from typing import IO, Any, cast

from mirrorbench.core.errors import DataFormatError, DataUnavailableError
from mirrorbench.data.archives import Archive, open_archive


def is_archive(name: str) -> bool:
    """Return whether a name is that of a zip archive."""
    return name.lower().endswith(".zip")


def archive_of(path: Path) -> Path | None:
    """Return the zip archive that a path names or lies in; ``None`` for any other path."""
    for part in (path, *path.parents):
        if is_archive(part.name) and part.is_file():
            return part
    return None


def is_member(path: Path) -> bool:
    """Return whether a path lies in an archive."""
    return archive_of(path) not in (None, path)


def exists(path: Path) -> bool:
    """Return whether a path is that of a file or a folder, or of a file in an archive."""
    if os.path.exists(path):  # unlike Path.exists, does not raise for a name that is too long
        return True
    return is_member(path) and path in _files(path)


def is_rereadable(path: Path) -> bool:
    """Return whether a file can be read twice, as a pipe cannot."""
    return path.is_file() or archive_of(path) is not None


def files_in(folder: Path) -> list[Path]:
    """Return the files of a folder, or of a folder in an archive, sorted by name; none if there is no such folder."""
    if archive_of(folder) is not None:
        return sorted(file for file in _files(folder) if file.parent == folder)
    if folder.is_dir():
        return sorted(file for file in folder.iterdir() if file.is_file())
    return []


def root_of(path: Path) -> Path:
    """Return the folder of an archive that holds all its files except README and the like.

    A path that is not that of an archive is returned as it is.
    """
    if archive_of(path) != path:
        return path
    files = [file for file in _files(path) if not _describes_others(file)]
    folders = [str(file.parent) for file in files]
    return Path(os.path.commonpath(folders)) if folders else path


def _describes_others(file: Path) -> bool:
    """Return whether a file describes the others, by its name."""
    return file.name.lower().startswith(("readme", "license", "licence", "."))


@contextmanager
def open_member(path: Path) -> Iterator[IO[bytes]]:
    """Open a file in an archive; errors are those of ``open_archive``."""
    with _open_archive_of(path) as (archive, root):
        names = [name for name in archive.sizes if root / name == path]
        if not names:
            raise DataUnavailableError(f"There is no file {path}.")
        with BufferedReader(cast(Any, archive.opener(names[0]))) as stream:
            yield stream


@contextmanager
def _open_archive_of(path: Path) -> Iterator[tuple[Archive, Path]]:
    """Open the archive that a path names or lies in; yield it, and its path."""
    root = archive_of(path)
    assert root is not None
    with open_archive(root) as archive:
        yield archive, root


def _files(path: Path) -> list[Path]:
    """Return the paths of all files in an archive except those that macOS adds (``__MACOSX``).

    An encrypted file is a ``DataFormatError``.
    """
    with _open_archive_of(path) as (archive, root):
        if archive.encrypted:
            problem = f"{root}: {archive.encrypted[0]} is encrypted."
            raise DataFormatError(problem, "Unpack the archive with its password.")
        return [root / name for name in archive.sizes if _is_data_file(name)]


def _is_data_file(name: str) -> bool:
    """Return whether a name in an archive is a path below it, and not that of a file that macOS added."""
    path = PurePosixPath(name)
    is_elsewhere = path.is_absolute() or "\\" in name or ".." in path.parts
    return not is_elsewhere and "__MACOSX" not in path.parts
