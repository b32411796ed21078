"""Augmentations that rewrite a string or its token ids (paper 1, section 2.2 and footnote 13)."""

from __future__ import annotations

import numpy as np

from mirrorbench.core.errors import UsageError
from mirrorbench.core.hooks import Register, hookimpl
from mirrorbench.training.augmentations import AugmentationContext


def span_mask(text: str, context: AugmentationContext) -> str:
    """Replace ``context.rate`` (k) consecutive characters by the mask token and spaces around it (Figure 2).

    ``paper``: every position is equally likely, and exactly the drawn characters go. ``released``: the literal
    ``[MASK]`` whatever the tokenizer, strings of fewer than ``context.shortest`` characters left alone, the last
    position never drawn, and the cut made at the first place where the drawn characters occur.

    Strings of at most k characters stay as they are.
    """
    k = int(context.rate)
    if k != context.rate:
        raise UsageError(f"span_mask={context.rate:g} is not a whole number of characters")
    if len(text) <= k:
        return text
    if context.protocol == "released":
        if len(text) < context.shortest:
            return text
        drawn = int(context.rng.integers(len(text) - k))
        start = text.index(text[drawn : drawn + k])
        token = "[MASK]"
    else:
        start = int(context.rng.integers(len(text) - k + 1))
        token = context.mask_token
    return f"{text[:start]} {token} {text[start + k :]}".strip()


def token_mask(ids: list[int], context: AugmentationContext) -> list[int]:
    """Replace each token by the mask token with probability ``context.rate``; special tokens stay (footnote 13).

    Where all tokens of the text would be replaced, none is.
    """
    places = [place for place, token in enumerate(ids) if token not in context.special_ids]
    drawn = [place for place, draw in zip(places, context.rng.random(len(places)), strict=True) if draw < context.rate]
    if len(drawn) == len(places):
        return ids
    masked = list(ids)
    for place in drawn:
        masked[place] = context.mask_id
    return masked


def word_mask(text: str, context: AugmentationContext) -> str:
    """Replace each word by one mask token with probability ``context.rate`` (footnote 13).

    Words are separated by spaces. Where all words would be replaced, none is, so single words stay as they are.
    """
    words = text.split()
    drawn = context.rng.random(len(words)) < context.rate
    if drawn.all():
        return text
    return " ".join(context.mask_token if masked else word for word, masked in zip(words, drawn, strict=True))


def word_shuffle(text: str, context: AugmentationContext) -> str:
    """Reorder the words at random so that none moves further than ``context.rate`` (k) places.

    Paper 1 (footnote 13) does not define its reordering. This is the word noise of Lample et al. (2018, "Unsupervised
    Machine Translation Using Monolingual Corpora Only", section 2.3): words, separated by spaces, are sorted by their
    position plus a number drawn uniformly from [0, k + 1).
    """
    k = int(context.rate)
    if k != context.rate:
        raise UsageError(f"word_shuffle={context.rate:g} is not a whole number of places")
    words = text.split()
    order = np.argsort(np.arange(len(words)) + context.rng.random(len(words)) * (k + 1), kind="stable")
    return " ".join(words[place] for place in order)


@hookimpl
def register_augmentations(register: Register) -> None:
    """The augmentations of this module, under their spec keys."""
    register("span_mask", span_mask, on="text", description="k consecutive characters become the mask token")
    register("token_mask", token_mask, on="tokens", probability=True, description="probability that a token is masked")
    register("word_mask", word_mask, on="text", probability=True, description="probability that a word is masked")
    register("word_shuffle", word_shuffle, on="text", description="words move by at most k places")
