"""Packed batches: many texts in one row of tokens, without padding, each of which sees its own tokens alone.

transformers looks attention and masks up by a name, and has this module's functions under ``PACKED``. While a row is
read, the mask that a model asks for is a ``RowMask``: the row, and the model's own rule of which token of a text sees
which (all, earlier ones, a window). Attention then takes the texts of one length together, as a batch of these alone.
Without a row both functions are those of ``sdpa``.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mirrorbench.core.devices import capability, moved
from mirrorbench.models.backbones import first_position
from mirrorbench.models.batching import Ragged

PACKED = "mirrorbench-packed"
"""The name of this module's attention in transformers' registries."""

_HONOURED = {"dropout", "scaling", "is_causal", "sliding_window", "position_ids", "output_hidden_states"}
"""Options of attention that a row honours: two of them, what its mask says, and what states are returned."""

_current = threading.local()


class NotPackableError(Exception):
    """A model's attention does more than a row of texts honours."""


@dataclass(frozen=True, slots=True)
class Block:
    """Texts of a row that attention takes together: neighbours of one length, or all texts, padded for this step."""

    rows: NDArray[np.int64]
    """Which texts of the batch, in the order of the row."""
    width: int
    """Length of the longest."""
    start: int = 0
    """Where the first one starts in the row."""
    places: Tensor | None = None
    """For each token of the row its cell in the padded matrix, row by row; ``None`` without padding."""
    real: Tensor | None = None
    """Where the padded matrix holds tokens, shape (texts, width)."""

    def unpacked(self, values: Tensor) -> Tensor:
        """From the row, shape (tokens, ...), to a matrix, shape (texts, width, ...), which is 0 at padding."""
        n = len(self.rows)
        cells = values[self.start : self.start + n * self.width]
        if self.places is not None:
            # Not read by index_select from a token that stands for padding: on a GPU the gradients of all padding
            # would be added to that token one by one.
            cells = values.new_zeros(n * self.width, *values.shape[1:]).index_copy_(0, self.places, values)
        return cells.view(n, self.width, *values.shape[1:])

    def packed(self, values: Tensor) -> Tensor:
        """From the matrix to the tokens."""
        cells = values.flatten(0, 1)
        return cells if self.places is None else cells.index_select(0, self.places)


@dataclass(frozen=True, slots=True)
class PackedRow:
    """A batch of texts in one row of tokens."""

    tokens: Tensor
    """Token ids, shape (1, tokens)."""
    positions: Tensor
    """Position ids, as the architecture numbers those of each text; shape (1, tokens)."""
    starts: Tensor
    """Where each text starts in the row, and where the last one ends; int32 of shape (n + 1,)."""
    blocks: tuple[Block, ...]

    @classmethod
    def of(cls, ids: Ragged, config: Any, move: Callable[[NDArray[Any]], Tensor], padded: bool) -> PackedRow:
        """From token ids; ``config``: the model's, ``move`` copies an array to the device.

        ``padded``: one block, for training, where the way back through many small ones takes longer. Otherwise texts
        stand in the row by falling length, and no number of a text depends on the others.
        """
        order = np.arange(len(ids)) if padded else np.argsort(-ids.lengths, kind="stable")
        ids = ids.take(order)
        width = int(ids.lengths.max())
        if padded:
            real = ids.mask(width)
            blocks = [Block(order, width, 0, None if real.all() else move(np.flatnonzero(real.ravel())), move(real))]
        else:
            ends = np.flatnonzero(np.diff(ids.lengths)) + 1
            firsts = zip(np.split(order, ends), [0, *ends], strict=True)
            blocks = [Block(rows, int(ids.lengths[first]), int(ids.starts[first])) for rows, first in firsts]
        tokens, positions = ids.values.astype(np.int64)[None], position_ids(ids, config)[None]
        return cls(move(tokens), move(positions), move(ids.starts.astype(np.int32)), tuple(blocks))


@dataclass(frozen=True, slots=True)
class RowMask:
    """A row, and a model's rule of which tokens of a text see which: ``mask_function`` of transformers' masks."""

    row: PackedRow
    rule: Callable[..., Tensor]
    _known: dict[int, Tensor | None] = field(default_factory=dict)

    def within(self, width: int) -> Tensor | None:
        """Which token of a text of so many sees which, bool of shape (width, width); ``None`` where each sees all."""
        if width not in self._known:
            places, zero = torch.arange(width), torch.zeros((), dtype=torch.int64)
            seen = self.rule(zero, zero, places[:, None], places).broadcast_to(width, width)
            self._known[width] = None if seen.all() else moved(seen, self.row.starts.device)
        return self._known[width]

    def of(self, block: Block) -> Tensor | None:
        """The mask of a block."""
        seen = self.within(block.width)
        if block.places is None or block.real is None:
            return seen
        real = block.real[:, None, None, :]
        # Padding sees itself: minus infinity everywhere would become NaN.
        return real if seen is None else real & seen | torch.eye(block.width, dtype=torch.bool, device=real.device)


