"""Whole-word masking (paper 1, footnote 13): whole words become the mask token."""

from __future__ import annotations

from mirrorbench.core.hooks import Register, hookimpl
from mirrorbench.training.augmentations import AugmentationContext


def word_mask(text: str, context: AugmentationContext) -> str:
    """Replace each word by one mask token with probability ``context.rate``.

    Words are separated by spaces. Where all words would be replaced, none is, so single words stay as they are.
    """
    words = text.split()
    drawn = context.rng.random(len(words)) < context.rate
    if drawn.all():
        return text
    return " ".join(context.mask_token if masked else word for word, masked in zip(words, drawn, strict=True))


@hookimpl
def register_augmentations(register: Register) -> None:
    """Whole-word masking, under its spec key."""
    register("word_mask", word_mask, on="text", probability=True, description="probability that a word is masked")
