"""Packed batches: many texts in one row of tokens, without padding, each of which attends to its own tokens alone.

transformers looks up this module's attention and masks under the name ``PACKED``. Inside ``reading``, a model's mask is
a ``RowMask``: the row, and the model's rule for attention between tokens of a text (all, earlier ones, a window).
Attention then takes the texts of one length as one batch. Outside ``reading`` both functions are those of ``sdpa``.
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
from mirrorbench.models.positions import first_position
from mirrorbench.models.ragged import Ragged

PACKED = "mirrorbench-packed"
"""Name of this module's attention in transformers' registries."""

_SUPPORTED = {
    "dropout",
    "scaling",
    "is_causal",
    "sliding_window",
    "position_ids",
    "output_hidden_states",
}
"""Options of attention that a row supports; those that are not passed on act through its mask."""

_current = threading.local()


class NotPackableError(Exception):
    """Error for an option of a model's attention that a row of texts does not support."""


@dataclass(frozen=True, slots=True)
class Block:
    """Texts of a row that attention takes together: neighbours of one length, or all texts, padded for this step."""

    rows: NDArray[np.int64]
    """Indices of the texts in the batch, in the order of the row."""
    width: int
    """Length of the longest text."""
    start: int = 0
    """Start of the first text in the row."""
    cells: Tensor | None = None
    """Index of each token of the row in the flattened padded matrix; ``None`` without padding."""
    real: Tensor | None = None
    """True at the tokens of the padded matrix, shape (texts, width)."""

    def unpacked(self, values: Tensor) -> Tensor:
        """Return the values of a row, shape (tokens, ...), as a matrix, shape (texts, width, ...), 0 at padding."""
        n_cells = len(self.rows) * self.width
        if self.cells is None:
            flat = values[self.start : self.start + n_cells]
        else:
            # Not by index_select from a token for padding: a GPU would add the gradients of all padding to it in turn.
            zeros = values.new_zeros(n_cells, *values.shape[1:])
            flat = zeros.index_copy_(0, self.cells, values)
        return flat.view(len(self.rows), self.width, *values.shape[1:])

    def packed(self, values: Tensor) -> Tensor:
        """Return the values of a matrix at the tokens, in the order of the row."""
        flat = values.flatten(0, 1)
        return flat if self.cells is None else flat.index_select(0, self.cells)


@dataclass(frozen=True, slots=True)
class PackedRow:
    """A batch of texts in one row of tokens."""

    tokens: Tensor
    """Token ids, shape (1, tokens)."""
    positions: Tensor
    """Position ids, as the architecture numbers those of each text; shape (1, tokens)."""
    starts: Tensor
    """Start of each text in the row, and end of the last one; int32 of shape (n + 1,)."""
    blocks: tuple[Block, ...]

    @classmethod
    def of(
        cls, ids: Ragged, config: Any, move: Callable[[NDArray[Any]], Tensor], one_block: bool
    ) -> PackedRow:
        """Pack texts, given as token ids, into a row; it has no padding, but attention may take a padded block.

        Args:
            ids: token ids of each text.
            config: configuration of the model.
            move: function that copies an array to the device.
            one_block: whether to make a single block of all texts in their order, padded to the longest, which is
                faster in training. Otherwise the row has the longest texts first, and those of equal length make a
                block, so that no vector depends on the other texts.
        """
        order = np.arange(len(ids)) if one_block else np.argsort(-ids.lengths, kind="stable")
        ids = ids.take(order)
        if one_block:
            width = int(ids.lengths.max())
            mask = ids.mask(width)
            # Without padding, no cell of the matrix is left out.
            cells = None if mask.all() else move(np.flatnonzero(mask.ravel()))
            blocks = [Block(order, width, cells=cells, real=move(mask))]
        else:
            # A block begins where the length changes.
            changes = np.flatnonzero(np.diff(ids.lengths)) + 1
            blocks = []
            for rows, first in zip(np.split(order, changes), [0, *changes], strict=True):
                blocks.append(Block(rows, int(ids.lengths[first]), int(ids.starts[first])))
        return cls(
            tokens=move(ids.values.astype(np.int64)[None]),
            positions=move(position_ids(ids, config)[None]),
            starts=move(ids.starts.astype(np.int32)),
            blocks=tuple(blocks),
        )


@dataclass(frozen=True, slots=True)
class RowMask:
    """A row, and a model's rule for attention between tokens of a text: ``mask_function`` of transformers' masks."""

    row: PackedRow
    rule: Callable[..., Tensor]
    _masks: dict[int, Tensor | None] = field(default_factory=dict)
    """Masks of texts by their width."""

    def of_text(self, width: int) -> Tensor | None:
        """Return the mask of a text of ``width`` tokens, bool of shape (width, width); ``None`` if it masks nothing."""
        if width not in self._masks:
            positions = torch.arange(width)
            zero = torch.zeros((), dtype=torch.int64)
            attended = self.rule(zero, zero, positions[:, None], positions)
            attended = attended.broadcast_to(width, width)
            self._masks[width] = None if attended.all() else moved(attended, self.row.starts.device)
        return self._masks[width]

    def of_block(self, block: Block) -> Tensor | None:
        """Return the mask of a block."""
        attended = self.of_text(block.width)
        if block.cells is None or block.real is None:
            return attended
        real = block.real[:, None, None, :]
        if attended is None:
            return real
        # Padding attends to itself: minus infinity everywhere would become NaN.
        diagonal = torch.eye(block.width, dtype=torch.bool, device=real.device)
        return (real & attended) | diagonal


