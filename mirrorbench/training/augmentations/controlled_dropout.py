"""Controlled dropout (paper 1, section 4.4, Table 8 and Figure 6): the two views of a pair share every dropout mask.

It keeps dropout's regularisation without its augmentation: for identical strings f(x) = f(x-bar), in training mode.
Each mask is drawn for the first half of a micro-batch, the first views, and used again for the second half.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from mirrorbench.core.errors import TuningError
from mirrorbench.core.hooks import Register, hookimpl
from mirrorbench.training.augmentations.dropout import Dropout

if TYPE_CHECKING:
    from torch import Tensor


class ControlledDropout(Dropout):
    """Sets one rate in every dropout of the model, and shares masks between views while the tuning lasts.

    It replaces torch's functions, so it works in all architectures, for dropout layers, functional dropout and the
    dropout of fused attention alike.
    """

    packs = False

    def attach(self, model: Any, rate: float) -> Callable[[], None] | None:
        """Set the rates, and share the masks in everything that this thread computes until it is undone."""
        if not rate:
            return None
        from torch.nn import functional as F  # noqa: N812  (torch's own convention)

        from mirrorbench.training.cpu_functions import ReplacedFunctions

        super().attach(model, rate)
        stack = ExitStack()
        stack.enter_context(ReplacedFunctions({F.dropout: _dropout, F.scaled_dot_product_attention: _attention}))
        return stack.close


def _dropout(x: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    from torch.nn import functional as F  # noqa: N812

    # What all rows share (DeBERTa's relative positions) has no batch axis, and one mask already.
    if not training or p == 0 or x.dim() < 3 or len(x) % 2:
        return F.dropout(x, p, training, inplace)
    mask = F.dropout(x.new_ones(len(x) // 2, *x.shape[1:]), p)
    return x * mask.repeat(2, *[1] * (x.dim() - 1))


def _attention(
    query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None = None, dropout_p: float = 0.0,
    is_causal: bool = False, scale: float | None = None, **options: Any,
) -> Tensor:  # fmt: skip
    from torch.nn import functional as F  # noqa: N812

    from mirrorbench.training.cpu_functions import plain_attention

    if dropout_p == 0:
        return F.scaled_dot_product_attention(query, key, value, attn_mask, 0.0, is_causal, scale=scale, **options)
    if is_causal or options.get("enable_gqa"):
        raise TuningError(
            "controlled_dropout knows the attention of encoders only, and this model's is causal or grouped",
            "Take it out of the encoder spec.",
        )
    return plain_attention(query, key, value, attn_mask, scale, lambda weights: _dropout(weights, dropout_p))


@hookimpl
def register_augmentations(register: Register) -> None:
    """Controlled dropout, under its spec key."""
    text = "dropout with the same masks for both views of a pair; takes the place of dropout"
    register("controlled_dropout", ControlledDropout(), on="model", probability=True, description=text)
