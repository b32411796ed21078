"""Targets that are marked in the text itself, with tags around them."""

from __future__ import annotations


def unmark(text: str, tag: str) -> tuple[str, tuple[tuple[int, int], ...]]:
    """Take ``<tag>`` and ``</tag>`` out of a text and say where the words were that they enclosed.

    Args:
        text: the text with its marks.
        tag: the name of the tag.

    Returns:
        The text without the marks, otherwise as it was, and the character span of each word in it, rising. A mark that
        is not closed is text.
    """
    pieces: list[str] = []
    spans: list[tuple[int, int]] = []
    length = done = 0
    opening, closing = f"<{tag}>", f"</{tag}>"
    # Not a regular expression: on a text of many openings and no closing it would search to the end for each.
    while (mark := text.find(opening, done)) >= 0 and (end := text.find(closing, mark + len(opening))) >= 0:
        before, word = text[done:mark], text[mark + len(opening) : end]
        start = length + len(before)
        length = start + len(word)
        spans.append((start, length))
        pieces += (before, word)
        done = end + len(closing)
    return "".join(pieces) + text[done:], tuple(spans)
