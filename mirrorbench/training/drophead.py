"""Drophead: attention heads that are dropped at random, in training mode (Mirror-BERT, section 4.4, Table 7)."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from mirrorbench.core.errors import TuningError

if TYPE_CHECKING:
    import torch
    from torch import Tensor

OUTPUT_PROJECTIONS = (
    "attention.output.dense",  # BERT, RoBERTa, XLM-R, CamemBERT, ELECTRA, DeBERTa v1 and v2
    "attn.Wo",  # ModernBERT
    "attention.out_lin",  # DistilBERT
    "attention.attn.o",  # MPNet
    "attention.dense",  # ALBERT
)
"""Names of the output projection of self-attention, whose input is the concatenated heads."""


def drop_heads(heads: Tensor, rate: float) -> Tensor:
    """Zero each head of each example with probability ``rate``; shape (batch, tokens, heads, dimensions of a head).

    As in the paper's released code, kept heads are scaled by the number of heads over the number *kept* in the example
    (not by 1 / (1 - rate)). If none is kept, the result is zero; the released code divides by zero there.
    """
    import torch

    n_heads = heads.shape[2]
    kept = torch.rand(heads.shape[0], 1, n_heads, 1, device=heads.device) >= rate
    scale = n_heads / kept.sum(dim=2, keepdim=True).clamp(min=1)
    return heads * (kept * scale).to(heads.dtype)


class Drophead:
    """Puts ``drop_heads`` before the output projection of each self-attention, in training mode only.

    The technique is that of Zhou et al. (2020, "Scheduled DropHead"); the rates in paper 1 (section 4.4, Table 7,
    footnote 12) are 0.2 for BERT and 0.05 for RoBERTa, in place of dropout: ``roberta+mirror:drophead=0.05,dropout=0``.
    """

    packs = False

    def configure(self, config: Any, rate: float) -> None:
        """Do nothing: configurations have no such rate."""

    def attach(self, model: Any, rate: float) -> Callable[[], None] | None:
        """Hook into every self-attention; return the function that removes the hooks. ``TuningError`` without any."""
        if not rate:
            return None
        suffixes = tuple(f".{name}" for name in OUTPUT_PROJECTIONS)
        projections = [m for name, m in model.named_modules() if f".{name}".endswith(suffixes)]
        if not projections:
            unknown = f"{type(model).__name__} has no self-attention that drophead knows"
            raise TuningError(
                f"{unknown}, so drophead={rate:g} cannot be applied",
                "Take it out of the encoder spec.",
            )
        n_heads = model.config.num_attention_heads

        def before(
            module: torch.nn.Module, inputs: tuple[Tensor, ...]
        ) -> tuple[Tensor, ...] | None:
            if not module.training:
                return None
            (states,) = inputs
            heads = states.view(*states.shape[:-1], n_heads, -1)
            return (drop_heads(heads, rate).flatten(-2),)

        attached = ExitStack()
        for module in projections:
            attached.callback(module.register_forward_pre_hook(before).remove)
        return attached.close
