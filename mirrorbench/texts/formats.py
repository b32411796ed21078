"""What rows stand for: texts, pairs of texts, or words in context."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from mirrorbench.core.errors import DataFormatError, UsageError
from mirrorbench.core.inputs import TextInput
from mirrorbench.texts.readers import rows

SEPARATOR = "||"
"""Stands between the two texts of a pair in plain text."""

_MARK = re.compile(r"\\([\[\]\\])|([\[\]])")


def texts(source: str, column: str = "") -> Iterator[str]:
    """The texts of a file: one for each line or row, blank ones included.

    Raises:
        DataFormatError: a value is no text; otherwise as ``rows``.
    """
    for number, (value,) in rows(source, (column,) if column else ()):
        yield as_text(value, source, number)


def pairs(source: str, columns: Sequence[str]) -> Iterator[tuple[str, str]]:
    """The pairs of two columns.

    Raises:
        DataFormatError: a value is no text; otherwise as ``rows``.
    """
    for number, (left, right) in rows(source, columns):
        yield as_text(left, source, number), as_text(right, source, number)


def contexts(source: str, column: str = "", spans: tuple[str, str] | None = None) -> Iterator[TextInput]:
    r"""Words in context: the target is marked in its text, or two columns hold where it starts and ends.

    Args:
        source: the file, or ``-``.
        column: of the text.
        spans: the columns of the target's first character (from 0) and of the one after its last; without them the
            target stands in square brackets, ``the [bank] of the river``. Several marks make one discontinuous target;
            a bracket of the text itself is written ``\[``.

    Raises:
        DataFormatError: a text without a target, or a span outside its text; otherwise as ``rows``.
        UsageError: span columns without the text's column.
    """
    if spans is None:
        for number, (value,) in rows(source, (column,) if column else ()):
            yield marked(as_text(value, source, number), f"{source}, line {number}")
        return
    if not column:
        raise UsageError("--span-columns says where targets are, but not in which text", "Add --column NAME.")
    for number, (value, start, end) in rows(source, (column, *spans)):
        text = as_text(value, source, number)
        first, last = _position(start, source, number), _position(end, source, number)
        if not 0 <= first < last <= len(text):
            raise DataFormatError(
                f"{source}, line {number}: the span {first}:{last} lies outside its text of {len(text)} characters."
            )
        yield TextInput(text, ((first, last),))


def marked(text: str, where: str = "the text") -> TextInput:
    r"""A text whose target stands in square brackets, as an input.

    Raises:
        DataFormatError: no target, an empty one, or brackets that do not match.

    >>> marked("the [bank] of the river")
    TextInput(text='the bank of the river', spans=((4, 8),), language='')
    """
    plain, spans, start = "", [], -1
    end = 0
    for mark in _MARK.finditer(text):
        plain += text[end : mark.start()]
        end = mark.end()
        if mark[1]:
            plain += mark[1]
        elif (mark[2] == "[") == (start >= 0):
            raise DataFormatError(f"{where}: the brackets do not match.", hint="A bracket of the text is written \\[")
        elif start < 0:
            start = len(plain)
        else:
            spans.append((start, len(plain)))
            start = -1
    plain += text[end:]
    if start >= 0 or not spans or any(not plain[a:b].strip() for a, b in spans):
        raise DataFormatError(f"{where}: no target word in square brackets.", hint="Mark it: the [bank] of the river")
    return TextInput(plain, tuple(spans))


def split_pair(text: str) -> tuple[str, str] | None:
    """The two texts of ``text1||text2``, ``None`` where it is not of that form."""
    left, separator, right = text.partition(SEPARATOR)
    left, right = left.strip(), right.strip()
    return (left, right) if separator and left and right and SEPARATOR not in right else None


def as_text(value: Any, source: str, number: int) -> str:
    """A value that is a text.

    Raises:
        DataFormatError: it is not.
    """
    if not isinstance(value, str):
        kind = "empty (null)" if value is None else f"of type {type(value).__name__}, not a text"
        raise DataFormatError(f"{source}, line {number}: the value is {kind}.")
    return value


def _position(value: Any, source: str, number: int) -> int:
    if isinstance(value, str) and value.strip().isdecimal():
        return int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise DataFormatError(f"{source}, line {number}: {value!r} is no position of a character.")
    return value
