"""The texts that a user tunes on: read, cleaned, freed of duplicates, some of them held out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mirrorbench.core.errors import TuningError, UsageError
from mirrorbench.texts import formats as forms
from mirrorbench.texts.held_out import Pair, positives
from mirrorbench.texts.readers import STDIN

HELD_OUT, HELD_OUT_SHARE = 500, 0.1
"""Lines held out by default, and the most that they may be of all lines."""
PAIR_SEPARATOR = "\t"
"""Between the two texts of a line of the corpus; the texts themselves have none."""


@dataclass(frozen=True)
class Texts:
    """Distinct lines, in the order of the file.

    Attributes:
        name: of the file, for reports.
        train: what to tune on: a text, or the two texts of a pair, an element each.
        held_out: what the tuning does not see.
        are_pairs: whether lines are pairs.
        n_read: lines read, blank ones left out.
        n_duplicates: how many of them repeat an earlier one.
    """

    name: str
    train: tuple[tuple[str, ...], ...]
    held_out: tuple[tuple[str, ...], ...]
    are_pairs: bool
    n_read: int
    n_duplicates: int

    def lines(self) -> list[str]:
        """The corpus: one string a line, the texts of a pair with a tab between them."""
        return [PAIR_SEPARATOR.join(line) for line in self.train]

    def probe(self, seed: int) -> list[Pair]:
        """The held-out lines as positive pairs: those of the user, or each text and a corrupted copy."""
        if self.are_pairs:
            return [(left, right) for left, right in self.held_out]
        return positives([text for (text,) in self.held_out], seed)


def read_texts(
    source: str, columns: Sequence[str] = (), held_out: int | None = None, seed: int = 0, raw: bool = False
) -> Texts:
    """Read a file to tune on.

    Args:
        source: the file, or ``-``: text, JSON lines, a table or Parquet, perhaps compressed.
        columns: none, one, or two for pairs.
        held_out: lines to hold out, ``None`` for 500, or a tenth where that is less.
        seed: decides which.
        raw: leave lines of the form ``text1||text2`` as they are, for a method that reads them itself.

    Raises:
        UsageError: more than two columns; only some lines are pairs; nothing would be left to tune on.
        DataUnavailableError: the file cannot be read.
        DataFormatError: its content does not follow its format.
    """
    if len(columns) > 2:
        raise UsageError("texts are in one column, pairs in two", f"Got {len(columns)}: {', '.join(columns)}")
    name = "standard input" if source == STDIN else f"./{Path(source).name}"
    if len(columns) == 2:
        return _collect(name, forms.pairs(source, columns), held_out, seed)
    texts = [text for text in forms.texts(source, columns[0] if columns else "") if text.strip()]
    return from_texts(texts, name, held_out, seed, raw)


def from_texts(
    texts: Sequence[str] | Sequence[tuple[str, str]],
    name: str = "texts",
    held_out: int | None = None,
    seed: int = 0,
    raw: bool = False,
) -> Texts:
    """As ``read_texts``, of strings, of which all may be ``text1||text2``, or of pairs of strings."""
    given = list(texts)
    if any(not isinstance(text, str) for text in given):
        if not all(map(_is_pair, given)):
            odd = [value for value in given if not isinstance(value, str) and not _is_pair(value)]
            hint = f"Not so: {odd[0]!r:.90}" if odd else "Some are strings, and some are pairs."
            raise UsageError("what to tune on must be strings, or pairs of two strings", hint)
        return _collect(name, given, held_out, seed)  # type: ignore[arg-type]
    pairs = [None if raw else forms.split_pair(text) for text in given if isinstance(text, str)]
    found = [pair for pair in pairs if pair]
    if found and len(found) == len(given):
        return _collect(name, found, held_out, seed)
    if 2 * len(found) > len(given):
        row = pairs.index(None)
        raise UsageError(
            f"{name}: {len(found)} of {len(given)} lines are pairs (text1||text2), but not {given[row]!r:.90}",
            "Make all lines pairs, or none. To tune on the lines as they are, name the method: BACKBONE+mirror",
        )
    return _collect(name, ((text,) for text in given if isinstance(text, str)), held_out, seed)


def _is_pair(value: object) -> bool:
    return isinstance(value, tuple | list) and len(value) == 2 and all(isinstance(text, str) for text in value)


def _collect(name: str, lines: Iterable[tuple[str, ...]], held_out: int | None, seed: int) -> Texts:
    # A tab separates the texts of a pair, and a text of several lines is one text.
    read = [tuple(" ".join(text.split("\t")).strip() for text in line) for line in lines]
    read = [line for line in read if all(line)]
    distinct = list(dict.fromkeys(read))
    n = min(HELD_OUT, int(len(distinct) * HELD_OUT_SHARE)) if held_out is None else held_out
    if n < 0:
        raise UsageError(f"{n} lines cannot be held out")
    if n == 1:  # there is no uniformity of one text
        n = 0 if held_out is None else 2
    if len(distinct) - n < 2:
        raise TuningError(
            f"{name} holds {len(distinct)} distinct lines, of which {n} are to be held out: too few to tune on",
            "Tuning needs at least two lines; thousands are usual.",
        )
    chosen = set(np.random.default_rng(seed).permutation(len(distinct))[:n].tolist())
    train = tuple(line for row, line in enumerate(distinct) if row not in chosen)
    aside = tuple(line for row, line in enumerate(distinct) if row in chosen)
    return Texts(name, train, aside, bool(distinct) and len(distinct[0]) == 2, len(read), len(read) - len(distinct))
