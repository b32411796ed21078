"""Micro-batches: tokenised pairs, their vectors and their gradients, computed in several threads on a CPU.

The loss takes the vectors of all micro-batches at once. The split of a batch therefore changes only the speed, and
dropout, since each micro-batch has a seed of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any, NamedTuple, TypeVar

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
    even_batches,
    similar_length_batches,
)
from mirrorbench.models.ragged import Ragged
from mirrorbench.models.transformer import Transformer
from mirrorbench.training.augmentations import (
    Augmentation,
    AugmentationContext,
    functions_and_rates,
)
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
        # Each token augmentation gets a copy of this context with its own rate.
        context = AugmentationContext(
            maker.rng,
            rate=0.0,
            mask_token=maker.mask_token,
            protocol=maker.protocol,
            mask_id=tokenizer.mask_token_id,
            special_ids=frozenset(tokenizer.all_special_ids),
        )
        self._n_tokens = len(tokenizer)
        token_augmentations = functions_and_rates(self.recipe.augment, registered, "tokens")
        self._augmentations = [
            (function, replace(context, rate=rate)) for function, rate in token_augmentations
        ]

    def batches(self, pairs: Pairs, order: Iterator[NDArray[np.int64]]) -> Iterator[TokenizedPairs]:
        """Yield the batches of one epoch's pairs.

        With token augmentations all texts are tokenised before the first batch is drawn: the augmentations draw for all
        first views, then for all second views.

        Args:
            pairs: the pairs of the epoch.
            order: yields the indices of the pairs of each batch.

        Raises:
            TuningError: there are fewer than two pairs.
        """
        n = len(pairs.left)
        if n < 2:
            raise TuningError(f"the corpus gives {n} pairs to tune on", "It needs at least two.")
        labels = _labels_of(pairs)
        if self._augmentations:
            tokenized = self._tokenized(pairs.left, pairs.right, labels)
            for rows in order:
                yield tokenized.take(rows)
            return
        for rows in order:
            left = [pairs.left[row] for row in rows]
            right = [pairs.right[row] for row in rows]
            yield self._tokenized(left, right, labels[torch.from_numpy(rows)])

    def _tokenized(
        self, left: Sequence[TextInput], right: Sequence[TextInput], labels: Tensor
    ) -> TokenizedPairs:
        """Return pairs as token ids, after the recipe's token augmentations in the order of their names."""
        pooling = self.recipe.readout(self.recipe.train_max_length)
        # Token ids and positions of the targets: those of all first views, then those of all second views.
        located = self.transformer.read([*left, *right], pooling)
        if not self._augmentations:
            return TokenizedPairs(located.ids, located.targets, labels)
        rows: list[list[int]] = [ids.tolist() for ids in located.ids]
        # Augment the second views; with ``sides=2`` the first ones, too, before them.
        n = len(left)
        augmented_views = [slice(n, None)]
        if self.recipe.sides == 2:
            augmented_views.insert(0, slice(0, n))
        for view in augmented_views:
            for function, context in self._augmentations:
                rows[view] = [
                    self._checked_ids(ids, function(ids, context), located.targets)
                    for ids in rows[view]
                ]
        return TokenizedPairs(Ragged.of(rows), located.targets, labels)

    def _checked_ids(self, ids: list[int], changed: list[int], targets: Ragged | None) -> list[int]:
        """Return the ids that an augmentation changed, or the old ones if the model has too few positions for them.

        Raises:
            PluginError: an id is not one of the tokenizer's.
            TuningError: the number of tokens changed, under the pooling ``target``.
        """
        lowest = min(changed)
        highest = max(changed)
        if lowest < 0 or highest >= self._n_tokens:
            problem = f"an augmentation returned token ids from {lowest} to {highest}"
            raise PluginError(problem, f"The tokenizer has ids from 0 to {self._n_tokens - 1}.")
        if targets is not None and len(changed) != len(ids):
            problem = "an augmentation changes the number of tokens, so the target's tokens are not found any more"
            raise TuningError(
                problem, "Choose another pooling than target, or another augmentation."
            )
        positions = self.transformer.positions  # 0 for no limit
        if positions and len(changed) > positions:
            return ids
        return changed


def _labels_of(pairs: Pairs) -> Tensor:
    """Return the number of each pair's group, from 0 in the order of first occurrence, shape (n,)."""
    if pairs.groups is None:
        return torch.arange(len(pairs.left))
    number_of_group: dict[Any, int] = {}
    labels = [number_of_group.setdefault(group, len(number_of_group)) for group in pairs.groups]
    return torch.tensor(labels)


@dataclass(frozen=True, slots=True)
class MicroBatch:
    """Pairs of one forward pass, and the seed of its random numbers."""

    pairs: TokenizedPairs
    """The pairs, first views before second views."""
    seed: int
    """Seed of dropout."""


