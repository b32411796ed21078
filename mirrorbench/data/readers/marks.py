"""Target words that are marked in their texts."""

from __future__ import annotations

import re

from mirrorbench.core.encoder_protocol import TextInput
from mirrorbench.core.errors import DataFormatError

_ESCAPED = (r"\[", r"\]", "\\\\")
_BRACKET = re.compile(r"(\\[\[\]\\]|[\[\]])")


def unmark(text: str, opening: str, closing: str) -> tuple[str, tuple[tuple[int, int], ...]]:
    """Remove pairs of marks (``<b>``, ``</b>``); return the text and the spans that they enclosed, ascending.

    An opening mark that is not closed stays in the text.

    >>> unmark("the <b>bank</b> of the river", "<b>", "</b>")
    ('the bank of the river', ((4, 8),))
    """
    parts: list[str] = []
    spans: list[tuple[int, int]] = []
    length = 0  # of the parts
    position = 0  # in the marked text
    # Not a regular expression: on a text of many openings and no closing it would search to the end for each.
    while True:
        mark = text.find(opening, position)
        if mark < 0:
            break
        word_start = mark + len(opening)
        word_end = text.find(closing, word_start)
        if word_end < 0:
            break
        before = text[position:mark]
        word = text[word_start:word_end]
        parts += [before, word]
        span_start = length + len(before)
        length = span_start + len(word)
        spans.append((span_start, length))
        position = word_end + len(closing)
    return "".join(parts) + text[position:], tuple(spans)


def parse_marked(text: str, where: str = "the text") -> TextInput:
    r"""Parse a text whose target is in square brackets; several bracketed parts are one discontinuous target.

    A bracket of the text itself is written ``\[``. A missing or empty target is a ``DataFormatError``.

    >>> marked = parse_marked("the [bank] of the river")
    >>> marked.text, marked.spans
    ('the bank of the river', ((4, 8),))
    """
    unmarked = ""
    spans: list[tuple[int, int]] = []
    start: int | None = None  # of the target part whose bracket is open
    for piece in _BRACKET.split(text):
        if piece in _ESCAPED:
            unmarked += piece[-1]
        elif piece == "[" and start is None:
            start = len(unmarked)
        elif piece == "]" and start is not None:
            spans.append((start, len(unmarked)))
            start = None
        elif piece in ("[", "]"):
            raise DataFormatError(
                f"{where}: the brackets do not match.", "A bracket of the text is written \\["
            )
        else:
            unmarked += piece
    is_open = start is not None
    has_blank = any(not unmarked[first:end].strip() for first, end in spans)
    if is_open or not spans or has_blank:
        raise DataFormatError(
            f"{where}: no target word in square brackets.", hint="Mark it: the [bank] of the river"
        )
    return TextInput(unmarked, tuple(spans))
