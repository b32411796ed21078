"""Contamination: which test items hold texts that an encoder was tuned on.

Two texts are the same where they are equal after Unicode normalisation (NFKC), case folding, and with every run of
white space as one space and none at the ends. Punctuation counts. What a corpus holds is its texts, not its labels: an
contaminated item was seen, but not its answer.
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
"""How texts are compared, in a few words for results and tables."""

NONE, SOME, ALL = 0, 1, 2
"""How much of an item is in a corpus: no text, some of its texts, all of them."""


@dataclass(frozen=True)
class Contamination:
    """How much of a task is in a corpus.

    Attributes:
        found: for each item (by id) ``NONE``, ``SOME`` or ``ALL``.
    """

    found: Mapping[str, int]

    def share(self, least: int) -> float:
        """Share of items of which at least ``SOME`` text is in the corpus, or ``ALL`` (both sentences of a pair)."""
        return sum(value >= least for value in self.found.values()) / len(self.found)

    def flags(self, ids: Sequence[str]) -> NDArray[np.int8]:
        """``found`` for these items, in their order."""
        return np.array([self.found[item] for item in ids], dtype=np.int8)

    def to_json(self) -> dict[str, Any]:
        """The ``overlap`` object of a result file."""
        return {
            "n_items": len(self.found), "any_text": self.share(SOME), "all_texts": self.share(ALL),
            "normalisation": NORMALISATION,
        }  # fmt: skip


def find_contamination(texts: Mapping[str, Sequence[str]], corpus: Iterable[str]) -> Contamination | None:
    """Which items have texts that occur in a corpus.

    Args:
        texts: the texts of each item, by its id (``Task.texts``); where there are none, the answer is ``None``.
        corpus: the strings of the corpus.
    """
    if not texts:
        return None
    known = _normalised_texts(tuple(corpus))
    found = {}
    for item, own in texts.items():
        hits = [normalised(text) in known for text in own]
        found[item] = ALL if hits and all(hits) else SOME if any(hits) else NONE
    return Contamination(found)


def normalised(text: str) -> str:
    """A text as it is compared: see the module."""
    # Case folding may undo the normal form, and normalising may bring capitals: Unicode, definition D146.
    return " ".join(unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold()).split())


@lru_cache(maxsize=4)
def _normalised_texts(corpus: tuple[str, ...]) -> frozenset[str]:
    return frozenset(map(normalised, corpus))
