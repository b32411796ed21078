"""Drophead: drops attention heads at random in training mode (Mirror-BERT, section 4.4, Table 7)."""

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
"""Names of the output projection of self-attention, whose input are the concatenated heads."""


def drop_heads(heads: Tensor, rate: float) -> Tensor:
    """Zero each head of each example with probability ``rate``.

    As in the paper's released code, remaining heads are scaled by the number of heads over the number of remaining ones
    in the example (not by 1 / (1 - rate)). If none remains, the result is zero; the released code divides by zero.

    Args:
        heads: shape (batch, tokens, heads, dimensions of a head).
        rate: the probability, from 0 to 1.

    Example:
        >>> import torch
        >>> from mirrorbench.training.drophead import drop_heads
        >>> drop_heads(torch.ones(1, 1, 2, 1), rate=0.0).flatten().tolist()
        [1.0, 1.0]
    """
    import torch

    n_heads = heads.shape[2]
    is_kept = torch.rand(heads.shape[0], 1, n_heads, 1, device=heads.device) >= rate
    n_kept = is_kept.sum(dim=2, keepdim=True)
    scale = n_heads / n_kept.clamp(min=1)
    return heads * (is_kept * scale).to(heads.dtype)


class Drophead:
    """Puts ``drop_heads`` before the output projection of each self-attention, in training mode only.

    The technique is that of Zhou et al. (2020, "Scheduled DropHead"); the rates in paper 1 (section 4.4, Table 7,
    footnote 12) are 0.2 for BERT and 0.05 for RoBERTa, in place of dropout: ``roberta+mirror:drophead=0.05,dropout=0``.
    """

    packs = False

    def configure(self, config: Any, rate: float) -> None:
        """Do nothing: configurations have no rate of drophead."""

    def attach(self, model: Any, rate: float) -> Callable[[], None] | None:
        """Hook into every self-attention, and return the function that removes the hooks.

        Raises:
            TuningError: the model has no self-attention in ``OUTPUT_PROJECTIONS``.
        """
        if not rate:
            return None
        suffixes = tuple(f".{name}" for name in OUTPUT_PROJECTIONS)
        projections = [
            module for name, module in model.named_modules() if f".{name}".endswith(suffixes)
        ]
        if not projections:
            problem = f"{type(model).__name__} has no self-attention that drophead knows"
            raise TuningError(
                f"{problem}, so drophead={rate:g} cannot be applied",
                "Take it out of the encoder spec.",
            )
        n_heads = model.config.num_attention_heads

        def drop_inputs(
            module: torch.nn.Module, inputs: tuple[Tensor, ...]
        ) -> tuple[Tensor, ...] | None:
            if not module.training:
                return None
            (states,) = inputs
            heads = states.view(*states.shape[:-1], n_heads, -1)
            return (drop_heads(heads, rate).flatten(-2),)

        attached = ExitStack()
        for projection in projections:
            attached.callback(projection.register_forward_pre_hook(drop_inputs).remove)
        return attached.close
