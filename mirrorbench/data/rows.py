"""Rows of a user's file: lines of plain text, or values of columns of a table or of JSON lines."""

from __future__ import annotations

import csv
import os
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

from mirrorbench.core.errors import DataFormatError, UsageError, not_installed
from mirrorbench.core.shown import shown
from mirrorbench.data.textfiles import STDIN, parse_index, parse_json, stream_lines

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
}
_USUAL_COLUMNS = ("text", "sentence")  # the default of several columns


def format_of(source: str) -> str:
    """Return the format of a file by its name: ``text``, ``jsonl``, ``tsv``, ``csv`` or ``parquet``."""
    return _FORMATS.get(Path(source.lower().removesuffix(".gz")).suffix, PLAIN_TEXT)


def text_of(value: Any, source: str, number: int) -> str:
    """Return a value of a row, which must be a text; any other is a ``DataFormatError`` with file and line."""
    if not isinstance(value, str):
        problem = "empty (null)" if value is None else f"of type {type(value).__name__}, not a text"
        raise line_error(source, number, f"the value is {problem}")
    return value


def read_rows(source: str, columns: Sequence[str] = ()) -> Iterator[tuple[int, tuple[Any, ...]]]:
    r"""Read a file; returns line or row numbers (from 1), each with the values of ``columns``.

    The format follows from the suffix: ``.jsonl``, ``.ndjson`` and ``.json`` are JSON lines, ``.tsv`` and ``.csv``
    tables, ``.parquet`` and ``.pq`` Parquet, all else plain text, one text per line. ``.gz`` (not of Parquet) is
    decompressed. ``-`` is standard input: plain text, or JSON lines where columns are named. Lines end at ``\n`` alone;
    a byte order mark and one ``\r`` before the end are dropped. Columns of ``.tsv`` and ``.csv`` may be numbers from 0,
    and then there is no header line. The default is the column ``text`` or ``sentence``, or the only one.

    Raises:
        UsageError: the file does not exist, or columns are named for plain text.
        DataUnavailableError: the file cannot be read.
        DataFormatError: it is not UTF-8, damaged, or has no such column; the message names the line.
    """
    path, file_format = Path(source).expanduser(), format_of(source)
    if source == STDIN:
        file_format = "jsonl" if columns else PLAIN_TEXT
    elif source.lower().endswith(".gz") and file_format == "parquet":
        raise UsageError(
            f"{source}: Parquet is compressed inside, not by gzip", "Decompress it: gunzip FILE"
        )
    elif os.path.isdir(path):  # unlike Path.is_dir, does not raise for a name that is too long
        raise UsageError(f"{path} is a folder", "Name one file of texts.")
    elif not os.path.exists(path):
        raise UsageError(f"there is no file {path}", "Name a text file, or - for standard input.")
    if file_format == PLAIN_TEXT and columns:
        hint = "Columns are in files ending in .jsonl, .tsv, .csv or .parquet; give the file such a name."
        raise UsageError(f"{source} is read as plain text, which has no columns", hint)
    if file_format == PLAIN_TEXT:
        return ((number, (line,)) for number, line in _lines(source))
    if file_format == "jsonl":
        return _json_rows(source, columns)
    return (
        _parquet_rows(source, columns)
        if file_format == "parquet"
        else _table_rows(source, columns, file_format)
    )


def read_strings(source: str, columns: Sequence[str] = (), strip: bool = True) -> Iterator[str]:
    """Read the texts of a file that are not blank, the two of a pair joined by a tab; errors as in ``read_rows``."""
    if len(columns) > 2:
        raise UsageError(
            f"{source}: texts are in one column, pairs in two", f"Got {', '.join(columns)}"
        )
    plain = not columns and format_of(source) == PLAIN_TEXT
    for number, values in read_rows(source, columns):
        texts = [text_of(value, source, number) for value in values]
        if all(map(str.strip, texts)):
            # A tab separates the texts of a pair, so tabs in columns become spaces.
            texts = texts if plain else [" ".join(text.split("\t")) for text in texts]
            yield "\t".join(map(str.strip, texts) if strip else texts)


def _lines(source: str) -> Iterator[tuple[int, str]]:
    return enumerate(stream_lines(Path(source).expanduser()), start=1)


def line_error(source: str, number: int, problem: str, hint: str = "") -> DataFormatError:
    """Return an error that names the line of a file."""
    return DataFormatError(f"{source}, line {number}: {problem}.", hint)


def _json_rows(source: str, columns: Sequence[str]) -> Iterator[tuple[int, tuple[Any, ...]]]:
    for number, line in _lines(source):
        if not line.strip():
            continue
        row = parse_json(line, f"{source}, line {number}")
        if not isinstance(row, dict):
            raise line_error(
                source, number, "not a JSON object", 'Each line is an object, like {"text": "..."}.'
            )
        texts = [] if columns else [name for name, value in row.items() if isinstance(value, str)]
        columns = _resolve_columns(columns, row, texts, f"{source}, line {number}")
        yield number, tuple(row[column] for column in columns)


