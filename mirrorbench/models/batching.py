"""Rows of token ids, their division into batches, prefetching of batches, and packed batches.

On a CPU, batches of texts of one length, if not too small, give vectors that are bit for bit independent of the other
texts. Padding would change the order of summation in attention; for few rows, libraries use another matrix product.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain
from typing import Any, TypeVar, cast

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor
from torch.nn import functional as F  # noqa: N812  (torch's own convention)
from torch.overrides import TorchFunctionMode

from mirrorbench.core.devices import capability, out_of_memory, release_memory
from mirrorbench.core.errors import DeviceMemoryError
from mirrorbench.models.backbones import first_position

_T = TypeVar("_T")

TokenIds = NDArray[np.int32]

TOKEN_BUDGET = {"cpu": 1024, "cuda": 65_536, "mps": 16_384}
"""Tokens per batch, padding included: on a CPU what fits its cache, on a GPU what keeps it busy."""

PASS_COST = {"cpu": 32, "cuda": 4_096, "mps": 2_048}
"""Cost of one more batch (kernel launches, gradient accumulation), in padding tokens that it may save."""

MIN_TOKENS = 256
"""Tokens in the smallest batch of a small model on a CPU."""


def min_tokens(config: Any) -> int:
    """Tokens in the smallest batch on a CPU.

    MKL adds smaller products in an order that depends on the number of threads: with two, those of as many rows as an
    eighth of the feed-forward width (192 of MiniLM's 1,536, 384 of BERT-base's 3,072).
    """
    inner = getattr(config, "intermediate_size", 0)
    return max(MIN_TOKENS, inner // 6 if isinstance(inner, int) else 0)


@dataclass(frozen=True, slots=True)
class Ragged:
    """Rows of integers of different lengths, concatenated in ``values``: about a tenth of the memory of lists.

    ``starts``: where each row starts in ``values``, and where the last one ends; shape (n + 1,).
    """

    values: TokenIds
    starts: NDArray[np.int64]

    @classmethod
    def of(cls, rows: Sequence[Sequence[int]] | Sequence[NDArray[np.integer[Any]]]) -> Ragged:
        """From lists or arrays."""
        starts = np.zeros(len(rows) + 1, dtype=np.int64)
        np.cumsum([len(row) for row in rows], out=starts[1:])
        return cls(np.fromiter(chain.from_iterable(rows), np.int32, int(starts[-1])), starts)

    def __len__(self) -> int:
        return len(self.starts) - 1

    def __getitem__(self, row: int) -> TokenIds:
        return self.values[self.starts[row] : self.starts[row + 1]]

    def __iter__(self) -> Iterator[TokenIds]:
        return (self[row] for row in range(len(self)))

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Length of each row."""
        return np.diff(self.starts)

    def take(self, rows: ArrayLike) -> Ragged:
        """Some of the rows, in the order given."""
        chosen = np.asarray(rows, dtype=np.int64)
        lengths = self.lengths[chosen]
        starts = np.concatenate([[0], lengths.cumsum()])
        where = np.arange(starts[-1]) + (self.starts[chosen] - starts[:-1]).repeat(lengths)
        return Ragged(self.values[where], starts)

    def distinct(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The first of all equal rows, in their order, and for each row the place of its equal among these."""
        seen: dict[bytes, int] = {}
        equals = [seen.setdefault(row.tobytes(), number) for number, row in enumerate(self)]
        first, places = np.unique(np.asarray(equals, dtype=np.int64), return_inverse=True)
        return first, places

    def padded(self, width: int, fill: int) -> NDArray[np.int64]:
        """A matrix of the rows, shorter ones padded at the end with ``fill``; shape (n, width)."""
        matrix = np.full((len(self), width), fill, dtype=np.int64)
        matrix[self.mask(width)] = self.values
        return matrix

    def mask(self, width: int) -> NDArray[np.bool_]:
        """Where ``padded`` holds values of the rows, shape (n, width)."""
        return np.arange(width) < self.lengths[:, None]


# Each of these divides the indices of texts into batches, longest texts first. A batch has at most `budget` tokens, or
# a single longer text. With a `fixed_length` every text is padded to that length.


def _longest_first(lengths: ArrayLike) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Indices in a stable order, so that equal inputs give equal batches and rounding, and lengths in that order."""
    tokens = np.asarray(lengths, dtype=np.int64)
    order = np.argsort(-tokens, kind="stable")
    return order, tokens[order]


def equal_length_batches(lengths: ArrayLike, budget: int, fixed_length: int = 0) -> Iterator[list[int]]:
    """Batches of texts of equal length; those of one length have about the same size."""
    order, tokens = _longest_first(lengths)
    for group in np.split(np.arange(len(order)), np.flatnonzero(np.diff(tokens)) + 1):
        if len(group):
            room = max(1, budget // max(1, fixed_length or int(tokens[group[0]])))
            yield from (order[batch].tolist() for batch in np.array_split(group, -(-len(group) // room)))


def similar_length_batches(
    lengths: ArrayLike, budget: int, fixed_length: int = 0, pass_cost: int = PASS_COST["cpu"]
) -> Iterator[list[int]]:
    """Batches that end when they are full, or when padding the next texts would exceed ``pass_cost``."""
    order, tokens = _longest_first(lengths)
    start = 0
    while start < len(order):
        width = fixed_length or max(1, int(tokens[start]))
        end = min(len(order), start + max(1, budget // width))
        if not fixed_length:
            ends = np.append(np.flatnonzero(np.diff(tokens[start:end])) + 1, end - start)  # after each length
            padding = np.cumsum(width - tokens[start:end])[ends - 1]
            end = start + int(ends[max(1, int(np.searchsorted(padding, pass_cost, side="right"))) - 1])
        yield order[start:end].tolist()
        start = end


def even_batches(lengths: ArrayLike, budget: int) -> Iterator[list[int]]:
    """The fewest batches of about equally many tokens; for packed batches, which need no padding.

    Lengths are kept similar because attention still pads. Several batches are even in number, to use two cores equally.
    """
    order, tokens = _longest_first(lengths)
    middles = tokens.cumsum() - tokens / 2
    total = int(tokens.sum())
    least = max(1, -(-total // budget))
    for n in range(least + (least > 1 and least % 2), len(order), 2 if least > 1 else 1):
        number = (middles * n / max(1, total)).astype(np.int64)  # rising: a text belongs where its middle lies
        batches = np.split(np.arange(len(order)), np.flatnonzero(np.diff(number)) + 1)
        if all(len(batch) == 1 or tokens[batch].sum() <= budget for batch in batches):
            yield from (order[batch].tolist() for batch in batches)
            return
    yield from ([row] for row in order.tolist())


def within_memory(
    batches: Iterable[list[int]], compute: Callable[[list[int]], _T], device: torch.device, lengths: NDArray[np.int64],
    too_large: Callable[[int], None] = lambda tokens: None,
) -> Iterator[tuple[list[int], _T]]:  # fmt: skip
    """Each batch and what is computed of it; when the device runs out of memory, that batch and all others are halved.

    ``lengths``: tokens of each text; ``too_large`` gets the size of a batch that did not fit.
    """
    waiting = deque(batches)
    while waiting:
        rows = waiting.popleft()
        try:
            found = compute(rows)
        except RuntimeError as error:
            if not out_of_memory(error):
                raise
            found = None  # the failed batch holds memory until this block is left
        if found is not None:
            yield rows, found
            continue
        width = int(lengths[rows].max())
        if len(rows) == 1:
            raise DeviceMemoryError(
                f"no memory left on {device} for one text of {width} tokens",
                "Add a smaller max_length to the encoder spec, or use --device cpu.",
            )
        too_large(len(rows) * width)
        release_memory(device)
        halves = ((batch[: len(batch) // 2], batch[len(batch) // 2 :]) for batch in (rows, *waiting))
        waiting = deque(half for pair in halves for half in pair if half)


def prefetch(items: Iterator[_T], room: int = 4) -> Generator[_T, None, None]:
    """The same items in the same order, up to ``room`` of them computed in advance in another thread.

    Tokenizers and torch release Python's lock, so they run in parallel. Nothing else may use what ``items`` uses until
    it is exhausted or this generator is closed. An error in an item is raised when that item is due.
    """
    end = object()
    executor = ThreadPoolExecutor(1, "mirrorbench-prefetch")
    try:
        waiting = deque(executor.submit(next, items, end) for _ in range(room))
        while (item := waiting.popleft().result()) is not end:
            waiting.append(executor.submit(next, items, end))
            yield item  # type: ignore[misc]
    finally:
        executor.shutdown(cancel_futures=True)


# Packed batches: texts concatenated in one row without padding, with attention within each text. Works for
# architectures (`can_pack`) that accept position ids and compute attention with torch's scaled_dot_product_attention;
# not for code that takes the first axis of a batch for its texts, as some augmentations do.

BERT_LIKE = ("bert", "roberta", "xlm-roberta", "camembert", "electra")
"""Architectures that add position embeddings to the token embeddings and mask only padding."""


def can_pack(model: Any) -> bool:
    """Whether the model can read packed batches: its attention is torch's own, and masks only padding."""
    config = model.config
    plain = config.model_type in BERT_LIKE and config._attn_implementation == "sdpa"
    return plain and not getattr(config, "is_decoder", False)


@dataclass(frozen=True, slots=True)
class Packing:
    """Positions of a batch's texts in one row of all tokens, and in a padded matrix with one text per row."""

    n: int
    width: int
    """Length of the longest text."""
    even: bool
    """Whether all texts have one length, so that row and matrix agree."""
    starts: Tensor
    """Where each text starts in the row, and where the last one ends; int32 of shape (n + 1,)."""
    places: Tensor
    """For each token its cell in the matrix, row by row."""
    real: Tensor
    """Where the matrix holds tokens, shape (n, width)."""

    @classmethod
    def of(cls, ids: Ragged, move: Callable[[NDArray[Any]], Tensor]) -> Packing:
        """From token ids; ``move`` copies an array to the device."""
        width = int(ids.lengths.max())
        real = ids.mask(width)
        arrays = (ids.starts.astype(np.int32), np.flatnonzero(real.ravel()), real)
        return cls(len(ids), width, bool(real.all()), *(move(array) for array in arrays))

    def padded(self, values: Tensor) -> Tensor:
        """From the row, shape (tokens, ...), to the matrix, shape (n, width, ...), which is 0 at padding."""
        rows = values
        if not self.even:
            # Not read by index_select from a token that stands for padding: on a GPU the gradients of all padding
            # would be added to that token one by one.
            rows = values.new_zeros(self.n * self.width, *values.shape[1:]).index_copy_(0, self.places, values)
        return rows.view(self.n, self.width, *values.shape[1:])

    def packed(self, values: Tensor) -> Tensor:
        """From the matrix to the row."""
        rows = values.reshape(self.n * self.width, *values.shape[2:])
        return rows if self.even else rows.index_select(0, self.places)


class ReplacedFunctions(TorchFunctionMode):
    """Inside the ``with`` block, replaces torch's functions in this thread; ``generator``: what they draw from."""

    def __init__(
        self, replaced: Mapping[Callable[..., Any], Callable[..., Any]], generator: torch.Generator | None = None
    ) -> None:
        super().__init__()
        self._replaced = replaced
        self.generator = generator

    def __torch_function__(self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Call the replacement, or the function itself where there is none."""
        return self._replaced.get(func, func)(*args, **(kwargs or {}))


def without_waiting(real: NDArray[np.bool_]) -> ReplacedFunctions:
    """A context in which transformers' own code does not wait for the device.

    It would ask the device whether the mask ``real`` masks anything, and copy single numbers to it (DeBERTa v2).
    """
    shape, whole = torch.Size(real.shape), bool(real.all())

    def answer(mask: Tensor, *args: Any, **named: Any) -> Tensor | bool:
        return whole if mask.shape == shape and not args and not named else mask.all(*args, **named)

    def type_as(number: Tensor, other: Tensor) -> Tensor:
        copied = number.dim() == 0 and number.device.type == "cpu"
        return other.new_full((), number.item()) if copied else number.type_as(other)

    return ReplacedFunctions({Tensor.all: answer, Tensor.type_as: type_as})


def fills_in_range() -> ReplacedFunctions:
    """A context in which masks are filled with the lowest number that a tensor has, where the one asked for is lower.

    transformers' DeBERTa v1 fills with float32's lowest, which half precision does not have.
    """

    def fill(states: Tensor, mask: Tensor, value: Any) -> Tensor:
        if states.is_floating_point() and isinstance(value, float):
            value = max(value, torch.finfo(states.dtype).min)
        return states.masked_fill(mask, value)

    return ReplacedFunctions({Tensor.masked_fill: fill})


def attention_within_texts(packing: Packing) -> ReplacedFunctions:
    """A context in which attention over the row of a packed batch stays within each text."""

    def attention(
        *states: Tensor, attn_mask: Any = None, dropout_p: float = 0.0, scale: float | None = None, **_: Any
    ) -> Tensor:
        # Query, key and value have shape (1, heads, tokens, dimensions of a head). The mask is ignored, because the
        # row has no padding. No encoder sets other options, such as `is_causal`.
        within = flash_attention if flash_fits(states[0]) else padded_attention
        query, key, value = (part.transpose(1, 2).squeeze(0) for part in states)
        return within(packing, query, key, value, dropout_p=dropout_p, scale=scale).unsqueeze(0).transpose(1, 2)

    return ReplacedFunctions({F.scaled_dot_product_attention: attention})


def padded_attention(packing: Packing, *states: Tensor, dropout_p: float = 0.0, scale: float | None = None) -> Tensor:
    """Attention within each text on any device, with padding for this step only.

    Query, key and value have shape (tokens, heads, dimensions of a head).
    """
    query, key, value = (packing.padded(part).transpose(1, 2) for part in states)
    mask = None if packing.even else packing.real[:, None, None, :]
    found = F.scaled_dot_product_attention(query, key, value, mask, dropout_p, scale=scale)
    return packing.packed(found.transpose(1, 2))


def flash_fits(query: Tensor) -> bool:
    """Whether ``flash_attention`` takes such queries here, with dropout and gradients.

    The kernel reads half precision, from Ampere on, and heads of a multiple of 8 dimensions; above 192 some GPUs (8.6
    to 8.9, 12.0, 12.1) have no backward pass.
    """
    half, size = query.dtype in (torch.bfloat16, torch.float16), query.shape[-1]
    ampere = half and capability(query.device) >= (8, 0)
    return ampere and size % 8 == 0 and size <= 192 and torch.backends.cuda.is_flash_attention_available()


def flash_attention(
    packing: Packing, query: Tensor, key: Tensor, value: Tensor, dropout_p: float = 0.0, scale: float | None = None
) -> Tensor:
    """As ``padded_attention``, without padding: torch's flash attention of variable length, on CUDA.

    Called directly, because nested tensors take more processor time than a base model's step, and
    ``torch.nn.attention.varlen`` knows no dropout.
    """
    flash = torch.ops.aten._flash_attention_forward.default
    starts, width = packing.starts, packing.width
    found = flash(query, key, value, starts, starts, width, width, dropout_p, False, False, scale=scale)
    return cast("Tensor", found[0])


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
