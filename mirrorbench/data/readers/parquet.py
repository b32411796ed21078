"""Parquet files of users."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from mirrorbench.core.errors import DataFormatError, UsageError, not_installed
from mirrorbench.data.readers.columns import resolve_columns


def parquet_values(
    source: str, columns: Sequence[str], note: Callable[[str], None]
) -> Iterator[tuple[int, tuple[Any, ...]]]:
    """Yield the values of columns of a user's Parquet file, with row numbers from 1.

    ``note`` is called with remarks for the user. A file that cannot be read is a ``DataFormatError``.
    """
    parquet, arrow = pyarrow()
    try:
        with parquet.ParquetFile(Path(source).expanduser()) as file:
            schema = file.schema_arrow
            text_columns = [field.name for field in schema if _holds_texts(field.type)]
            names = resolve_columns(columns, schema.names, text_columns, source, note)
            distinct_names = list(dict.fromkeys(names))
            number = 0
            for batch in file.iter_batches(batch_size=1024, columns=distinct_names):
                values_of_columns = [batch.column(name).to_pylist() for name in names]
                for values in zip(*values_of_columns, strict=True):
                    number += 1
                    yield number, values
    except (arrow.ArrowException, OSError, ValueError) as error:
        reason = str(error).partition("\n")[0]
        raise DataFormatError(f"{source} cannot be read as Parquet: {reason}") from None


def _holds_texts(column_type: Any) -> bool:
    """Return whether a column holds texts, perhaps stored as a dictionary of its few values (pandas' categories)."""
    value_type = getattr(column_type, "value_type", None)
    if value_type is not None and str(column_type).startswith("dictionary"):
        column_type = value_type
    return str(column_type) in ("string", "large_string", "string_view")


def pyarrow() -> tuple[Any, Any]:
    """Return the modules ``pyarrow.parquet`` and ``pyarrow``; ``UsageError`` if they are not installed."""
    try:
        import pyarrow as arrow
        import pyarrow.parquet as parquet
    except ImportError as error:
        raise not_installed(UsageError, "Parquet files need", "pyarrow", "parquet") from error
    return parquet, arrow
