"""Pairs in a plain table: tab-separated, comma-separated with quotes, or JSON lines, as the card says."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

from mirrorbench.core.errors import DataFormatError
from mirrorbench.data.items import Pair
from mirrorbench.data.textfiles import Ids, is_text, parse_json, parse_number, read_lines, shown

FORMATS = ("tsv", "csv", "jsonl")
_ROLES = ("left", "right", "gold")
_OPTIONS = {"format", "columns", "scale", "header", "rows"}
_OF_THE_TASK = {"split", "corpus"}


def parse(files: Mapping[str, Path], options: Mapping[str, Any]) -> list[Pair]:
    """Parse pairs from tables.

    Args:
        files: the tables; a name ending in ``.gz`` is decompressed.
        options: ``format`` (``tsv``: split at tabs, quotes are text; ``csv``: RFC 4180 quoting, one row a
            line; ``jsonl``), ``columns`` (where ``left``, ``right`` and ``gold`` are found: numbers from 0,
            or names where there is a header or for ``jsonl``; ``id`` and ``subset`` are optional), ``scale``
            (least and greatest gold value), ``header`` (whether the first line names the columns; false by
            default), ``rows`` (how many rows each file must have; not checked by default).

    Returns:
        all rows; without an ``id`` column the id is ``<file stem>/<line>`` (from 1).

    Raises:
        DataFormatError: wrong options, a row that lacks a column or has more than the others, a row that runs
            over several lines, an empty text, gold that is no number or off the scale, an id that stands twice, a
            wrong number of rows.
    """
    columns, scale = _check_options(options)
    pairs = []
    ids = Ids()
    for name, path in files.items():
        stem = PurePosixPath(name).name.split(".")[0]
        rows = [_pair(row, columns, scale, path, stem, ids) for row in _rows(path, options)]
        if len(rows) != options.get("rows", len(rows)):
            raise DataFormatError(f"{path}: {len(rows)} rows instead of {options['rows']}.")
        pairs += rows
    return pairs


def _check_options(options: Mapping[str, Any]) -> tuple[Mapping[str, Any], tuple[float, float]]:
    unknown = set(options) - _OPTIONS - _OF_THE_TASK
    columns = options.get("columns")
    scale = options.get("scale")
    if unknown:
        raise DataFormatError(f"Parser 'table': unknown options {', '.join(sorted(unknown))}.")
    if options.get("format") not in FORMATS:
        raise DataFormatError(f"Parser 'table': format {options.get('format')!r} is none of {', '.join(FORMATS)}.")
    if not isinstance(columns, Mapping) or any(role not in columns for role in _ROLES):
        raise DataFormatError(f"Parser 'table': 'columns' must say where {', '.join(_ROLES)} are.")
    if not all(isinstance(column, str | int) for column in columns.values()):
        raise DataFormatError("Parser 'table': each of 'columns' is found by a number or a name.")
    if not isinstance(scale, list) or len(scale) != 2 or not all(isinstance(end, int | float) for end in scale):
        raise DataFormatError("Parser 'table': 'scale' must be a list of the least and the greatest gold value.")
    return columns, (float(scale[0]), float(scale[1]))


def _rows(path: Path, options: Mapping[str, Any]) -> Iterator[tuple[int, Mapping[Any, Any]]]:
    lines = read_lines(path)
    if options["format"] == "jsonl":
        for line, text in enumerate(lines, start=1):
            yield line, _json_object(text, path, line)
        return
    header: Sequence[Any] | None = None
    width = -1
    for line, text in enumerate(lines, start=1):
        fields = text.split("\t") if options["format"] == "tsv" else _csv_fields(text, path, line)
        width = len(fields) if width < 0 else width
        if len(fields) != width:
            raise DataFormatError(f"{path}, line {line}: {len(fields)} columns instead of {width}.")
        if options.get("header") and header is None:
            header = fields
            if twice := [name for name in header if name in options["columns"].values() and header.count(name) > 1]:
                raise DataFormatError(f"{path}, line {line}: the header names {shown(twice[0])} twice.")
            continue
        yield line, dict(zip(header or range(width), fields, strict=True))


def _csv_fields(text: str, path: Path, line: int) -> list[str]:
    # One line at a time: a stray quote then cannot swallow the rows that follow, but is an error
    # in its own line.
    try:
        rows = list(csv.reader([text], strict=True))
    except csv.Error as error:
        raise DataFormatError(f"{path}, line {line}: {error}.") from None
    if len(rows) != 1 or not rows[0]:
        raise DataFormatError(f"{path}, line {line}: an empty line.")
    return rows[0]


def _json_object(text: str, path: Path, line: int) -> Mapping[str, Any]:
    row = parse_json(text, f"{path}, line {line}")
    if not isinstance(row, dict):
        raise DataFormatError(f"{path}, line {line}: not a JSON object.")
    return row


def _pair(
    row: tuple[int, Mapping[Any, Any]],
    columns: Mapping[str, Any],
    scale: tuple[float, float],
    path: Path,
    stem: str,
    ids: Ids,
) -> Pair:
    line, fields = row
    values = {}
    for role, column in columns.items():
        value = fields.get(column)
        if role == "gold" and isinstance(value, int | float) and not isinstance(value, bool):
            value = repr(value)
        if role == "id" and isinstance(value, int) and not isinstance(value, bool):
            value = str(value)
        if not isinstance(value, str) or not value.strip() or not is_text(value):
            raise DataFormatError(f"{path}, line {line}: column {column!r} ({role}) is missing or empty, or no text.")
        values[role] = value
    gold = parse_number(values["gold"].strip(), path, line, *scale)
    identity = values.get("id", f"{stem}/{line}")
    return Pair(ids.add(identity, path, line), values["left"], values["right"], gold, values.get("subset", ""))
