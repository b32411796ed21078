"""Pooling: how the hidden states of a text become its vector."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mirrorbench.core.errors import UsageError
from mirrorbench.core.registry import unknown_name

if TYPE_CHECKING:
    import torch

POOLING_MODES = ("cls", "mean", "mean-padded", "target")

DEFAULT_MAX_LENGTH = 64
"""Tokens kept of each text, special tokens included (released code of paper 1; the paper states none). Tasks of paper 2
have lengths of their own, those of its released code (option ``max_length`` of their cards)."""


@dataclass(frozen=True, slots=True)
class Pooling:
    """A mean over layers, then one vector of the tokens.

    Attributes:
        mode: ``cls``: the first token's vector, before any pooling layer. ``mean``: the mean over all tokens that are
            not padding, special tokens included. ``mean-padded``: the mean over ``max_length`` positions, padding
            included, as the papers' released code does. ``target``: the mean over the tokens of the target word
            (paper 2, section 3); a text without a target is its own target, special tokens left out.
        layers: a Python slice over (embeddings, layer 1, ..., layer n); ``-1:`` is the last layer, ``-4:`` the mean of
            the top four.
        max_length: tokens kept of each text, special tokens included; wins over what the tokenizer's file says.
    """

    mode: str = "mean"
    layers: str = "-1:"
    max_length: int = DEFAULT_MAX_LENGTH

    def __post_init__(self) -> None:
        if self.mode not in POOLING_MODES:
            raise unknown_name("pooling", self.mode, list(POOLING_MODES))
        if not 3 <= self.max_length <= 1_000_000:
            raise UsageError(f"max_length={self.max_length} is out of range", "It must be at least 3 tokens.")
        parse_layers(self.layers)

    def __str__(self) -> str:
        # Hashed into the fingerprints of loaded encoders, so it keeps the names of when the first were stored.
        return f"Readout(pooling={self.mode!r}, layers={self.layers!r}, max_length={self.max_length!r})"

    @property
    def last_layer_only(self) -> bool:
        """Whether only the last layer is read, so that the others need not be kept."""
        return self.layers == "-1:"


def parse_layers(text: str) -> slice:
    """A slice from ``-4:``, ``1:5``, ``:`` or a single index (``-2`` is the last but one layer)."""
    match = re.fullmatch(r"(-?\d+)|(-?\d+)?:(-?\d+)?", text)
    if not match:
        raise UsageError(f"layers={text} is not a range of layers", "Write -4: (top four), 1:5, or a single layer.")
    single, start, stop = (int(end) if end else None for end in match.groups())
    return slice(start, stop) if single is None else slice(single, single + 1 or None)


def pool(
    hidden_states: tuple[torch.Tensor, ...], mask: torch.Tensor, pooling: Pooling, target: torch.Tensor | None = None
) -> torch.Tensor:
    """The vectors of a batch, in float32 of shape (batch, dimensions).

    ``hidden_states`` are the embeddings and the output of each layer, each of shape (batch, tokens, dimensions); the
    last layer alone suffices for ``layers="-1:"``. ``mask`` is 1 for tokens, 0 for padding; ``target`` the weight of
    each token in the vector of its text's target, for that mode only; both of shape (batch, tokens).
    """
    import torch

    chosen = hidden_states[parse_layers(pooling.layers)]
    if not chosen:
        raise UsageError(
            f"layers={pooling.layers} selects no layer", f"This model has layers 0 to {len(hidden_states) - 1}."
        )
    # float32 from here on: a mean over many tokens loses digits in half precision.
    states = chosen[0].float() if len(chosen) == 1 else torch.stack([h.float() for h in chosen]).mean(0)
    if pooling.mode == "cls":
        return states[:, 0]
    if pooling.mode == "mean-padded":
        return states.mean(1)
    if pooling.mode == "target":
        assert target is not None
        with torch.autocast(states.device.type, enabled=False):  # or a product would be in half precision again
            return torch.bmm(target.to(states.dtype).unsqueeze(1), states).squeeze(1)
    weights = mask.to(states.dtype).unsqueeze(-1)
    return (states * weights).sum(1) / weights.sum(1)
