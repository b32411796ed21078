"""CSV and TSV files of users."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from mirrorbench.core.errors import DataFormatError
from mirrorbench.core.quoting import shown
from mirrorbench.data.readers.columns import line_error, resolve_columns
from mirrorbench.data.readers.text import stream_lines
from mirrorbench.data.readers.values import parse_index


def table_values(
    source: str, columns: Sequence[str], file_format: str
) -> Iterator[tuple[int, tuple[Any, ...]]]:
    """Read the values of columns of a user's CSV or TSV file, with line numbers from 1."""
    lines = (line + "\n" for line in stream_lines(Path(source).expanduser()))
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
                    row.index(column) for column in resolve_columns(columns, row, row, source)
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
