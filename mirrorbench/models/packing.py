"""Packed batches: texts concatenated in one row without padding, with attention within each text.

Works for architectures (``can_pack``) that accept position ids and compute attention with
``torch.nn.functional.scaled_dot_product_attention``; not for code that takes the first axis of a batch for its texts,
as some augmentations do.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F  # noqa: N812  (torch's own convention)
from torch.overrides import TorchFunctionMode

from mirrorbench.models.backbones import first_position
from mirrorbench.models.batching import Ragged

BERT_LIKE = ("bert", "roberta", "xlm-roberta", "camembert", "electra")
"""Architectures that add position embeddings to the token embeddings and mask only padding."""


def can_pack(model: Any) -> bool:
    """Whether the model can read packed batches."""
    config = model.config
    return uses_plain_masks(config) and not getattr(config, "is_decoder", False)


def uses_plain_masks(config: Any) -> bool:
    """Whether attention is torch's own, and masks only padding."""
    return config.model_type in BERT_LIKE and config._attn_implementation == "sdpa"


@dataclass(frozen=True, slots=True)
class Packing:
    """Positions of a batch's texts in one row of all tokens, and in a padded matrix with one text per row."""

    n: int
    width: int
    """Length of the longest text."""
    shortest: int
    starts: Tensor
    """Where each text starts in the row, and where the last one ends; shape (n + 1,)."""
    tokens: Tensor
    """For each cell of the matrix, row by row, the index of its token; any index for padding."""
    places: Tensor
    """For each token its cell in the matrix."""
    real: Tensor
    """Where the matrix holds tokens, shape (n, width)."""

    @classmethod
    def of(cls, ids: Ragged, move: Callable[[NDArray[Any]], Tensor]) -> Packing:
        """From token ids; ``move`` copies an array to the device."""
        lengths = ids.lengths
        width = int(lengths.max())
        real = ids.mask(width)
        tokens = np.where(real, ids.starts[:-1, None] + np.arange(width), 0).ravel()
        arrays = (ids.starts, tokens, np.flatnonzero(real.ravel()), real)
        return cls(len(ids), width, int(lengths.min()), *(move(array) for array in arrays))

    @property
    def even(self) -> bool:
        """Whether all texts have one length, so that row and matrix agree."""
        return self.shortest == self.width

    def padded(self, values: Tensor) -> Tensor:
        """From the row, shape (tokens, ...), to the matrix, shape (n, width, ...)."""
        rows = values if self.even else values.index_select(0, self.tokens)
        return rows.view(self.n, self.width, *values.shape[1:])

    def packed(self, values: Tensor) -> Tensor:
        """From the matrix to the row."""
        rows = values.reshape(self.n * self.width, *values.shape[2:])
        return rows if self.even else rows.index_select(0, self.places)


class PackedAttention(TorchFunctionMode):
    """A context in which attention over the row of a packed batch stays within each text."""

    def __init__(self, packing: Packing) -> None:
        super().__init__()
        self.packing = packing

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Replace ``scaled_dot_product_attention`` only."""
        call = self._attention if func is F.scaled_dot_product_attention else func
        return call(*args, **(kwargs or {}))

    def _attention(
        self, *states: Tensor, attn_mask: Any = None, dropout_p: float = 0.0, scale: float | None = None, **_: Any
    ) -> Tensor:
        """Attention for query, key and value of shape (1, heads, tokens, dimensions of a head).

        The mask is ignored, because the row has no padding. No encoder sets other options, such as ``is_causal``.
        """
        half = states[0].dtype in (torch.bfloat16, torch.float16)
        within = nested_attention if states[0].device.type == "cuda" and half else padded_attention
        query, key, value = (part[0].transpose(0, 1) for part in states)
        return within(self.packing, query, key, value, dropout_p=dropout_p, scale=scale).transpose(0, 1)[None]


def padded_attention(packing: Packing, *states: Tensor, dropout_p: float = 0.0, scale: float | None = None) -> Tensor:
    """Attention within each text on any device, with padding for this step only.

    Query, key and value have shape (tokens, heads, dimensions of a head).
    """
    query, key, value = (packing.padded(part).transpose(1, 2) for part in states)
    mask = None if packing.even else packing.real[:, None, None, :]
    found = F.scaled_dot_product_attention(query, key, value, mask, dropout_p, scale=scale)
    return packing.packed(found.transpose(1, 2))


def nested_attention(packing: Packing, *states: Tensor, dropout_p: float = 0.0, scale: float | None = None) -> Tensor:
    """As ``padded_attention``, without padding: torch's variable-length flash attention, on CUDA."""
    nest = torch.nested.nested_tensor_from_jagged
    # With lengths given, torch need not wait for the device.
    query, key, value = (
        nest(part.contiguous(), packing.starts, min_seqlen=packing.shortest, max_seqlen=packing.width).transpose(1, 2)
        for part in states
    )
    found = F.scaled_dot_product_attention(query, key, value, dropout_p=dropout_p, scale=scale)
    return found.transpose(1, 2).values()


def position_ids(ids: Ragged, config: Any) -> NDArray[np.int64]:
    """The position ids of all tokens as the architecture numbers them, shape (tokens,).

    RoBERTa's family counts from padding_idx + 1 and gives padding tokens, which texts may contain, padding_idx.
    """
    first = first_position(lambda key: getattr(config, key, None))
    starts = ids.starts[:-1].repeat(ids.lengths)
    if not first:
        return np.arange(len(ids.values), dtype=np.int64) - starts
    counts = ids.values != config.pad_token_id
    before = np.concatenate([[0], counts.cumsum()])
    return np.where(counts, before[:-1] - before[starts] + first, np.int64(config.pad_token_id))
