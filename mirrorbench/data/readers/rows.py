"""Rows of a user's file: lines of plain text, or values of columns of a table or of JSON lines."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from mirrorbench.core.errors import UsageError
from mirrorbench.data.readers.columns import text_of
from mirrorbench.data.readers.csv_tables import table_values
from mirrorbench.data.readers.files import STDIN
from mirrorbench.data.readers.folders import exists
from mirrorbench.data.readers.json_rows import json_values
from mirrorbench.data.readers.parquet import parquet_values
from mirrorbench.data.readers.spreadsheets import sheet_values
from mirrorbench.data.readers.text import stream_lines

PLAIN_TEXT = "text"
"""The format of a file without columns, one text per line."""
_FORMATS = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
    ".tsv": "tsv",
    ".csv": "csv",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".xlsx": "xlsx",
    ".xlsm": "xlsx",
}
ENDINGS = ", ".join(_FORMATS)
"""The endings of files with columns, for messages."""


def format_of(source: str) -> str:
    """Return the format of a file by its name: ``text``, ``jsonl``, ``tsv``, ``csv``, ``parquet`` or ``xlsx``."""
    return _FORMATS.get(Path(source.lower().removesuffix(".gz")).suffix, PLAIN_TEXT)


def silent(message: str) -> None:
    """Ignore a remark on how a file is read."""


def read_rows(
    source: str,
    columns: Sequence[str] = (),
    note: Callable[[str], None] = silent,
    named: bool = False,
    file_format: str = "",
) -> Iterator[tuple[int, tuple[Any, ...]]]:
    r"""Read a file row by row: return line or row numbers (from 1), each with the values of ``columns``.

    Lines end only at ``\n``; a byte order mark and one ``\r`` before the end are dropped. Quotation marks of ``.tsv`` are
    read by ``quotes_are_marks``.

    Args:
        source: the path of the file; ``-`` is standard input: plain text, or JSON lines if columns are named. A name that
            ends in ``.gz`` (not of Parquet and Excel files) is decompressed.
        columns: names of columns; by default ``text`` or ``sentence``, or the only column. Columns of ``.tsv`` and
            ``.csv`` may be numbers from 0 that are not names in the first line (``has_header``), and then there is no
            header line.
        note: called with remarks on how the file is read, while it is read.
        named: whether columns of ``.tsv`` and ``.csv`` are names even if they are numbers.
        file_format: as ``format_of`` returns it; by default that of the ending: ``.jsonl``, ``.ndjson`` and ``.json`` are
            JSON lines or one document (``json_documents``), ``.tsv`` and ``.csv`` tables, ``.parquet`` and ``.pq``
            Parquet, ``.xlsx`` and ``.xlsm`` Excel's. Any other is plain text, one text per line.

    Raises:
        UsageError: the file does not exist, or columns are named for plain text.
        DataUnavailableError: the file cannot be read.
        DataFormatError: it is not UTF-8, damaged, or has no such column; the message names the line.
    """
    path = Path(source).expanduser()
    file_format = file_format or format_of(source)
    if source == STDIN:
        file_format = "jsonl" if columns else PLAIN_TEXT
    elif source.lower().endswith(".gz") and file_format in ("parquet", "xlsx"):
        name = {"parquet": "Parquet", "xlsx": "Excel's format"}[file_format]
        raise UsageError(
            f"{source}: {name} is compressed inside, not by gzip", "Decompress it: gunzip FILE"
        )
    elif os.path.isdir(path):  # unlike Path.is_dir, does not raise for a name that is too long
        raise UsageError(f"{path} is a folder", "Name one file of texts.")
    elif not exists(path):
        raise UsageError(f"there is no file {path}", "Name a text file, or - for standard input.")
    if file_format == PLAIN_TEXT and columns:
        hint = f"Only files ending in {ENDINGS} have columns; rename the file."
        raise UsageError(f"{source} is read as plain text, which has no columns", hint)
    if file_format == PLAIN_TEXT:
        return ((number, (line,)) for number, line in enumerate(stream_lines(path), start=1))
    if file_format == "jsonl":
        return json_values(source, columns, note)
    if file_format == "parquet":
        return parquet_values(source, columns, note)
    if file_format == "xlsx":
        return sheet_values(source, columns, note)
    return table_values(source, columns, file_format, note, named)


def read_strings(
    source: str,
    columns: Sequence[str] = (),
    strip: bool = True,
    note: Callable[[str], None] = silent,
) -> Iterator[tuple[int, str]]:
    """Yield the texts of a file, with their line numbers; the two texts of a pair are joined by a tab.

    Blank texts, and pairs with one, are left out. ``source``, ``note`` and errors are those of ``read_rows``.

    Args:
        source: the path of the file.
        columns: one for texts, two for pairs; if empty, the default column of ``read_rows``.
        strip: whether white space at both ends of texts is removed (default true).
        note: called with remarks on how the file is read.
    """
    if len(columns) > 2:
        raise UsageError(
            f"{source}: texts are in one column, pairs in two", f"Got {', '.join(columns)}"
        )
    is_plain_text = not columns and format_of(source) == PLAIN_TEXT
    for number, values in read_rows(source, columns, note):
        texts = [text_of(value, source, number) for value in values]
        if not all(text.strip() for text in texts):
            continue
        if not is_plain_text:
            # A tab separates the texts of a pair, so tabs in columns become spaces.
            texts = [text.replace("\t", " ") for text in texts]
        if strip:
            texts = [text.strip() for text in texts]
        yield number, "\t".join(texts)
