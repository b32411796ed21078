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
    unknown = set(options) - {"separator", "column", "skip", "take"}
    if unknown:
        raise DataFormatError(f"Parser 'lines': unknown options {', '.join(sorted(unknown))}.")
    return [text for path in files.values() for text in _strings(path, options)]


def _strings(path: Path, options: Mapping[str, Any]) -> list[str]:
    """Return the non-blank strings of one file."""
    skip = whole_number(options, "skip", 0)
    lines = read_lines(path)
    strings = lines[skip:]
    if "column" in options:
        first_line = lines[0] if lines else ""
        split = _splitter(options, f"{path}, line 1", first_line)
        strings = []
        for number, line in enumerate(lines[skip:], start=skip + 1):
            strings += split(line, f"{path}, line {number}")
    strings = [string for string in strings if string.strip()]
    return strings[: whole_number(options, "take", len(strings))]


def _splitter(
    options: Mapping[str, Any], where: str, first_line: str
) -> Callable[[str, str], list[str]]:
    """Return the function from a line and its position, for messages, to the strings of the option ``column``.

    ``where`` is the position of the first line.
    """
    columns = options["column"]
    if not isinstance(columns, list) or not columns:
        columns = [columns]
    have_names = all(isinstance(column, str) for column in columns)
    if have_names and "separator" not in options:
        return partial(_json_values, columns=columns)
    separator = text_option({"separator": "\t", **options}, "separator")
    if have_names:
        names = first_line.split(separator)
        for column in columns:
            if column not in names:
                raise DataFormatError(
                    f"{where}: there is no column {column!r} in {shown(first_line)}."
                )
        columns = [names.index(column) for column in columns]
    indices = [whole_number({"column": column}, "column", 0) for column in columns]
    return partial(_fields, columns=indices, separator=separator)


def _fields(text: str, where: str, columns: Sequence[int], separator: str) -> list[str]:
    fields = text.split(separator)
    if len(fields) <= max(columns):
        raise DataFormatError(
            f"{where}: there is no column {max(columns)} (counted from 0) in {shown(text)}."
        )
    return [fields[column] for column in columns]


def _json_values(text: str, where: str, columns: Sequence[str]) -> list[str]:
    """Return the texts in columns of a JSON line, with line ends replaced by spaces; null counts as blank."""
    row = parse_json(text, where)
    values = []
    for column in columns:
        if not isinstance(row, dict) or column not in row:
            hint = f"It has: {', '.join(row)}" if isinstance(row, dict) else ""
            raise DataFormatError(f"{where}: there is no column {column!r}.", hint=hint)
        value = row[column]
        if value is None:
            value = ""
        if not isinstance(value, str) or not is_text(value):
            raise DataFormatError(
                f"{where}: column {column!r} holds {shown(repr(value))}, which is no text."
            )
        values.append(" ".join(value.splitlines()))
    return values
