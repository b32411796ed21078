"""CSV and TSV files of users."""

from __future__ import annotations

import csv
import re
from collections import Counter
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
_NUMBER = re.compile(r"[-+]?[0-9]*[.,]?[0-9]+")
_QUOTED = r'"[^"]*(?:""[^"]*)*"'
_RECORD = re.compile(rf'(?:{_QUOTED}|[^"\t]*)(?:\t(?:{_QUOTED}|[^"\t]*))*')
"""A row of tab-separated fields by RFC 4180, with tabs for its commas."""
_OPEN = re.compile(rf'(?:(?:{_QUOTED}|[^"\t]*)\t)*"[^"]*(?:""[^"]*)*')
"""The first line of such a row whose last field goes on in the next line."""


def table_values(
    source: str,
    columns: Sequence[str],
    file_format: str,
    note: Callable[[str], None],
    named: bool = False,
) -> Iterator[tuple[int, tuple[Any, ...]]]:
    """Read the values of columns of a user's CSV or TSV file, with line numbers from 1.

    Columns are names in the first row, or else numbers from 0, and then the first row holds values (``has_header``).
    Empty rows at the end are left out. ``note`` is called with remarks on how the file is read. ``named``: columns are
    names in any case.
    """
    # A text without a header may hold a semicolon.
    has_names = named or any(parse_index(column) < 0 for column in columns) or not columns
    reader = _rows(Path(source).expanduser(), file_format, note, has_names)
    try:
        yield from _values(reader, source, columns, file_format, note, named)
    except csv.Error as error:
        problem = str(error)
        hint = 'A text in quotes ends with one; a quotation mark inside it is written twice: ""'
        if "new-line character" in problem:
            problem = "a carriage return alone inside a text without quotation marks"
            hint = "Put the text in quotation marks, or remove it: tr -d '\\r' < FILE > NEWFILE"
        raise line_error(source, reader.line_num, problem, hint) from None


def table_header(path: Path, file_format: str) -> list[str]:
    """Return the first row of a CSV or TSV file, read as ``table_values`` reads it; empty for a file without rows."""
    try:
        return next((row for row in _rows(path, file_format, lambda message: None) if row), [])
    except csv.Error as error:
        raise DataFormatError(f"{path}, its header: {error}") from None


def _rows(path: Path, file_format: str, note: Callable[[str], None], has_names: bool = True) -> Any:
    """Return a ``csv.reader`` of a file; ``has_names``: whether its first row names the columns."""
    csv.field_size_limit(_MOST_CHARACTERS)
    lines = (line + "\n" for line in stream_lines(path))
    if file_format == "csv":
        mark = separator_of(path) if has_names and path.is_file() else ","
        if mark != ",":
            name = {";": "semicolons", "\t": "tabs"}[mark]
            note(f"{path}: its columns are separated by {name}")
        return csv.reader(lines, delimiter=mark, strict=True)
    # A pipe can be read only once, and is read as text.
    quoted = quotes_are_marks(path) if path.is_file() else None
    if quoted is None:
        return csv.reader(lines, delimiter="\t", quoting=csv.QUOTE_NONE)
    if quoted:
        note(f"{path}: quotation marks around fields are read as in CSV (RFC 4180)")
        return csv.reader(lines, delimiter="\t", strict=True)
    note(f"{path}: quotation marks are read as text, not as marks around fields (RFC 4180)")
    return csv.reader(lines, delimiter="\t", quoting=csv.QUOTE_NONE)


def separator_of(path: Path) -> str:
    """Return what separates the columns of a CSV file: a comma, or a semicolon or tab if they do throughout.

    Spreadsheets write semicolons where numbers have decimal commas.
    """
    first = next((line for line in stream_lines(path) if line), "")
    for mark in ";\t":
        has_one_field = len(next(csv.reader([first]), [])) == 1
        if mark in first and has_one_field and _separates(mark, path):
            return mark
    return ","


