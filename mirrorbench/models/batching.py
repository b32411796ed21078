"""Division of texts into batches, prefetching of batches, and replaced functions of torch.

On a CPU, packed rows and batches of texts of one length, of at least ``min_tokens``, make vectors bit for bit
independent of the other texts: padding and few tokens would change the order of summation.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple, TypeVar

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor
from torch.overrides import TorchFunctionMode

from mirrorbench.core.devices import out_of_memory, release_memory
from mirrorbench.core.errors import DeviceMemoryError

_T = TypeVar("_T")

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
    feed_forward_width = getattr(config, "intermediate_size", 0)
    if not isinstance(feed_forward_width, int):
        return MIN_TOKENS
    return max(MIN_TOKENS, feed_forward_width // 6)


class _LongestFirst(NamedTuple):
    """Texts in descending order of their lengths."""

    order: NDArray[np.int64]
    """Indices of the texts, shape (n,)."""
    lengths: NDArray[np.int64]
    """Tokens of each text in this order, shape (n,)."""


def _longest_first(lengths: ArrayLike) -> _LongestFirst:
    """Sort texts by length, in a stable order that makes batches and rounding repeatable."""
    tokens = np.asarray(lengths, dtype=np.int64)
    order = np.argsort(-tokens, kind="stable")
    return _LongestFirst(order, tokens[order])


def similar_length_batches(
    lengths: ArrayLike, budget: int, fixed_length: int = 0, pass_cost: int = PASS_COST["cpu"]
) -> Iterator[list[int]]:
    """Divide texts of these lengths into batches of padded texts, the longest first, and yield the texts' indices.

    A batch has at most ``budget`` tokens with padding, or a single longer text. It ends when it is full, or before the
    padding for the next text would exceed ``pass_cost`` tokens; with a ``pass_cost`` of 0 it has texts of one length.
    With a ``fixed_length`` every text is padded to that length.
    """
    texts = _longest_first(lengths)
    start = 0
    while start < len(texts.order):
        width = fixed_length or max(1, int(texts.lengths[start]))
        most_texts = max(1, budget // width)
        size = min(len(texts.order) - start, most_texts)
        # With a fixed length, padding is the same in any batch.
        if not fixed_length:
            size = _size_by_padding(texts.lengths[start : start + size], width, pass_cost)
        end = start + size
        yield texts.order[start:end].tolist()
        start = end


def _size_by_padding(lengths: NDArray[np.int64], width: int, pass_cost: int) -> int:
    """Return how many of a full batch's texts to take: as many as need at most ``pass_cost`` tokens of padding.

    ``lengths`` are in descending order. Texts of one length stay together; those of the first length are always taken.
    """
    ends = np.append(np.flatnonzero(np.diff(lengths)) + 1, len(lengths))
    padding = np.cumsum(width - lengths)[ends - 1]
    affordable = int(np.searchsorted(padding, pass_cost, side="right"))
    return int(ends[max(1, affordable) - 1])


def even_batches(lengths: ArrayLike, budget: int) -> Iterator[list[int]]:
    """Divide texts of these lengths into batches for packed rows, the longest first, and yield the texts' indices.

    Batches are few and have about equal numbers of tokens, at most ``budget`` and one text. Texts of a batch
    have similar lengths, since attention may pad. There is one batch or, for two cores, an even number.
    """
    texts = _longest_first(lengths)
    total = int(texts.lengths.sum())
    n_batches = max(1, math.ceil(total / budget))
    # An even number, for two cores.
    if n_batches > 1 and n_batches % 2 == 1:
        n_batches += 1
    # With all texts in a line that is cut into equal parts, a text belongs to the part where its middle lies.
    middles = texts.lengths.cumsum() - texts.lengths / 2
    batch_of_text = middles * n_batches // max(1, total)
    ends = np.flatnonzero(np.diff(batch_of_text)) + 1
    for batch in np.split(texts.order, ends):
        if len(batch):
            yield batch.tolist()


def within_memory(
    batches: Iterable[list[int]],
    compute: Callable[[list[int]], _T],
    device: torch.device,
    lengths: NDArray[np.int64],
    too_large: Callable[[int], None] = lambda tokens: None,
) -> Iterator[tuple[list[int], _T]]:
    """Yield each batch with its result; if the device runs out of memory, that batch and all later ones are halved.

    Args:
        batches: rows of the texts of each batch.
        compute: function that returns the result of a batch.
        device: the device.
        lengths: tokens of each text.
        too_large: called with the number of tokens of each batch that did not fit, padding included.

    Raises:
        DeviceMemoryError: a single text does not fit.
    """
    waiting = deque(batches)
    while waiting:
        rows = waiting.popleft()
        try:
            computed = compute(rows)
        except RuntimeError as error:
            if not out_of_memory(error):
                raise
            # The exception keeps the failed batch in memory until this block is left, so the rest follows below.
            computed = None
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
        # Halve this batch and all that wait.
        halves: deque[list[int]] = deque()
        for batch in (rows, *waiting):
            middle = len(batch) // 2
            for half in (batch[:middle], batch[middle:]):
                if half:
                    halves.append(half)
        waiting = halves


def prefetch(items: Iterator[_T], n_ahead: int = 4) -> Generator[_T, None, None]:
    """Yield the same items, up to ``n_ahead`` of them computed in advance in another thread.

    Tokenizers and torch release Python's lock, so they run in parallel. Objects that ``items`` uses must not be used
    elsewhere until this generator is exhausted or closed. An error in an item is raised when that item is due.
    """
    end = object()
    executor = ThreadPoolExecutor(1, "mirrorbench-prefetch")
    try:
        waiting = deque(executor.submit(next, items, end) for _ in range(n_ahead))
        while True:
            item = waiting.popleft().result()
            if item is end:
                break
            waiting.append(executor.submit(next, items, end))
            yield item  # type: ignore[misc]
    finally:
        executor.shutdown(cancel_futures=True)


class ReplacedFunctions(TorchFunctionMode):
    """A context that replaces torch's functions in this thread.

    ``generator``: the source of the replacements' random numbers, whose state gradient checkpointing restores.
    """

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

    Without it, transformers asks the device whether the mask ``real`` is true everywhere, and copies single numbers to
    it (DeBERTa v2).
    """
    shape = torch.Size(real.shape)
    all_real = bool(real.all())

    def all_(mask: Tensor, *args: Any, **named: Any) -> Tensor | bool:
        if mask.shape == shape and not args and not named:
            return all_real
        return mask.all(*args, **named)

    def type_as(number: Tensor, other: Tensor) -> Tensor:
        if number.dim() == 0 and number.device.type == "cpu":
            return other.new_full((), number.item())
        return number.type_as(other)

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
