"""Strings of corpora, from text files or JSON lines."""

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
    """Parse files to non-blank strings; options: ``separator``, ``column``, ``skip``, ``take``.

    ``column`` is an index from 0 into a line split at the separator (default: a tab), or a name: with a separator it is
    a heading in the first line, otherwise a key of JSON lines. With a list of columns, a line gives several strings.
    ``skip`` and ``take`` are the numbers of lines to skip and of strings to take, in each file.
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
    """Return the function that takes a line and its place and returns the strings that the option ``column`` names.

    A place (file and line) is for messages; ``where`` is that of the first line.
    """
    # One column, or a list of them. An empty list is no column: ``whole_number`` refuses it below.
    columns = options["column"]
    if not isinstance(columns, list) or not columns:
        columns = [columns]
    are_names = all(isinstance(column, str) for column in columns)
    # Names without a separator are keys of JSON lines.
    if are_names and "separator" not in options:
        return partial(_json_values, columns=columns)
    separator = text_option({"separator": "\t", **options}, "separator")
    # Names with a separator are headings in the first line.
    if are_names:
        names = first_line.split(separator)
        for column in columns:
            if column not in names:
                raise DataFormatError(
                    f"{where}: there is no column {column!r} in {shown(first_line)}."
                )
        columns = [names.index(column) for column in columns]
    # Numbers count from 0; anything else is refused as a wrong option ``column``.
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
                f"{where}: column {column!r} holds {shown(repr(value))}, which is not a text."
            )
        values.append(" ".join(value.splitlines()))
    return values
