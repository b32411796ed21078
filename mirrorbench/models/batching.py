"""Token ids of texts, their division into batches, prefetching of batches, and replaced functions of torch.

On a CPU, rows and batches of texts of one length, if not too small, give vectors that are bit for bit independent of
the other texts. Padding would change the order of summation; for few tokens, libraries use another matrix product.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor
from torch.overrides import TorchFunctionMode

from mirrorbench.core.devices import out_of_memory, release_memory
from mirrorbench.core.errors import DeviceMemoryError

_T = TypeVar("_T")

TokenIds = NDArray[np.int32]

TOKEN_BUDGET = {"cpu": 1024, "cuda": 65_536, "mps": 16_384}
"""Tokens per micro-batch of a tuning, padding included: on a CPU what fits its cache, on a GPU what keeps it busy."""

ENCODING_BUDGET = TOKEN_BUDGET | {"cpu": 2048}
"""Tokens per batch of texts to encode. On two cores MiniLM's products are as fast with 1,500 tokens as with 6,000, but
glibc returns what more than 2,048 take to the system after each layer, which costs a tenth (``benchmarks/RESULTS.md``).
"""

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

    def weights(self, width: int) -> NDArray[np.float32]:
        """Weights that average over the positions that rows hold: 1 / k at each of k, shape (n, width)."""
        lengths = self.lengths
        matrix = np.zeros((len(self), width), dtype=np.float32)
        matrix[np.arange(len(self)).repeat(lengths), self.values] = (1 / lengths).repeat(lengths)
        return matrix

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


def similar_length_batches(
    lengths: ArrayLike, budget: int, fixed_length: int = 0, pass_cost: int = PASS_COST["cpu"]
) -> Iterator[list[int]]:
    """Batches that end when they are full, or when padding the next texts would exceed ``pass_cost``.

    With 0 these are texts of one length.
    """
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
    """The fewest batches of about as many tokens, at most ``budget`` and one text; for rows, which need no padding.

    Lengths are similar because attention may pad. Several batches are even in number, to use two cores equally.
    """
    order, tokens = _longest_first(lengths)
    least = max(1, -(-int(tokens.sum()) // budget))
    number = (tokens.cumsum() - tokens / 2) * (least + (least > 1 and least % 2)) // max(1, tokens.sum())
    batches = np.split(order, np.flatnonzero(np.diff(number)) + 1)  # a text belongs where its middle lies
    yield from (batch.tolist() for batch in batches if len(batch))


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
            computed = compute(rows)
        except RuntimeError as error:
            if not out_of_memory(error):
                raise
            computed = None  # the failed batch holds memory until this block is left
        if computed is not None:
            yield rows, computed
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
