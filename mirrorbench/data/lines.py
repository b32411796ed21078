"""Lines of a corpus: a text alone, the two texts of a pair, or an id with one name or two.

Parts are separated by a tab, as columns of a table are joined, or by ``||``: ``text1||text2``, ``id||name||name``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from mirrorbench.core.errors import UsageError
from mirrorbench.core.shown import shown

PAIR_MARK = "||"
"""Separates the parts of a line in plain text."""


def fields_of(lines: Sequence[str]) -> list[list[str]]:
    """The parts of each line; a mark inside a part is text where all lines have a tab, and so is a tab otherwise."""
    first, second = ("\t", PAIR_MARK) if all("\t" in line for line in lines) else (PAIR_MARK, "\t")
    return [[part.strip() for part in line.split(first if first in line else second)] for line in lines]


def pairs_of(lines: Sequence[str], name: str, raw: bool = False) -> list[tuple[str, str]] | None:
    """The pairs that all lines are; ``None`` where they are texts.

    Args:
        lines: of a corpus, without blank ones.
        name: of the corpus, for messages.
        raw: whether ``||`` is text, as for a named method of single texts; a tab is none.

    Raises:
        UsageError: most lines are pairs, but not all.
    """
    texts = [raw and "\t" not in line for line in lines]
    pairs = [
        (own[0], own[1]) if len(own) == 2 and all(own) and not text else None
        for own, text in zip(fields_of(lines), texts, strict=True)
    ]
    found = [pair for pair in pairs if pair]
    if len(found) == len(lines):
        return found or None
    if not raw and 2 * len(found) > len(lines):
        raise UsageError(
            f"{name}: {len(found)} of {len(lines)} lines are pairs (text1||text2), "
            f"but not {shown(lines[pairs.index(None)])}",
            "Make all lines pairs, or none. To tune on the lines as they are, name the method: BACKBONE+mirror",
        )
    return None


def texts_of(lines: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """The texts that an encoder may have seen of each line: itself, and its parts but the id before two names."""
    for line, own in zip(lines, fields_of(lines), strict=True):
        yield (line, *own[-2:]) if len(own) in (2, 3) and all(own) else (line,)


def have_parts(lines: Sequence[str]) -> bool:
    """Whether any line has parts."""
    return any(len(texts) > 1 for texts in texts_of(lines))