def _table_rows(
    source: str, columns: Sequence[str], file_format: str
) -> Iterator[tuple[int, tuple[Any, ...]]]:
    lines = (line + "\n" for _, line in _lines(source))
    # Tab-separated files have no quoting; in CSV a quoted text may span several lines.
    tsv = csv.reader(lines, delimiter="\t", quoting=csv.QUOTE_NONE)
    reader = tsv if file_format == "tsv" else csv.reader(lines, strict=True)
    csv.field_size_limit(1 << 27)  # a field may hold a whole document
    numbers = [parse_index(column) for column in columns]
    indices = numbers if -1 not in numbers else []
    width = 0
    try:
        for row in reader:
            if (
                not row
            ):  # an empty line, often at the end; an empty text in a single column is written ""
                continue
            if not indices:
                _check_head(row, source, file_format)
                indices = [
                    row.index(column) for column in _resolve_columns(columns, row, row, source)
                ]
                width = len(row)
                continue
            if len(row) != (width := width or len(row)):
                hint = (
                    'A text that holds a comma stands in quotes: "one, two"'
                    if file_format == "csv"
                    else ""
                )
                raise line_error(
                    source,
                    reader.line_num,
                    f"{len(row)} columns, where the first line has {width}",
                    hint,
                )
            if len(row) <= max(indices):
                raise line_error(
                    source, reader.line_num, f"there is no column {max(indices)} (from 0)"
                )
            yield reader.line_num, tuple(row[index] for index in indices)
    except csv.Error as error:
        hint = 'A text in quotes ends with one; a quotation mark inside it is written twice: ""'
        raise line_error(source, reader.line_num, str(error), hint) from None


def _check_head(names: Sequence[str], source: str, file_format: str) -> None:
    """Refuse a CSV file whose columns are separated by another mark than the comma."""
    if (
        file_format == "csv"
        and len(names) == 1
        and (mark := next((mark for mark in ";\t" if mark in names[0]), ""))
    ):
        problem = (
            f"{source} is read as separated by commas, and its only column is {shown(names[0])}."
        )
        by_tabs = "Give the file a name that ends in .tsv"
        hint = (
            by_tabs
            if mark == "\t"
            else "Separate its columns by commas, and put texts that hold commas in quotes"
        )
        raise DataFormatError(problem, hint)


def _parquet_rows(source: str, columns: Sequence[str]) -> Iterator[tuple[int, tuple[Any, ...]]]:
    parquet, arrow = pyarrow()
    try:
        with parquet.ParquetFile(Path(source).expanduser()) as file:
            schema = file.schema_arrow
            strings = [
                f.name for f in schema if str(f.type) in ("string", "large_string", "string_view")
            ]
            columns = _resolve_columns(columns, schema.names, strings, source)
            number = 0
            for batch in file.iter_batches(batch_size=1024, columns=list(dict.fromkeys(columns))):
                for values in zip(
                    *(batch.column(column).to_pylist() for column in columns), strict=True
                ):
                    number += 1
                    yield number, values
    except (arrow.ArrowException, OSError) as error:
        raise DataFormatError(
            f"{source} cannot be read as Parquet: {str(error).splitlines()[0]}"
        ) from None


def _resolve_columns(
    columns: Sequence[str], names: Collection[str], texts: Sequence[str], where: str
) -> Sequence[str]:
    """The named columns, if they exist, or the default one among ``texts``, the columns of texts."""
    if not columns:
        columns = [name for name in _USUAL_COLUMNS if name in texts][:1] or texts
        if len(columns) != 1:
            hint = (
                f"Add --column NAME (in a spec or grid: FILE#NAME); there are: {', '.join(texts)}"
                if texts
                else ""
            )
            raise UsageError(
                f"{where} has {'several columns' if texts else 'no column of text'}, none is named",
                hint,
            )
    for column in columns:
        if column not in names:
            raise DataFormatError(
                f"{where} has no column {shown(column)}.", hint=f"It has: {', '.join(names)}"
            )
        if list(names).count(column) > 1:
            raise DataFormatError(
                f"{where} has several columns {shown(column)}.", "Give each a name of its own."
            )
    return columns


def pyarrow() -> tuple[Any, Any]:
    """Import ``pyarrow.parquet`` and ``pyarrow``; a ``UsageError`` where they are not installed."""
    try:
        import pyarrow as arrow
        import pyarrow.parquet as parquet
    except ImportError as error:
        raise not_installed(UsageError, "Parquet files need", "pyarrow", "parquet") from error
    return parquet, arrow
