"""Bytes of files: in pieces, hashed, decompressed."""

from __future__ import annotations

import gzip
import hashlib
import math
import sys
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, cast

from mirrorbench.core.errors import DataFormatError, DataUnavailableError
from mirrorbench.data.readers.folders import is_member, open_member

_CHUNK = 1 << 20
STDIN = "-"
"""The name of standard input."""
MAX_UNPACKED = 1 << 30
"""Limit in bytes on a decompressed ``.gz`` file or file of an archive: a megabyte can hold a gigabyte of zeros."""


def pieces(path: Path) -> Iterator[bytes]:
    """Yield a file in pieces of 1 MiB; ``DataUnavailableError`` if it cannot be read."""
    try:
        with path.open("rb") as stream:
            while chunk := stream.read(_CHUNK):
                yield chunk
    except OSError as error:
        raise DataUnavailableError(f"Cannot read {path}: {error.strerror}.") from None


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file's bytes, as 64 hexadecimal digits."""
    digest = hashlib.sha256()
    for piece in pieces(path):
        digest.update(piece)
    return digest.hexdigest()


@contextmanager
def opened(path: Path) -> Iterator[IO[bytes]]:
    """Open a file for reading, decompressed if its name ends in ``.gz``; ``-`` is standard input.

    The file may lie in a zip archive (``folders``).

    Raises:
        DataFormatError: compressed data are damaged.
        DataUnavailableError: the file cannot be read.
    """
    try:
        if str(path) == STDIN:
            yield sys.stdin.buffer
            return
        with _stream(path) as stream:
            yield stream
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise DataFormatError(f"{path}: the gzip stream is damaged ({error}).") from None
    except (zipfile.BadZipFile, NotImplementedError) as error:
        raise DataFormatError(f"{path}: the archive is damaged ({error}).") from None
    except OSError as error:
        raise DataUnavailableError(f"Cannot read {path}: {error.strerror}.") from None


@contextmanager
def _stream(path: Path) -> Iterator[IO[bytes]]:
    source = open_member(path) if is_member(path) else path.open("rb")
    with source as stream:
        if path.suffix != ".gz":
            yield stream
            return
        with gzip.open(stream) as unpacked:
            yield cast("IO[bytes]", unpacked)


def read_bytes(path: Path) -> bytes:
    """Read a file, decompressed if its name ends in ``.gz``."""
    with opened(path) as stream:
        return b"".join(bounded_lines(stream, path))


def bounded_lines(stream: IO[bytes], path: Path) -> Iterator[bytes]:
    """Yield the lines of a stream; more than ``MAX_UNPACKED`` bytes of a compressed file are a ``DataFormatError``."""
    remaining_bytes = byte_limit(path)
    while line := stream.readline(MAX_UNPACKED + 1):
        remaining_bytes -= len(line)
        if remaining_bytes < 0:
            raise too_large_error(path)
        yield line


def byte_limit(path: Path) -> float:
    """Return the limit on the bytes of a file: ``MAX_UNPACKED`` if it is compressed or in an archive, else infinity."""
    is_compressed = path.suffix == ".gz" or is_member(path)
    return MAX_UNPACKED if is_compressed else math.inf


def too_large_error(path: Path) -> DataFormatError:
    """Return the error for a compressed file of more than ``MAX_UNPACKED`` bytes."""
    return DataFormatError(
        f"{path} holds more than {MAX_UNPACKED >> 20} MiB once it is decompressed."
    )