def enable_packing(model: Any) -> None:
    """Replace a model's attention by this module's if it is torch's and transformers can replace it."""
    from transformers import AttentionInterface, PreTrainedModel
    from transformers.masking_utils import AttentionMaskInterface

    AttentionInterface.register(PACKED, row_attention)
    AttentionMaskInterface.register(PACKED, row_mask)
    if isinstance(model, PreTrainedModel) and model.config._attn_implementation == "sdpa":
        model.set_attn_implementation(PACKED)


@contextmanager
def reading(row: PackedRow) -> Iterator[None]:
    """Let this thread's model read a row inside the ``with`` block."""
    _current.row = row
    try:
        yield
    finally:
        _current.row = None


def row_mask(*, mask_function: Callable[..., Tensor], **options: Any) -> Any:
    """Return the mask for a model's attention, as an entry of transformers' ``AttentionMaskInterface``."""
    from transformers.masking_utils import sdpa_mask

    row = getattr(_current, "row", None)
    if row is None:
        return sdpa_mask(mask_function=mask_function, **options)
    return RowMask(row, mask_function)


def row_attention(
    module: Any, query: Tensor, key: Tensor, value: Tensor, attention_mask: Any, **options: Any
) -> tuple[Tensor, None]:
    """Return the attention of a layer, shape (1, tokens, heads, dimensions), as an entry of ``AttentionInterface``.

    Query, key and value have shape (1, heads, tokens, dimensions); keys and values may have fewer heads. An unsupported
    option raises a ``NotPackableError``.
    """
    from transformers.integrations.sdpa_attention import sdpa_attention_forward as sdpa

    # Outside ``reading`` the mask is a tensor, and attention that of transformers.
    if not isinstance(attention_mask, RowMask):
        return cast(
            "tuple[Tensor, None]", sdpa(module, query, key, value, attention_mask, **options)
        )
    used = {name for name, option in options.items() if option is not None and option is not False}
    unsupported = sorted(used - _SUPPORTED)
    if unsupported:
        raise NotPackableError(f"attention with {', '.join(unsupported)}")
    row = attention_mask.row
    dropout = options.get("dropout", 0.0)
    scale = options.get("scaling")
    # Without the batch dimension, and heads after tokens.
    states = [heads_first[0].transpose(0, 1) for heads_first in (query, key, value)]

    width = max(block.width for block in row.blocks)
    # Flash attention takes the whole row at once, unless the model's rule hides tokens of a text from others.
    if flash_fits(*states) and attention_mask.of_text(width) is None:
        # Called directly: nested tensors take more processor time than a base model's step, and
        # torch.nn.attention.varlen knows no dropout.
        flash = torch.ops.aten._flash_attention_forward.default
        is_causal = False
        returns_debug_mask = False
        # Starts and greatest width of the texts are passed twice, for queries and for keys.
        attended, *_ = flash(
            *states,
            row.starts,
            row.starts,
            width,
            width,
            dropout,
            is_causal,
            returns_debug_mask,
            scale=scale,
        )
        return attended[None], None

    # Otherwise each block is a batch of its own.
    outputs = []
    for block in row.blocks:
        matrices = [block.unpacked(part).transpose(1, 2) for part in states]
        mask = attention_mask.of_block(block)
        attended, _ = sdpa(module, *matrices, mask, dropout=dropout, scaling=scale, is_causal=False)
        outputs.append(block.packed(attended))
    output = outputs[0] if len(outputs) == 1 else torch.cat(outputs)
    return output[None], None


def flash_fits(query: Tensor, key: Tensor, value: Tensor) -> bool:
    """Return whether torch's flash attention of variable length supports states, shape (tokens, heads, dimensions).

    The kernel needs half precision, Ampere or later, and a multiple of 8 dimensions a head; above 192 some GPUs (8.6 to
    8.9, 12.0, 12.1) have no backward pass.
    """
    if query.dtype not in (torch.bfloat16, torch.float16):
        return False
    if not query.shape == key.shape == value.shape:
        return False
    if capability(query.device) < (8, 0):
        return False
    head_size = query.shape[-1]
    if head_size % 8 or head_size > 192:
        return False
    return torch.backends.cuda.is_flash_attention_available()


def position_ids(ids: Ragged, config: Any) -> NDArray[np.int64]:
    """Return the position ids of all tokens as the architecture numbers them, shape (tokens,).

    RoBERTa's family counts from padding_idx + 1 and does not count padding tokens inside texts, whose position is
    padding_idx.
    """
    first = first_position(lambda key: getattr(config, key, None))
    if first:
        is_counted = ids.values != config.pad_token_id
    else:
        is_counted = np.ones(len(ids.values), dtype=bool)
    n_before_in_row = is_counted.cumsum() - is_counted
    start_of_text = ids.starts[:-1].repeat(ids.lengths)
    n_before_text = n_before_in_row[start_of_text]
    positions: NDArray[np.int64] = n_before_in_row - n_before_text + first
    return np.where(is_counted, positions, first - 1)
