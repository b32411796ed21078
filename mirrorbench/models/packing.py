"""Packed batches: many texts in one row of tokens, without padding, each of which attends to its own tokens alone.

transformers looks up this module's attention and masks under the name ``PACKED``. Inside ``reading``, a model's mask is
a ``RowMask``: the row, and the model's rule for attention between tokens of a text (all, earlier ones, a window).
Attention then takes the texts of one length as one batch. Outside of it both functions are those of ``sdpa``.
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
from mirrorbench.models.batching import Ragged
from mirrorbench.models.positions import first_position

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
"""Options of attention that a row supports, by its mask if not by name."""

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
        n = len(self.rows)
        matrix = values[self.start : self.start + n * self.width]
        if self.cells is not None:
            # Not by index_select from a token for padding: a GPU would add the gradients of all padding to it in turn.
            matrix = values.new_zeros(n * self.width, *values.shape[1:]).index_copy_(
                0, self.cells, values
            )
        return matrix.view(n, self.width, *values.shape[1:])

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
        cls, ids: Ragged, config: Any, move: Callable[[NDArray[Any]], Tensor], padded: bool
    ) -> PackedRow:
        """Make the row of token ids; ``config``: the model's, ``move`` copies an array to the device.

        ``padded``: one block, which is faster in training. Otherwise texts are sorted by falling length, and no vector
        depends on the other texts.
        """
        order = np.arange(len(ids)) if padded else np.argsort(-ids.lengths, kind="stable")
        ids = ids.take(order)
        width = int(ids.lengths.max())
        if padded:
            real = ids.mask(width)
            blocks = [
                Block(
                    order,
                    width,
                    0,
                    None if real.all() else move(np.flatnonzero(real.ravel())),
                    move(real),
                )
            ]
        else:
            ends = np.flatnonzero(np.diff(ids.lengths)) + 1
            firsts = zip(np.split(order, ends), [0, *ends], strict=True)
            blocks = [
                Block(rows, int(ids.lengths[first]), int(ids.starts[first]))
                for rows, first in firsts
            ]
        tokens, positions = ids.values.astype(np.int64)[None], position_ids(ids, config)[None]
        return cls(move(tokens), move(positions), move(ids.starts.astype(np.int32)), tuple(blocks))


@dataclass(frozen=True, slots=True)
class RowMask:
    """A row, and a model's rule for attention between tokens of a text: ``mask_function`` of transformers' masks."""

    row: PackedRow
    rule: Callable[..., Tensor]
    _known: dict[int, Tensor | None] = field(default_factory=dict)

    def within(self, width: int) -> Tensor | None:
        """Return the mask of a text of so many tokens, bool of shape (width, width); ``None`` if it masks nothing."""
        if width not in self._known:
            positions, zero = torch.arange(width), torch.zeros((), dtype=torch.int64)
            seen = self.rule(zero, zero, positions[:, None], positions).broadcast_to(width, width)
            self._known[width] = None if seen.all() else moved(seen, self.row.starts.device)
        return self._known[width]

    def of(self, block: Block) -> Tensor | None:
        """Return the mask of a block."""
        seen = self.within(block.width)
        if block.cells is None or block.real is None:
            return seen
        real = block.real[:, None, None, :]
        # Padding sees itself: minus infinity everywhere would become NaN.
        return (
            real
            if seen is None
            else real & seen | torch.eye(block.width, dtype=torch.bool, device=real.device)
        )


def let_pack(model: Any) -> None:
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
    return RowMask(row, mask_function) if row else sdpa_mask(mask_function=mask_function, **options)


def row_attention(
    module: Any, query: Tensor, key: Tensor, value: Tensor, attention_mask: Any, **options: Any
) -> tuple[Tensor, None]:
    """Return the attention of a layer, shape (1, tokens, heads, dimensions): an entry of ``AttentionInterface``.

    Query, key and value have shape (1, heads, tokens, dimensions); keys and values may have fewer heads. An unsupported
    option raises a ``NotPackableError``.
    """
    from transformers.integrations.sdpa_attention import sdpa_attention_forward as sdpa

    if not isinstance(attention_mask, RowMask):
        return cast(
            "tuple[Tensor, None]", sdpa(module, query, key, value, attention_mask, **options)
        )
    given = {name for name, option in options.items() if option is not None and option is not False}
    if unknown := sorted(given - _SUPPORTED):
        raise NotPackableError(f"attention with {', '.join(unknown)}")
    row, rate, scale = attention_mask.row, options.get("dropout", 0.0), options.get("scaling")
    states = [part[0].transpose(0, 1) for part in (query, key, value)]
    width = max(block.width for block in row.blocks)
    if flash_fits(*states) and attention_mask.within(width) is None:
        # Called directly: nested tensors take more processor time than a base model's step, and
        # torch.nn.attention.varlen knows no dropout.
        flash = torch.ops.aten._flash_attention_forward.default
        return flash(
            *states, row.starts, row.starts, width, width, rate, False, False, scale=scale
        )[0][None], None
    outputs = []
    for block in row.blocks:
        parts = (block.unpacked(part).transpose(1, 2) for part in states)
        attended, _ = sdpa(
            module, *parts, attention_mask.of(block), dropout=rate, scaling=scale, is_causal=False
        )
        outputs.append(block.packed(attended))
    return (outputs[0] if len(outputs) == 1 else torch.cat(outputs))[None], None


def flash_fits(query: Tensor, key: Tensor, value: Tensor) -> bool:
    """Return whether torch's flash attention of variable length supports states, shape (tokens, heads, dimensions).

    The kernel needs half precision, Ampere or later, and a multiple of 8 dimensions a head; above 192 some GPUs (8.6 to
    8.9, 12.0, 12.1) have no backward pass.
    """
    half, size = query.dtype in (torch.bfloat16, torch.float16), query.shape[-1]
    ampere = half and query.shape == key.shape == value.shape and capability(query.device) >= (8, 0)
    return (
        ampere
        and size % 8 == 0
        and size <= 192
        and torch.backends.cuda.is_flash_attention_available()
    )


def position_ids(ids: Ragged, config: Any) -> NDArray[np.int64]:
    """Return the position ids of all tokens as the architecture numbers them, shape (tokens,).

    RoBERTa's family counts from padding_idx + 1, and padding tokens inside texts have padding_idx.
    """
    first = first_position(lambda key: getattr(config, key, None))
    counts = ids.values != config.pad_token_id if first else np.ones(len(ids.values), dtype=bool)
    before = counts.cumsum() - counts
    positions: NDArray[np.int64] = before - before[ids.starts[:-1].repeat(ids.lengths)] + first
    return np.where(counts, positions, first - 1)
