"""Columns of a user's file that are written beside the vectors of its texts (``encode --keep``)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

from mirrorbench.core.errors import UsageError, changed_while_read
from mirrorbench.core.quoting import shown
from mirrorbench.data.readers.files import STDIN
from mirrorbench.data.readers.parquet import pyarrow
from mirrorbench.data.readers.rows import read_rows

WRITTEN = ("text", "target", "vector")
"""Columns that a file of vectors has anyway."""
_ROWS = 8192
"""Rows of which the types are read at once."""


class KeptColumns:
    """Columns of a file, in types that fit all of their values.

    The file is read once for the types before anything is encoded. Where values of a column have no common type, they are
    written as texts.

    Args:
        source: the file.
        names: of the columns.

    Raises:
        UsageError: a name stands twice or is one of ``WRITTEN``, or the file is standard input or has no columns.
        DataFormatError: the file has no such column.
    """

    def __init__(self, source: str, names: Sequence[str]) -> None:
        if source == STDIN:
            raise UsageError("--keep: columns of standard input are not kept", "Name a file.")
        for name in names:
            if name in WRITTEN:
                problem = f"--keep {shown(name)}: the output has a column of its own of this name"
                raise UsageError(problem, "Rename the column in the file.")
            if list(names).count(name) > 1:
                raise UsageError(f"--keep names the column {shown(name)} twice", "Name it once.")
        self._source = source
        self._names = tuple(names)
        self._types = self._read_types()
        self._rows = self._read()

    def _read(self) -> Iterator[tuple[int, tuple[Any, ...]]]:
        return read_rows(self._source, self._names)

    def _read_types(self) -> list[Any]:
        """Arrow's type of each column; ``None`` for texts of values without a common type."""
        _, arrow = pyarrow()
        rows = self._read()
        types: list[Any] = [arrow.null() for _ in self._names]
        while part := list(islice(rows, _ROWS)):
            for place, known in enumerate(types):
                if known is not None:
                    types[place] = _common_type(known, [values[place] for _, values in part])
        return types

    def take(self, numbers: Sequence[int]) -> dict[str, Any]:
        """Return an array of each column at rising numbers of lines or rows, which follow those of the last call.

        Raises:
            DataFormatError: the file changed since its types were read.
        """
        _, arrow = pyarrow()
        found: dict[int, tuple[Any, ...]] = {}
        for number, values in self._rows:
            found[number] = values
            if number >= numbers[-1]:
                break
        try:
            return {
                name: _array(
                    # A record of an annotation tool may have no answer to a question.
                    [found[number][place] if number in found else None for number in numbers],
                    self._types[place],
                )
                for place, name in enumerate(self._names)
            }
        except arrow.ArrowException as error:
            raise changed_while_read(self._source) from error


def _common_type(known: Any, values: list[Any]) -> Any:
    """A type for earlier and for these values; ``None`` if there is none."""
    _, arrow = pyarrow()
    schemas = [arrow.schema([("column", known)])]
    try:
        schemas.append(arrow.schema([("column", arrow.array(values).type)]))
        return arrow.unify_schemas(schemas, promote_options="permissive").field(0).type
    except arrow.ArrowException:
        return None


def _array(values: list[Any], column_type: Any) -> Any:
    _, arrow = pyarrow()
    if column_type is None:
        texts = [None if value is None else str(value) for value in values]
        return arrow.array(texts, arrow.string())
    return arrow.array(values, column_type)
