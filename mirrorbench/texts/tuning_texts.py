"""The texts that a user tunes on: read, cleaned, freed of duplicates, some of them held out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import numpy as np

from mirrorbench.core.errors import TuningError, UsageError
from mirrorbench.texts.reading import STDIN, read_pairs, read_texts, split_pair

HELD_OUT, HELD_OUT_SHARE = 500, 0.1
"""Lines held out by default, and the most that they may be of all lines."""


@dataclass(frozen=True)
class TuningTexts:
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

    def corpus(self) -> list[str]:
        """One string a line, the texts of a pair with a tab between them, which the texts themselves do not hold."""
        return ["\t".join(line) for line in self.train]


def read_tuning_texts(
    source: str | Path | Sequence[str] | Sequence[tuple[str, str]],
    columns: Sequence[str] = (),
    held_out: int | None = None,
    seed: int = 0,
    raw: bool = False,
) -> TuningTexts:
    """Take texts to tune on from a file or a list.

    Args:
        source: a file (text, JSON lines, a table or Parquet, perhaps compressed), ``-``, a list of texts, of which all
            may be ``text1||text2``, or a list of pairs of texts.
        columns: of a file: none, one, or two for pairs.
        held_out: lines to hold out, ``None`` for 500, or a tenth where that is less.
        seed: decides which.
        raw: leave lines of the form ``text1||text2`` as they are, for a method that reads them itself.

    Raises:
        UsageError: more than two columns; neither texts nor pairs; only some lines are pairs.
        TuningError: nothing would be left to tune on.
        DataUnavailableError: the file cannot be read.
        DataFormatError: its content does not follow its format.
    """
    name, lines = "texts", cast("Iterable[str | tuple[str, ...]]", source)
    if isinstance(source, str | Path):
        if len(columns) > 2:
            raise UsageError("texts are in one column, pairs in two", f"Got {len(columns)}: {', '.join(columns)}")
        name = "standard input" if source == STDIN else f"./{Path(source).name}"
        if len(columns) == 2:
            lines = read_pairs(str(source), columns)
        else:
            lines = (text for text in read_texts(str(source), *columns) if text.strip())
    given = list(lines)
    texts = [line for line in given if isinstance(line, str)]
    odd = [line for line in given if not isinstance(line, str) and not _is_pair(line)]
    if odd or 0 < len(texts) < len(given):
        hint = f"Not so: {odd[0]!r:.90}" if odd else "Some are strings, and some are pairs."
        raise UsageError("what to tune on must be strings, or pairs of two strings", hint)
    pairs = [None if raw else split_pair(text) for text in texts]
    found = [pair for pair in pairs if pair]
    if len(texts) < 2 * len(found) < 2 * len(texts):
        raise UsageError(
            f"{name}: {len(found)} of {len(texts)} lines are pairs (text1||text2), "
            f"but not {texts[pairs.index(None)]!r:.90}",
            "Make all lines pairs, or none. To tune on the lines as they are, name the method: BACKBONE+mirror",
        )
    if texts:
        given = [*found] if len(found) == len(texts) else [(text,) for text in texts]
    # A tab stands between the texts of a pair; a text of several lines is one text.
    stripped = (tuple(" ".join(text.split("\t")).strip() for text in line) for line in given)
    read = [line for line in stripped if all(line)]
    distinct = list(dict.fromkeys(read))
    n = min(HELD_OUT, int(len(distinct) * HELD_OUT_SHARE)) if held_out is None else held_out
    if n < 0:
        raise UsageError(f"{n} lines cannot be held out")
    if n == 1:  # there is no uniformity of one text
        n = 0 if held_out is None else 2
    if len(distinct) - n < 2:
        problem = f"{name} holds {len(distinct)} distinct lines, of which {n} are to be held out: too few to tune on"
        raise TuningError(problem, "Tuning needs at least two lines; thousands are usual.")
    chosen = set(np.random.default_rng(seed).permutation(len(distinct))[:n].tolist())
    train = tuple(line for row, line in enumerate(distinct) if row not in chosen)
    aside = tuple(line for row, line in enumerate(distinct) if row in chosen)
    return TuningTexts(name, train, aside, len(distinct[0]) == 2, len(read), len(read) - len(distinct))


def _is_pair(value: object) -> bool:
    return isinstance(value, tuple | list) and len(value) == 2 and all(isinstance(text, str) for text in value)
