"""JSON files that are one document: arrays of objects, tables of pandas, exports of annotation tools (``annotations``)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from mirrorbench.core.errors import DataFormatError
from mirrorbench.data.readers.annotations import Row, rows_of_export, tool_of
from mirrorbench.data.readers.json_lines import parse_json
from mirrorbench.data.readers.text import stream_lines

_EXAMPLE = 'An array of objects is read: [{"text": "..."}]'


def read_document(path: Path) -> Any | None:
    """Read a file that is one JSON document; return ``None`` for any other file, which is read as JSON lines.

    An array is a document in any file. An object is one only in a ``.json`` file, and there only if its first line is
    not JSON by itself, or if it is the only line and holds several rows.
    """
    # ``next`` takes the first line that is not blank; the lines after it stay in the iterator for ``any`` below.
    lines = enumerate(stream_lines(path), start=1)
    number, first = next(((n, line) for n, line in lines if line.strip()), (0, ""))
    if first.strip().startswith("["):
        return _parse_whole(path)
    if not first.strip().startswith("{") or not _has_json_ending(path):
        return None
    is_only_line = not any(line.strip() for _, line in lines)
    try:
        value = parse_json(first, f"{path}, line {number}")
    except DataFormatError:
        # No other line can complete it: the JSON is broken.
        if is_only_line:
            raise
        return _parse_whole(path)
    # The first line is JSON by itself. Other lines, or a single row, are read as JSON lines.
    if is_only_line and len(_records(value, str(path))) > 1:
        return value
    return None


def _parse_whole(path: Path) -> Any:
    return parse_json("\n".join(stream_lines(path)), str(path))


def _has_json_ending(path: Path) -> bool:
    return path.name.lower().removesuffix(".gz").endswith(".json")


def document_rows(document: Any, source: str, note: Callable[[str], None]) -> list[tuple[int, Row]]:
    """Return the rows of a document, with the numbers of their records from 1.

    ``note`` is called with remarks on the tool that wrote the document.

    Raises:
        DataFormatError: the document holds no rows, or one is neither an object nor a text.
    """
    records = _records(document, source)
    if not records:
        raise DataFormatError(f"{source}: this JSON holds no rows.", _EXAMPLE)
    for number, record in enumerate(records, start=1):
        if not isinstance(record, (dict, str)):
            problem = f"{source}, record {number}: neither a JSON object nor a text."
            raise DataFormatError(problem, _EXAMPLE)
    numbered = list(enumerate(records, start=1))
    if all(isinstance(record, str) for record in records):
        return [(number, {"text": text}) for number, text in numbered]
    tool = tool_of(records[0])
    if tool is None:
        return numbered
    return rows_of_export(tool, numbered, source, note)


def _records(document: Any, source: str) -> Sequence[Any]:
    """Return the rows of a document: an array, a table that pandas wrote, or an object with one array of objects.

    Any other document has none.
    """
    if isinstance(document, list):
        return document
    if not isinstance(document, dict):
        return []
    # pandas: orient="split", then one object for each column or row.
    if isinstance(document.get("columns"), list) and isinstance(document.get("data"), list):
        return _rows_of_split(document["columns"], document["data"], source)
    parts = list(document.values())
    if parts and all(isinstance(part, dict) and part.keys() == parts[0].keys() for part in parts):
        return _rows_of_table(document, source)
    arrays = [part for part in parts if _is_array_of_objects(part)]
    return arrays[0] if len(arrays) == 1 else []


def _is_array_of_objects(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(row, dict) for row in value)


def _rows_of_split(columns: list[Any], data: list[Any], source: str) -> list[Row]:
    """Return the rows of a table that pandas wrote with ``orient="split"``."""
    if not all(isinstance(column, (str, int)) for column in columns):
        raise DataFormatError(f"{source}: its columns have names of several parts.")
    if len(set(columns)) < len(columns):
        raise DataFormatError(
            f"{source}: several columns have one name.", "Give each a name of its own."
        )
    for number, values in enumerate(data, start=1):
        if not isinstance(values, list) or len(values) != len(columns):
            raise DataFormatError(f"{source}, record {number}: not a value for each column.")
    names = [str(column) for column in columns]
    return [dict(zip(names, values, strict=True)) for values in data]


def _rows_of_table(document: Mapping[str, Mapping[str, Any]], source: str) -> list[Row]:
    """Return the rows of a table that pandas wrote by columns, or by rows (``orient="index"``).

    Rows are numbered, and columns must not be.
    """
    inner_keys = next(iter(document.values())).keys()
    by_rows = all(key.isdigit() for key in document)
    by_columns = all(key.isdigit() for key in inner_keys)
    if by_rows and by_columns:
        problem = (
            f"{source}: rows and columns are numbered, so that it is not certain which is which."
        )
        raise DataFormatError(problem, 'Give the columns names, or write it with orient="records".')
    if by_rows:
        return [dict(row) for row in document.values()]
    rows = []
    for key in inner_keys:
        rows.append({column: values[key] for column, values in document.items()})
    return rows
