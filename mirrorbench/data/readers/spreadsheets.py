"""Excel files of users: the first sheet, with the values that its formulas had when it was saved."""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import ParseError

from mirrorbench.core.errors import DataFormatError, UsageError, not_installed
from mirrorbench.core.quoting import shown
from mirrorbench.data.archives import open_archive
from mirrorbench.data.readers.columns import line_error, resolve_columns, without_empty_end

MOST_BYTES = 1 << 28
"""Limit in bytes on the unpacked parts of a file, all of whose texts openpyxl holds in memory."""
_DAMAGED = (
    zipfile.BadZipFile,
    ParseError,
    AttributeError,
    EOFError,
    IndexError,
    KeyError,
    OSError,
    TypeError,
    ValueError,
)
"""What openpyxl raises for a file that is damaged or is no Excel file."""


class _FailedFormula(str):
    """The error in a cell, such as #N/A, which is no text."""


def sheet_values(
    source: str, columns: Sequence[str], note: Callable[[str], None]
) -> Iterator[tuple[int, tuple[Any, ...]]]:
    """Read the values of named columns of a user's ``.xlsx`` file, with row numbers from 1 as Excel counts them.

    The first row that is not empty holds the names. Empty rows at the end are left out. ``note`` is called with remarks
    on how the file is read.

    Raises:
        UsageError: openpyxl is not installed, or the columns are not named and not certain.
        DataFormatError: the file is damaged, larger than ``MOST_BYTES`` once it is unpacked, has no such column, or holds a
            formula with an error in one; the message names the row.
    """
    rows = _rows(Path(source).expanduser(), note)
    _, head = next(rows, (0, ()))
    names = _names(head)
    chosen = resolve_columns(columns, names, [name for name in names if name], source)
    places = [names.index(column) for column in chosen]
    for number, row in without_empty_end(rows, source, note):
        values = tuple(row[place] if place < len(row) else None for place in places)
        for value in values:
            if isinstance(value, _FailedFormula):
                raise line_error(source, number, f"a formula with the error {value}")
        yield number, values


def sheet_header(path: Path) -> list[str]:
    """Return the names of the columns of an ``.xlsx`` file; none for an empty sheet."""
    _, head = next(_rows(path, lambda message: None), (0, ()))
    return _names(head)


def _names(head: Sequence[Any]) -> list[str]:
    """The names of columns; an empty one for an empty cell."""
    names = ["" if value is None else str(value) for value in head]
    while names and not names[-1]:
        names.pop()
    return names


def _rows(path: Path, note: Callable[[str], None]) -> Iterator[tuple[int, Sequence[Any]]]:
    """The values of the rows of the first sheet, from its first row that is not empty, with their numbers."""
    try:
        import openpyxl
    except ImportError as error:
        raise not_installed(UsageError, "Excel files need", "openpyxl", "evaluate") from error
    with open_archive(path) as archive:
        if sum(archive.sizes.values()) > MOST_BYTES:
            problem = f"{path} holds more than {MOST_BYTES >> 20} MiB once it is unpacked."
            raise DataFormatError(problem, "Save the sheet as CSV (UTF-8).")
    try:
        book = openpyxl.load_workbook(path, read_only=True, data_only=True)
        sheet, *others = book.worksheets
        if others:
            note(
                f"{path}: only the first of {len(others) + 1} sheets is read, {shown(sheet.title)}"
            )
        sheet.reset_dimensions()  # some programs state a size that is not the sheet's
        is_below_the_top = False
        for number, cells in enumerate(sheet.iter_rows(), start=1):
            values = [_value(cell) for cell in cells]
            is_below_the_top |= any(value is not None for value in values)
            if is_below_the_top:
                yield number, values
        book.close()
    except _DAMAGED as error:
        reason = " ".join(str(error).split())
        raise DataFormatError(f"{path} cannot be read as an Excel file ({reason}).") from error


def _value(cell: Any) -> Any:
    return _FailedFormula(cell.value) if cell.data_type == "e" else cell.value
