"""Strings of text files or JSON lines, as corpora have them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from mirrorbench.core.errors import DataFormatError
from mirrorbench.core.quoting import is_text, shown
from mirrorbench.data.cards import text_option, whole_number
from mirrorbench.data.readers.json_lines import parse_json
from mirrorbench.data.readers.text import read_lines


def parse_lines(files: Mapping[str, Path], options: Mapping[str, Any]) -> list[str]:
    """Parse files to non-blank strings; options: ``separator``, ``column``, ``skip``, ``take`` (of each file).

    ``column`` is an index from 0 into a line split at the separator, or a name: with a separator a heading of the first
    line, otherwise a key of JSON lines. A list of columns makes several strings of a line.
    """
    if unknown := set(options) - {"separator", "column", "skip", "take"}:
        raise DataFormatError(f"Parser 'lines': unknown options {', '.join(sorted(unknown))}.")
    return [text for path in files.values() for text in _strings(path, options)]


def _strings(path: Path, options: Mapping[str, Any]) -> list[str]:
    skip, lines = whole_number(options, "skip", 0), read_lines(path)
    texts = lines[skip:]
    if "column" in options:
        cut = _cutter(options, f"{path}, line 1", "".join(lines[:1]))
        numbered = enumerate(texts, start=skip + 1)
        texts = [field for line, text in numbered for field in cut(text, f"{path}, line {line}")]
    kept = [text for text in texts if text.strip()]
    return kept[: whole_number(options, "take", len(kept))]


def _cutter(options: Mapping[str, Any], where: str, head: str) -> Callable[[str, str], list[str]]:
    """The function that cuts a line, given its position for messages, into the strings of the option ``column``."""
    columns = options["column"]
    columns = columns if isinstance(columns, list) and columns else [columns]
    named = all(isinstance(column, str) for column in columns)
    if named and "separator" not in options:
        return partial(_json_values, columns=columns)
    separator = text_option({"separator": "\t", **options}, "separator")
    if named:
        heads = head.split(separator)
        if lacking := [column for column in columns if column not in heads]:
            raise DataFormatError(f"{where}: there is no column {lacking[0]!r} in {shown(head)}.")
        columns = [heads.index(column) for column in columns]
    places = [whole_number({"column": column}, "column", 0) for column in columns]
    return partial(_fields, columns=places, separator=separator)


def _fields(text: str, where: str, columns: Sequence[int], separator: str) -> list[str]:
    fields = text.split(separator)
    if len(fields) <= max(columns):
        raise DataFormatError(
            f"{where}: there is no column {max(columns)} (counted from 0) in {shown(text)}."
        )
    return [fields[column] for column in columns]


def _json_values(text: str, where: str, columns: Sequence[str]) -> list[str]:
    """The texts in columns of JSON lines, line ends in them replaced by spaces; null counts as blank."""
    row = parse_json(text, where)
    values = []
    for column in columns:
        if not isinstance(row, dict) or column not in row:
            had = f"It has: {', '.join(row)}" if isinstance(row, dict) else ""
            raise DataFormatError(f"{where}: there is no column {column!r}.", hint=had)
        value = "" if row[column] is None else row[column]
        if not isinstance(value, str) or not is_text(value):
            raise DataFormatError(
                f"{where}: column {column!r} holds {shown(repr(value))}, which is no text."
            )
        values.append(" ".join(value.splitlines()))
    return values
