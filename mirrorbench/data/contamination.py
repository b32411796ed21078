"""Contamination: which test items contain texts that an encoder was tuned on.

Texts are compared after Unicode normalisation (NFKC), case folding and collapsing of white space; punctuation counts.
A corpus holds texts only: the labels of contaminated items were not seen.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

NORMALISATION = "NFKC, case folded, white space collapsed"
"""How texts are compared, as stated in results and tables."""

NONE, SOME, ALL = 0, 1, 2
"""How much of an item is in the corpus: none, some or all of its texts."""


@dataclass(frozen=True)
class Contamination:
    """For each item (by id): ``NONE``, ``SOME`` or ``ALL`` of its texts are in the corpus."""

    found: Mapping[str, int]

    def share(self, least: int) -> float:
        """Share of items with at least ``SOME`` text in the corpus, or with ``ALL`` (e.g. both sentences of a pair)."""
        return sum(value >= least for value in self.found.values()) / len(self.found)

    def flags(self, ids: Sequence[str]) -> NDArray[np.int8]:
        """The values of these items, in their order."""
        return np.array([self.found[item] for item in ids], dtype=np.int8)

    def to_json(self) -> dict[str, Any]:
        """The ``overlap`` object of a result file."""
        return {
            "n_items": len(self.found), "any_text": self.share(SOME), "all_texts": self.share(ALL),
            "normalisation": NORMALISATION,
        }  # fmt: skip


def find_contamination(texts: Mapping[str, Sequence[str]], corpus: Iterable[str]) -> Contamination | None:
    """Which items have texts that occur in a corpus; ``texts``: each item's texts by its id, no texts give ``None``."""
    if not texts:
        return None
    known = _normalised_texts(tuple(corpus))
    found = {}
    for item, own in texts.items():
        hits = [normalised(text) in known for text in own]
        found[item] = ALL if hits and all(hits) else SOME if any(hits) else NONE
    return Contamination(found)


def normalised(text: str) -> str:
    """A text in the form in which texts are compared."""
    # NFKC twice: case folding may undo the normal form, and NFKC may produce capitals (Unicode, definition D146).
    return " ".join(unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold()).split())


@lru_cache(maxsize=4)
def _normalised_texts(corpus: tuple[str, ...]) -> frozenset[str]:
    return frozenset(map(normalised, corpus))
