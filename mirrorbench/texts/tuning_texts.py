"""Reads the texts to tune on, removes duplicates, and holds some out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import numpy as np

from mirrorbench.core.errors import TuningError, UsageError
from mirrorbench.texts.reading import STDIN, read_pairs, read_texts, split_pair

HELD_OUT, HELD_OUT_SHARE = 500, 0.1
"""Lines held out by default, and their maximum share of all lines."""


@dataclass(frozen=True)
class TuningTexts:
    """Distinct lines, in the order of the file.

    Attributes:
        name: of the file, for reports.
        train: lines to tune on: tuples of one text, or of the two texts of a pair.
        held_out: lines left out of the tuning.
        n_read: number of lines, without blank ones.
        n_duplicates: number of lines that repeat an earlier one.
    """

    name: str
    train: tuple[tuple[str, ...], ...]
    held_out: tuple[tuple[str, ...], ...]
    are_pairs: bool
    n_read: int
    n_duplicates: int

    def corpus(self) -> list[str]:
        """A string for each line; the texts of a pair, which contain no tab, are joined by a tab."""
        return ["\t".join(line) for line in self.train]


def read_tuning_texts(
    source: str | Path | Sequence[str] | Sequence[tuple[str, str]],
    columns: Sequence[str] = (),
    held_out: int | None = None,
    seed: int = 0,
    raw: bool = False,
) -> TuningTexts:
    """Read texts or pairs to tune on from a file, ``-`` or a list, and hold ``held_out`` of them out.

    Lines ``text1||text2`` are pairs unless ``raw``. By default 500 lines are held out, or a tenth where that is less.
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
    # A tab separates the texts of a pair, so tabs in texts become spaces.
    stripped = (tuple(" ".join(text.split("\t")).strip() for text in line) for line in given)
    read = [line for line in stripped if all(line)]
    distinct = list(dict.fromkeys(read))
    n = min(HELD_OUT, int(len(distinct) * HELD_OUT_SHARE)) if held_out is None else held_out
    if n < 0:
        raise UsageError(f"{n} lines cannot be held out")
    if n == 1:  # uniformity needs two texts
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
