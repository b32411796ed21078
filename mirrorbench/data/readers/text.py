"""Lines of text files: anything but valid UTF-8 (or the stated encoding) is an error with file and line."""

from __future__ import annotations

from codecs import BOM_UTF8, BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Iterable, Iterator
from io import TextIOWrapper
from pathlib import Path
from typing import IO

from mirrorbench.core.errors import DataFormatError
from mirrorbench.data.readers.files import (
    MAX_UNPACKED,
    bounded_lines,
    byte_limit,
    opened,
    too_large_error,
)


def read_lines(path: Path, encoding: str = "utf-8-sig") -> list[str]:
    r"""Read the lines of a text file, decompressed if its name ends in ``.gz``.

    A plugin calls it in a parser for a format that is not a table. Lines end at a line feed, or at a carriage return
    and a line feed, and at nothing else: texts may hold other separators. Line ends and a byte order mark are removed,
    white space is kept, and blank lines are returned too, so that line i has index i - 1.

    Args:
        path: the file.
        encoding: the encoding of the file. By default UTF-8, perhaps with a byte order mark; then UTF-16 with a byte
            order mark is read too.

    Returns:
        The lines in file order; none for an empty file.

    Raises:
        DataFormatError: the file is not text in this encoding, its lines end in a carriage return alone, or compressed
            data are damaged or hold more than 1 GiB. The message names file and line where there is one.
        DataUnavailableError: the file cannot be read.

    Example:
        >>> from pathlib import Path
        >>> from mirrorbench.plugin import read_lines
        >>> _ = Path("questions.txt").write_text("Where can I park?\nWhen do you open?\n", encoding="utf-8")
        >>> read_lines(Path("questions.txt"))
        ['Where can I park?', 'When do you open?']
    """
    return list(stream_lines(path, encoding))


def stream_lines(path: Path, encoding: str = "utf-8-sig") -> Iterator[str]:
    """Yield the lines of a text file one by one, as ``read_lines`` reads them."""
    with opened(path) as stream:
        if encoding == "utf-8-sig" and _first_two_bytes(stream) in (BOM_UTF16_LE, BOM_UTF16_BE):
            yield from _utf16_lines(stream, path)
        else:
            yield from decoded(bounded_lines(stream, path), str(path), encoding)


def _first_two_bytes(stream: IO[bytes]) -> bytes:
    """Return the first two bytes of a stream without consuming them; no bytes for a stream without a buffer."""
    return stream.peek(2)[:2] if hasattr(stream, "peek") else b""


def _utf16_lines(stream: IO[bytes], path: Path) -> Iterator[str]:
    """Yield the lines of a file whose byte order mark says that it is UTF-16 (Excel's format "Unicode Text")."""
    number = 0
    remaining_bytes = byte_limit(path)
    try:
        text = TextIOWrapper(stream, "utf-16", newline="\n")
        # A character has two bytes or more, so a longer line of a compressed file exceeds the limit below.
        while line := text.readline(MAX_UNPACKED // 2):
            number += 1
            remaining_bytes -= 2 * len(line)
            if remaining_bytes < 0:
                raise too_large_error(path)
            if "\0" in line:
                raise DataFormatError(f"{path}, line {number}: a NUL; this is not a text file.")
            yield line.removesuffix("\n").removesuffix("\r")
    except UnicodeDecodeError as error:
        raise DataFormatError(
            f"{path}, after line {number}: not valid UTF-16, although its byte order mark says UTF-16 ({error.reason})."
        ) from None


def decoded(lines: Iterable[bytes], where: str, encoding: str = "utf-8-sig") -> Iterator[str]:
    r"""Decode the lines of a text, without line ends; ``where`` is its file or archive member, for messages.

    Lines end at ``\n`` or ``\r\n`` only: ``str.splitlines`` would also split at U+2028, U+0085 and form feeds, which
    occur inside texts. A leading byte order mark is dropped, nothing else is stripped. A text whose only line ends are
    ``\r`` (old Mac) is refused.
    """
    is_utf8 = encoding == "utf-8-sig"
    encoding_name = "UTF-8" if is_utf8 else encoding
    number = 0
    line = ""
    for number, raw in enumerate(lines, start=1):
        if number == 1 and raw.startswith((BOM_UTF16_LE, BOM_UTF16_BE)):
            hint = "Convert it, e.g. with: iconv -f utf-16 -t utf-8 FILE > NEWFILE"
            raise DataFormatError(f"{where} is UTF-16, and {encoding_name} is expected.", hint)
        if number == 1 and not is_utf8 and raw.startswith(BOM_UTF8):
            raise DataFormatError(
                f"{where} begins with the mark of UTF-8, and {encoding_name} is expected."
            )
        if b"\0" in raw:
            problem = f"{where}, line {number}: a NUL byte; this is not a text file."
            raise DataFormatError(problem, _hint_on_nul(raw))
        try:
            # Only the first line can begin with a byte order mark.
            text = raw.decode(encoding if number == 1 else encoding.removesuffix("-sig"))
        except UnicodeDecodeError as error:
            problem = f"{where}, line {number}: byte 0x{raw[error.start]:02x} is not valid {encoding_name}."
            hint = _hint_on_encoding(raw) if is_utf8 else ""
            raise DataFormatError(problem, hint) from None
        line = text.removesuffix("\n").removesuffix("\r")
        yield line
    # The only line.
    if number == 1 and "\r" in line:
        hint = "Convert them, e.g. with: tr '\\r' '\\n' < FILE > NEWFILE"
        raise DataFormatError(f"{where}: its lines end in a carriage return alone.", hint)


def _hint_on_nul(line: bytes) -> str:
    """Return advice on a line with NUL bytes if it looks like UTF-16 without a byte order mark."""
    looks_like_utf16 = line.count(b"\0") >= len(line) // 3
    if not looks_like_utf16:
        return ""
    encoding = "utf-16be" if line.startswith(b"\0") else "utf-16le"
    return f"If it is UTF-16: iconv -f {encoding} -t utf-8 FILE > NEWFILE"


def _hint_on_encoding(line: bytes) -> str:
    """Return advice on a line that is not UTF-8."""
    # Latin-1 has no letters from 0x80 to 0x9f, where Windows has quotation marks and the euro.
    is_windows = any(0x80 <= byte <= 0x9F for byte in line)
    encoding = "windows-1252" if is_windows else "latin1"
    return f"Convert the file to UTF-8, e.g. with: iconv -f {encoding} -t utf-8 FILE > NEWFILE"
