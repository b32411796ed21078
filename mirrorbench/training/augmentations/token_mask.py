"""Random token masking (paper 1, footnote 13): single tokens become the mask token."""

from __future__ import annotations

from mirrorbench.core.hooks import Register, hookimpl
from mirrorbench.training.augmentations import AugmentationContext


def token_mask(ids: list[int], context: AugmentationContext) -> list[int]:
    """Replace each token by the mask token with probability ``context.rate``; special tokens stay.

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


@hookimpl
def register_augmentations(register: Register) -> None:
    """Token masking, under its spec key."""
    register("token_mask", token_mask, on="tokens", probability=True, description="probability that a token is masked")
