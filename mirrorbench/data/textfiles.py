"""Strict reading of text files: anything but valid UTF-8 (or the stated encoding) is an error with file and line."""

from __future__ import annotations

import gzip
import hashlib
import json
import math
import re
import sys
import zlib
from codecs import BOM_UTF8, BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, cast

from mirrorbench.core.errors import DataFormatError, DataUnavailableError
from mirrorbench.core.shown import is_text, shown

_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?\Z", re.ASCII)
_CHUNK = 1 << 20
_DIGITS = 9
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
        return b"".join(_bounded(stream, path))


def read_lines(path: Path, encoding: str = "utf-8-sig") -> list[str]:
    """Read the lines of a text file (see ``decoded``), decompressed if its name ends in ``.gz``."""
    return list(stream_lines(path, encoding))


def stream_lines(path: Path, encoding: str = "utf-8-sig") -> Iterator[str]:
    """Read the lines of a text file one at a time, as ``read_lines`` does."""
    with opened(path) as stream:
        yield from decoded(_bounded(stream, path), str(path), encoding)


def _bounded(stream: IO[bytes], path: Path) -> Iterator[bytes]:
    left = MAX_UNPACKED if path.suffix == ".gz" else math.inf
    while line := stream.readline(MAX_UNPACKED + 1):
        left -= len(line)
        if left < 0:
            raise DataFormatError(
                f"{path} holds more than {MAX_UNPACKED >> 20} MiB once it is decompressed."
            )
        yield line


def decoded(lines: Iterable[bytes], where: str, encoding: str = "utf-8-sig") -> Iterator[str]:
    r"""Decode the lines of a text, without line ends; ``where`` is its file or archive member, for messages.

    Lines end at ``\n`` or ``\r\n`` only: ``str.splitlines`` would also split at U+2028, U+0085 and form feeds, which
    occur inside texts. A leading byte order mark is dropped, nothing else is stripped. A text whose only line ends are
    ``\r`` (old Mac) is refused.
    """
    is_utf8, number, text = encoding == "utf-8-sig", 0, ""
    name = "UTF-8" if is_utf8 else encoding
    for number, raw in enumerate(lines, start=1):
        if number == 1 and raw.startswith((BOM_UTF16_LE, BOM_UTF16_BE)):
            hint = "Convert it, e.g. with: iconv -f utf-16 -t utf-8 FILE > NEWFILE"
            raise DataFormatError(f"{where} is UTF-16, and {name} is expected.", hint)
        if number == 1 and not is_utf8 and raw.startswith(BOM_UTF8):
            raise DataFormatError(f"{where} begins with the mark of UTF-8, and {name} is expected.")
        if b"\0" in raw:
            raise DataFormatError(f"{where}, line {number}: a NUL byte; this is not a text file.")
        try:
            text = raw.decode(encoding if number == 1 else encoding.removesuffix("-sig"))
        except UnicodeDecodeError as error:
            hint = (
                "Convert the file to UTF-8, e.g. with: iconv -f latin1 -t utf-8 FILE > NEWFILE"
                if is_utf8
                else ""
            )
            message = f"{where}, line {number}: byte 0x{raw[error.start]:02x} is not valid {name}."
            raise DataFormatError(message, hint) from None
        yield text.removesuffix("\n").removesuffix("\r")
    if number == 1 and "\r" in text.removesuffix("\n").removesuffix("\r"):
        hint = "Convert them, e.g. with: tr '\\r' '\\n' < FILE > NEWFILE"
        raise DataFormatError(f"{where}: its lines end in a carriage return alone.", hint)


def parse_json(text: str, where: str) -> Any:
    """Parse a JSON text; a key that occurs twice in an object is an error."""

    def distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if len(members := dict(pairs)) != len(pairs):
            raise ValueError("a key stands twice in one object")
        return members

    try:
        value = json.loads(text, object_pairs_hook=distinct)
        if "\\ud" in text.lower() and not is_text(json.dumps(value, ensure_ascii=False)):
            raise ValueError("half of a surrogate pair")
        return value
    except (ValueError, RecursionError) as error:
        raise DataFormatError(f"{where}: not JSON ({error}).") from None


class Ids:
    """The ids of a data set, which must be unique."""

    def __init__(self) -> None:
        self._places: dict[str, tuple[Path | str, int]] = {}

    def add(self, identity: str, path: Path | str, line: int) -> str:
        """Register the id of a line and return it; a registered id is an error."""
        if identity in self._places:
            first, earlier = self._places[identity]
            where = f"line {earlier}" if first == path else f"{first}, line {earlier}"
            raise DataFormatError(
                f"{path}, line {line}: the id {shown(identity)} stands already in {where}."
            )
        self._places[identity] = path, line
        return identity


def parse_index(text: str) -> int:
    """Parse an index from 0 in ASCII digits; anything else is -1."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= _DIGITS else -1


def parse_number(text: str, path: Path | str, line: int, low: float, high: float) -> float:
    """Parse a decimal number between two bounds (included); no ``nan``, ``inf``, ``1_0``, spaces or other digits."""
    if not _NUMBER.match(text):
        raise DataFormatError(f"{path}, line {line}: {shown(text)} is not a number.")
    value = float(text)
    if not math.isfinite(value) or not low <= value <= high:
        raise DataFormatError(
            f"{path}, line {line}: {shown(text)} lies outside the scale from {low:g} to {high:g}."
        )
    return value


def unmark(text: str, opening: str, closing: str) -> tuple[str, tuple[tuple[int, int], ...]]:
    """Remove closed marks (``<b>``, ``</b>``); returns the text and the spans that they enclosed, ascending."""
    parts: list[str] = []
    spans: list[tuple[int, int]] = []
    length = done = 0
    # Not a regular expression: on a text of many openings and no closing it would search to the end for each.
    while (mark := text.find(opening, done)) >= 0 and (
        end := text.find(closing, mark + len(opening))
    ) >= 0:
        before, word = text[done:mark], text[mark + len(opening) : end]
        start = length + len(before)
        length = start + len(word)
        spans.append((start, length))
        parts += (before, word)
        done = end + len(closing)
    return "".join(parts) + text[done:], tuple(spans)
