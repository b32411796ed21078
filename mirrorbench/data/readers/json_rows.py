"""JSON of users: one object per line, or a document of several records."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from mirrorbench.data.readers.annotations import UNANSWERED, rows_of_export, tool_of
from mirrorbench.data.readers.columns import resolve_columns
from mirrorbench.data.readers.files import STDIN
from mirrorbench.data.readers.folders import is_rereadable
from mirrorbench.data.readers.json_documents import document_rows, read_document
from mirrorbench.data.readers.json_lines import objects_of_lines


def json_values(
    source: str, columns: Sequence[str], note: Callable[[str], None]
) -> Iterator[tuple[int, tuple[Any, ...]]]:
    """Yield the values of columns of a user's JSON, with the numbers of lines or records from 1.

    ``note`` is called with remarks on how a document of several records is read (``json_documents``).
    """
    n_unanswered: Counter[str] = Counter()
    for number, row in json_objects(source, note):
        text_columns = []
        # The default column that the first row gives is that of all rows.
        needs_default = not columns or not columns[0]
        if needs_default:
            text_columns = [name for name, value in row.items() if isinstance(value, str)]
        columns = resolve_columns(columns, row, text_columns, f"{source}, line {number}", note)
        values = tuple(row[column] for column in columns)
        if UNANSWERED in values:
            n_unanswered[columns[values.index(UNANSWERED)]] += 1
        else:
            yield number, values
    for column, n in n_unanswered.items():
        note(f"{source}: without an answer to {column!r}, left out: {n:,}")


def json_objects(
    source: str, note: Callable[[str], None] = lambda message: None
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Read the objects of a user's JSON lines or JSON document, with the numbers of lines or records from 1."""
    path = Path(source).expanduser()
    # What cannot be read twice is not examined: it is read as JSON lines.
    if source == STDIN or not is_rereadable(path):
        return objects_of_lines(path, source)
    document = read_document(path)
    if document is not None:
        return iter(document_rows(document, source, note))
    _, first_row = next(objects_of_lines(path, source), (0, {}))
    tool = tool_of(first_row)
    lines = objects_of_lines(path, source)
    if tool is None:
        return lines
    return iter(rows_of_export(tool, list(lines), source, note))
