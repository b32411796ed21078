"""Parts of a line of a corpus: a single text, the two texts of a pair, or an id with one name or two.

Parts are separated by a tab, as columns of a table are joined, or by ``||``: ``text1||text2``, ``id||name||name``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from mirrorbench.core.errors import UsageError
from mirrorbench.core.quoting import shown

PAIR_MARK = "||"
"""What separates the parts of a line of plain text."""


def fields_of(lines: Sequence[str]) -> list[list[str]]:
    """Split each line at tabs if all lines have one; otherwise at ``||``, and lines without it at tabs."""
    all_have_tabs = all("\t" in line for line in lines)
    fields = []
    for line in lines:
        separator = PAIR_MARK if PAIR_MARK in line and not all_have_tabs else "\t"
        fields.append([part.strip() for part in line.split(separator)])
    return fields


def pairs_of(lines: Sequence[str], name: str, raw: bool = False) -> list[tuple[str, str]] | None:
    """Return the pairs if all lines are pairs; ``None`` if the lines are read as single texts, or if there are none.

    Args:
        lines: lines of a corpus, without blank ones.
        name: the name of the corpus, for messages.
        raw: whether ``||`` is part of a text, as for a named method of single texts; a tab never is (default false).

    Raises:
        UsageError: most lines are pairs, but not all.
    """
    pairs = []
    texts = []
    for line, fields in zip(lines, fields_of(lines), strict=True):
        is_one_text = raw and "\t" not in line
        if not is_one_text and len(fields) == 2 and all(fields):
            pairs.append((fields[0], fields[1]))
        else:
            texts.append(line)
    if len(pairs) == len(lines):
        return pairs or None
    # If most lines are pairs, the others are probably mistakes.
    if not raw and 2 * len(pairs) > len(lines):
        problem = (
            f"{name}: {len(pairs)} of {len(lines)} lines are pairs (text1||text2), "
            f"but not {shown(texts[0])}"
        )
        hint = "Make all lines pairs, or none. To tune on the lines as they are, name the method: BACKBONE+mirror"
        raise UsageError(problem, hint)
    return None


def texts_of(lines: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Yield the texts that each line contains: the line itself, and its parts except an id before two names."""
    for line, fields in zip(lines, fields_of(lines), strict=True):
        if len(fields) in (2, 3) and all(fields):
            yield (line, *fields[-2:])
        else:
            yield (line,)


def have_parts(lines: Sequence[str]) -> bool:
    """Return whether any line has parts."""
    return any(len(texts) > 1 for texts in texts_of(lines))
