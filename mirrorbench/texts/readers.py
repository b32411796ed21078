r"""Rows of a user's file, one at a time, with constant memory.

What a file is follows from its name: ``.jsonl``, ``.ndjson`` and ``.json`` hold JSON objects, one a line; ``.tsv`` and
``.csv`` tables; ``.parquet`` a Parquet table; everything else plain text, one text a line. ``.gz`` after the name (not
of Parquet) is decompressed. ``-`` is standard input: plain text, or JSON lines where columns are named.

Lines end at ``\n`` alone, as everywhere in mirrorbench; a byte order mark and one ``\r`` before the end are dropped.
"""

from __future__ import annotations

import csv
import gzip
import json
import os
import sys
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, cast

from mirrorbench.core.errors import DataFormatError, DataUnavailableError, UsageError

STDIN = "-"
Row = tuple[int, tuple[Any, ...]]

_FORMATS = {
    ".jsonl": "jsonl", ".ndjson": "jsonl", ".json": "jsonl", ".tsv": "tsv", ".csv": "csv", ".parquet": "parquet",
    ".pq": "parquet",
}  # fmt: skip
_USUAL = ("text", "sentence")
"""The columns that are taken where none is named and there are several."""


def file_format(source: str, columns: Sequence[str] = ()) -> str:
    """``text``, ``jsonl``, ``tsv``, ``csv`` or ``parquet``."""
    if source == STDIN:
        return "jsonl" if columns else "text"
    name = source.lower()
    suffix = Path(name.removesuffix(".gz")).suffix
    if name.endswith(".gz") and _FORMATS.get(suffix) == "parquet":
        raise UsageError(f"{source}: Parquet is compressed inside, not by gzip", "Decompress it: gunzip FILE")
    return _FORMATS.get(suffix, "text")


def rows(source: str, columns: Sequence[str] = ()) -> Iterator[Row]:
    """The rows of a file, one at a time.

    Args:
        source: the file, or ``-``.
        columns: names of columns; of ``.tsv`` and ``.csv`` also numbers from 0, and then there is no header line. With
            none it is the column ``text`` or ``sentence``, or the only one that there is.

    Yields:
        The line or row number (from 1), and the columns' values in the order asked for.

    Raises:
        UsageError: there is no such file, or a column is named that plain text does not have.
        DataUnavailableError: the file cannot be read.
        DataFormatError: it is not UTF-8, damaged, or lacks a column; the message names the line.
    """
    kind = file_format(source, columns)
    if source != STDIN:
        _check(Path(source).expanduser())
    if kind == "text" and columns:
        raise UsageError(
            f"{source} is read as plain text, which has no columns",
            "Columns are in files ending in .jsonl, .tsv, .csv or .parquet; give the file such a name.",
        )
    if kind == "text":
        return ((number, (line,)) for number, line in lines(source))
    if kind == "jsonl":
        return _objects(source, columns)
    return _parquet(source, columns) if kind == "parquet" else _table(source, columns, "\t" if kind == "tsv" else ",")


def _check(path: Path) -> None:
    if os.path.isdir(path):  # unlike Path.is_dir, it takes a name that is too long for the file system
        raise UsageError(f"{path} is a folder", "Name one file of texts.")
    if not os.path.exists(path):
        raise UsageError(f"there is no file {path}", "Name a text file, or - for standard input.")


def lines(source: str) -> Iterator[tuple[int, str]]:
    """The lines of a file, numbered from 1, without their ends.

    Raises:
        DataUnavailableError: the file cannot be read.
        DataFormatError: not UTF-8, a NUL byte, or a damaged gzip stream.
    """
    with _opened(source) as stream:
        for number, raw in enumerate(stream, start=1):
            if b"\0" in raw:
                raise DataFormatError(f"{source}, line {number}: a NUL byte; this is not a text file.")
            try:
                text = raw.decode("utf-8-sig" if number == 1 else "utf-8")
            except UnicodeDecodeError as error:
                raise DataFormatError(
                    f"{source}, line {number}: byte 0x{raw[error.start]:02x} is not valid UTF-8.",
                    hint="Convert the file to UTF-8, e.g. with: iconv -f latin1 -t utf-8 FILE > NEWFILE",
                ) from None
            yield number, text.removesuffix("\n").removesuffix("\r")


