"""Micro-batches: tokenised pairs, their vectors and their gradients, on a CPU in several threads.

The loss takes the vectors of all micro-batches at once, so the split of a batch changes the speed and dropout alone:
each micro-batch has a seed of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mirrorbench.core.devices import autocast, device_type, moved
from mirrorbench.core.encoder_protocol import TextInput
from mirrorbench.core.errors import PluginError, TuningError
from mirrorbench.models.batching import (
    PASS_COST,
    TOKEN_BUDGET,
    Ragged,
    even_batches,
    similar_length_batches,
)
from mirrorbench.models.transformer import Transformer
from mirrorbench.training.augmentations import Augmentation, AugmentationContext, in_use
from mirrorbench.training.cpu_functions import fast_cpu_functions
from mirrorbench.training.losses import Objective, TokenizedPairs
from mirrorbench.training.methods import PairMaker, Pairs

_T = TypeVar("_T")
_R = TypeVar("_R")


class PairTokenizer:
    """A tokeniser of pairs, which applies token augmentations."""

    def __init__(
        self, transformer: Transformer, maker: PairMaker, registered: dict[str, Augmentation]
    ) -> None:
        self.transformer = transformer
        self.recipe = maker.recipe
        tokenizer = transformer.tokenizer
        plain = AugmentationContext(
            maker.rng,
            0.0,
            maker.mask_token,
            maker.protocol,
            mask_id=tokenizer.mask_token_id,
            special_ids=frozenset(tokenizer.all_special_ids),
        )
        self._n_tokens = len(tokenizer)
        chosen = in_use(self.recipe.augment, registered, "tokens")
        self._augment = [(function, replace(plain, rate=rate)) for function, rate in chosen]

    def batches(self, pairs: Pairs, order: Iterator[NDArray[np.int64]]) -> Iterator[TokenizedPairs]:
        """Yield the batches of one epoch's pairs; ``order`` yields the rows of each batch.

        With token augmentations all texts are tokenised at once: they draw for all first views, then for all second
        views, before the first batch is drawn. Fewer than two pairs raise a ``TuningError``.
        """
        n = len(pairs.left)
        if n < 2:
            raise TuningError(f"the corpus gives {n} pairs to tune on", "It needs at least two.")
        numbers: dict[Any, int] = {}
        groups = range(n) if pairs.groups is None else pairs.groups
        labels = torch.tensor([numbers.setdefault(group, len(numbers)) for group in groups])
        everything = self._tokenized(pairs.left, pairs.right, labels) if self._augment else None
        for rows in order:
            if everything is not None:
                yield everything.take(rows)
            else:
                left, right = ([view[row] for row in rows] for view in (pairs.left, pairs.right))
                yield self._tokenized(left, right, labels[torch.from_numpy(rows)])

    def _tokenized(
        self, left: Sequence[TextInput], right: Sequence[TextInput], labels: Tensor
    ) -> TokenizedPairs:
        """Tokenise pairs, and apply the recipe's token augmentations in the order of their names."""
        located = self.transformer.read(
            [*left, *right], self.recipe.readout(self.recipe.train_max_length)
        )
        if not self._augment:
            return TokenizedPairs(located.ids, located.targets, labels)
        rows: list[list[int]] = [row.tolist() for row in located.ids]
        first = 0 if self.recipe.sides == 2 else len(left)
        for views in (slice(first, len(left)), slice(len(left), None)):
            for function, context in self._augment:
                rows[views] = [
                    self._readable(row, function(row, context), located.targets)
                    for row in rows[views]
                ]
        return TokenizedPairs(Ragged.of(rows), located.targets, labels)

    def _readable(self, ids: list[int], changed: list[int], targets: Ragged | None) -> list[int]:
        """Return the changed ids, or the old ones if the changed ones exceed the model's positions."""
        if not 0 <= min(changed) <= max(changed) < self._n_tokens:
            problem = f"an augmentation returned token ids from {min(changed)} to {max(changed)}"
            raise PluginError(problem, f"The tokenizer has ids from 0 to {self._n_tokens - 1}.")
        if targets is not None and len(changed) != len(ids):
            problem = "an augmentation changes the number of tokens, so the target's tokens are not found any more"
            raise TuningError(
                problem, "Choose another pooling than target, or another augmentation."
            )
        return changed if len(changed) <= (self.transformer.positions or len(changed)) else ids


