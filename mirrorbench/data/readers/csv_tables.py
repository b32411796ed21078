"""CSV and TSV files of users."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Any

from mirrorbench.core.errors import DataFormatError
from mirrorbench.core.quoting import shown
from mirrorbench.data.readers.columns import line_error, resolve_columns
from mirrorbench.data.readers.text import stream_lines
from mirrorbench.data.readers.values import parse_index

_MOST_CHARACTERS = 1 << 27
"""Most characters of a field, which may hold a whole document, and of a row while its quotes are checked."""
_QUOTED = r'"(?:[^"]|"")*"'
_RECORD = re.compile(rf'(?:{_QUOTED}|[^"\t]*)(?:\t(?:{_QUOTED}|[^"\t]*))*')
"""A row of tab-separated fields by RFC 4180, with tabs for its commas."""


def table_values(
    source: str, columns: Sequence[str], file_format: str, note: Callable[[str], None]
) -> Iterator[tuple[int, tuple[Any, ...]]]:
    """Read the values of columns of a user's CSV or TSV file, with line numbers from 1.

    Columns are names in the first row, or else numbers from 0, and then the first row holds values (``has_header``).
    Empty rows at the end are left out. ``note`` is called with remarks on how the file is read.
    """
    reader = _rows(Path(source).expanduser(), file_format, note)
    try:
        yield from _values(reader, source, columns, file_format, note)
    except csv.Error as error:
        hint = 'A text in quotes ends with one; a quotation mark inside it is written twice: ""'
        raise line_error(source, reader.line_num, str(error), hint) from None


def table_header(path: Path, file_format: str) -> list[str]:
    """Return the first row of a CSV or TSV file, read as ``table_values`` reads it; empty for a file without rows."""
    try:
        return next((row for row in _rows(path, file_format, lambda message: None) if row), [])
    except csv.Error as error:
        raise DataFormatError(f"{path}, its header: {error}") from None


def _rows(path: Path, file_format: str, note: Callable[[str], None]) -> Any:
    """Return a ``csv.reader`` of a file."""
    csv.field_size_limit(_MOST_CHARACTERS)
    lines = (line + "\n" for line in stream_lines(path))
    if file_format == "csv":
        return csv.reader(lines, strict=True)
    quoted = quotes_are_marks(path)
    if quoted is None:
        return csv.reader(lines, delimiter="\t", quoting=csv.QUOTE_NONE)
    if quoted:
        note(f"{path}: quotation marks around fields are read as in CSV (RFC 4180)")
        return csv.reader(lines, delimiter="\t", strict=True)
    note(f"{path}: quotation marks are read as text, since not all of them follow RFC 4180")
    return csv.reader(lines, delimiter="\t", quoting=csv.QUOTE_NONE)


def quotes_are_marks(path: Path) -> bool | None:
    """Return whether the quotation marks of a tab-separated file enclose fields; ``None`` for a file without any.

    They do if the whole file follows RFC 4180 and all its rows have as many fields as the first. Where each line has as
    many too, no field may hold several lines, unless marks inside fields are doubled: a mark at the beginning of one
    text and another at the end of a later text would make one field of all rows between them.
    """
    has_marks = several_lines = doubled = False
    line_widths, widths = set[int](), set[int]()
    row, n_marks = "", 0
    for line in stream_lines(path):
        if not line and not row:
            continue
        line_widths.add(line.count("\t"))
        several_lines |= bool(row)
        row = f"{row}\n{line}" if row else line
        n_marks += line.count('"')
        has_marks |= n_marks > 0
        if n_marks % 2:  # inside a quoted field
            if len(row) > _MOST_CHARACTERS:
                return False
            continue
        if n_marks and not _RECORD.fullmatch(row):
            return False
        quoted = re.findall(_QUOTED, row)
        doubled |= any('""' in field[1:-1] for field in quoted)
        widths.add(row.count("\t") - sum(field.count("\t") for field in quoted))
        row, n_marks = "", 0
    if not has_marks:
        return None
    lines_are_rows = len(line_widths) == 1 and line_widths != {0}
    merged = several_lines and lines_are_rows and not doubled
    return not row and len(widths) == 1 and not merged


def _values(
    reader: Any,
    source: str,
    columns: Sequence[str],
    file_format: str,
    note: Callable[[str], None],
) -> Iterator[tuple[int, tuple[Any, ...]]]:
    # An empty line is no row; an empty text in a single column is written "".
    rows = ((reader.line_num, row) for row in reader if row)
    beginning = list(islice(rows, 2))
    if not beginning:
        return
    first = beginning[0][1]
    width = len(first)
    if has_header(columns, [row for _, row in beginning]):
        _check_head(first, source, file_format)
        chosen = resolve_columns(columns, first, first, source)
        indices = [first.index(column) for column in chosen]
        del beginning[0]
        if any(parse_index(column) >= 0 for column in columns):
            note(
                f"{source}: the first line holds {', '.join(columns)}, so these are names, no numbers"
            )
    else:
        indices = [parse_index(column) for column in columns]
        if width <= max(indices):
            line, _ = beginning[0]
            raise line_error(source, line, f"there is no column {max(indices)} (from 0)")
    empty: list[tuple[int, list[str]]] = []
    for line, row in chain(beginning, rows):
        if len(row) != width:
            hint = (
                'A text that holds a comma stands in quotes: "one, two"'
                if file_format == "csv"
                else ""
            )
            problem = f"{len(row)} columns, where the first line has {width}"
            raise line_error(source, line, problem, hint)
        if width > 1 and not any(field.strip() for field in row):
            empty.append((line, row))
            continue
        for number, values in (*empty, (line, row)):
            yield number, tuple(values[index] for index in indices)
        empty.clear()
    if empty:
        note(f"{source}: empty rows at the end, left out: {len(empty):,}")


def has_header(columns: Sequence[str], beginning: Sequence[Sequence[str]]) -> bool:
    """Return whether the first row of a table names its columns: not if the ``columns`` asked for are numbers.

    Numbers may be names too, as pandas gives them (0, 1, 2); in the first row they are. But a column that counts from
    the first row to the second numbers the rows of a table without a header.
    """
    numbers = [parse_index(column) for column in columns]
    if -1 in numbers or not columns:
        return True
    first, second = beginning[0], beginning[-1]
    if not all(column in first for column in columns):
        return False
    names = [int(name) for name in first if parse_index(name) >= 0]
    if len(names) > 1 and names == list(range(names[0], names[0] + len(names))):
        return True
    below = dict(zip(first, second, strict=False))
    return all(
        below[column] != str(number + 1) for column, number in zip(columns, numbers, strict=True)
    )


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