def let_pack(model: Any) -> None:
    """Give a model this module's attention, where its own is torch's and transformers can replace it."""
    from transformers import AttentionInterface, PreTrainedModel
    from transformers.masking_utils import AttentionMaskInterface

    AttentionInterface.register(PACKED, row_attention)
    AttentionMaskInterface.register(PACKED, row_mask)
    if isinstance(model, PreTrainedModel) and model.config._attn_implementation == "sdpa":
        model.set_attn_implementation(PACKED)


@contextmanager
def reading(row: PackedRow) -> Iterator[None]:
    """Inside the ``with`` block this thread's model reads a row."""
    _current.row = row
    try:
        yield
    finally:
        _current.row = None


def row_mask(*, mask_function: Callable[..., Tensor], **options: Any) -> Any:
    """The mask that a model hands to its attention: an entry of transformers' ``AttentionMaskInterface``."""
    from transformers.masking_utils import sdpa_mask

    row = getattr(_current, "row", None)
    return RowMask(row, mask_function) if row else sdpa_mask(mask_function=mask_function, **options)


def row_attention(
    module: Any, query: Tensor, key: Tensor, value: Tensor, attention_mask: Any, **options: Any
) -> tuple[Tensor, None]:
    """Attention of a layer, shape (1, tokens, heads, dimensions of a head): an entry of ``AttentionInterface``.

    Query, key and value have shape (1, heads, tokens, dimensions of a head); keys and values may have fewer heads. An
    option that a row does not honour is a ``NotPackableError``.
    """
    from transformers.integrations.sdpa_attention import sdpa_attention_forward as of_sdpa

    if not isinstance(attention_mask, RowMask):
        return cast("tuple[Tensor, None]", of_sdpa(module, query, key, value, attention_mask, **options))
    given = {name for name, option in options.items() if option is not None and option is not False}
    if unknown := sorted(given - _HONOURED):
        raise NotPackableError(f"attention with {', '.join(unknown)}")
    row, rate, scale = attention_mask.row, options.get("dropout", 0.0), options.get("scaling")
    states = [part[0].transpose(0, 1) for part in (query, key, value)]
    width = max(block.width for block in row.blocks)
    if flash_fits(*states) and attention_mask.within(width) is None:
        # Called directly: nested tensors take more processor time than a base model's step, and
        # torch.nn.attention.varlen knows no dropout.
        flash = torch.ops.aten._flash_attention_forward.default
        return flash(*states, row.starts, row.starts, width, width, rate, False, False, scale=scale)[0][None], None
    outputs = []
    for block in row.blocks:
        parts = (block.unpacked(part).transpose(1, 2) for part in states)
        within = of_sdpa(module, *parts, attention_mask.of(block), dropout=rate, scaling=scale, is_causal=False)
        outputs.append(block.packed(within[0]))
    return (outputs[0] if len(outputs) == 1 else torch.cat(outputs))[None], None


def flash_fits(query: Tensor, key: Tensor, value: Tensor) -> bool:
    """Whether torch's flash attention of variable length takes such states here, with dropout and gradients.

    The kernel reads half precision, from Ampere on, and heads of a multiple of 8 dimensions; above 192 some GPUs (8.6
    to 8.9, 12.0, 12.1) have no backward pass. States have shape (tokens, heads, dimensions of a head).
    """
    half, size = query.dtype in (torch.bfloat16, torch.float16), query.shape[-1]
    ampere = half and query.shape == key.shape == value.shape and capability(query.device) >= (8, 0)
    return ampere and size % 8 == 0 and size <= 192 and torch.backends.cuda.is_flash_attention_available()


def position_ids(ids: Ragged, config: Any) -> NDArray[np.int64]:
    """The position ids of all tokens as the architecture numbers them, shape (tokens,).

    RoBERTa's family counts from padding_idx + 1 and gives padding tokens, which texts may contain, padding_idx.
    """
    first = first_position(lambda key: getattr(config, key, None))
    counts = ids.values != config.pad_token_id if first else np.ones(len(ids.values), dtype=bool)
    before = counts.cumsum() - counts
    positions: NDArray[np.int64] = before - before[ids.starts[:-1].repeat(ids.lengths)] + first
    return np.where(counts, positions, first - 1)
