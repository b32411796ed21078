"""Parts of a line of a corpus: a text alone, the two texts of a pair, or an id with one name or two.

Parts are separated by a tab, as columns of a table are joined, or by ``||``: ``text1||text2``, ``id||name||name``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from mirrorbench.core.errors import UsageError
from mirrorbench.core.quoting import shown

PAIR_MARK = "||"
"""Mark between the parts of a line of plain text."""


def fields_of(lines: Sequence[str]) -> list[list[str]]:
    """Split each line at tabs if all lines have one, otherwise at ``||`` or, in lines without it, at tabs."""
    first, second = ("\t", PAIR_MARK) if all("\t" in line for line in lines) else (PAIR_MARK, "\t")
    return [
        [part.strip() for part in line.split(first if first in line else second)] for line in lines
    ]


def pairs_of(lines: Sequence[str], name: str, raw: bool = False) -> list[tuple[str, str]] | None:
    """Return the pairs that all lines are; ``None`` where they are texts.

    Args:
        lines: of a corpus, without blank ones.
        name: of the corpus, for messages.
        raw: whether ``||`` is text, as for a named method of single texts; a tab is none.

    Raises:
        UsageError: most lines are pairs, but not all.
    """
    texts = [raw and "\t" not in line for line in lines]
    candidates = [
        (own[0], own[1]) if len(own) == 2 and all(own) and not text else None
        for own, text in zip(fields_of(lines), texts, strict=True)
    ]
    pairs = [pair for pair in candidates if pair]
    if len(pairs) == len(lines):
        return pairs or None
    if not raw and 2 * len(pairs) > len(lines):
        text = shown(lines[candidates.index(None)])
        problem = (
            f"{name}: {len(pairs)} of {len(lines)} lines are pairs (text1||text2), but not {text}"
        )
        hint = "Make all lines pairs, or none. To tune on the lines as they are, name the method: BACKBONE+mirror"
        raise UsageError(problem, hint)
    return None


def texts_of(lines: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Return the texts of each line that count as seen: itself, and its parts but the id before two names."""
    for line, own in zip(lines, fields_of(lines), strict=True):
        yield (line, *own[-2:]) if len(own) in (2, 3) and all(own) else (line,)


def have_parts(lines: Sequence[str]) -> bool:
    """Return whether any line has parts."""
    return any(len(texts) > 1 for texts in texts_of(lines))
