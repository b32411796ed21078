"""Taking single members out of tar and zip archives and Debian packages, safely.

Nothing is ever unpacked as a whole: one named regular file is read, within a limit, and written where the
caller says. So an archive cannot write outside its folder, set links or devices, or fill the disk.
"""

from __future__ import annotations

import io
import lzma
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, Protocol, Self

from mirrorbench.core.errors import DataFormatError, DataIntegrityError, DataUnavailableError
from mirrorbench.core.files import writing

MEMBER_LIMIT = 64 << 20
"""Bytes that a member of unknown size may have at most."""

MAX_EXTENT = 4 << 30
"""Bytes that all members of an archive may declare together; a tar stream is read through up to there."""

_MAX_MEMBERS = 200_000
_MAX_HEADER = 1 << 20
_CHUNK = 1 << 20
_AR = b"!<arch>\n"
_DAMAGED = (
    tarfile.TarError,
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
    EOFError,
    OSError,
    NotImplementedError,
    RuntimeError,
    ValueError,
)


@dataclass(frozen=True, slots=True)
class Member:
    """A regular file inside an archive: its name and the size in bytes that the archive declares."""

    name: str
    size: int


class OpenArchive(Protocol):
    """What both kinds of archive offer."""

    members: list[Member]

    def open(self, member: Member) -> IO[bytes]:
        """The content of a member, as a stream."""


class _Zip:
    def __init__(self, archive: zipfile.ZipFile) -> None:
        self._archive = archive
        self._infos: dict[str, zipfile.ZipInfo] = {}
        infos = archive.infolist()
        _check_extent(len(infos), sum(info.file_size for info in infos))
        for info in infos:
            mode = info.external_attr >> 16
            if info.is_dir() or (stat.S_IFMT(mode) and not stat.S_ISREG(mode)) or info.flag_bits & 0x1:
                continue  # folders, links, devices, encrypted members
            self._infos.setdefault(info.filename, info)
        self.members = [Member(name, info.file_size) for name, info in self._infos.items()]

    def open(self, member: Member) -> IO[bytes]:
        return self._archive.open(self._infos[member.name])


class _Header(tarfile.TarInfo):
    """A tar header, checked before what it announces is read.

    ``tarfile`` reads long names and extended headers into memory whatever their size, and takes a damaged header for
    the end of the archive, so that the rest would be missing without a word.
    """

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> Self:
        try:
            header = super().frombuf(buf, encoding, errors)
        except (tarfile.InvalidHeaderError, tarfile.TruncatedHeaderError) as error:  # type: ignore[attr-defined]
            raise tarfile.ReadError(f"a header is damaged: {error}") from None
        if header.size < 0 or (header.type in _EXTENSIONS and header.size > _MAX_HEADER):
            raise tarfile.ReadError(f"a header announces {header.size} bytes")
        return header


# What holds long names and attributes of the member that follows.
_EXTENSIONS = (
    tarfile.GNUTYPE_LONGNAME,
    tarfile.GNUTYPE_LONGLINK,
    tarfile.XHDTYPE,
    tarfile.XGLTYPE,
    tarfile.SOLARIS_XHDTYPE,
)


class _Tar:
    def __init__(self, archive: tarfile.TarFile) -> None:
        self._archive = archive
        self._infos: dict[str, tarfile.TarInfo] = {}
        total = 0
        for count, info in enumerate(archive, start=1):
            total += max(info.size, 0)
            _check_extent(count, total)
            if info.isreg() and not info.issparse():
                self._infos.setdefault(info.name, info)
        self.members = [Member(name, info.size) for name, info in self._infos.items()]
        self._read_to_the_end(total)

    def _read_to_the_end(self, total: int) -> None:
        """Read what follows the last member, so that the checksum at the end of a compressed archive is compared.

        Damage may look like the end of the archive, and the members behind it would be missing without a word.
        """
        assert self._archive.fileobj is not None
        while block := self._archive.fileobj.read(_CHUNK):
            total += len(block)
            _check_extent(1, total)

    def open(self, member: Member) -> IO[bytes]:
        stream = self._archive.extractfile(self._infos[member.name])
        assert stream is not None  # only regular files are in the table
        return stream


def _check_extent(count: int, total: int) -> None:
    if count > _MAX_MEMBERS or total > MAX_EXTENT:
        raise DataIntegrityError(
            f"The archive declares more than {_MAX_MEMBERS} members or {MAX_EXTENT >> 30} GiB of content; "
            "that is no data set that mirrorbench knows."
        )


