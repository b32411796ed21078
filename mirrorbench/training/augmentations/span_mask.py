"""Random span masking (paper 1, section 2.2): k consecutive characters become the mask token, on one side."""

from __future__ import annotations

from mirrorbench.core.errors import UsageError
from mirrorbench.core.hooks import Register, hookimpl
from mirrorbench.training.augmentations import AugmentationContext


def span_mask(text: str, context: AugmentationContext) -> str:
    """Replace ``context.rate`` (k) consecutive characters by the mask token, set off by spaces as in Figure 2.

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


@hookimpl
def register_augmentations(register: Register) -> None:
    """Span masking, under its spec key."""
    register("span_mask", span_mask, on="text", description="k consecutive characters become the mask token")
