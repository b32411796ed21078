"""Columns of a user's file: selected by name, with values read as texts."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any

from mirrorbench.core.errors import DataFormatError, UsageError
from mirrorbench.core.quoting import shown, without_texts

_USUAL_COLUMNS = ("text", "sentence")
"""The default in a file of several columns: the first of these that it has."""
_SPREADSHEET_ENDINGS = (".xlsx", ".xlsm")
_ENDINGS_WITHOUT_LINES = (".parquet", ".pq", *_SPREADSHEET_ENDINGS)
"""Endings of files that have rows but no lines."""


def text_of(value: Any, source: str, number: int) -> str:
    """Return a value of a row, which must be a text; any other is a ``DataFormatError`` with file and line.

    An empty cell of a spreadsheet is a blank text, as in CSV.
    """
    if value is None and source.lower().endswith(_SPREADSHEET_ENDINGS):
        return ""
    if not isinstance(value, str):
        problem = "empty (null)" if value is None else f"of type {type(value).__name__}, not a text"
        raise line_error(source, number, f"the value is {problem}")
    return value


def line_error(source: str, number: int, problem: str, hint: str = "") -> DataFormatError:
    """Return an error that names the line of a file, or the row of one without lines."""
    unit = "row" if source.lower().endswith(_ENDINGS_WITHOUT_LINES) else "line"
    return DataFormatError(f"{source}, {unit} {number}: {problem}.", hint)


def resolve_columns(
    columns: Sequence[str],
    names: Collection[str],
    text_columns: Sequence[str],
    where: str,
    note: Callable[[str], None],
) -> Sequence[str]:
    """Return the named columns after checking that they exist; without a name, the default column.

    Args:
        columns: names of columns; an empty first one means the default.
        names: names of all columns of the file.
        text_columns: names of the columns that hold texts.
        where: the file, and perhaps its line, for messages.
        note: called with a remark if the default was chosen among several columns.

    Raises:
        UsageError: no column is named, and the default is not certain.
        DataFormatError: a column does not exist, or several have its name.
    """
    if not columns or not columns[0]:
        default = _default_column(text_columns, where)
        if len(names) > 1:
            note(f"{where}: texts are taken from the column {default!r}")
        columns = [default, *columns[1:]]
    for column in columns:
        if column not in names:
            # The names may be texts: the first line of a file without a header.
            has = f"{len(names)} columns" if without_texts() else ", ".join(names)
            raise DataFormatError(f"{where} has no column {shown(column)}.", hint=f"It has: {has}")
        if list(names).count(column) > 1:
            raise DataFormatError(
                f"{where} has several columns {shown(column)}.", "Give each a name of its own."
            )
    return columns


def _default_column(text_columns: Sequence[str], where: str) -> str:
    """Return a usual column of texts, or else the only one; ``UsageError`` if there are none or several."""
    for name in _USUAL_COLUMNS:
        if name in text_columns:
            return name
    if not text_columns:
        raise UsageError(f"{where} has no column of text, and none is named")
    if len(text_columns) > 1:
        hint = f"Add --column NAME (in a spec or grid: FILE#NAME); there are: {', '.join(text_columns)}"
        raise UsageError(f"{where} has several columns, and none is named", hint)
    return text_columns[0]


def without_empty_end(
    rows: Iterable[tuple[int, Sequence[Any]]],
    source: str,
    note: Callable[[str], None],
    fewest: int = 2,
) -> Iterator[tuple[int, Sequence[Any]]]:
    """Yield the rows of a table except the empty ones at its end, which spreadsheets write.

    Args:
        rows: numbers of rows, and their values.
        source: the file, for messages.
        note: called with the number of rows that were left out, if there are any.
        fewest: rows with fewer columns than this never count as empty (default 2).
    """
    # Empty rows wait here until another row shows that they are not at the end.
    empty_rows: list[tuple[int, Sequence[Any]]] = []
    for number, row in rows:
        if len(row) >= fewest and not _has_value(row):
            empty_rows.append((number, row))
            continue
        yield from empty_rows
        empty_rows.clear()
        yield number, row
    if empty_rows:
        note(f"{source}: empty rows at the end, left out: {len(empty_rows):,}")


def _has_value(row: Sequence[Any]) -> bool:
    """Return whether any value of a row is neither missing nor blank."""
    return any(str(value).strip() for value in row if value is not None)
