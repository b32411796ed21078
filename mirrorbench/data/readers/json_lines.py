"""JSON of users: an object a line, or a document of several records."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from mirrorbench.core.errors import DataFormatError
from mirrorbench.core.quoting import is_text
from mirrorbench.data.readers.columns import line_error, resolve_columns
from mirrorbench.data.readers.files import STDIN
from mirrorbench.data.readers.text import stream_lines


def parse_json(text: str, where: str) -> Any:
    """Parse a JSON text; a key that occurs twice in an object is an error."""

    def distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if len(members := dict(pairs)) != len(pairs):
            raise ValueError("a key stands twice in one object")
        return members

    try:
        value = json.loads(text, object_pairs_hook=distinct)
        if "\\ud" in text.lower() and not is_text(json.dumps(value, ensure_ascii=False)):
            raise ValueError("half of a surrogate pair")
        return value
    except (ValueError, RecursionError) as error:
        raise DataFormatError(f"{where}: not JSON ({error}).") from None


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
    from mirrorbench.data.readers.json_documents import document_rows, read_document

    path = Path(source).expanduser()
    document = read_document(path) if source != STDIN and path.is_file() else None
    if document is not None:
        yield from document_rows(document, source, note)
        return
    for number, line in enumerate(stream_lines(path), start=1):
        if not line.strip():
            continue
        row = parse_json(line, f"{source}, line {number}")
        if not isinstance(row, dict):
            raise line_error(
                source, number, "not a JSON object", 'Each line is an object, like {"text": "..."}.'
            )
        yield number, row
