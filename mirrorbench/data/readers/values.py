"""Values in files: numbers, indices, and ids, which are unique in a data set."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from numbers import Number
from pathlib import Path
from typing import Any

from mirrorbench.core.errors import DataFormatError
from mirrorbench.core.quoting import shown

_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?\Z", re.ASCII)
_LIST = re.compile(r"""\s*\[\s*(?:["']|\]\s*$)""")
"""The beginning of a list of texts, or an empty list."""
_MOST_DIGITS = 9
"""Most digits of an index."""


class Ids:
    """The ids of a data set, which must be unique."""

    def __init__(self) -> None:
        self._places: dict[str, tuple[Path | str, int]] = {}

    def add(self, item_id: str, path: Path | str, line: int) -> str:
        """Register the id of a line and return it; ``DataFormatError`` if it is registered already."""
        if item_id in self._places:
            first_path, first_line = self._places[item_id]
            where = f"line {first_line}"
            if first_path != path:
                where = f"{first_path}, line {first_line}"
            raise DataFormatError(
                f"{path}, line {line}: the id {shown(item_id)} is already used in {where}."
            )
        self._places[item_id] = path, line
        return item_id


def is_label(value: Any) -> bool:
    """Return whether a value of a table is a label, score or id: a text that is not blank, or a number."""
    if isinstance(value, str):
        return bool(value.strip())
    # Parquet has NaN for a missing number, which differs from itself.
    return isinstance(value, Number) and value == value


def is_list(value: Any) -> bool:
    """Return whether a value of a table is a list of JSON or Parquet, or a text that begins as a list of texts does.

    >>> is_list('["one", "two"]'), is_list("['one' 'two']"), is_list("[deleted]")
    (True, True, False)
    """
    if isinstance(value, str):
        return _LIST.match(value) is not None
    return isinstance(value, list | tuple)


def listed(value: Any, column: str, source: str, line: int) -> Sequence[Any]:
    """Return the values of a list (``is_list``); a text that holds another JSON value is the only one.

    Raises:
        DataFormatError: the list is written as text and is not JSON.
    """
    if not isinstance(value, str):
        values: Sequence[Any] = value
        return values
    try:
        parsed = json.loads(value)
    except (ValueError, RecursionError):
        raise DataFormatError(
            f"{source}, line {line}: the column {column!r} holds a list that is not written as JSON.",
            'In CSV a list is written ["one", "two"]; JSON lines and Parquet have lists of their own.',
        ) from None
    return parsed if isinstance(parsed, list) else [value]


def label_text(value: Any) -> str:
    """Return a label, score or id as text, without the fraction of a whole number: 1.0 of Parquet and JSON becomes 1."""
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value).strip()


def parse_index(text: str) -> int:
    """Return an index from 0, written in at most nine ASCII digits; -1 for any other text."""
    if text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS:
        return int(text)
    return -1


def parse_number(text: str, path: Path | str, line: int, low: float, high: float) -> float:
    """Return a decimal number between two bounds (included); ``DataFormatError`` for any other text.

    Python's ``float`` would also read ``nan``, ``inf``, ``1_0``, spaces, and digits of other scripts.
    """
    if not _NUMBER.match(text):
        raise DataFormatError(f"{path}, line {line}: {shown(text)} is not a number.")
    value = float(text)
    if not math.isfinite(value) or not low <= value <= high:
        raise DataFormatError(
            f"{path}, line {line}: {shown(text)} lies outside the scale from {low:g} to {high:g}."
        )
    return value
