"""JSON files that are one document: arrays of objects, tables of pandas, exports of annotation tools."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from mirrorbench.core.errors import DataFormatError
from mirrorbench.data.readers.json_lines import parse_json
from mirrorbench.data.readers.text import stream_lines

Row = dict[str, Any]


def read_document(path: Path) -> Any | None:
    """Read a file that is one JSON document; ``None`` for JSON lines.

    A document begins with ``[``; or its first line is not JSON by itself; or it is the only line, and an object of
    several rows.
    """
    lines = enumerate(stream_lines(path), start=1)
    number, first = next(((n, line) for n, line in lines if line.strip()), (0, ""))
    beginning = first.strip()[:1]
    if beginning not in ("[", "{"):
        return None
    if beginning == "{":
        only = next((False for _, line in lines if line.strip()), True)
        try:
            value = parse_json(first, f"{path}, line {number}")
        except DataFormatError:
            # A pretty-printed document, or broken lines, which are reported with their number.
            if only or path.suffix != ".json":
                return None
        else:
            return value if only and len(rows_of(value)) > 1 else None
    return parse_json("\n".join(stream_lines(path)), str(path))


def document_rows(document: Any, source: str, note: Callable[[str], None]) -> list[Row]:
    """Return the rows of a document; ``note`` is called with a remark on what it is taken for.

    Raises:
        DataFormatError: it holds no rows, or one is neither an object nor a text.
    """
    records = rows_of(document)
    if not records:
        raise DataFormatError(
            f"{source}: this JSON holds no rows.", 'An array of objects is read: [{"text": "..."}]'
        )
    for number, record in enumerate(records, start=1):
        if not isinstance(record, (dict, str)):
            raise DataFormatError(
                f"{source}, record {number}: neither a JSON object nor a text.",
                'An array of objects is read: [{"text": "..."}]',
            )
    if all(isinstance(record, str) for record in records):
        return [{"text": record} for record in records]
    for tool, is_export, to_row in _EXPORTS:
        if all(isinstance(record, dict) and is_export(record) for record in records):
            labelled = [row for record in records if (row := to_row(record)) is not None]
            left_out = len(records) - len(labelled)
            more = f"; without an answer, left out: {left_out:,}" if left_out else ""
            note(f"{source}: read as an export of {tool}{more}")
            return labelled
    return list(records)


def rows_of(document: Any) -> Sequence[Any]:
    """Return the rows of an array, of a table that pandas wrote, or of the only array of objects in an object."""
    if isinstance(document, list):
        return document
    if not isinstance(document, dict):
        return []
    data = document.get("data")
    if "columns" in document and isinstance(data, list):  # pandas: orient="split"
        return [dict(zip(document["columns"], values, strict=True)) for values in data]
    parts = list(document.values())
    if parts and all(isinstance(part, dict) and part.keys() == parts[0].keys() for part in parts):
        return _table_of(document)
    arrays = [part for part in parts if _is_array_of_objects(part)]
    return arrays[0] if len(arrays) == 1 else []


def _is_array_of_objects(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(row, dict) for row in value)


def _table_of(document: Mapping[str, Mapping[str, Any]]) -> list[Row]:
    """The rows of a table that pandas wrote by columns, or by rows (``orient="index"``)."""
    labels = [str(number) for number in range(len(document))]
    if list(document) == labels:
        return [dict(row) for row in document.values()]
    names = next(iter(document.values())).keys()
    return [{column: values[name] for column, values in document.items()} for name in names]


def _is_label_studio(record: Row) -> bool:
    return isinstance(record.get("data"), dict) and isinstance(record.get("annotations"), list)


def _row_of_label_studio(record: Row) -> Row | None:
    """Data and answers of the first annotation that was not skipped, by the names of their controls."""
    done = [own for own in record["annotations"] if not own.get("was_cancelled")]
    results = done[0].get("result", []) if done else []
    answers = {
        result["from_name"]: _only(value)
        for result in results
        for kind, value in result.get("value", {}).items()
        if kind in ("choices", "rating", "number", "text", "selected")
    }
    return {**record["data"], **answers} if answers else None


def _is_argilla(record: Row) -> bool:
    return isinstance(record.get("fields"), dict) and isinstance(record.get("responses"), dict)


def _row_of_argilla(record: Row) -> Row | None:
    """Fields, and the first submitted response to each question."""
    answers = {}
    for question, responses in record["responses"].items():
        submitted = [own for own in responses if own.get("status", "submitted") == "submitted"]
        if submitted:
            answers[question] = _only(submitted[0]["value"])
    return {**record["fields"], **answers} if answers else None


def _only(value: Any) -> Any:
    """The only one of several choices; several are no single answer and stay a list."""
    return value[0] if isinstance(value, list) and len(value) == 1 else value


_EXPORTS: Iterable[tuple[str, Callable[[Row], bool], Callable[[Row], Row | None]]] = (
    ("Label Studio", _is_label_studio, _row_of_label_studio),
    ("Argilla", _is_argilla, _row_of_argilla),
)
"""Tools whose exports nest texts and answers: their name, how a record is recognised, and its row."""
