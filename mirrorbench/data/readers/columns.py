"""Columns of a user's file: their choice by name, and their values as texts."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any

from mirrorbench.core.errors import DataFormatError, UsageError
from mirrorbench.core.quoting import shown, without_texts

_USUAL_COLUMNS = ("text", "sentence")  # the default of several columns
_SPREADSHEETS = (".xlsx", ".xlsm")
_ROWS = (".parquet", ".pq", *_SPREADSHEETS)
"""Endings of files that have no lines."""


def text_of(value: Any, source: str, number: int) -> str:
    """Return a value of a row, which must be a text; any other is a ``DataFormatError`` with file and line.

    An empty cell of a spreadsheet is a blank text, as in CSV.
    """
    if value is None and source.lower().endswith(_SPREADSHEETS):
        return ""
    if not isinstance(value, str):
        problem = "empty (null)" if value is None else f"of type {type(value).__name__}, not a text"
        raise line_error(source, number, f"the value is {problem}")
    return value


def line_error(source: str, number: int, problem: str, hint: str = "") -> DataFormatError:
    """Return an error that names the line of a file, or the row of one without lines."""
    unit = "row" if source.lower().endswith(_ROWS) else "line"
    return DataFormatError(f"{source}, {unit} {number}: {problem}.", hint)


def resolve_columns(
    columns: Sequence[str],
    names: Collection[str],
    texts: Sequence[str],
    where: str,
    note: Callable[[str], None],
) -> Sequence[str]:
    """Return the named columns, if they exist, with the default one for none.

    Args:
        columns: the named ones; the first may be empty for the default.
        names: of all columns.
        texts: names of the columns of texts.
        where: the file, and perhaps its line, for messages.
        note: called with a remark where one of several columns was taken unnamed.
    """
    if not columns or not columns[0]:
        others = columns[1:]
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
        if len(names) > 1:
            note(f"{where}: texts are taken from the column {columns[0]!r}")
        columns = [*columns, *others]
    for column in columns:
        if column not in names:
            # The first line of a file without a header holds texts.
            has = f"{len(names)} columns" if without_texts() else ", ".join(names)
            raise DataFormatError(f"{where} has no column {shown(column)}.", hint=f"It has: {has}")
        if list(names).count(column) > 1:
            raise DataFormatError(
                f"{where} has several columns {shown(column)}.", "Give each a name of its own."
            )
    return columns


def without_empty_end(
    rows: Iterable[tuple[int, Sequence[Any]]],
    source: str,
    note: Callable[[str], None],
    fewest: int = 2,
) -> Iterator[tuple[int, Sequence[Any]]]:
    """Leave out the empty rows of ``fewest`` columns and more at the end of a table, as spreadsheets write them, and note it."""
    empty: list[tuple[int, Sequence[Any]]] = []
    for number, row in rows:
        if len(row) >= fewest and not any(str(field).strip() for field in row if field is not None):
            empty.append((number, row))
            continue
        yield from empty
        empty.clear()
        yield number, row
    if empty:
        note(f"{source}: empty rows at the end, left out: {len(empty):,}")
