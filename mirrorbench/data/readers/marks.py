"""Target words that are marked in their texts."""

from __future__ import annotations

import re

from mirrorbench.core.encoder_protocol import TextInput
from mirrorbench.core.errors import DataFormatError

_ESCAPED = (r"\[", r"\]", "\\\\")
_BRACKET = re.compile(r"(\\[\[\]\\]|[\[\]])")


def unmark(text: str, opening: str, closing: str) -> tuple[str, tuple[tuple[int, int], ...]]:
    """Remove closed marks (``<b>``, ``</b>``); returns the text and the spans that they enclosed, ascending."""
    parts: list[str] = []
    spans: list[tuple[int, int]] = []
    length = done = 0
    # Not a regular expression: on a text of many openings and no closing it would search to the end for each.
    while (mark := text.find(opening, done)) >= 0 and (
        end := text.find(closing, mark + len(opening))
    ) >= 0:
        before, word = text[done:mark], text[mark + len(opening) : end]
        start = length + len(before)
        length = start + len(word)
        spans.append((start, length))
        parts += (before, word)
        done = end + len(closing)
    return "".join(parts) + text[done:], tuple(spans)


def parse_marked(text: str, where: str = "the text") -> TextInput:
    r"""Parse a text whose target is in square brackets; several bracketed parts are one discontinuous target.

    A bracket of the text itself is written ``\[``. A missing or empty target is a ``DataFormatError``.

    >>> parse_marked("the [bank] of the river")
    TextInput(text='the bank of the river', spans=((4, 8),), language='', role='')
    """
    plain = ""
    bounds: list[int] = []
    for piece in _BRACKET.split(text):
        if piece not in ("[", "]"):
            plain += piece[-1] if piece in _ESCAPED else piece
        elif (piece == "[") == len(bounds) % 2:
            raise DataFormatError(
                f"{where}: the brackets do not match.", "A bracket of the text is written \\["
            )
        else:
            bounds.append(len(plain))
    spans = tuple(zip(bounds[::2], bounds[1::2], strict=False))
    if len(bounds) % 2 or not spans or any(not plain[a:b].strip() for a, b in spans):
        raise DataFormatError(
            f"{where}: no target word in square brackets.", hint="Mark it: the [bank] of the river"
        )
    return TextInput(plain, spans)
