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
"""Columns that a file of vectors has anyway."""
_ROWS = 8192
"""Rows of which the types are read at once."""


class KeptColumns:
    """Columns of a file in types that fit all of their values: those of the file if it is Parquet.

    Any other file is read once for the types before anything is encoded. Where values of a column have no common type,
    they become texts, those that are none as JSON.

    Args:
        source: the file.
        names: of the columns.

    Raises:
        UsageError: a name stands twice or is one of ``WRITTEN``, or the file cannot be read twice or has no columns.
        DataFormatError: the file has no such column.
    """

    def __init__(self, source: str, names: Sequence[str]) -> None:
        path = Path(source).expanduser()
        if source == STDIN or (exists(path) and not is_rereadable(path)):
            raise UsageError(f"--keep: columns of {source} are not kept", "Name a file.")
        for name in names:
            if name in WRITTEN:
                problem = f"--keep {shown(name)}: the output has a column of its own of this name"
                raise UsageError(problem, "Rename the column in the file.")
            if list(names).count(name) > 1:
                raise UsageError(f"--keep names the column {shown(name)} twice", "Name it once.")
        self._source = source
        self._names = tuple(names)
        self._types = self._read_types()

    def _read_types(self) -> list[Any]:
        """Arrow's type of each column; ``None`` for texts of values without a common type."""
        parquet, arrow = pyarrow()
        rows = read_rows(self._source, self._names, named=True)
        first = list(islice(rows, 1))  # finds that a column is not there
        if format_of(self._source) == "parquet":
            schema = parquet.read_schema(Path(self._source).expanduser())
            return [schema.field(name).type for name in self._names]
        types: list[Any] = [arrow.null() for _ in self._names]
        while part := [*first, *islice(rows, _ROWS)]:
            first = []
            for place, known in enumerate(types):
                if known is not None:
                    types[place] = _common_type(known, [values[place] for _, values in part])
        return [own if own is not None and _is_written(own) else None for own in types]

    def arrays(self, rows: Sequence[tuple[Any, ...]]) -> dict[str, Any]:
        """Return an array of each column for some rows of values.

        Raises:
            DataFormatError: a value is not of the type of its column: the file changed since they were read.
        """
        _, arrow = pyarrow()
        try:
            return {
                name: _array([values[place] for values in rows], self._types[place])
                for place, name in enumerate(self._names)
            }
        except (arrow.ArrowException, OverflowError, TypeError, ValueError) as error:
            raise changed_while_read(self._source) from error


def _common_type(known: Any, values: list[Any]) -> Any:
    """A type for earlier and for these values; ``None`` if there is none."""
    _, arrow = pyarrow()
    schemas = [arrow.schema([("column", known)])]
    try:
        schemas.append(arrow.schema([("column", arrow.array(values).type)]))
        return arrow.unify_schemas(schemas, promote_options="permissive").field(0).type
    except (arrow.ArrowException, OverflowError):
        return None


def _is_written(column_type: Any) -> bool:
    """Whether Parquet can hold a type; it has no objects without members."""
    parquet, arrow = pyarrow()
    table = arrow.schema([("column", column_type)]).empty_table()
    try:
        parquet.write_table(table, BytesIO())
    except arrow.ArrowException:
        return False
    return True


def _array(values: list[Any], column_type: Any) -> Any:
    _, arrow = pyarrow()
    if column_type is None:
        return arrow.array([_as_text(value) for value in values], arrow.string())
    return arrow.array(values, column_type)


def _as_text(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, default=str)
