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
    """Distinct lines of a file or list, in their order, some of them held out of the tuning.

    Attributes:
        name: name of the file, for reports.
        train: lines to tune on: tuples of one text, or of the two texts of a pair.
        held_out: lines left out of the tuning.
        are_pairs: whether each line is a pair of texts.
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
        """The numbers of all lines, of repeated ones, of those to tune on, and of held-out ones, as a sentence."""
        noun = "pairs" if self.are_pairs else "texts"
        return (
            f"{self.n_read:,} {noun}, {self.n_duplicates:,} of them repeated; "
            f"{len(self.train):,} to tune on, {len(self.held_out):,} held out"
        )

    def corpus(self) -> list[str]:
        """Return a string for each line to tune on; the two texts of a pair are joined by a tab, which neither contains."""
        return ["\t".join(line) for line in self.train]

    def place(self, text: str) -> str:
        """Return the place of a text, or of a text of a pair: ``./names.txt, line 3``; empty for other texts."""
        lines = (*self.train, *self.held_out)
        for number, line in zip(self.numbers, lines, strict=True):
            if text in line:
                return f"{self.name}, {self.unit} {number}"
        return ""

    def held_out_corpus(self) -> tuple[str, ...]:
        """Return a string for each held-out line, as ``corpus`` does for the lines to tune on."""
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
    """Read texts or pairs to tune on, each distinct one once, and hold some of them out.

    Args:
        source: a file, ``-`` for standard input, or a list of texts or pairs.
        columns: names of columns in a file: one for texts, two for pairs.
        held_out: number of lines to hold out; by default 500, or a tenth where that is less.
        seed: seed of the choice of held-out lines.
        raw: take each line as one text, even if all lines could be read as pairs (``pairs_of``).
        name: name of a list, for reports; a file has its own.
        note: receives what was decided about the lines, such as that they are pairs.

    Raises:
        UsageError: the source mixes texts and pairs or has other values, or ``held_out`` is negative.
        TuningError: fewer than two lines would be left to tune on.
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
    values: list[str | tuple[str, ...]] = []
    for number, value in numbered:
        numbers.append(number)
        values.append(value)
    # A line is a tuple of one text or of two; all lines have as many.
    lines: Sequence[tuple[str, ...]]
    texts = _checked_texts(values)
    if texts:
        # Each text may be a pair, written as one line.
        pairs = pairs_of(texts, name, raw)
        # Whoever named two columns knows that they are pairs.
        if pairs and len(columns) < 2:
            note(_note_on_pairs(texts, name, unit))
        lines = pairs or [(text,) for text in texts]
    else:
        lines = [value for value in values if not isinstance(value, str)]

    # Distinct lines in their order, each with the number of the first line that has its texts; blank ones are skipped.
    n_read = 0
    first_numbers: dict[tuple[str, ...], int] = {}
    for number, line in zip(numbers, lines, strict=True):
        # A tab separates the texts of a pair, so tabs in texts become spaces.
        stripped = tuple(text.replace("\t", " ").strip() for text in line)
        if all(stripped):
            n_read += 1
            first_numbers.setdefault(stripped, number)
    distinct = list(first_numbers)
    n_held_out = _n_held_out(len(distinct), held_out)
    if len(distinct) - n_held_out < 2:
        problem = (
            f"{name} holds {len(distinct)} distinct lines, of which {n_held_out} are to be held out"
        )
        raise TuningError(
            f"{problem}: too few to tune on",
            "Tuning needs at least two lines; thousands are usual.",
        )
    # The lines to hold out are drawn at random; both parts keep the order of the file.
    order = np.random.default_rng(seed).permutation(len(distinct))
    held_out_rows = set(order[:n_held_out].tolist())
    train = tuple(line for row, line in enumerate(distinct) if row not in held_out_rows)
    held_out_lines = tuple(line for row, line in enumerate(distinct) if row in held_out_rows)
    return TuningTexts(
        name,
        train,
        held_out_lines,
        are_pairs=len(distinct[0]) == 2,
        n_read=n_read,
        n_duplicates=n_read - len(distinct),
        numbers=tuple(first_numbers[line] for line in (*train, *held_out_lines)),
        unit=unit,
    )


def _note_on_pairs(texts: Sequence[str], name: str, unit: str) -> str:
    """Return the note that lines without columns were read as pairs, and how to read them as texts."""
    mark = "a tab" if all("\t" in text for text in texts) else "||"
    return (
        f"{name}: each {unit} holds {mark}, so that all are pairs of texts; to tune on them as they are, name the "
        "method: BACKBONE+mirror"
    )


def _checked_texts(values: Sequence[str | tuple[str, ...]]) -> list[str]:
    """Return the values if all are texts, or an empty list if all are pairs.

    Raises:
        UsageError: some are texts and some pairs, or one is something else.
    """
    texts = [value for value in values if isinstance(value, str)]
    others = [value for value in values if not isinstance(value, str) and not _is_pair(value)]
    hint = ""
    if others:
        example = type(others[0]).__name__ if without_texts() else repr(others[0])[:90]
        hint = f"One is not: {example}"
    elif 0 < len(texts) < len(values):
        hint = "Some are strings, and some are pairs."
    if hint:
        raise UsageError("what to tune on must be strings, or pairs of two strings", hint)
    return texts


def _is_pair(value: object) -> bool:
    if not isinstance(value, tuple | list) or len(value) != 2:
        return False
    return all(isinstance(text, str) for text in value)


def _n_held_out(n_lines: int, requested: int | None) -> int:
    """Return the number of lines to hold out, by default 500, or a tenth if that is less; never 1.

    Uniformity is measured on at least two texts, so a requested 1 becomes 2, and a default of 1 becomes 0.

    Raises:
        UsageError: ``requested`` is negative.
    """
    if requested is None:
        n = min(HELD_OUT, int(n_lines * HELD_OUT_SHARE))
        return n if n > 1 else 0
    if requested < 0:
        raise UsageError(f"{requested} lines cannot be held out")
    return 2 if requested == 1 else requested