@dataclass(frozen=True, slots=True)
class MicroBatch:
    """Pairs of one forward pass, first views before second views, and the seed of its random numbers."""

    pairs: TokenizedPairs
    seed: int


class MicroBatchReader:
    """A model in training mode that computes and differentiates the vectors of micro-batches.

    ``packs``: whether all model augmentations in use permit packed rows.
    """

    def __init__(self, objective: Objective, precision: str, packs: bool) -> None:
        self.objective = objective
        self.transformer, recipe = objective.transformer, objective.recipe
        self.precision = precision
        self.pooling, self.fixed = objective.pooling, objective.pad_to
        self.packed = packs and not self.fixed and self.transformer.traits.packs
        # Augmentations without packing (controlled dropout, drophead) draw from torch's own generator, which all
        # threads share, and replace functions in this thread alone.
        self.parallel = self.packed and self.transformer.device.type == "cpu"
        self.weights = objective.weights
        self.draws = "dropout" not in dict(recipe.augment) or any(
            rate for _, rate in recipe.augment
        )
        if recipe.rate("controlled_dropout") and len(set(map(id, objective.readers))) > 1:
            cause = f"loss={recipe.loss} does not read both views by one model, so controlled_dropout cannot be applied"
            raise TuningError(cause, "Leave controlled_dropout out of the encoder spec.")

    def split(
        self, pairs: TokenizedPairs, most: int, draws: np.random.Generator
    ) -> tuple[list[MicroBatch], list[int]]:
        """Return micro-batches of at most ``most`` tokens, with pairs of similar length, and the rows of their pairs.

        First views are the first half of a micro-batch, second views in the same order the second half, as controlled
        dropout requires.
        """
        device = device_type(self.transformer.device)
        budget, lengths = min(TOKEN_BUDGET[device], most), pairs.lengths
        if self.packed:
            chosen = list(even_batches(lengths.sum(0), budget))
        else:
            chosen = list(
                similar_length_batches(
                    lengths.max(0), budget // 2, self.fixed, PASS_COST[device] // 2
                )
            )
        seeds = draws.integers(1 << 32, size=len(chosen)).tolist()
        batches = [
            MicroBatch(pairs.take(rows), seed) for rows, seed in zip(chosen, seeds, strict=True)
        ]
        return batches, [row for rows in chosen for row in rows]

    def positions(self, batch: MicroBatch) -> int:
        """Count the positions that the model computes for one micro-batch, padding included."""
        ids = batch.pairs.ids
        return (
            len(ids.values) if self.packed else len(ids) * max(self.fixed, int(ids.lengths.max()))
        )

    def read(self, batches: Sequence[MicroBatch], keep: bool = True) -> list[Tensor]:
        """Return the vectors of each micro-batch; ``keep``: with the graph for ``differentiate``."""
        shares = map_shares(partial(self._vectors, keep=keep), batches, self._threads)
        vectors: list[Tensor] = [torch.empty(0)] * len(batches)
        for start, share in enumerate(shares):
            vectors[start :: len(shares)] = share
        return vectors

    def differentiate(self, vectors: Sequence[Tensor], gradients: Sequence[Tensor]) -> None:
        """Back-propagate the gradients of vectors that ``read`` kept, and add the gradients of the weights."""
        pairs = list(zip(vectors, gradients, strict=True))
        if not self.parallel:  # in turn, as for vectors without a graph: the sums round alike
            for pair in pairs:
                torch.autograd.backward(*pair)
            return
        for share in map_shares(
            self._gradients, pairs, self._threads
        ):  # in a fixed order: rounding depends on it
            for weight, gradient in zip(self.weights, share, strict=True):
                if gradient is not None:
                    weight.grad = gradient if weight.grad is None else _added(weight.grad, gradient)

    @property
    def _threads(self) -> int:
        return torch.get_num_threads() if self.parallel else 1

    def _vectors(self, batches: Sequence[MicroBatch], keep: bool) -> list[Tensor]:
        with torch.set_grad_enabled(keep):
            return [self._pass(batch) for batch in batches]

    def _pass(self, batch: MicroBatch) -> Tensor:
        own = (
            fast_cpu_functions(torch.Generator().manual_seed(batch.seed))
            if self.parallel
            else nullcontext()
        )
        if not self.parallel:  # all threads share torch's own generator
            torch.manual_seed(batch.seed)
        with autocast(self.transformer.device, self.precision), own:
            return self._of_views(batch.pairs)

    def _forward(self, reader: Transformer, ids: Ragged, targets: Ragged | None) -> Tensor:
        if targets is not None or self.draws:
            return reader.forward(ids, [self.pooling], self.fixed, targets, self.packed)[0]
        texts = np.array(
            [row.tobytes() for row in ids], dtype=object
        )  # repeated texts are read once
        _, first, inverse = np.unique(texts, return_index=True, return_inverse=True)
        distinct = reader.forward(ids.take(first), [self.pooling], self.fixed, None, self.packed)[0]
        return distinct.index_select(0, moved(torch.from_numpy(inverse), distinct.device))

    def _of_views(self, pairs: TokenizedPairs) -> Tensor:
        readers = self.objective.readers
        if readers[0] and readers[0] is readers[1]:
            return self._forward(readers[0], pairs.ids, pairs.targets)
        views = [
            self._forward(reader, *pairs.view(row)) if reader else None
            for row, reader in enumerate(readers)
        ]
        like = next(view for view in views if view is not None)
        return torch.cat([torch.zeros_like(like) if view is None else view for view in views])

    def _gradients(self, share: Sequence[tuple[Tensor, Tensor]]) -> Sequence[Tensor | None]:
        vectors, gradients = zip(*share, strict=True)
        return torch.autograd.grad(vectors, self.weights, gradients, allow_unused=True)