@contextmanager
def _opened(source: str) -> Iterator[IO[bytes]]:
    try:
        if source == STDIN:
            yield sys.stdin.buffer
            return
        path = Path(source).expanduser()
        with cast("IO[bytes]", gzip.open(path) if path.suffix == ".gz" else path.open("rb")) as stream:
            yield stream
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise DataFormatError(f"{source}: the gzip stream is damaged ({error}).") from None
    except OSError as error:
        raise DataUnavailableError(f"Cannot read {source}: {error.strerror}.") from None


def _objects(source: str, columns: Sequence[str]) -> Iterator[Row]:
    wanted = tuple(columns)
    for number, line in lines(source):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise DataFormatError(f"{source}, line {number}: not JSON ({error}).") from None
        if not isinstance(row, dict):
            raise DataFormatError(
                f"{source}, line {number}: not a JSON object.", hint='Each line is an object, like {"text": "..."}.'
            )
        wanted = wanted or (_only([key for key, value in row.items() if isinstance(value, str)], source),)
        lacking = [column for column in wanted if column not in row]
        if lacking:
            raise DataFormatError(
                f"{source}, line {number}: there is no {lacking[0]!r}.", hint=f"The line has: {', '.join(row)}"
            )
        yield number, tuple(row[column] for column in wanted)


def _table(source: str, columns: Sequence[str], delimiter: str) -> Iterator[Row]:
    texts = (line + "\n" for _, line in lines(source))
    # In tab-separated files a quote is a quote; CSV has its quoting, in which a text may run over several lines.
    if delimiter == "\t":
        reader = csv.reader(texts, delimiter=delimiter, quoting=csv.QUOTE_NONE)
    else:
        reader = csv.reader(texts, delimiter=delimiter, strict=True)
    csv.field_size_limit(1 << 27)  # a document in one field
    places: list[int] | None = None
    if columns and all(column.isdecimal() for column in columns):
        places = [int(column) for column in columns]
    try:
        for row in reader:
            if not row:  # an empty line, as many files end with; an empty text in one column is written ""
                continue
            if places is None:
                places = _places(row, columns, source)
            elif len(row) <= max(places):
                raise DataFormatError(f"{source}, line {reader.line_num}: there is no column {max(places)} (from 0).")
            else:
                yield reader.line_num, tuple(row[place] for place in places)
    except csv.Error as error:
        raise DataFormatError(f"{source}, line {reader.line_num}: {error}.") from None


def _places(head: list[str], columns: Sequence[str], source: str) -> list[int]:
    for column in columns or [_only(head, source)]:
        if column not in head:
            raise DataFormatError(f"{source} has no column {column!r}.", hint=f"Its first line: {', '.join(head)}")
    return [head.index(column) for column in columns or [_only(head, source)]]


def _only(names: Sequence[str], source: str) -> str:
    usual = [name for name in _USUAL if name in names]
    if usual or len(names) == 1:
        return usual[0] if usual else names[0]
    raise UsageError(
        f"{source} has {'several columns' if names else 'no column of text'}, and none is named",
        f"Add --column NAME; there are: {', '.join(names)}" if names else "",
    )


def _parquet(source: str, columns: Sequence[str]) -> Iterator[Row]:
    parquet, arrow = pyarrow()
    try:
        with parquet.ParquetFile(Path(source).expanduser()) as file:
            schema = file.schema_arrow
            strings = [f.name for f in schema if str(f.type) in ("string", "large_string", "string_view")]
            wanted = tuple(columns) or (_only(strings, source),)
            for column in wanted:
                if column not in schema.names:
                    raise DataFormatError(
                        f"{source} has no column {column!r}.", hint=f"It has: {', '.join(schema.names)}"
                    )
            number = 0
            for batch in file.iter_batches(batch_size=1024, columns=list(dict.fromkeys(wanted))):
                for values in zip(*(batch.column(column).to_pylist() for column in wanted), strict=True):
                    number += 1
                    yield number, values
    except (arrow.ArrowException, OSError) as error:
        raise DataFormatError(f"{source} cannot be read as Parquet: {str(error).splitlines()[0]}") from None


def pyarrow() -> tuple[Any, Any]:
    """The modules ``pyarrow.parquet`` and ``pyarrow``.

    Raises:
        UsageError: pyarrow is not installed.
    """
    try:
        import pyarrow as arrow
        import pyarrow.parquet as parquet
    except ImportError as error:
        raise UsageError(
            "Parquet files need the package pyarrow, which is not installed",
            "Install it: pip install 'mirrorbench[parquet]'",
        ) from error
    return parquet, arrow
