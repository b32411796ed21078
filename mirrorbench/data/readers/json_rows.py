"""JSON of users: an object a line, or a document of several records."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from mirrorbench.data.readers.columns import resolve_columns
from mirrorbench.data.readers.files import STDIN
from mirrorbench.data.readers.json_documents import document_rows, read_document
from mirrorbench.data.readers.json_lines import objects_of_lines


def json_values(
    source: str, columns: Sequence[str], note: Callable[[str], None]
) -> Iterator[tuple[int, tuple[Any, ...]]]:
    """Read the values of columns of a user's JSON, with line numbers, or numbers of records, from 1.

    ``note`` is called with remarks on how a document of several records is read (``json_documents``).
    """
    for number, row in json_objects(source, note):
        texts = [] if columns else [name for name, value in row.items() if isinstance(value, str)]
        columns = resolve_columns(columns, row, texts, f"{source}, line {number}")
        yield number, tuple(row[column] for column in columns)


def json_objects(
    source: str, note: Callable[[str], None] = lambda message: None
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Read the objects of a user's JSON lines, or of a JSON document, with line numbers, or numbers of records."""
    path = Path(source).expanduser()
    document = read_document(path) if source != STDIN and path.is_file() else None
    if document is None:
        return objects_of_lines(path, source)
    return iter(document_rows(document, source, note))