class Split(NamedTuple):
    """A batch divided into micro-batches."""

    micro_batches: list[MicroBatch]
    """The micro-batches."""
    order: list[int]
    """Index in the batch of each pair of the micro-batches, one micro-batch after the other."""


class MicroBatchReader:
    """A model in training mode that computes and differentiates the vectors of micro-batches.

    ``packs``: whether all model augmentations in use permit packed rows.

    Raises:
        TuningError: two models read the views, and controlled dropout needs one.
    """

    def __init__(self, objective: Objective, precision: str, packs: bool) -> None:
        self.objective = objective
        self.transformer = objective.transformer
        self.precision = precision
        self.pooling = objective.pooling
        self.pad_to = objective.pad_to
        self.packed = packs and not self.pad_to and self.transformer.traits.packs
        # Only packed rows are read in parallel. Augmentations without packing (controlled dropout, drophead) draw from
        # torch's own generator, which all threads share, and replace functions in this thread alone.
        self.parallel = self.packed and self.transformer.device.type == "cpu"
        self.weights = objective.weights
        recipe = objective.recipe
        # ``is_random``: whether two passes over one text may differ. A recipe without the key ``dropout`` leaves the
        # model its own dropout.
        has_rate = any(rate for _, rate in recipe.augment)
        self.is_random = has_rate or "dropout" not in dict(recipe.augment)
        n_models = len({id(reader) for reader in objective.readers})
        if recipe.rate("controlled_dropout") and n_models > 1:
            cause = f"loss={recipe.loss} does not read both views by one model, so controlled_dropout cannot be applied"
            raise TuningError(cause, "Leave controlled_dropout out of the encoder spec.")

    def split(self, pairs: TokenizedPairs, most: int, rng: np.random.Generator) -> Split:
        """Divide a batch into micro-batches of pairs of similar length.

        First views are the first half of a micro-batch, second views in the same order the second half, as controlled
        dropout requires.

        Args:
            pairs: the batch.
            most: most tokens of a micro-batch.
            rng: draws the seed of each micro-batch.
        """
        device = device_type(self.transformer.device)
        budget = min(TOKEN_BUDGET[device], most)
        # Shape (2, pairs): the lengths of both views.
        lengths = pairs.lengths
        if self.packed:
            row_groups = list(even_batches(lengths.sum(0), budget))
        else:
            # Once padded, both views of a pair have the length of the longer one: batch the lengths of one view, with
            # half of the budget and of the cost of a pass.
            longest = lengths.max(0)
            row_groups = list(
                similar_length_batches(longest, budget // 2, self.pad_to, PASS_COST[device] // 2)
            )
        seeds = rng.integers(1 << 32, size=len(row_groups)).tolist()
        micro_batches: list[MicroBatch] = []
        order: list[int] = []
        for rows, seed in zip(row_groups, seeds, strict=True):
            micro_batches.append(MicroBatch(pairs.take(rows), seed))
            order.extend(rows)
        return Split(micro_batches, order)

    def count_positions(self, batch: MicroBatch) -> int:
        """Count the positions that the model computes for one micro-batch, padding included."""
        ids = batch.pairs.ids
        if self.packed:
            return len(ids.values)
        longest = int(ids.lengths.max())
        return len(ids) * max(self.pad_to, longest)

    def read(self, batches: Sequence[MicroBatch], keep: bool = True) -> list[Tensor]:
        """Return the vectors of each micro-batch, shape (2n, dimensions) for n pairs.

        ``keep``: whether activations are kept for ``differentiate``.
        """
        shares = map_shares(partial(self._vectors, keep=keep), batches, self._threads)
        # Share i has the micro-batches i, i + n ... of n shares.
        vectors: list[Tensor] = [torch.empty(0)] * len(batches)
        for start, share in enumerate(shares):
            vectors[start :: len(shares)] = share
        return vectors

    def differentiate(self, vectors: Sequence[Tensor], gradients: Sequence[Tensor]) -> None:
        """Back-propagate gradients through vectors of ``read``, and add the gradients of the weights to ``grad``.

        Args:
            vectors: vectors of micro-batches, whose activations were kept.
            gradients: the gradients of the loss with respect to them.
        """
        pairs = list(zip(vectors, gradients, strict=True))
        if not self.parallel:
            # One after the other, as for vectors without a graph, so that sums are rounded alike.
            for pair in pairs:
                torch.autograd.backward(*pair)
            return
        # The shares are in a fixed order, on which rounding depends.
        for weight_gradients in map_shares(self._gradients, pairs, self._threads):
            for weight, gradient in zip(self.weights, weight_gradients, strict=True):
                if gradient is None:
                    continue
                weight.grad = gradient if weight.grad is None else _sum(weight.grad, gradient)

    @property
    def _threads(self) -> int:
        return torch.get_num_threads() if self.parallel else 1

    def _vectors(self, batches: Sequence[MicroBatch], keep: bool) -> list[Tensor]:
        with torch.set_grad_enabled(keep):
            return [self._pass(batch) for batch in batches]

    def _pass(self, batch: MicroBatch) -> Tensor:
        """Return the vectors of a micro-batch, with dropout drawn from its seed."""
        if self.parallel:
            # A generator for each pass, since all threads share torch's own.
            generator = torch.Generator().manual_seed(batch.seed)
            cpu_functions: AbstractContextManager[Any] = fast_cpu_functions(generator)
        else:
            torch.manual_seed(batch.seed)
            cpu_functions = nullcontext()
        with autocast(self.transformer.device, self.precision), cpu_functions:
            return self._vectors_of_views(batch.pairs)

    def _vectors_of_views(self, pairs: TokenizedPairs) -> Tensor:
        """Return the vectors of both views, each by its model; zeros for views that need no vectors."""
        first_reader, second_reader = self.objective.readers
        if first_reader and first_reader is second_reader:
            return self._forward(first_reader, pairs.ids, pairs.targets)
        first = self._forward(first_reader, *pairs.view(0)) if first_reader else None
        second = self._forward(second_reader, *pairs.view(1)) if second_reader else None
        if first is None:
            assert second is not None
            first = torch.zeros_like(second)
        if second is None:
            second = torch.zeros_like(first)
        return torch.cat([first, second])

    def _forward(self, reader: Transformer, ids: Ragged, targets: Ragged | None) -> Tensor:
        if targets is not None or self.is_random:
            return reader.forward(ids, [self.pooling], self.pad_to, targets, self.packed)[0]
        # Repeated texts have the same vector, and are read once.
        texts = np.array([row.tobytes() for row in ids], dtype=object)
        _, first_rows, inverse = np.unique(texts, return_index=True, return_inverse=True)
        distinct_ids = ids.take(first_rows)
        distinct = reader.forward(distinct_ids, [self.pooling], self.pad_to, None, self.packed)[0]
        return distinct.index_select(0, moved(torch.from_numpy(inverse), distinct.device))

    def _gradients(self, share: Sequence[tuple[Tensor, Tensor]]) -> Sequence[Tensor | None]:
        """Return the gradient of each weight for vectors with their gradients; ``None`` for an unused weight."""
        vectors, gradients = zip(*share, strict=True)
        return torch.autograd.grad(vectors, self.weights, gradients, allow_unused=True)


def _sum(left: Tensor, right: Tensor) -> Tensor:
    """Add two gradients, the dense one first, as torch requires."""
    if left.is_sparse and not right.is_sparse:
        return right + left
    return left + right


def in_order(vectors: list[Tensor], order: list[int]) -> tuple[Tensor, Tensor]:
    """Return the vectors of the first and of the second views, in the order of the pairs.

    Args:
        vectors: vectors of each micro-batch, first views before second views.
        order: index of each pair of the micro-batches, as in ``Split``.
    """
    first_views = []
    second_views = []
    for micro_batch in vectors:
        first, second = micro_batch.chunk(2)
        first_views.append(first)
        second_views.append(second)
    pair_rows = moved(torch.tensor(order).argsort(), vectors[0].device)
    left = torch.cat(first_views).index_select(0, pair_rows)
    right = torch.cat(second_views).index_select(0, pair_rows)
    return left, right


@cache
def _pool(threads: int) -> ThreadPoolExecutor:
    """Return one pool for all tunings, since glibc keeps freed memory for the thread that freed it."""
    return ThreadPoolExecutor(threads, thread_name_prefix="mirrorbench-tuning")


def map_shares(
    function: Callable[[Sequence[_T]], _R], items: Sequence[_T], threads: int
) -> list[_R]:
    """Apply a function to n shares of items, each in a thread of its own, and return the result of each share.

    Share i is ``items[i::n]``, so items of similar cost should be neighbours; n is ``threads``, or the number of items
    if that is less. torch's own threads, also ``threads`` of them, are divided among the shares. Results depend on the
    number of threads, but not on which of them ends first. An exception is raised after all shares are done.
    """
    n = min(threads, len(items))
    if n <= 1:
        return [function(items)]

    def compute(share: Sequence[_T]) -> _R:
        # This sets the number of threads for operations that the calling thread starts.
        torch.set_num_threads(threads // n)
        return function(share)

    jobs = [_pool(threads).submit(compute, items[start::n]) for start in range(n)]
    try:
        wait(jobs)
    finally:
        # After an interruption, start no further share.
        for job in jobs:
            job.cancel()
        # The shares changed this thread's number, too.
        torch.set_num_threads(threads)
    return [job.result() for job in jobs]
