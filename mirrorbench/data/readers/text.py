"""Lines of text files: anything but valid UTF-8 (or the stated encoding) is an error with file and line."""

from __future__ import annotations

from codecs import BOM_UTF8, BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Iterable, Iterator
from pathlib import Path

from mirrorbench.core.errors import DataFormatError
from mirrorbench.data.readers.files import bounded_lines, opened


def read_lines(path: Path, encoding: str = "utf-8-sig") -> list[str]:
    """Read the lines of a text file (see ``decoded``), decompressed if its name ends in ``.gz``."""
    return list(stream_lines(path, encoding))


def stream_lines(path: Path, encoding: str = "utf-8-sig") -> Iterator[str]:
    """Read the lines of a text file one at a time, as ``read_lines`` does."""
    with opened(path) as stream:
        yield from decoded(bounded_lines(stream, path), str(path), encoding)


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
