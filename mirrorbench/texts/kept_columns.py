"""Columns of a user's file that are written beside the vectors of its texts (``encode --keep``)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from io import BytesIO
from itertools import islice
from pathlib import Path
from typing import Any

from mirrorbench.core.errors import UsageError, changed_while_read
from mirrorbench.core.quoting import shown
from mirrorbench.data.readers.files import STDIN
from mirrorbench.data.readers.folders import exists, is_rereadable
from mirrorbench.data.readers.parquet import pyarrow
from mirrorbench.data.readers.rows import format_of, read_rows

WRITTEN = ("text", "target", "vector")
"""Columns that every file of vectors has."""
_ROWS_AT_ONCE = 8192
"""Number of rows whose types are found together."""


class KeptColumns:
    """Columns of a file, each with a type that fits all of its values.

    A Parquet file states the types. Any other file is read once to find them, before anything is encoded. The values of
    a column without a common type become texts: strings as they are, other values as JSON.

    Args:
        source: the file.
        names: names of the columns.

    Raises:
        UsageError: a name is repeated or one of ``WRITTEN``, or the file cannot be read twice or has no columns.
        DataFormatError: the file has no such column.
    """

    def __init__(self, source: str, names: Sequence[str]) -> None:
        path = Path(source).expanduser()
        if source == STDIN or (exists(path) and not is_rereadable(path)):
            raise UsageError(f"--keep: {source} cannot be read twice", "Name a file.")
        for name in names:
            if name in WRITTEN:
                problem = f"--keep {shown(name)}: the output already has a column of this name"
                raise UsageError(problem, "Rename the column in the file.")
            if list(names).count(name) > 1:
                raise UsageError(f"--keep names the column {shown(name)} twice", "Name it once.")
        self._source = source
        self._names = tuple(names)
        self._types = self._read_types()

    def _read_types(self) -> list[Any]:
        """Return Arrow's type of each column; ``None`` where values have no common type and are written as texts."""
        parquet, arrow = pyarrow()
        rows = read_rows(self._source, self._names, named=True)
        # Reading a row, also of Parquet, raises an error for a column that the file does not have.
        first_row = list(islice(rows, 1))
        if format_of(self._source) == "parquet":
            schema = parquet.read_schema(Path(self._source).expanduser())
            return [schema.field(name).type for name in self._names]
        # Widen the type of each column batch by batch; the null type fits all values.
        types: list[Any] = [arrow.null() for _ in self._names]
        numbered_rows = [*first_row, *islice(rows, _ROWS_AT_ONCE)]
        while numbered_rows:
            for index, column_type in enumerate(types):
                if column_type is not None:
                    values = [row[index] for _, row in numbered_rows]
                    types[index] = _common_type(column_type, values)
            numbered_rows = list(islice(rows, _ROWS_AT_ONCE))
        for index, column_type in enumerate(types):
            if column_type is not None and not _is_writable(column_type):
                types[index] = None
        return types

    def arrays(self, rows: Sequence[tuple[Any, ...]]) -> dict[str, Any]:
        """Return the values of some rows as an array for each column, by name.

        Raises:
            DataFormatError: a value is not of the type of its column: the file has changed since the types were read.
        """
        _, arrow = pyarrow()
        arrays = {}
        try:
            for index, name in enumerate(self._names):
                values = [row[index] for row in rows]
                arrays[name] = _array(values, self._types[index])
        except (arrow.ArrowException, OverflowError, TypeError, ValueError) as error:
            raise changed_while_read(self._source) from error
        return arrays


def _common_type(column_type: Any, values: list[Any]) -> Any:
    """Return a type for both ``values`` and values of ``column_type``; ``None`` if there is none."""
    _, arrow = pyarrow()
    schemas = [arrow.schema([("column", column_type)])]
    try:
        schemas.append(arrow.schema([("column", arrow.array(values).type)]))
        return arrow.unify_schemas(schemas, promote_options="permissive").field(0).type
    except (arrow.ArrowException, OverflowError):
        return None


def _is_writable(column_type: Any) -> bool:
    """Return whether Parquet can hold a type; it cannot hold objects without members."""
    parquet, arrow = pyarrow()
    table = arrow.schema([("column", column_type)]).empty_table()
    try:
        parquet.write_table(table, BytesIO())
    except arrow.ArrowException:
        return False
    return True


def _array(values: list[Any], column_type: Any) -> Any:
    """Return values as an array of a type, or as texts if ``column_type`` is ``None``."""
    _, arrow = pyarrow()
    if column_type is None:
        return arrow.array([_as_text(value) for value in values], arrow.string())
    return arrow.array(values, column_type)


def _as_text(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, default=str)
