"""Attention whose dropout a CPU draws quickly.

Torch's attention with dropout on a CPU is the plain products and a dropout that draws slowly; so is this one, with the
quick draws of ``mirrorbench.training.quick_dropout``.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch.nn import functional as F  # noqa: N812  (torch's own convention)

from mirrorbench.training.quick_dropout import dropout

FEW = 3
"""Tokens of a text up to which the products are written out: matrices as small as those of single words torch
multiplies one element at a time on a CPU, which takes twice as long and more."""


def attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_mask: torch.Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    generator: torch.Generator | None = None,
    **options: Any,
) -> torch.Tensor:
    """As ``torch.nn.functional.scaled_dot_product_attention``.

    Args:
        query: shape (..., queries, dimensions).
        key: shape (..., keys, dimensions).
        value: shape (..., keys, dimensions of a value).
        attn_mask: true where a query may look, or what is added to the products; broadcasts to (..., queries, keys).
        dropout_p: probability of each weight to be dropped; without it everything is left to torch.
        is_causal: left to torch.
        scale: of the products; by default one over the root of the dimensions.
        generator: draws; torch's own by default.
        options: left to torch.
    """
    if not dropout_p or is_causal or any(options.values()) or query.is_nested or query.device.type != "cpu":
        more = {"dropout_p": dropout_p, "is_causal": is_causal, "scale": scale, **options}
        return F.scaled_dot_product_attention(query, key, value, attn_mask, **more)
    return attended(query, key, value, attn_mask, scale, partial(dropout, p=dropout_p, generator=generator))


def attended(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_mask: torch.Tensor | None,
    scale: float | None,
    drop: Callable[[torch.Tensor], torch.Tensor],
) -> torch.Tensor:
    """Attention by its definition; ``drop`` gets the weights, shape (..., queries, keys), the rest is as above."""
    factor = query.shape[-1] ** -0.5 if scale is None else scale
    few = query.device.type == "cpu" and max(query.shape[-2], key.shape[-2]) <= FEW
    query = query * factor
    if few:
        products = (query[..., None, :] * key[..., None, :, :]).sum(-1)
    else:  # the product copies what is not contiguous, and a transposed matrix more slowly
        products = query @ key.contiguous().transpose(-2, -1)
    if attn_mask is not None:
        products = products + _added(attn_mask, products.dtype)
    weights = drop(products.softmax(-1))
    return (weights[..., None] * value[..., None, :, :]).sum(-2) if few else weights @ value


def _added(mask: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """What a mask adds to the products."""
    if mask.dtype != torch.bool:
        return mask
    return torch.zeros_like(mask, dtype=dtype).masked_fill_(~mask, float("-inf"))
