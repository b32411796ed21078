"""Bytes of files: in pieces, hashed, decompressed."""

from __future__ import annotations

import gzip
import hashlib
import math
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, cast

from mirrorbench.core.errors import DataFormatError, DataUnavailableError

_CHUNK = 1 << 20
STDIN = "-"
MAX_UNPACKED = 1 << 30
"""Limit in bytes on a decompressed ``.gz`` file: a megabyte of gzip can hold a gigabyte of zeros."""


def pieces(path: Path) -> Iterator[bytes]:
    """Read a file in pieces of 1 MiB."""
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
    """Open a file to read (``-``: standard input), decompressed if it ends in ``.gz``; reading errors become ours."""
    try:
        if str(path) == STDIN:
            yield sys.stdin.buffer
            return
        with cast(
            "IO[bytes]", gzip.open(path) if path.suffix == ".gz" else path.open("rb")
        ) as stream:
            yield stream
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise DataFormatError(f"{path}: the gzip stream is damaged ({error}).") from None
    except OSError as error:
        raise DataUnavailableError(f"Cannot read {path}: {error.strerror}.") from None


def read_bytes(path: Path) -> bytes:
    """Read a file, decompressed if its name ends in ``.gz``."""
    with opened(path) as stream:
        return b"".join(bounded_lines(stream, path))


def bounded_lines(stream: IO[bytes], path: Path) -> Iterator[bytes]:
    """Read the lines of a stream; more than ``MAX_UNPACKED`` bytes of a ``.gz`` file are an error."""
    left = MAX_UNPACKED if path.suffix == ".gz" else math.inf
    while line := stream.readline(MAX_UNPACKED + 1):
        left -= len(line)
        if left < 0:
            raise too_large(path)
        yield line


def too_large(path: Path) -> DataFormatError:
    """Return the error for a compressed file of more than ``MAX_UNPACKED`` bytes."""
    return DataFormatError(
        f"{path} holds more than {MAX_UNPACKED >> 20} MiB once it is decompressed."
    )
