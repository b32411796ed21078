"""The kind of task ``odd-one-out``: which of four words does not belong?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mirrorbench.plugin import (
    DataFormatError,
    Scores,
    TaskKind,
    TextInput,
    Vectors,
    cosine,
    read_lines,
)

WORDS = 4


@dataclass(frozen=True)
class OddItem:
    """Four words, and the position of the one that does not belong."""

    id: str
    words: tuple[str, ...]
    odd: int


def parse_odd(files: Mapping[str, Path], options: Mapping[str, Any]) -> list[OddItem]:
    """Read lines of four words and the odd one of them, with tabs between them.

    Raises:
        DataFormatError: a line has another form.
    """
    items = []
    for path in files.values():
        for number, line in enumerate(read_lines(path), start=1):
            where = f"{path}, line {number}"
            fields = [field.strip() for field in line.split("\t")]
            if len(fields) != WORDS + 1 or not all(fields):
                raise DataFormatError(
                    f"{where}: not {WORDS} words and the odd one of them, with tabs between them."
                )
            *words, odd = fields
            if len(set(words)) < WORDS:
                raise DataFormatError(f"{where}: a word occurs twice.")
            if odd not in words:
                raise DataFormatError(f"{where}: {odd!r} is none of the {WORDS} words.")
            items.append(OddItem(" ".join(words), tuple(words), words.index(odd)))
    return items


def found(scores: NDArray[np.float64], gold: NDArray[np.float64]) -> float | None:
    """Return the share of positive margins; a margin of zero counts as half."""
    if not len(scores):
        return None
    return float(np.mean((scores > 0) + 0.5 * (scores == 0)))


class OddOneOut(TaskKind[list[OddItem]]):
    """The encoder's answer is the word with the least mean cosine to the other three.

    The score of an item is its margin: the least mean cosine of the words that belong, minus that
    of the odd word. It is positive if the odd word is found.
    """

    item_class = OddItem
    level = "word"
    main_metric = "odd_found"

    def check(self, items: list[OddItem]) -> None:
        """Refuse empty data, ids that occur twice, and items made in code that are none."""
        self.check_ids([item.id for item in items])
        for item in items:
            if len(set(item.words)) != WORDS or not 0 <= item.odd < WORDS:
                raise DataFormatError(
                    f"item {item.id}: not {WORDS} different words with an odd one."
                )

    def inputs(self, items: list[OddItem]) -> list[TextInput]:
        """Return all words."""
        return [TextInput(word) for item in items for word in item.words]

    def texts(self, items: list[OddItem]) -> Mapping[str, tuple[str, ...]]:
        """Return the words of each item."""
        return {item.id: item.words for item in items}

    def score(self, items: list[OddItem], vectors: Vectors, protocol: str) -> Scores:
        """Return the margin of each item, and the mean margin as a second metric."""
        margins = np.array([self._margin(item, vectors) for item in items])
        ids = [item.id for item in items]
        gold = np.array([item.odd for item in items], dtype=np.float64)
        return Scores({"odd_margin": float(margins.mean())}, ids, margins, gold)

    @staticmethod
    def _margin(item: OddItem, vectors: Vectors) -> float:
        four = vectors([TextInput(word) for word in item.words])
        similar = [_similarity(four, at) for at in range(WORDS)]
        return min(value for at, value in enumerate(similar) if at != item.odd) - similar[item.odd]


def _similarity(four: NDArray[np.float32], at: int) -> float:
    """Return the mean cosine of one vector with the others."""
    others: Sequence[int] = [other for other in range(len(four)) if other != at]
    one = np.repeat(four[at : at + 1], len(others), axis=0)
    return float(np.round(cosine(one, four[others]).mean(), 9))
