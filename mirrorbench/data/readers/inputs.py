"""Texts to encode, and words in context, from a user's file."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from mirrorbench.core.encoder_protocol import TextInput
from mirrorbench.core.errors import UsageError
from mirrorbench.core.quoting import shown
from mirrorbench.data.readers.columns import line_error, text_of
from mirrorbench.data.readers.marks import parse_marked
from mirrorbench.data.readers.rows import read_rows, silent
from mirrorbench.data.readers.values import parse_index


def read_inputs(
    source: str,
    column: str = "",
    in_context: bool = False,
    spans: Sequence[str] = (),
    note: Callable[[str], None] = silent,
) -> Iterator[tuple[int, TextInput]]:
    """Read texts to encode, or, with ``in_context``, words in square brackets in their texts (``parse_marked``).

    Returns the line or row number (from 1) of each with it. Instead of brackets, ``spans`` are the columns of a target's
    first character (from 0) and of the one after its last. ``note`` is called with remarks on how the file is read.
    """
    if spans and not column:
        raise UsageError(
            "--span-columns says where targets are, but not in which text", "Add --column NAME."
        )
    if spans:
        return (
            (number, _spanned(source, number, *values))
            for number, values in read_rows(source, (column, *spans), note)
        )
    rows = read_rows(source, (column,) if column else (), note)
    if not in_context:
        return ((number, TextInput(text_of(value, source, number))) for number, (value,) in rows)
    return (
        (number, parse_marked(text_of(value, source, number), f"{source}, line {number}"))
        for number, (value,) in rows
    )


def _spanned(source: str, number: int, value: Any, *span: Any) -> TextInput:
    text = text_of(value, source, number)
    start, end = (_position(value, source, number) for value in span)
    if not 0 <= start < end <= len(text):
        raise line_error(
            source,
            number,
            f"the span {start}:{end} lies outside its text of {len(text)} characters",
        )
    return TextInput(text, ((start, end),))


def _position(value: Any, source: str, number: int) -> int:
    position = parse_index(value.strip()) if isinstance(value, str) else value
    if type(position) is not int or position < 0:
        raise line_error(source, number, f"{shown(str(value))} is no position of a character")
    return position
