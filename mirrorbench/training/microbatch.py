"""Micro-batches of a batch: split, computed and differentiated, on a CPU by several threads.

The loss sees the vectors of all micro-batches at once, so how a batch is split changes only the speed and the numbers
that dropout draws: each micro-batch has a seed of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from torch import Tensor

from mirrorbench.core.devices import autocast
from mirrorbench.models.batching import PASS_COST, TOKEN_BUDGET, even_batches, similar_length_batches
from mirrorbench.models.packing import can_pack
from mirrorbench.models.pooling import Pooling
from mirrorbench.models.transformer import Transformer
from mirrorbench.training.cpu_functions import fast_cpu_functions
from mirrorbench.training.data_parallel import map_shares
from mirrorbench.training.recipes import Recipe
from mirrorbench.training.tokenized import TokenizedPairs


@dataclass(frozen=True, slots=True)
class MicroBatch:
    """Pairs computed in one forward pass, first views before second views, and the seed of everything that it draws."""

    pairs: TokenizedPairs
    seed: int


class MicroBatchReader:
    """Computes and differentiates the vectors of micro-batches with a model in training mode.

    ``packs``: all model augmentations in use permit texts without padding.
    """

    def __init__(self, transformer: Transformer, recipe: Recipe, precision: str, packs: bool) -> None:
        self.transformer = transformer
        self.precision = precision
        self.pooling = Pooling(recipe.pooling, recipe.layers, recipe.train_max_length)
        self.fixed = recipe.train_max_length if recipe.pooling == "mean-padded" else 0
        self.packed = packs and not self.fixed and can_pack(transformer.model)
        # Augmentations that must not be packed (controlled dropout, drophead) draw from torch's own generator, which
        # all threads share, and replace functions in this thread alone.
        self.parallel = self.packed and transformer.device.type == "cpu"
        self.weights = [weight for weight in transformer.model.parameters() if weight.requires_grad]

    def split(self, pairs: TokenizedPairs, most: int, draws: np.random.Generator) -> tuple[list[MicroBatch], list[int]]:
        """Micro-batches of at most ``most`` tokens, with pairs of similar length, and the rows of their pairs.

        First views are the first half of a micro-batch, second views in the same order the second half: controlled
        dropout relies on that.
        """
        device = self.transformer.device.type
        budget, lengths = min(TOKEN_BUDGET[device], most), pairs.lengths
        if self.packed:
            chosen = list(even_batches(lengths.sum(0), budget))
        else:
            chosen = list(similar_length_batches(lengths.max(0), budget // 2, self.fixed, PASS_COST[device] // 2))
        seeds = draws.integers(1 << 32, size=len(chosen)).tolist()
        batches = [MicroBatch(pairs.take(rows), seed) for rows, seed in zip(chosen, seeds, strict=True)]
        return batches, [row for rows in chosen for row in rows]

    def positions(self, batch: MicroBatch) -> int:
        """Positions, padding included, that the model computes for one micro-batch."""
        ids = batch.pairs.ids
        return len(ids.values) if self.packed else len(ids) * max(self.fixed, int(ids.lengths.max()))

    def read(self, batches: Sequence[MicroBatch], keep: bool = True) -> list[Tensor]:
        """The vectors of each micro-batch; ``keep``: with the graph that ``differentiate`` needs."""
        shares = map_shares(partial(self._vectors, keep=keep), batches, self._threads)
        vectors: list[Tensor] = [torch.empty(0)] * len(batches)
        for start, share in enumerate(shares):
            vectors[start :: len(shares)] = share
        return vectors

    def differentiate(self, vectors: Sequence[Tensor], gradients: Sequence[Tensor]) -> None:
        """Back-propagate the gradients of the vectors that ``read`` kept, and add those of the weights to theirs."""
        if not self.parallel:
            torch.autograd.backward(vectors, gradients)
            return
        pairs = list(zip(vectors, gradients, strict=True))
        for found in map_shares(self._gradients, pairs, self._threads):  # in a fixed order: rounding depends on it
            for weight, gradient in zip(self.weights, found, strict=True):
                if gradient is not None:
                    weight.grad = gradient if weight.grad is None else _added(weight.grad, gradient)

    @property
    def _threads(self) -> int:
        return torch.get_num_threads() if self.parallel else 1

    def _vectors(self, batches: Sequence[MicroBatch], keep: bool) -> list[Tensor]:
        with torch.set_grad_enabled(keep):
            return [self._pass(batch) for batch in batches]

    def _pass(self, batch: MicroBatch) -> Tensor:
        pairs = batch.pairs
        forward = partial(self.transformer.forward, pairs.ids, [self.pooling], self.fixed, pairs.targets, self.packed)
        with autocast(self.transformer.device, self.precision):
            if self.parallel:  # all threads share torch's own generator
                with fast_cpu_functions(torch.Generator().manual_seed(batch.seed)):
                    return forward()[0]
            torch.manual_seed(batch.seed)
            return forward()[0]

    def _gradients(self, share: Sequence[tuple[Tensor, Tensor]]) -> Sequence[Tensor | None]:
        vectors, gradients = zip(*share, strict=True)
        return torch.autograd.grad(vectors, self.weights, gradients, allow_unused=True)


def _added(one: Tensor, other: Tensor) -> Tensor:
    """The sum of two gradients; torch needs the dense one first."""
    return other + one if one.is_sparse and not other.is_sparse else one + other


def in_order(vectors: list[Tensor], order: list[int]) -> tuple[Tensor, Tensor]:
    """First and second views in the order of the pairs; ``order`` has the rows of the pairs in the micro-batches."""
    halves = [part.chunk(2) for part in vectors]
    back = torch.tensor(order).argsort().to(vectors[0].device, non_blocking=True)
    return torch.cat([half[0] for half in halves])[back], torch.cat([half[1] for half in halves])[back]