def _added(left: Tensor, right: Tensor) -> Tensor:
    """Add two gradients, the dense one first, as torch requires."""
    return right + left if left.is_sparse and not right.is_sparse else left + right


def in_order(vectors: list[Tensor], order: list[int]) -> tuple[Tensor, Tensor]:
    """Return first and second views in the order of the pairs; ``order``: rows of the pairs in the micro-batches."""
    back = moved(torch.tensor(order).argsort(), vectors[0].device)
    views = zip(*(part.chunk(2) for part in vectors), strict=True)
    first, second = (torch.cat(view).index_select(0, back) for view in views)
    return first, second


@cache
def _pool(threads: int) -> ThreadPoolExecutor:
    """Return the same threads for every tuning, since glibc keeps freed memory for the thread that freed it."""
    return ThreadPoolExecutor(threads, thread_name_prefix="mirrorbench-tuning")


def map_shares(
    function: Callable[[Sequence[_T]], _R], items: Sequence[_T], threads: int
) -> list[_R]:
    """Apply a function to n shares of items, one a thread, and return the results; share i is ``items[i::n]``.

    Items of similar cost should be neighbours. torch's own threads are divided among the shares. Results depend on the
    number of threads, but not on their order. An exception is raised after all shares are done.
    """
    n = min(threads, len(items))
    if n <= 1:
        return [function(items)]

    def compute(share: Sequence[_T]) -> _R:
        torch.set_num_threads(threads // n)  # for this thread
        return function(share)

    jobs = [_pool(threads).submit(compute, items[start::n]) for start in range(n)]
    try:
        wait(jobs)
    finally:
        for job in jobs:
            job.cancel()
        torch.set_num_threads(threads)  # the shares changed this thread's number, too
    return [job.result() for job in jobs]
