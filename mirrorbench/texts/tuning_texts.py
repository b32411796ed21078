"""Texts of a tuning, from a user's file or list, some of them held out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import numpy as np

from mirrorbench.core.errors import TuningError, UsageError
from mirrorbench.core.quoting import printable, without_texts
from mirrorbench.data.readers.files import STDIN
from mirrorbench.data.readers.line_parts import pairs_of
from mirrorbench.data.readers.rows import read_strings, silent
from mirrorbench.training.held_out import HELD_OUT, HELD_OUT_SHARE


@dataclass(frozen=True)
class TuningTexts:
    """Distinct lines, in the order of the file.

    Attributes:
        name: of the file, for reports.
        train: lines to tune on: tuples of one text, or of the two texts of a pair.
        held_out: lines left out of the tuning.
        n_read: number of lines, without blank ones.
        n_duplicates: number of lines that repeat an earlier one.
        numbers: number of each line in the file or list (from 1), in the order of ``train`` and then ``held_out``.
        unit: noun for a line in messages: ``line`` of a file, ``text`` of a list.
    """

    name: str
    train: tuple[tuple[str, ...], ...]
    held_out: tuple[tuple[str, ...], ...]
    are_pairs: bool
    n_read: int
    n_duplicates: int
    numbers: tuple[int, ...] = ()
    unit: str = "line"

    @property
    def summary(self) -> str:
        """The numbers of lines that were read, are repeated, are tuned on and are held out."""
        return (
            f"{self.n_read:,} {'pairs' if self.are_pairs else 'texts'}, {self.n_duplicates:,} of them repeated; "
            f"{len(self.train):,} to tune on, {len(self.held_out):,} held out"
        )

    def corpus(self) -> list[str]:
        """Return a string for each line to tune on; the texts of a pair, which contain no tab, are joined by a tab."""
        return ["\t".join(line) for line in self.train]

    def place(self, text: str) -> str:
        """Return the place of a text, or of a text of a pair: ``./names.txt, line 3``; empty if it is none of them."""
        lines = zip(self.numbers, (*self.train, *self.held_out), strict=True)
        number = next((number for number, line in lines if text in line), None)
        return "" if number is None else f"{self.name}, {self.unit} {number}"

    def aside(self) -> tuple[str, ...]:
        """Return a string for each held-out line, as ``corpus`` does."""
        return tuple("\t".join(line) for line in self.held_out)


def read_tuning_texts(
    source: str | Path | Sequence[str] | Sequence[tuple[str, str]],
    columns: Sequence[str] = (),
    held_out: int | None = None,
    seed: int = 0,
    raw: bool = False,
    name: str = "texts",
    note: Callable[[str], None] = silent,
) -> TuningTexts:
    """Read texts or pairs to tune on from a file, ``-`` or a list called ``name``, and hold ``held_out`` of them out.

    ``pairs_of`` decides which lines are pairs. By default 500 lines are held out, or a tenth where that is less.
    """
    unit = "text"
    numbered: Iterable[tuple[int, str | tuple[str, ...]]]
    if isinstance(source, str | Path):
        name = "standard input" if source == STDIN else printable(f"./{Path(source).name}")
        unit = "line"
        numbered = read_strings(str(source), columns, note=note)
    else:
        numbered = enumerate(cast("Iterable[str | tuple[str, ...]]", source), start=1)
    numbers: list[int] = []
    given: list[str | tuple[str, ...]] = []
    for number, line in numbered:
        numbers.append(number)
        given.append(line)
    texts = [line for line in given if isinstance(line, str)]
    odd = [line for line in given if not isinstance(line, str) and not _is_pair(line)]
    if odd or 0 < len(texts) < len(given):
        example = (
            f"Not so: {type(odd[0]).__name__ if without_texts() else repr(odd[0])[:90]}"
            if odd
            else ""
        )
        hint = example or "Some are strings, and some are pairs."
        raise UsageError("what to tune on must be strings, or pairs of two strings", hint)
    if texts:
        pairs = pairs_of(texts, name, raw)
        if pairs and len(columns) < 2:
            mark = "a tab" if all("\t" in line for line in texts) else "||"
            note(
                f"{name}: each {unit} holds {mark}, so that all are pairs of texts; to tune on them as they are, name the "
                "method: BACKBONE+mirror"
            )
        given = [*pairs] if pairs else [(text,) for text in texts]
    # A tab separates the texts of a pair, so tabs in texts become spaces.
    stripped = [tuple(" ".join(text.split("\t")).strip() for text in line) for line in given]
    n_read = 0
    first_numbers: dict[tuple[str, ...], int] = {}
    for number, line in zip(numbers, stripped, strict=True):
        if all(line):
            n_read += 1
            first_numbers.setdefault(line, number)
    distinct = list(first_numbers)
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
    return TuningTexts(
        name,
        train,
        aside,
        len(distinct[0]) == 2,
        n_read,
        n_read - len(distinct),
        tuple(first_numbers[line] for line in (*train, *aside)),
        unit,
    )


def _is_pair(value: object) -> bool:
    return (
        isinstance(value, tuple | list)
        and len(value) == 2
        and all(isinstance(text, str) for text in value)
    )
