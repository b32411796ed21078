"""CSV and TSV files of users."""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from itertools import chain, islice
from pathlib import Path
from typing import Any

from mirrorbench.core.errors import DataFormatError
from mirrorbench.core.quoting import shown
from mirrorbench.data.readers.columns import line_error, resolve_columns, without_empty_end
from mirrorbench.data.readers.folders import is_rereadable
from mirrorbench.data.readers.text import stream_lines
from mirrorbench.data.readers.values import parse_index

_MOST_CHARACTERS = 1 << 27
"""Most characters of a field, which may hold a whole document, and of a row while its quotes are checked."""
_NUMBER = re.compile(r"[-+]?[0-9]*[.,]?[0-9]+")
"""A decimal number, with a point or a comma."""
_QUOTED_FIELD = r'"[^"]*(?:""[^"]*)*"'
"""A field in quotation marks, inside which a mark is doubled."""
_ROW = re.compile(rf'(?:{_QUOTED_FIELD}|[^"\t]*)(?:\t(?:{_QUOTED_FIELD}|[^"\t]*))*')
"""A row of fields as in RFC 4180, but with tabs instead of commas."""
_OPEN_ROW = re.compile(rf'(?:(?:{_QUOTED_FIELD}|[^"\t]*)\t)*"[^"]*(?:""[^"]*)*')
"""The first line of such a row whose last field continues in the next line."""
_SEPARATOR_STATEMENT = re.compile(r'"?sep=([;,|])"?[;,|\s]*', re.IGNORECASE)
"""A first line that says what separates the columns, as Excel reads and writes it, perhaps followed by empty fields."""
_STATE_SEPARATOR = "If semicolons separate the columns, say so in a line above the first: sep=;"
_SEPARATOR_NAMES = {";": "semicolons", "\t": "tabs", "|": "vertical bars"}


def table_values(
    source: str,
    columns: Sequence[str],
    file_format: str,
    note: Callable[[str], None],
    named: bool = False,
) -> Iterator[tuple[int, tuple[Any, ...]]]:
    """Yield the values of columns of a user's CSV or TSV file, with line numbers from 1.

    Args:
        source: the path of the file.
        columns: names in the first row, or numbers from 0 if the first row holds values (``has_header``); by default
            the default column (``resolve_columns``).
        file_format: ``csv`` or ``tsv``.
        note: called with remarks on how the file is read.
        named: whether columns are names even if they are numbers.

    Yields:
        Line numbers, each with the values of ``columns``. Empty rows at the end are left out.
    """
    # A first row of values may hold a semicolon as part of a text (``separator_of``).
    has_names = named or not _are_numbers(columns)
    path = Path(source).expanduser()
    reader = _reader(path, file_format, note, has_names)
    try:
        yield from _values_of_columns(reader, source, columns, note, named)
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
        reader = _reader(path, file_format, lambda message: None)
        names: list[str] = next((row for row in reader if row), [])
    except csv.Error as error:
        raise DataFormatError(f"{path}, its header: {error}") from None
    _check_header(names, str(path), reader.dialect.delimiter)
    return names


def _reader(
    path: Path, file_format: str, note: Callable[[str], None], has_names: bool = True
) -> Any:
    """Return a ``csv.reader`` of a file, with the separator and the reading of quotation marks that fit its content.

    ``has_names``: whether the first row names the columns. ``note`` is called with what was found.
    """
    csv.field_size_limit(_MOST_CHARACTERS)
    lines = (line + "\n" for line in stream_lines(path))
    if not is_rereadable(path):
        # A pipe cannot be examined first: the ending of its name decides.
        return _quoted_reader(lines, ",") if file_format == "csv" else _unquoted_reader(lines)
    if file_format == "csv":
        separator = separator_of(path, has_names)
        if separator != ",":
            note(f"{path}: its columns are separated by {_SEPARATOR_NAMES[separator]}")
        elif not has_names and _splits_all_rows(";", path):
            note(f"{path}: its semicolons are read as text. {_STATE_SEPARATOR}")
        if separator != "\t":
            return _quoted_reader(_without_separator_line(lines), separator)
    # A .tsv file, or a .csv file that is separated by tabs.
    # Whether quotation marks enclose fields, or are text; ``None`` if there are none, which needs no note.
    enclose_fields = quotes_are_marks(path)
    if enclose_fields:
        note(f"{path}: quotation marks around fields are read as in CSV (RFC 4180)")
        return _quoted_reader(lines, "\t")
    if enclose_fields is not None:
        note(f"{path}: quotation marks are read as text, not as marks around fields (RFC 4180)")
    return _unquoted_reader(lines)


def _without_separator_line(lines: Iterator[str]) -> Iterator[str]:
    """Yield the lines, but an empty one in place of a first line that states the separator (``sep=;``).

    An empty line is not a row, and the others keep their numbers. Empty lines may come before the first.
    """
    for line in lines:
        states_separator = _SEPARATOR_STATEMENT.fullmatch(line.strip())
        yield "\n" if states_separator else line
        if line.strip():
            break
    yield from lines