def _separates(mark: str, path: Path) -> bool:
    """Whether all rows of a file have as many fields by a mark, and more than one."""
    lines = (line + "\n" for line in stream_lines(path) if line)
    widths: Counter[int] = Counter()
    try:
        widths.update(map(len, csv.reader(lines, delimiter=mark, strict=True)))
    except csv.Error:
        return False
    # Quotation marks in several texts must not make one field of the rows between them.
    by_line = Counter(line.count(mark) for line in stream_lines(path) if line)
    merged = len(by_line) == 1 and by_line.total() > widths.total()
    return len(widths) == 1 and max(widths) > 1 and not merged


def quotes_are_marks(path: Path) -> bool | None:
    """Return whether the quotation marks of a tab-separated file enclose fields; ``None`` for a file without any.

    They do if the whole file follows RFC 4180 and all its rows have as many fields as the first. Where each line has as
    many too, no field may hold several lines: a mark at the beginning of one text and another at the end of a later text
    would make one field of all rows between them. It may if marks inside fields are doubled, or all names are in marks.
    """
    has_marks = several_lines = certain = False
    line_widths, widths = set[int](), set[int]()
    lines: list[str] = []  # of a row
    n_characters = n_marks = 0
    for line in stream_lines(path):
        if not line and not lines:
            continue
        line_widths.add(line.count("\t"))
        several_lines |= bool(lines)
        lines.append(line)
        n_characters += len(line)
        n_marks += line.count('"')
        has_marks |= n_marks > 0
        if n_marks % 2:  # inside a quoted field
            if n_characters > _MOST_CHARACTERS or not (lines[1:] or _OPEN.fullmatch(line)):
                return False
            continue
        row = "\n".join(lines)
        if n_marks and not _RECORD.fullmatch(row):
            return False
        quoted = re.findall(_QUOTED, row)
        all_names = not widths and len(quoted) == row.count("\t") + 1
        certain |= all_names or any('""' in field[1:-1] for field in quoted)
        widths.add(row.count("\t") - sum(field.count("\t") for field in quoted))
        lines.clear()
        n_characters = n_marks = 0
    if not has_marks:
        return None
    lines_are_rows = len(line_widths) == 1 and line_widths != {0}
    merged = several_lines and lines_are_rows and not certain
    return not lines and len(widths) == 1 and not merged


def _values(
    reader: Any,
    source: str,
    columns: Sequence[str],
    file_format: str,
    note: Callable[[str], None],
    named: bool,
) -> Iterator[tuple[int, tuple[Any, ...]]]:
    # An empty line is no row; an empty text in a single column is written "".
    rows = ((reader.line_num, row) for row in reader if row)
    beginning = list(islice(rows, 2))
    if not beginning:
        return
    first = beginning[0][1]
    width = len(first)
    if named or has_header(columns, [row for _, row in beginning]):
        _check_head(first, source, file_format)
        chosen = resolve_columns(columns, first, first, source)
        indices = [first.index(column) for column in chosen]
        del beginning[0]
        if not named and any(parse_index(column) >= 0 for column in columns):
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
        if width > 1 and not "".join(row).strip():
            empty.append((line, row))
            continue
        for number, fields in empty:
            yield number, tuple([fields[index] for index in indices])
        empty.clear()
        yield line, tuple([row[index] for index in indices])
    if empty:
        note(f"{source}: empty rows at the end, left out: {len(empty):,}")


def has_header(columns: Sequence[str], beginning: Sequence[Sequence[str]]) -> bool:
    """Return whether the first row of a table names its columns, of which ``columns`` are asked for.

    It does unless these are numbers. Numbers in the first row are names too, as pandas gives them (0, 1, 2), if a text
    stands below the first one; below a value of a table without a header (1, great film) stands another (0, bad film).

    Args:
        columns: names or numbers; the first is that of a text.
        beginning: the first two rows, or one.
    """
    numbers = [parse_index(column) for column in columns]
    if -1 in numbers or not columns:
        return True
    first = beginning[0]
    if first == [str(number) for number in range(len(first))]:
        return True
    if len(beginning) == 1 or not all(column in first for column in columns):
        return False
    place = first.index(columns[0])
    return place < len(beginning[1]) and not _NUMBER.fullmatch(beginning[1][place].strip())


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