def _content(stream: IO[bytes]) -> IO[bytes]:
    """The tar archive of a Debian package's files, or the stream itself where it is no such package.

    A package is an ``ar`` archive: after the magic, each member has a header of 60 bytes with its name first and its
    size at 48, and starts at an even offset (manual pages deb, ar).
    """
    if stream.read(len(_AR)) != _AR:
        stream.seek(0)
        return stream
    while len(header := stream.read(60)) == 60:
        size = int(header[48:58])
        if size < 0:
            break
        if header.startswith(b"data.tar"):
            return io.BytesIO(stream.read(size))
        stream.seek(size + size % 2, io.SEEK_CUR)
    raise tarfile.ReadError("an ar archive, but no Debian package")


def is_archive(path: Path) -> bool:
    """Whether a file's name is that of an archive that ``open_archive`` reads."""
    return path.name.lower().endswith((".zip", ".tar", ".tgz", ".tar.gz"))


@contextmanager
def open_archive(path: Path) -> Iterator[OpenArchive]:
    """Open a tar (also compressed) or zip archive or a Debian package and list its regular files.

    Links, devices, folders and encrypted members are not listed, so they cannot be asked for.

    Args:
        path: the archive; what it is, its content tells.

    Yields:
        the archive.

    Raises:
        DataFormatError: none of these, or damaged.
        DataIntegrityError: it declares an absurd amount of content.
        DataUnavailableError: there is no such file.
    """
    if not path.is_file():
        raise DataUnavailableError(f"There is no archive {path}.")
    with ExitStack() as stack:
        try:
            opened: OpenArchive
            if zipfile.is_zipfile(path):
                opened = _Zip(stack.enter_context(zipfile.ZipFile(path)))
            else:
                stream = stack.enter_context(path.open("rb"))
                opened = _Tar(stack.enter_context(tarfile.open(fileobj=_content(stream), mode="r:*", tarinfo=_Header)))
        except _DAMAGED as error:
            raise DataFormatError(f"{path} is damaged, or neither a tar nor a zip archive ({error}).") from error
        yield opened


def find_member(archive: OpenArchive, name: str, where: Path) -> Member:
    """Find a member by name, or by the end of its path where that is unique (``a.txt`` for ``data/a.txt``).

    Args:
        archive: the open archive.
        name: a relative path with forward slashes.
        where: the archive's path, for the message.

    Raises:
        DataFormatError: there is no such regular file, there are several, or its path leads out of the
            archive.
    """
    exact = [member for member in archive.members if member.name.removeprefix("./") == name]
    found = exact or [member for member in archive.members if member.name.endswith("/" + name)]
    if len(found) != 1:
        problem = "no regular file" if not found else f"{len(found)} files"
        raise DataFormatError(f"{where} holds {problem} named {name!r}.")
    path = PurePosixPath(found[0].name)
    if path.is_absolute() or ".." in path.parts or "\\" in found[0].name:
        raise DataFormatError(f"{where}: the member {found[0].name!r} points outside the archive.")
    return found[0]


def extract_member(archive_path: Path, name: str, target: Path, limit: int = MEMBER_LIMIT) -> None:
    """Take one member out of an archive and write it to a file, atomically.

    Args:
        archive_path: a tar (also gzipped) or zip archive.
        name: the member, see ``find_member``.
        target: where to write it; an existing file is replaced once the content is complete.
        limit: how many bytes it may have.

    Raises:
        DataFormatError: the archive is damaged, or has no such regular file.
        DataIntegrityError: the member is larger than the limit, or larger than it claims.
        StorageError: the target cannot be written.
    """
    with open_archive(archive_path) as archive:
        member = find_member(archive, name, archive_path)
        write_member(archive, member, target, limit, archive_path)


def write_member(archive: OpenArchive, member: Member, target: Path, limit: int, where: Path) -> None:
    """Write a member of an open archive to a file, atomically; see ``extract_member``."""
    if member.size > limit:
        raise DataIntegrityError(f"{where}: {member.name} has {member.size} bytes, at most {limit} were expected.")
    with writing(target) as sink:
        for chunk in read_member(archive, member, limit, where):
            sink.write(chunk)


def read_member(archive: OpenArchive, member: Member, limit: int, where: Path) -> Iterator[bytes]:
    """The content of a member in pieces, ending in an error once it yields more than ``limit`` bytes.

    Raises:
        DataFormatError: the archive is damaged.
        DataIntegrityError: the member is longer than the limit, whatever size it was declared with.
    """
    done = 0
    try:
        with archive.open(member) as stream:
            while chunk := stream.read(_CHUNK):
                done += len(chunk)
                if done > limit:
                    raise DataIntegrityError(f"{where}: {member.name} yields more than {limit} bytes.")
                yield chunk
    except _DAMAGED as error:
        raise DataFormatError(f"{where}: {member.name} is damaged ({error}).") from error
