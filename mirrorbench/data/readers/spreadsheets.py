"""Excel files of users: the first sheet, with the values that its formulas had when it was saved."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import ParseError

from mirrorbench.core.errors import DataFormatError, UsageError, not_installed
from mirrorbench.core.quoting import shown
from mirrorbench.data.archives import MEMBER_LIMIT, open_archive
from mirrorbench.data.readers.columns import line_error, resolve_columns, without_empty_end

_DAMAGE_ERRORS = (
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
"""What openpyxl raises for a file that is damaged or is not an Excel file."""
_ESCAPED = re.compile(r"_x([0-9A-Fa-f]{4})_")
"""A control character in a text, as Excel stores it (``_x000D_``)."""


class _NoValue(str):
    """The reason why a cell with a formula has no value, which is an error only if the cell's column is read."""


def sheet_values(
    source: str, columns: Sequence[str], note: Callable[[str], None]
) -> Iterator[tuple[int, tuple[Any, ...]]]:
    """Yield the values of columns of a user's ``.xlsx`` file, with row numbers from 1 as Excel counts them.

    The first row that is not empty holds the names. Empty rows at the end are left out. ``note`` is called with remarks
    on how the file is read.

    Raises:
        UsageError: openpyxl is not installed, or the columns are not named and not certain.
        DataFormatError: the file is damaged, a part of it is larger than ``MEMBER_LIMIT`` once it is unpacked, it has no
            such column, or a column holds a formula with an error or without a value; the message names the row.
    """
    path = Path(source).expanduser()
    rows = _rows(path, note)
    _, header = next(rows, (0, ()))
    names = _names(header)
    text_columns = [name for name in names if name]
    resolved_names = resolve_columns(columns, names, text_columns, source, note)
    indices = [names.index(name) for name in resolved_names]
    for number, row in without_empty_end(_with_formulas(rows, path), source, note, fewest=0):
        # Rows may be shorter than the first one.
        values = tuple(row[index] if index < len(row) else None for index in indices)
        for value in values:
            if isinstance(value, _NoValue):
                hint = "Open the file in a spreadsheet program, which computes its formulas, and save it."
                raise line_error(source, number, f"a formula {value}", hint)
        yield number, values


def sheet_header(path: Path) -> list[str]:
    """Return the names of the columns of an ``.xlsx`` file; none for an empty sheet."""
    _, header = next(_rows(path, lambda message: None), (0, ()))
    return _names(header)


def _names(header: Sequence[Any]) -> list[str]:
    """Return the names of the columns up to the last one; an empty cell between them has an empty name."""
    names = ["" if value is None else str(value) for value in header]
    while names and not names[-1]:
        names.pop()
    return names


def _rows(path: Path, note: Callable[[str], None]) -> Iterator[tuple[int, Sequence[Any]]]:
    """Yield the rows of the first sheet with their numbers, from the first row that is not empty."""
    has_begun = False
    for number, cells in _cells(path, note):
        values = [_value(cell) for cell in cells]
        if not has_begun:
            has_begun = any(value is not None for value in values)
        if has_begun:
            yield number, values


def _with_formulas(
    rows: Iterator[tuple[int, Sequence[Any]]], path: Path
) -> Iterator[tuple[int, Sequence[Any]]]:
    """Yield the rows with ``_NoValue`` in cells whose formula has no stored value, which look empty."""
    formulas: set[tuple[int, int]] | None = None
    for number, row in rows:
        if None not in row:
            yield number, row
            continue
        # Formulas need a second reading of the file, and few files have empty cells.
        if formulas is None:
            formulas = _places_of_formulas(path)
        values = list(row)
        for index, value in enumerate(row):
            if value is None and (number, index) in formulas:
                values[index] = _NoValue("without a stored value")
        yield number, values


def _places_of_formulas(path: Path) -> set[tuple[int, int]]:
    """Return the row (from 1) and the column (from 0) of each cell with a formula."""
    places = set()
    for number, cells in _cells(path, lambda message: None, formulas=True):
        for index, cell in enumerate(cells):
            if cell.data_type == "f":
                places.add((number, index))
    return places


def _cells(
    path: Path, note: Callable[[str], None], formulas: bool = False
) -> Iterator[tuple[int, Sequence[Any]]]:
    """Yield the cells of each row of the first sheet, numbered; with values, or with formulas if ``formulas``."""
    try:
        import openpyxl
    except ImportError as error:
        raise not_installed(UsageError, "Excel files need", "openpyxl", "evaluate") from error
    _check_size(path)
    try:
        book = openpyxl.load_workbook(path, read_only=True, data_only=not formulas)
        if not book.worksheets:
            raise DataFormatError(
                f"{path} has no sheet in a form that can be read.",
                "Save it as Excel workbook (.xlsx), not as Strict Open XML.",
            )
        sheet, *others = book.worksheets
        if others:
            n = len(others) + 1
            note(f"{path}: only the first of {n} sheets is read, {shown(sheet.title)}")
        sheet.reset_dimensions()  # some programs state a size that is not the sheet's
        yield from enumerate(sheet.iter_rows(), start=1)
        book.close()
    except _DAMAGE_ERRORS as error:
        reason = " ".join(str(error).split())
        raise DataFormatError(f"{path} cannot be read as an Excel file ({reason}).") from error


def _check_size(path: Path) -> None:
    """Refuse a file that is not an archive, as workbooks are, or is too large: openpyxl holds all texts in memory."""
    if not zipfile.is_zipfile(path):
        problem = (
            f"{path} is not an Excel workbook, perhaps an older one (.xls) or one with a password."
        )
        hint = "Save it as Excel workbook (.xlsx) without a password, or as CSV (UTF-8)."
        raise DataFormatError(problem, hint)
    with open_archive(path) as archive:
        if max(archive.sizes.values(), default=0) > MEMBER_LIMIT:
            problem = f"{path} holds more than {MEMBER_LIMIT >> 20} MiB once it is unpacked."
            raise DataFormatError(problem, "Save the sheet as CSV (UTF-8).")


def _value(cell: Any) -> Any:
    """Return the value of a cell."""
    if cell.data_type == "e":
        return _NoValue(f"with the error {cell.value}")
    if isinstance(cell.value, str):
        return _ESCAPED.sub(lambda match: chr(int(match[1], 16)), cell.value)
    return cell.value
