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
_DIGITS = 9


class Ids:
    """The ids of a data set, which must be unique."""

    def __init__(self) -> None:
        self._places: dict[str, tuple[Path | str, int]] = {}

    def add(self, identity: str, path: Path | str, line: int) -> str:
        """Register the id of a line and return it; a registered id is an error."""
        if identity in self._places:
            first, earlier = self._places[identity]
            where = f"line {earlier}" if first == path else f"{first}, line {earlier}"
            raise DataFormatError(
                f"{path}, line {line}: the id {shown(identity)} stands already in {where}."
            )
        self._places[identity] = path, line
        return identity


def is_label(value: Any) -> bool:
    """Return whether a value of a table is a label, score or id: a text that is not blank, or a number."""
    if isinstance(value, str):
        return bool(value.strip())
    return isinstance(value, Number) and value == value  # Parquet has NaN for a missing number


def is_list(value: Any) -> bool:
    """Return whether a value of a table is a list: of JSON, of Parquet, or the beginning of one of texts, written as text.

    >>> is_list('["one", "two"]'), is_list("['one' 'two']"), is_list("[deleted]")
    (True, True, False)
    """
    if isinstance(value, str):
        return _LIST.match(value) is not None
    return isinstance(value, list | tuple)


def listed(value: Any, column: str, source: str, line: int) -> Sequence[Any]:
    """Return the values of a list (``is_list``).

    Raises:
        DataFormatError: a list that is written as text is not JSON.
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
    """Write a label, score or id as text, whole numbers without a fraction: 1.0 of Parquet and JSON as 1."""
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value).strip()


def parse_index(text: str) -> int:
    """Parse an index from 0 in ASCII digits; anything else is -1."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= _DIGITS else -1


def parse_number(text: str, path: Path | str, line: int, low: float, high: float) -> float:
    """Parse a decimal number between two bounds (included); no ``nan``, ``inf``, ``1_0``, spaces or other digits."""
    if not _NUMBER.match(text):
        raise DataFormatError(f"{path}, line {line}: {shown(text)} is not a number.")
    value = float(text)
    if not math.isfinite(value) or not low <= value <= high:
        raise DataFormatError(
            f"{path}, line {line}: {shown(text)} lies outside the scale from {low:g} to {high:g}."
        )
    return value
