"""Reads single members of tar and zip archives and Debian packages.

Only regular files are read, one by one and each up to a size limit. Nothing is unpacked: an archive cannot write
outside a folder, create links or devices, or fill the disk.
"""

from __future__ import annotations

import io
import lzma
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, cast

from mirrorbench.core.errors import DataFormatError, DataIntegrityError, DataUnavailableError
from mirrorbench.storage.files import writing

MEMBER_LIMIT = 64 << 20
"""Limit in bytes on a member of unknown size."""

_CHUNK = 1 << 20
_AR_MAGIC = b"!<arch>\n"  # the beginning of an ar archive
# What the readers of archives raise for a damaged file.
_DAMAGE_ERRORS = (
    tarfile.TarError,
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
    EOFError,
    OSError,
    RuntimeError,
    ValueError,
)


@dataclass(frozen=True, slots=True)
class Archive:
    """An open archive.

    Attributes:
        path: path of the archive.
        sizes: size in bytes of each regular file, without links, devices and encrypted members. If several members have
            the same name, the last one counts, as for other programs.
        opener: opens a member of ``sizes``.
        encrypted: names of the encrypted members.
    """

    path: Path
    sizes: dict[str, int]
    opener: Callable[[str], IO[bytes]]
    encrypted: tuple[str, ...] = ()

    def find(self, name: str) -> str:
        """Return the member with a name, or the only one whose path ends in it (``a.txt`` finds ``data/a.txt``).

        No member, several, or one with a path outside the archive are a ``DataFormatError``.
        """
        members = [member for member in self.sizes if member.removeprefix("./") == name]
        if not members:
            members = [member for member in self.sizes if member.endswith("/" + name)]
        if len(members) != 1:
            problem = "no regular file" if not members else f"{len(members)} files"
            raise DataFormatError(f"{self.path} holds {problem} named {name!r}.")
        member = members[0]
        path = PurePosixPath(member)
        if path.is_absolute() or ".." in path.parts or "\\" in member:
            raise DataFormatError(f"{self.path}: the member {member!r} points outside the archive.")
        return member

    def read(self, member: str, limit: int) -> Iterator[bytes]:
        """Yield a member in pieces.

        More than ``limit`` bytes are a ``DataIntegrityError``, damaged data a ``DataFormatError``.
        """
        n_bytes = 0
        try:
            with self.opener(member) as stream:
                while chunk := stream.read(_CHUNK):
                    n_bytes += len(chunk)
                    if n_bytes > limit:
                        raise DataIntegrityError(
                            f"{self.path}: {member} yields more than {limit} bytes."
                        )
                    yield chunk
        except _DAMAGE_ERRORS as error:
            raise DataFormatError(f"{self.path}: {member} is damaged ({error}).") from error


def _zip_archive(path: Path, archive: zipfile.ZipFile) -> Archive:
    members: dict[str, zipfile.ZipInfo] = {}
    for info in archive.infolist():
        # The Unix mode; its file type is 0 if another system wrote the archive.
        mode = info.external_attr >> 16
        is_link_or_device = stat.S_IFMT(mode) and not stat.S_ISREG(mode)
        if not info.filename or info.is_dir() or is_link_or_device:
            continue
        members[info.filename] = info
    encrypted = tuple(name for name, info in members.items() if info.flag_bits & 0x1)
    sizes = {name: info.file_size for name, info in members.items() if name not in encrypted}
    return Archive(path, sizes, lambda name: archive.open(members[name]), encrypted)


def _tar_archive(path: Path, archive: tarfile.TarFile) -> Archive:
    members: dict[str, tarfile.TarInfo] = {}
    for info in archive:
        if info.isreg() and not info.issparse():
            members[info.name] = info
    sizes = {name: info.size for name, info in members.items()}
    return Archive(path, sizes, lambda name: cast("IO[bytes]", archive.extractfile(members[name])))


def _tar_stream(stream: IO[bytes]) -> IO[bytes]:
    """Return the (still compressed) tar archive in a Debian package; for another file, the stream itself, rewound."""
    # A Debian package is an ``ar`` archive. Each member begins at an even offset, with a header of 60 bytes: its name
    # comes first, its size is in bytes 48 to 57 (man pages deb(5), ar(5)).
    if stream.read(len(_AR_MAGIC)) != _AR_MAGIC:
        stream.seek(0)
        return stream
    while len(header := stream.read(60)) == 60:
        size = int(header[48:58])
        # A damaged header: going back by a negative size might never end.
        if size < 0:
            break
        if header.startswith(b"data.tar.zst"):
            raise tarfile.ReadError(
                "compressed with zstd, which is not supported; unpack it with: dpkg-deb -x FILE FOLDER"
            )
        if header.startswith(b"data.tar"):
            return io.BytesIO(stream.read(size))
        # Another member: skip its content, and a byte of padding after an odd size.
        stream.seek(size + size % 2, io.SEEK_CUR)
    raise tarfile.ReadError("an ar archive, but not a Debian package")


@contextmanager
def open_archive(path: Path) -> Iterator[Archive]:
    """Open a tar archive (compressed or not), a zip archive or a Debian package, told apart by content, not by name."""
    if not path.is_file():
        raise DataUnavailableError(f"There is no archive {path}.")
    with ExitStack() as stack:
        try:
            if zipfile.is_zipfile(path):
                opened = _zip_archive(path, stack.enter_context(zipfile.ZipFile(path)))
            else:
                stream = _tar_stream(stack.enter_context(path.open("rb")))
                tar = stack.enter_context(tarfile.open(fileobj=stream, mode="r:*"))
                opened = _tar_archive(path, tar)
        except _DAMAGE_ERRORS as error:
            reason = " ".join(str(error).split())  # a line for each compression that tarfile tried
            problem = f"{path} is damaged, or is neither a tar or zip archive nor a Debian package ({reason})."
            raise DataFormatError(problem) from error
        yield opened


def extract_member(path: Path, name: str, target: Path, limit: int = MEMBER_LIMIT) -> None:
    """Write one member of an archive (see ``Archive.find``) to a file, atomically.

    A member of more than ``limit`` bytes is a ``DataIntegrityError``.
    """
    with open_archive(path) as archive:
        member = archive.find(name)
        size = archive.sizes[member]
        if size > limit:
            raise DataIntegrityError(
                f"{path}: {member} has {size} bytes; at most {limit} were expected."
            )
        with writing(target) as sink:
            sink.writelines(archive.read(member, limit))
