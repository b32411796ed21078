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
_QUOTED = r'"[^"]*(?:""[^"]*)*"'
_RECORD = re.compile(rf'(?:{_QUOTED}|[^"\t]*)(?:\t(?:{_QUOTED}|[^"\t]*))*')
"""A row of tab-separated fields by RFC 4180, with tabs for its commas."""
_OPEN = re.compile(rf'(?:(?:{_QUOTED}|[^"\t]*)\t)*"[^"]*(?:""[^"]*)*')
"""The first line of such a row whose last field goes on in the next line."""


_STATED = re.compile(r'"?sep=([;,|])"?[;,|\s]*', re.IGNORECASE)
"""A first line that says what separates the columns, as Excel reads and writes it, perhaps with empty fields behind it."""
_SAY_SEPARATOR = "If semicolons separate the columns, say so in a line above the first: sep=;"
_NAMES_OF_MARKS = {";": "semicolons", "\t": "tabs", "|": "vertical bars"}


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
    path = Path(source).expanduser()
    reader = _rows(path, file_format, note, has_names)
    try:
        yield from _values(reader, source, columns, note, named)
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
        reader = _rows(path, file_format, lambda message: None)
        names: list[str] = next((row for row in reader if row), [])
    except csv.Error as error:
        raise DataFormatError(f"{path}, its header: {error}") from None
    _check_head(names, str(path), reader.dialect.delimiter)
    return names


def _rows(path: Path, file_format: str, note: Callable[[str], None], has_names: bool = True) -> Any:
    """Return a ``csv.reader`` of a file; ``has_names``: whether its first row names the columns."""
    csv.field_size_limit(_MOST_CHARACTERS)
    lines = (line + "\n" for line in stream_lines(path))
    mark = "," if file_format == "csv" else "\t"
    if not is_rereadable(path):  # a pipe, whose columns are separated as its name says
        return _reader(lines, mark, quoted=mark == ",")
    if file_format == "csv":
        mark = separator_of(path, has_names)
        if mark != ",":
            note(f"{path}: its columns are separated by {_NAMES_OF_MARKS[mark]}")
        elif not has_names and _separates(";", path):
            note(f"{path}: its semicolons are read as text. {_SAY_SEPARATOR}")
        if mark != "\t":
            return _reader(_without_statement(lines), mark, quoted=True)
    quoted = quotes_are_marks(path)
    if quoted is not None:
        how = (
            "around fields are read as in CSV"
            if quoted
            else "are read as text, not as marks around fields"
        )
        note(f"{path}: quotation marks {how} (RFC 4180)")
    return _reader(lines, mark, quoted=bool(quoted))


def _without_statement(lines: Iterator[str]) -> Iterator[str]:
    """Empty the first line that is not empty if it states the separator: an empty row is none, and lines keep their numbers."""
    for line in lines:
        yield "\n" if _STATED.fullmatch(line.strip()) else line
        if line.strip():
            break
    yield from lines


def _reader(lines: Iterator[str], mark: str, quoted: bool) -> Any:
    if quoted:
        return csv.reader(lines, delimiter=mark, strict=True)
    return csv.reader(lines, delimiter=mark, quoting=csv.QUOTE_NONE)


def separator_of(path: Path, has_names: bool = True) -> str:
    """Return what separates the columns of a CSV file: a comma, or what its first line states, or what all rows hold.

    Spreadsheets write semicolons where numbers have decimal commas; tab-separated files are often called ``.csv``.

    Args:
        path: of a file that can be read twice.
        has_names: whether its first row names the columns. Without names only tabs count: a text may hold a semicolon.
    """
    first = next((line for line in stream_lines(path) if line), "")
    if stated := _STATED.fullmatch(first):
        return stated[1]
    if first and all("\t" in line for line in stream_lines(path) if line):
        return "\t"
    has_one_field = len(next(csv.reader([first]), [])) == 1
    if has_names and has_one_field:
        return next((mark for mark in ";\t" if mark in first and _separates(mark, path)), ",")
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
    note: Callable[[str], None],
    named: bool,
) -> Iterator[tuple[int, tuple[Any, ...]]]:
    # An empty line is no row; an empty text in a single column is written "".
    rows = ((reader.line_num, row) for row in reader if row)
    beginning = list(islice(rows, 2))
    if not beginning:
        return
    first = beginning[0][1]
    mark, width, may_be_wider = reader.dialect.delimiter, len(first), False
    if named or has_header(columns, [row for _, row in beginning]):
        _check_head(first, source, mark)
        chosen = resolve_columns(columns, first, first, source, note)
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
            hint = _SAY_SEPARATOR if mark == "," and ";" in "".join(first) else ""
            raise line_error(source, line, f"there is no column {max(indices)} (from 0)", hint)
        # Other rows may have more columns behind these; a comma may be one of a text.
        if mark == "\t":
            width, may_be_wider = max(indices) + 1, True
    widths = set[int]()

    def checked() -> Iterator[tuple[int, list[str]]]:
        for line, row in chain(beginning, rows):
            if len(row) != width and not (may_be_wider and len(row) > width):
                raise _uneven(source, line, len(row), width, mark)
            widths.add(len(row))
            yield line, row

    for line, row in without_empty_end(checked(), source, note):
        yield line, tuple([row[index] for index in indices])
    if len(widths) > 1:
        note(f"{source}: rows of {min(widths)} to {max(widths)} columns, read by their numbers")


def _uneven(source: str, line: int, n: int, width: int, mark: str) -> DataFormatError:
    hints = {
        ",": 'A text that holds a comma stands in quotes: "one, two"',
        ";": 'A text that holds a semicolon stands in quotes: "one; two"',
    }
    problem = f"{n} columns, where the first line has {width}"
    return line_error(source, line, problem, hints.get(mark, ""))


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


def _check_head(names: Sequence[str], source: str, mark: str) -> None:
    """Refuse a CSV file whose first line has another mark than the comma, but whose rows have not."""
    other = next((own for own in ";\t" if len(names) == 1 and own in names[0]), "")
    if mark != "," or not other:
        return
    width = names[0].count(other) + 1
    problem = f"{source} is read as separated by commas, and its only column is {shown(names[0])}."
    hint = f"Rows that {_NAMES_OF_MARKS[other]} separate must all have {width} columns"
    lines = (line + "\n" for line in stream_lines(Path(source).expanduser()) if line)
    with suppress(csv.Error):
        for number, row in enumerate(csv.reader(lines, delimiter=other), start=1):
            if len(row) != width:
                hint += f"; row {number} has {len(row)}"
                break
    raise DataFormatError(problem, f"{hint}.")
