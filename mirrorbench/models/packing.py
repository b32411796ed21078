"""A batch without padding: its texts stand end to end in one row, and attention stays within each of them.

All that a transformer does token by token is then computed for tokens alone; attention is the only part that has to
know where a text ends. That holds for architectures that are told each token's position and leave attention to
``torch.nn.functional.scaled_dot_product_attention``: ``can_pack`` knows them. It does not hold for what looks at the
first axis of a batch to tell one text from the next, as some augmentations do.
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
"""Architectures that add position embeddings to those of the tokens and mask nothing but padding."""


def can_pack(model: Any) -> bool:
    """Whether texts may stand end to end in one row of this model."""
    config = model.config
    return uses_plain_masks(config) and not getattr(config, "is_decoder", False)


def uses_plain_masks(config: Any) -> bool:
    """Whether attention is torch's own, and masks nothing but padding."""
    return config.model_type in BERT_LIKE and config._attn_implementation == "sdpa"


@dataclass(frozen=True, slots=True)
class Packing:
    """Where the texts of a batch stand, in one row of all their tokens and in a padded matrix, a text a row."""

    n: int
    width: int
    """Tokens of the longest text."""
    shortest: int
    starts: Tensor
    """Where each text starts in the row, and where the last one ends; shape (n + 1,)."""
    tokens: Tensor
    """For each place of the matrix, row by row, the token that stands there; any where there is none."""
    places: Tensor
    """For each token its place in the matrix."""
    real: Tensor
    """Where the matrix holds tokens, shape (n, width)."""

    @classmethod
    def of(cls, ids: Ragged, move: Callable[[NDArray[Any]], Tensor]) -> Packing:
        """Of the texts' token ids; ``move`` brings an array to the device."""
        lengths = ids.lengths
        width = int(lengths.max())
        real = ids.mask(width)
        tokens = np.where(real, ids.starts[:-1, None] + np.arange(width), 0).ravel()
        arrays = (ids.starts, tokens, np.flatnonzero(real.ravel()), real)
        return cls(len(ids), width, int(lengths.min()), *(move(array) for array in arrays))

    @property
    def even(self) -> bool:
        """Whether all texts are equally long: then row and matrix are the same."""
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
    """Under it attention over the one row of a packed batch is attention within each of its texts."""

    def __init__(self, packing: Packing) -> None:
        super().__init__()
        self.packing = packing

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Take the place of ``scaled_dot_product_attention``, and of nothing else."""
        call = self._attention if func is F.scaled_dot_product_attention else func
        return call(*args, **(kwargs or {}))

    def _attention(
        self, *states: Tensor, attn_mask: Any = None, dropout_p: float = 0.0, scale: float | None = None, **_: Any
    ) -> Tensor:
        """Of query, key and value of shape (1, heads, tokens, dimensions of a head).

        The mask is not looked at: the row holds no padding, and the ends of the texts are known here. Other options are
        ``is_causal`` and the like, which no encoder sets.
        """
        half = states[0].dtype in (torch.bfloat16, torch.float16)
        within = nested_attention if states[0].device.type == "cuda" and half else padded_attention
        query, key, value = (part[0].transpose(0, 1) for part in states)
        return within(self.packing, query, key, value, dropout_p=dropout_p, scale=scale).transpose(0, 1)[None]


def padded_attention(packing: Packing, *states: Tensor, dropout_p: float = 0.0, scale: float | None = None) -> Tensor:
    """Attention within each text on any device, the shorter ones padded for this one step.

    Query, key and value have shape (tokens, heads, dimensions of a head).
    """
    query, key, value = (packing.padded(part).transpose(1, 2) for part in states)
    mask = None if packing.even else packing.real[:, None, None, :]
    found = F.scaled_dot_product_attention(query, key, value, mask, dropout_p, scale=scale)
    return packing.packed(found.transpose(1, 2))


def nested_attention(packing: Packing, *states: Tensor, dropout_p: float = 0.0, scale: float | None = None) -> Tensor:
    """As ``padded_attention``, without padding: what torch has flash attention of variable length for, on CUDA."""
    nest = torch.nested.nested_tensor_from_jagged
    # The lengths are known here; torch would ask the device.
    query, key, value = (
        nest(part.contiguous(), packing.starts, min_seqlen=packing.shortest, max_seqlen=packing.width).transpose(1, 2)
        for part in states
    )
    found = F.scaled_dot_product_attention(query, key, value, dropout_p=dropout_p, scale=scale)
    return found.transpose(1, 2).values()


def position_ids(ids: Ragged, config: Any) -> NDArray[np.int64]:
    """The position of each token in its text, as the architecture numbers them; shape (tokens,).

    RoBERTa's family counts from behind the id of the padding token, gives that id to padding tokens, and does not
    count them: a text may contain one, written out.
    """
    first = first_position(lambda key: getattr(config, key, None))
    starts = ids.starts[:-1].repeat(ids.lengths)
    if not first:
        return np.arange(len(ids.values), dtype=np.int64) - starts
    counts = ids.values != config.pad_token_id
    before = np.concatenate([[0], counts.cumsum()])
    return np.where(counts, before[:-1] - before[starts] + first, np.int64(config.pad_token_id))