def _quoted_reader(lines: Iterator[str], separator: str) -> Any:
    """Return a ``csv.reader`` for which quotation marks enclose fields (RFC 4180)."""
    return csv.reader(lines, delimiter=separator, strict=True)


def _unquoted_reader(lines: Iterator[str]) -> Any:
    """Return a ``csv.reader`` of tab-separated lines in which quotation marks are text."""
    return csv.reader(lines, delimiter="\t", quoting=csv.QUOTE_NONE)


def separator_of(path: Path, has_names: bool = True) -> str:
    """Return the separator of a CSV file: the one its first line states, or one that all rows hold, or a comma.

    Spreadsheets write semicolons where numbers have decimal commas, and tab-separated files are often called ``.csv``.

    Args:
        path: a file that can be read twice.
        has_names: whether its first row names the columns. Without names only tabs count, because a text may hold a
            semicolon.
    """
    first = next((line for line in stream_lines(path) if line), "")
    statement = _SEPARATOR_STATEMENT.fullmatch(first)
    if statement:
        return statement[1]
    if first and all("\t" in line for line in stream_lines(path) if line):
        return "\t"
    fields_by_comma = next(csv.reader([first]), [])
    if has_names and len(fields_by_comma) == 1:
        for separator in (";", "\t"):
            if separator in first and _splits_all_rows(separator, path):
                return separator
    return ","


def _splits_all_rows(separator: str, path: Path) -> bool:
    """Return whether a separator splits all rows of a file into the same number of fields, and more than one."""
    lines = (line + "\n" for line in stream_lines(path) if line)
    row_widths: Counter[int] = Counter()
    try:
        row_widths.update(map(len, csv.reader(lines, delimiter=separator, strict=True)))
    except csv.Error:
        return False
    # Quotation marks in several texts must not make one field of the rows between them.
    line_widths = Counter(line.count(separator) for line in stream_lines(path) if line)
    lines_are_rows = len(line_widths) == 1
    has_merged_lines = line_widths.total() > row_widths.total()
    if lines_are_rows and has_merged_lines:
        return False
    return len(row_widths) == 1 and max(row_widths) > 1


def quotes_are_marks(path: Path) -> bool | None:
    """Return whether the quotation marks of a tab-separated file enclose fields; ``None`` for a file without any.

    They do if the whole file follows RFC 4180 and all its rows have as many fields as the first. But if all lines have
    the same number of fields too, a field of several lines is taken for an accident: a mark at the beginning of one
    text and another at the end of a later text make one field of all rows between them. It is no accident if marks
    inside fields are doubled anywhere, or if all names in the first row are in marks.
    """
    # A row is read line by line, until the quotes that were opened are closed.
    has_marks = False
    has_rows_of_several_lines = False
    certainly_enclose = False  # a doubled mark, or all names in marks
    tabs_of_lines = set[int]()  # numbers of tabs in the lines
    tabs_of_rows = set[int]()  # numbers of tabs in the rows, outside of quoted fields
    row_lines: list[str] = []
    n_characters = 0  # of the row
    n_marks = 0  # of the row
    for line in stream_lines(path):
        if not line and not row_lines:
            continue
        tabs_of_lines.add(line.count("\t"))
        if row_lines:
            has_rows_of_several_lines = True
        row_lines.append(line)
        n_characters += len(line)
        n_marks += line.count('"')
        if n_marks:
            has_marks = True
        is_inside_quoted_field = n_marks % 2 == 1
        if is_inside_quoted_field:
            # Too long for a field, or the open mark does not begin the last field of the line.
            if n_characters > _MOST_CHARACTERS:
                return False
            if len(row_lines) == 1 and not _OPEN_ROW.fullmatch(line):
                return False
            continue
        # The row ends with this line.
        row = "\n".join(row_lines)
        # A mark is misplaced, or not doubled inside a field.
        if n_marks and not _ROW.fullmatch(row):
            return False
        quoted_fields = re.findall(_QUOTED_FIELD, row)
        is_first_row = not tabs_of_rows
        all_names_are_quoted = is_first_row and len(quoted_fields) == row.count("\t") + 1
        has_doubled_mark = any('""' in field[1:-1] for field in quoted_fields)
        if all_names_are_quoted or has_doubled_mark:
            certainly_enclose = True
        n_quoted_tabs = sum(field.count("\t") for field in quoted_fields)
        tabs_of_rows.add(row.count("\t") - n_quoted_tabs)
        row_lines.clear()
        n_characters = 0
        n_marks = 0
    if not has_marks:
        return None
    # The last row is not closed, or rows differ in their number of fields.
    if row_lines or len(tabs_of_rows) != 1:
        return False
    # In a table with a single column no line has a tab, which says nothing about its rows.
    lines_have_equal_fields = len(tabs_of_lines) == 1 and tabs_of_lines != {0}
    is_accident = has_rows_of_several_lines and lines_have_equal_fields
    return certainly_enclose or not is_accident


