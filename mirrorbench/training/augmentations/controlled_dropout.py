"""Controlled dropout (paper 1, section 4.4, Table 8 and Figure 6): the two views of a pair share every dropout mask.

It keeps dropout's regularisation and takes away its augmentation: for identical strings f(x) = f(x-bar), in training
mode. The tuning loop computes the two views of a pair in one pass, the first views in the first half of the batch and
the second views at the same places of the second half; every mask is drawn for one half and used for both.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mirrorbench.core.errors import TuningError
from mirrorbench.core.hooks import Register, hookimpl
from mirrorbench.training.augmentations.dropout import Dropout


class ControlledDropout(Dropout):
    """Sets one rate in every dropout of the model, and mirrors their masks while the tuning lasts.

    The masks are mirrored where torch computes them, for all architectures alike: dropout layers, functional dropout
    and the dropout of attention probabilities inside fused attention.
    """

    packs = False

    def attach(self, model: Any, rate: float) -> Callable[[], None] | None:
        """Check the rates, and mirror the masks of everything that this thread computes from now on.

        Raises:
            TuningError: as for ``dropout``.
        """
        if not rate:
            return None
        super().attach(model, rate)
        mode = _mirrored_masks()
        mode.__enter__()
        return lambda: mode.__exit__(None, None, None)


def _mirrored_masks() -> Any:
    """A torch mode under which the masks of dropout are the same in both halves of a batch."""
    import torch
    from torch.nn import functional as F  # noqa: N812  (torch's own convention)
    from torch.overrides import TorchFunctionMode

    from mirrorbench.training.attention import attended

    def dropout(x: torch.Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> torch.Tensor:
        # What is shared by all rows (DeBERTa's relative positions) has no batch axis, and one mask already.
        paired = x.dim() >= 3 and x.shape[0] % 2 == 0
        if not training or p == 0 or not paired:
            return F.dropout(x, p, training, inplace)
        mask = F.dropout(torch.ones_like(x[: len(x) // 2]), p)
        return x * mask.repeat(2, *[1] * (x.dim() - 1))

    def attention(
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        attn_mask: torch.Tensor | None = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        scale: float | None = None,
        **options: Any,
    ) -> torch.Tensor:
        if dropout_p == 0:
            return F.scaled_dot_product_attention(query, key, value, attn_mask, 0.0, is_causal, scale=scale, **options)
        if is_causal or options.get("enable_gqa"):
            raise TuningError(
                "controlled_dropout knows the attention of encoders only, and this model's is causal or grouped",
                "Take it out of the encoder spec.",
            )
        return attended(query, key, value, attn_mask, scale, lambda weights: dropout(weights, dropout_p))

    replaced: dict[Any, Callable[..., torch.Tensor]] = {
        F.dropout: dropout,
        F.scaled_dot_product_attention: attention,
    }

    class MirroredMasks(TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return replaced.get(func, func)(*args, **(kwargs or {}))

    return MirroredMasks()


@hookimpl
def register_augmentations(register: Register) -> None:
    """Controlled dropout, under its spec key."""
    register(
        "controlled_dropout",
        ControlledDropout(),
        on="model",
        probability=True,
        description="dropout with the same masks for both views of a pair; takes the place of dropout",
    )
