"""Strict reading of text files: what is not clean UTF-8 is an error with file and line, never a guess."""

from __future__ import annotations

import gzip
import hashlib
import math
import re
import zlib
from pathlib import Path

from mirrorbench.errors import DataFormatError, DataUnavailableError

_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?\Z", re.ASCII)
_CHUNK = 1 << 20


def sha256_of(path: Path) -> str:
    """The SHA-256 of a file's bytes, as 64 hexadecimal digits; the file is read in pieces of 1 MiB.

    Raises:
        DataUnavailableError: the file cannot be read.
    """
    digest = hashlib.sha256()
    try:
        with path.open("rb") as stream:
            while chunk := stream.read(_CHUNK):
                digest.update(chunk)
    except OSError as error:
        raise DataUnavailableError(f"Cannot read {path}: {error.strerror}.") from None
    return digest.hexdigest()


def read_lines(path: Path, encoding: str = "utf-8-sig") -> list[str]:
    r"""Read a text file as a list of lines; see ``decode_lines``. A name ending in ``.gz`` is decompressed.

    Args:
        path: the file.
        encoding: the file's encoding; UTF-8 unless a format says otherwise.

    Returns:
        the lines without their ends.

    Raises:
        DataFormatError: not in that encoding, a NUL byte (so probably no text), or a damaged gzip stream.
        DataUnavailableError: there is no such file, or it cannot be read.
    """
    return decode_lines(_read_bytes(path), str(path), encoding)


def decode_lines(data: bytes, where: str, encoding: str = "utf-8-sig") -> list[str]:
    r"""Turn the content of a text file into a list of lines.

    Lines end at ``\n`` alone (``str.splitlines`` would also cut at U+2028, U+0085 and form feeds, which occur
    inside texts); one ``\r`` before it belongs to the line end. A byte order mark at the start is dropped. A
    last line need not be terminated. Nothing else is stripped.

    Args:
        data: the bytes.
        where: what they are, for messages: the file's path, or archive and member.
        encoding: as for ``bytes.decode``.

    Returns:
        the lines without their ends.

    Raises:
        DataFormatError: not in that encoding, or a NUL byte.
    """
    if b"\0" in data:
        line = data.count(b"\n", 0, data.index(b"\0")) + 1
        raise DataFormatError(f"{where}, line {line}: a NUL byte; this is not a text file.")
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        name = "UTF-8" if encoding == "utf-8-sig" else encoding
        raise DataFormatError(
            f"{where}, line {line}: byte 0x{data[error.start]:02x} is not valid {name}.",
            hint="Convert the file to UTF-8, e.g. with: iconv -f latin1 -t utf-8 FILE > NEWFILE",
        ) from None
    lines = text.split("\n")
    if lines[-1] == "":
        lines.pop()
    return [line.removesuffix("\r") for line in lines]


def _read_bytes(path: Path) -> bytes:
    try:
        if path.suffix != ".gz":
            return path.read_bytes()
        with gzip.open(path) as stream:
            return stream.read()
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise DataFormatError(f"{path}: the gzip stream is damaged ({error}).") from None
    except OSError as error:
        raise DataUnavailableError(f"Cannot read {path}: {error.strerror}.") from None


def parse_number(text: str, path: Path, line: int, low: float, high: float) -> float:
    """Read a decimal number between two bounds, both included.

    Stricter than ``float``: no ``nan``, no ``inf``, no underscores, no digits of other scripts, no spaces.

    Args:
        text: what the file holds.
        path: the file, for the message.
        line: the line number, for the message (from 1).
        low: the least permitted value.
        high: the greatest permitted value.

    Raises:
        DataFormatError: not a number, or outside the bounds.
    """
    if not _NUMBER.match(text):
        raise DataFormatError(f"{path}, line {line}: {text!r} is not a number.")
    value = float(text)
    if not math.isfinite(value) or not low <= value <= high:
        raise DataFormatError(f"{path}, line {line}: {text} lies outside the scale from {low:g} to {high:g}.")
    return value
