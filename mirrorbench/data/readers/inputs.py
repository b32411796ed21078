"""Texts to encode, and words in context, from a user's file."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from mirrorbench.core.encoder_protocol import TextInput
from mirrorbench.core.errors import UsageError
from mirrorbench.core.quoting import shown
from mirrorbench.data.readers.columns import line_error, text_of
from mirrorbench.data.readers.marks import parse_marked
from mirrorbench.data.readers.rows import read_rows, silent
from mirrorbench.data.readers.values import parse_index


class Line(NamedTuple):
    """An input to encode.

    Attributes:
        number: number of its line or row, from 1.
        input: the text, or the word in it.
        kept: values of the columns named by ``keep`` of ``read_inputs``.
    """

    number: int
    input: TextInput
    kept: tuple[Any, ...] = ()


def read_inputs(
    source: str,
    column: str = "",
    in_context: bool = False,
    spans: Sequence[str] = (),
    note: Callable[[str], None] = silent,
    keep: Sequence[str] = (),
) -> Iterator[Line]:
    """Read texts to encode, or with ``in_context`` words that square brackets mark in their texts (``parse_marked``).

    Args:
        source: the file, as in ``read_rows``.
        column: the column of the texts; empty for the default.
        in_context: whether targets are marked by brackets.
        spans: instead of brackets, the columns with the positions (from 0) of a target's first character and of the one
            after its last.
        note: called with remarks on how the file is read.
        keep: columns whose values are returned beside the inputs. If there are any, all columns are names, never numbers.

    Raises:
        UsageError: ``spans`` is given without ``column``; and as ``read_rows``.
        DataFormatError: a target is missing or outside its text; and as ``read_rows``.
    """
    if spans and not column:
        raise UsageError(
            "--span-columns says where targets are, but not in which text", "Add --column NAME."
        )
    # An empty first column stands for the default one.
    columns = (column, *spans, *keep) if column or keep else ()
    rows = read_rows(source, columns, note, named=bool(keep))
    return _lines(rows, source, in_context, len(spans))


def _lines(
    rows: Iterator[tuple[int, tuple[Any, ...]]], source: str, in_context: bool, n_spans: int
) -> Iterator[Line]:
    """Yield the inputs of rows, each of which holds a text, ``n_spans`` values of its span, and values to keep."""
    for number, (value, *others) in rows:
        text = text_of(value, source, number)
        if n_spans:
            text_input = _spanned(source, number, text, *others[:n_spans])
        elif in_context:
            text_input = parse_marked(text, f"{source}, line {number}")
        else:
            text_input = TextInput(text)
        yield Line(number, text_input, tuple(others[n_spans:]))


def _spanned(source: str, number: int, text: str, *span: Any) -> TextInput:
    """Return a word in its text, given the two values of its span."""
    start, end = [_position(value, source, number) for value in span]
    if not 0 <= start < end <= len(text):
        raise line_error(
            source,
            number,
            f"the span {start}:{end} lies outside its text of {len(text)} characters",
        )
    return TextInput(text, ((start, end),))


def _position(value: Any, source: str, number: int) -> int:
    """Return the position of a character, which may be written as text."""
    position = parse_index(value.strip()) if isinstance(value, str) else value
    if type(position) is not int or position < 0:
        raise line_error(source, number, f"{shown(str(value))} is not a position of a character")
    return position
