"""Faster versions of torch's functions for tuning on a CPU.

Dropout draws 16 bits a value, four values at a time (torch: 53 bits a value, on one core). Attention with dropout is
computed by its definition, as torch does on a CPU. The gradient of an embedding holds only the rows in use; torch's has
the size of the vocabulary, for each micro-batch.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, cast

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812  (torch's own convention)

from mirrorbench.models.batching import ReplacedFunctions

_STEPS = 1 << 16
"""Number of possible values of a 16-bit draw."""


def fast_cpu_functions(generator: torch.Generator | None = None) -> ReplacedFunctions:
    """Return a context in which this module's functions replace torch's.

    ``generator`` draws for dropout; by default torch's own.
    """
    replacements: dict[Callable[..., Any], Callable[..., Any]] = {
        F.dropout: partial(dropout, generator=generator),
        F.embedding: embedding,
        F.scaled_dot_product_attention: partial(attention, generator=generator),
    }
    return ReplacedFunctions(replacements, generator)


def dropout(
    x: Tensor,
    p: float = 0.5,
    training: bool = True,
    inplace: bool = False,
    generator: torch.Generator | None = None,
) -> Tensor:
    """Compute torch's ``dropout``, with ``p`` rounded to a multiple of 2^-16 and values scaled accordingly."""
    dropped_steps = round(p * _STEPS)
    if not training or not 0 < dropped_steps < _STEPS or x.device.type != "cpu":
        return F.dropout(x, p, training, inplace)
    # Each 64-bit number holds the draws of four values.
    n_numbers = -(-x.numel() // 4)
    numbers = torch.empty(n_numbers, dtype=torch.int64)
    numbers.random_(torch.iinfo(torch.int64).min, None, generator=generator)
    # From -_STEPS / 2 to _STEPS / 2 - 1.
    draws = numbers.view(torch.int16)[: x.numel()].view(x.shape)
    is_kept = draws >= dropped_steps - _STEPS // 2
    mask = is_kept.to(x.dtype).mul_(_STEPS / (_STEPS - dropped_steps))
    return x.mul_(mask) if inplace else x * mask


def attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    generator: torch.Generator | None = None,
    **options: Any,
) -> Tensor:
    """Compute torch's ``scaled_dot_product_attention`` with this module's dropout.

    Torch itself computes it without dropout, with a causal mask or other options, and on other devices than a CPU.
    """
    if not dropout_p or is_causal or any(options.values()) or query.device.type != "cpu":
        return F.scaled_dot_product_attention(
            query, key, value, attn_mask, dropout_p, is_causal, scale=scale, **options
        )
    drop = partial(dropout, p=dropout_p, generator=generator)
    return plain_attention(query, key, value, attn_mask, scale, drop)


def plain_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None,
    scale: float | None,
    drop: Callable[[Tensor], Tensor],
) -> Tensor:
    """Compute attention by its definition.

    Args:
        query: shape (..., queries, dimensions).
        key: shape (..., keys, dimensions).
        value: shape (..., keys, dimensions).
        attn_mask: true where a query may see a key, or numbers to add to the products; shape (..., queries, keys).
        scale: factor of the products, by default 1 / sqrt(dimensions).
        drop: applied to the weights, shape (..., queries, keys).
    """
    factor = query.shape[-1] ** -0.5 if scale is None else scale
    # matmul would copy what is not contiguous, and a transposed matrix more slowly.
    products = (query * factor) @ key.contiguous().transpose(-2, -1)
    if attn_mask is not None:
        summand = attn_mask
        if attn_mask.dtype == torch.bool:
            # Not minus infinity: padding far from a text sees nothing in local attention, and would become NaN.
            lowest = torch.finfo(products.dtype).min
            summand = torch.zeros_like(attn_mask, dtype=products.dtype)
            summand.masked_fill_(~attn_mask, lowest)
        products = products + summand
    return drop(products.softmax(-1)) @ value


def embedding(
    input: Tensor, weight: Tensor, padding_idx: int | None = None, *options: Any, **named: Any
) -> Tensor:
    """Compute torch's ``embedding``, with a sparse gradient if that is smaller and no other option is set."""
    # norm_type, the second option, has an effect only with max_norm, the first.
    has_option = any(options[:1]) or any(options[2:])
    for name, value in named.items():
        if value and name != "norm_type":
            has_option = True
    needs_gradient = torch.is_grad_enabled() and weight.requires_grad and weight.is_leaf
    if has_option or not needs_gradient or len(weight) <= input.numel():
        return F.embedding(input, weight, padding_idx, *options, **named)
    padding_row = None if padding_idx is None else padding_idx % len(weight)
    return cast("Tensor", _SparseEmbedding.apply(input, weight, padding_row))  # type: ignore[no-untyped-call]


class _SparseEmbedding(torch.autograd.Function):
    """Embedding with a coalesced sparse gradient, summed in torch's order and so equal bit for bit."""

    @staticmethod
    def forward(ctx: Any, ids: Tensor, weight: Tensor, padding_row: int | None) -> Tensor:
        ctx.save_for_backward(ids)
        ctx.shape = weight.shape
        ctx.padding_row = padding_row
        return F.embedding(ids, weight)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[None, Tensor, None]:
        (ids,) = ctx.saved_tensors
        rows, indices = ids.unique(return_inverse=True)
        values = torch.ops.aten.embedding_dense_backward(
            gradients[0], indices, len(rows), -1, False
        )
        if ctx.padding_row is not None:
            values[rows == ctx.padding_row] = 0
        gradient = torch.sparse_coo_tensor(
            rows[None], values, ctx.shape, is_coalesced=True, check_invariants=False
        )
        return None, gradient, None
