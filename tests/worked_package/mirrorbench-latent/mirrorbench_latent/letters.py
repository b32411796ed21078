"""The augmentation ``letter_swap``."""

from __future__ import annotations

from mirrorbench.plugin import AugmentationContext


def swap_letters(text: str, context: AugmentationContext) -> str:
    """Let neighbouring letters inside words change places, each pair with probability ``rate``.

    A letter moves at most one place: after a swap, the next pair begins behind it.
    """
    characters = list(text)
    draws = context.rng.random(len(characters))
    at = 0
    while at + 1 < len(characters):
        pair = characters[at : at + 2]
        if all(letter.isalpha() for letter in pair) and draws[at] < context.rate:
            characters[at : at + 2] = reversed(pair)
            at += 1
        at += 1
    return "".join(characters)