def _values_of_columns(
    reader: Any,
    source: str,
    columns: Sequence[str],
    note: Callable[[str], None],
    named: bool,
) -> Iterator[tuple[int, tuple[Any, ...]]]:
    """Yield the values of columns of a ``csv.reader``, as ``table_values`` describes."""
    # An empty line is not a row; an empty text in a single column is written "".
    rows = ((reader.line_num, row) for row in reader if row)
    beginning = list(islice(rows, 2))
    if not beginning:
        return
    first_line, first_row = beginning[0]
    separator = reader.dialect.delimiter
    # All rows have the width of the first one, or at least ``least_width`` columns if that is not 0.
    width = len(first_row)
    least_width = 0
    # With a header, find the columns by name; without one, they are numbers.
    if named or has_header(columns, [row for _, row in beginning]):
        _check_header(first_row, source, separator)
        # Any of the columns may hold texts.
        names = resolve_columns(columns, first_row, first_row, source, note)
        indices = [first_row.index(name) for name in names]
        del beginning[0]
        if not named and any(parse_index(column) >= 0 for column in columns):
            note(
                f"{source}: the first line holds {', '.join(columns)}, so these are names, not numbers"
            )
    else:
        indices = [parse_index(column) for column in columns]
        last_index = max(indices)
        if last_index >= width:
            hint = _STATE_SEPARATOR if separator == "," and ";" in "".join(first_row) else ""
            raise line_error(source, first_line, f"there is no column {last_index} (from 0)", hint)
        # Without a header, rows separated by tabs may differ in width if they have the last column. Other rows may not:
        # an unquoted comma in a text would add a column.
        if separator == "\t":
            least_width = last_index + 1
    widths = set[int]()

    def rows_of_checked_width() -> Iterator[tuple[int, list[str]]]:
        for line, row in chain(beginning, rows):
            if least_width and len(row) < least_width:
                raise _uneven(source, line, len(row), least_width, separator)
            if not least_width and len(row) != width:
                raise _uneven(source, line, len(row), width, separator)
            widths.add(len(row))
            yield line, row

    for line, row in without_empty_end(rows_of_checked_width(), source, note):
        yield line, tuple([row[index] for index in indices])
    if len(widths) > 1:
        note(f"{source}: rows of {min(widths)} to {max(widths)} columns, read by their numbers")


def _uneven(source: str, line: int, n: int, width: int, separator: str) -> DataFormatError:
    """Return the error for a row of ``n`` columns in a file whose first row has ``width``."""
    hints = {
        ",": 'Put a text that holds a comma in quotes: "one, two"',
        ";": 'Put a text that holds a semicolon in quotes: "one; two"',
    }
    problem = f"{n} columns, where the first line has {width}"
    return line_error(source, line, problem, hints.get(separator, ""))


def has_header(columns: Sequence[str], beginning: Sequence[Sequence[str]]) -> bool:
    """Return whether the first row of a table names its columns, given the ``columns`` that a user asked for.

    It does unless these are numbers. Even then the first row holds names if it counts from 0, as pandas names columns
    (0, 1, 2), or if it holds these numbers and a text is below the first of them. In a table without a header another
    number would be there (1, great film; 0, bad film).

    Args:
        columns: names or numbers; the first is that of a text.
        beginning: the first two rows, or one.
    """
    if not _are_numbers(columns):
        return True
    first_row = beginning[0]
    if first_row == [str(number) for number in range(len(first_row))]:
        return True
    if len(beginning) == 1 or not all(column in first_row for column in columns):
        return False
    second_row = beginning[1]
    index = first_row.index(columns[0])
    return index < len(second_row) and not _NUMBER.fullmatch(second_row[index].strip())


def _are_numbers(columns: Sequence[str]) -> bool:
    return bool(columns) and all(parse_index(column) >= 0 for column in columns)


def _check_header(names: Sequence[str], source: str, separator: str) -> None:
    """Refuse a CSV file with a single column whose name holds semicolons or tabs, which probably separate columns."""
    if separator != "," or len(names) != 1:
        return
    name = names[0]
    if ";" in name:
        likely_separator = ";"
    elif "\t" in name:
        likely_separator = "\t"
    else:
        return
    problem = f"{source} is read as separated by commas, and its only column is {shown(name)}."
    path = Path(source).expanduser()
    if not is_rereadable(path):
        raise DataFormatError(
            problem, "A .csv pipe is always read with commas; write its content to a file first."
        )
    width = name.count(likely_separator) + 1
    hint = (
        f"To be read as separated by {_SEPARATOR_NAMES[likely_separator]}, "
        f"all rows must have {width} columns"
    )
    # Name the first row whose width keeps the file from being read with this separator.
    lines = _without_separator_line(line + "\n" for line in stream_lines(path))
    reader = csv.reader(lines, delimiter=likely_separator)
    # A row that cannot be read ends the search: the hint is then without a line.
    with suppress(csv.Error):
        for row in reader:
            if row and len(row) != width:
                hint += f"; line {reader.line_num} has {len(row)}"
                break
    raise DataFormatError(problem, f"{hint}.")
