"""Pooling: how the hidden states of a text become its vector."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mirrorbench.core.errors import UsageError, unknown_name

if TYPE_CHECKING:
    import torch

POOLING_MODES = ("cls", "mean", "mean-padded", "target", "target-marked")

DEFAULT_MAX_LENGTH = 64
"""Tokens kept of each text, special tokens included (released code of paper 1; the paper states none). Paper 2's tasks
set their own (``max_length`` in their cards), from its released code."""


@dataclass(frozen=True, slots=True)
class Pooling:
    """A mean over layers, then over tokens, or the vector of one token.

    Attributes:
        mode: ``cls``: the first token's vector, before any pooling layer. ``mean``: mean over all tokens but padding,
            special tokens included. ``mean-padded``: mean over ``max_length`` positions with padding, as in the papers'
            released code. ``target``: mean over the tokens of the target word (paper 2, section 3); a text without a
            target is its own target, without special tokens; of a long text a window around the target is read.
            ``target-marked``: the same as in paper 2's released code, where the target stands between ``[`` and ``]``
            while the text is tokenised and cut at its end; then these brackets are taken out.
        layers: a Python slice of (embeddings, layer 1, ..., layer n); ``-1:`` is the last layer, ``-4:`` the mean of
            the last four.
        max_length: tokens kept of each text, special tokens included; overrides the tokenizer's setting.
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
        # Hashed into encoders' fingerprints: the old names keep stored results valid.
        return f"Readout(pooling={self.mode!r}, layers={self.layers!r}, max_length={self.max_length!r})"

    @property
    def of_target(self) -> bool:
        """Whether the vector is that of the target word."""
        return self.mode.startswith("target")

    @property
    def marked(self) -> bool:
        """Whether targets are marked while texts are tokenised."""
        return self.mode == "target-marked"

    @property
    def last_layer_only(self) -> bool:
        """Whether only the last layer is used, so that the model need not return the others."""
        return self.layers == "-1:"


def parse_layers(text: str) -> slice:
    """A slice from ``-4:``, ``1:5``, ``:`` or a single index (``-2`` is the last layer but one)."""
    match = re.fullmatch(r"(-?\d+)|(-?\d+)?:(-?\d+)?", text)
    if not match:
        raise UsageError(f"layers={text} is not a range of layers", "Write -4: (top four), 1:5, or a single layer.")
    single, start, stop = (int(end) if end else None for end in match.groups())
    return slice(start, stop) if single is None else slice(single, single + 1 or None)


def pool(
    hidden_states: tuple[torch.Tensor, ...], mask: torch.Tensor, pooling: Pooling, target: torch.Tensor | None = None
) -> torch.Tensor:
    """The vectors of a batch, float32 of shape (batch, dimensions).

    ``hidden_states``: embeddings and each layer's output, each (batch, tokens, dimensions); the last layer suffices for
    ``layers="-1:"``. ``mask``: 1 for tokens, 0 for padding; ``target``: weights of the target's tokens, for vectors of
    targets only; both (batch, tokens). Weights of several words, (batch, words, tokens), give as many vectors.
    """
    import torch

    chosen = hidden_states[parse_layers(pooling.layers)]
    if not chosen:
        raise UsageError(
            f"layers={pooling.layers} selects no layer", f"This model has layers 0 to {len(hidden_states) - 1}."
        )
    # float32 from here on: a mean over many tokens loses precision in half precision.
    states = chosen[0].float() if len(chosen) == 1 else torch.stack([h.float() for h in chosen]).mean(0)
    if pooling.mode == "cls":
        return states[:, 0]
    if pooling.mode == "mean-padded":
        return states.mean(1)
    if pooling.of_target:
        assert target is not None
        with torch.autocast(states.device.type, enabled=False):  # autocast would use half precision
            if target.dim() == 3:
                return torch.bmm(target.to(states.dtype), states)
            return torch.bmm(target.to(states.dtype).unsqueeze(1), states).squeeze(1)
    weights = mask.to(states.dtype).unsqueeze(-1)
    return (states * weights).sum(1) / weights.sum(1)
