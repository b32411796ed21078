"""Token ids of texts, their division into batches, prefetching of batches, and replaced functions of torch.

On a CPU, packed rows and batches of texts of one length, of at least ``min_tokens``, make vectors bit for bit
independent of the other texts: padding and few tokens would change the order of summation.
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
"""Tokens per micro-batch of a tuning, padding included: few enough for a CPU's cache, enough to keep a GPU busy."""

ENCODING_BUDGET = TOKEN_BUDGET | {"cpu": 2048}
"""Tokens per batch of texts to encode. On two cores MiniLM is as fast with 1,500 tokens as with 6,000, but glibc
returns the memory of more than 2,048 to the system after each layer, which costs 10 % (``benchmarks/RESULTS.md``)."""

PASS_COST = {"cpu": 32, "cuda": 4_096, "mps": 2_048}
"""Cost of one more batch (kernel launches, gradient accumulation), in padding tokens that it may save."""

MIN_TOKENS = 256
"""Tokens in the smallest batch of a small model on a CPU."""


def min_tokens(config: Any) -> int:
    """Return the tokens in the smallest batch on a CPU.

    In smaller matrix products MKL's order of summation depends on the number of threads: with two threads, up to an
    eighth of the feed-forward width in rows (192 of MiniLM's 1,536, 384 of BERT-base's 3,072).
    """
    inner = getattr(config, "intermediate_size", 0)
    return max(MIN_TOKENS, inner // 6 if isinstance(inner, int) else 0)


@dataclass(frozen=True, slots=True)
class Ragged:
    """Rows of integers of different lengths, concatenated in ``values``: about a tenth of the memory of lists.

    ``starts``: start of each row in ``values``, and end of the last one; shape (n + 1,).
    """

    values: TokenIds
    starts: NDArray[np.int64]

    @classmethod
    def of(cls, rows: Sequence[Sequence[int]] | Sequence[NDArray[np.integer[Any]]]) -> Ragged:
        """Concatenate lists or arrays."""
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
        """Return some of the rows, in the order given."""
        chosen = np.asarray(rows, dtype=np.int64)
        lengths = self.lengths[chosen]
        starts = np.concatenate([[0], lengths.cumsum()])
        indices = np.arange(starts[-1]) + (self.starts[chosen] - starts[:-1]).repeat(lengths)
        return Ragged(self.values[indices], starts)

    def weights(self, width: int) -> NDArray[np.float32]:
        """Return weights that average over each row's k positions, 1 / k at each, shape (n, width)."""
        lengths = self.lengths
        matrix = np.zeros((len(self), width), dtype=np.float32)
        matrix[np.arange(len(self)).repeat(lengths), self.values] = (1 / lengths).repeat(lengths)
        return matrix

    def padded(self, width: int, fill: int) -> NDArray[np.int64]:
        """Return a matrix of the rows, padded at the end with ``fill``, shape (n, width)."""
        matrix = np.full((len(self), width), fill, dtype=np.int64)
        matrix[self.mask(width)] = self.values
        return matrix

    def mask(self, width: int) -> NDArray[np.bool_]:
        """Return true at the values of the rows in ``padded``, false at padding, shape (n, width)."""
        return np.arange(width) < self.lengths[:, None]


# These functions divide the indices of texts into batches, longest texts first. A batch has at most `budget` tokens, or
# a single longer text. With a `fixed_length` every text is padded to that length.


def _longest_first(lengths: ArrayLike) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the indices in a stable order, which makes batches and rounding repeatable, and their lengths."""
    tokens = np.asarray(lengths, dtype=np.int64)
    order = np.argsort(-tokens, kind="stable")
    return order, tokens[order]


def similar_length_batches(
    lengths: ArrayLike, budget: int, fixed_length: int = 0, pass_cost: int = PASS_COST["cpu"]
) -> Iterator[list[int]]:
    """Yield batches that end when full, or when padding for the next text would exceed ``pass_cost`` tokens.

    A ``pass_cost`` of 0 makes batches of one length.
    """
    order, tokens = _longest_first(lengths)
    start = 0
    while start < len(order):
        width = fixed_length or max(1, int(tokens[start]))
        end = min(len(order), start + max(1, budget // width))
        if not fixed_length:
            ends = np.append(
                np.flatnonzero(np.diff(tokens[start:end])) + 1, end - start
            )  # after each length
            padding = np.cumsum(width - tokens[start:end])[ends - 1]
            end = start + int(
                ends[max(1, int(np.searchsorted(padding, pass_cost, side="right"))) - 1]
            )
        yield order[start:end].tolist()
        start = end


def even_batches(lengths: ArrayLike, budget: int) -> Iterator[list[int]]:
    """Yield the fewest batches of about equal numbers of tokens, at most ``budget`` and one text, for packed rows.

    Texts of a batch have similar lengths, since attention may pad. Several batches are even in number, for two cores.
    """
    order, tokens = _longest_first(lengths)
    least = max(1, -(-int(tokens.sum()) // budget))
    number = (
        (tokens.cumsum() - tokens / 2) * (least + (least > 1 and least % 2)) // max(1, tokens.sum())
    )
    batches = np.split(
        order, np.flatnonzero(np.diff(number)) + 1
    )  # a text belongs where its middle lies
    yield from (batch.tolist() for batch in batches if len(batch))


def within_memory(
    batches: Iterable[list[int]],
    compute: Callable[[list[int]], _T],
    device: torch.device,
    lengths: NDArray[np.int64],
    too_large: Callable[[int], None] = lambda tokens: None,
) -> Iterator[tuple[list[int], _T]]:
    """Yield each batch with its result, after halving it and all later ones whenever the device runs out of memory.

    ``lengths``: tokens of each text; ``too_large`` gets the tokens of a batch that did not fit. A single text that does
    not fit raises a ``DeviceMemoryError``.
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
        halves = (
            (batch[: len(batch) // 2], batch[len(batch) // 2 :]) for batch in (rows, *waiting)
        )
        waiting = deque(half for pair in halves for half in pair if half)


def prefetch(items: Iterator[_T], room: int = 4) -> Generator[_T, None, None]:
    """Yield the same items, up to ``room`` of them computed in advance in another thread.

    Tokenizers and torch release Python's lock, so they run in parallel. Objects that ``items`` uses must not be used
    elsewhere until this generator is exhausted or closed. An error in an item is raised when that item is due.
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
    """A context that replaces torch's functions in this thread; ``generator``: their source of random numbers."""

    def __init__(
        self,
        replaced: Mapping[Callable[..., Any], Callable[..., Any]],
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        self._replaced = replaced
        self.generator = generator

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        return self._replaced.get(func, func)(*args, **(kwargs or {}))


def without_waiting(real: NDArray[np.bool_]) -> ReplacedFunctions:
    """Return a context in which transformers' code does not wait for the device.

    It would ask the device whether the mask ``real`` is true everywhere, and copy single numbers to it (DeBERTa v2).
    """
    shape, whole = torch.Size(real.shape), bool(real.all())

    def all_(mask: Tensor, *args: Any, **named: Any) -> Tensor | bool:
        return whole if mask.shape == shape and not args and not named else mask.all(*args, **named)

    def type_as(number: Tensor, other: Tensor) -> Tensor:
        copied = number.dim() == 0 and number.device.type == "cpu"
        return other.new_full((), number.item()) if copied else number.type_as(other)

    return ReplacedFunctions({Tensor.all: all_, Tensor.type_as: type_as})


def fills_in_range() -> ReplacedFunctions:
    """Return a context in which ``masked_fill`` raises values to the lowest number of the tensor's precision.

    transformers' DeBERTa v1 fills with float32's lowest, which is out of range in half precision.
    """

    def fill(states: Tensor, mask: Tensor, value: Any) -> Tensor:
        if states.is_floating_point() and isinstance(value, float):
            value = max(value, torch.finfo(states.dtype).min)
        return states.masked_fill(mask, value)

    return ReplacedFunctions({Tensor.masked_fill: fill})
