"""Word reordering (paper 1, footnote 13): words change places with words nearby."""

from __future__ import annotations

import numpy as np

from mirrorbench.core.errors import UsageError
from mirrorbench.core.hooks import Register, hookimpl
from mirrorbench.training.augmentations import AugmentationContext


def word_shuffle(text: str, context: AugmentationContext) -> str:
    """Reorder the words at random so that none moves further than ``context.rate`` (k) places.

    The paper does not define its reordering. This is the word noise of Lample et al. (2018, "Unsupervised Machine
    Translation Using Monolingual Corpora Only", section 2.3): words, separated by spaces, are sorted by their position
    plus a number drawn uniformly from [0, k + 1).
    """
    k = int(context.rate)
    if k != context.rate:
        raise UsageError(f"word_shuffle={context.rate:g} is not a whole number of places")
    words = text.split()
    order = np.argsort(np.arange(len(words)) + context.rng.random(len(words)) * (k + 1), kind="stable")
    return " ".join(words[place] for place in order)


@hookimpl
def register_augmentations(register: Register) -> None:
    """Word reordering, under its spec key."""
    register("word_shuffle", word_shuffle, on="text", description="words move by at most k places")
