"""A batch in parts: split into passes, read, and differentiated; on a CPU by its cores side by side.

The loss sees the vectors of all parts at once, so what is a part changes the speed and nothing else, but for which
numbers dropout draws: each part has a seed of its own, whichever thread reads it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch

from mirrorbench.core.devices import autocast
from mirrorbench.models.batching import PASS_COST, TOKEN_BUDGET, even_batches, similar_length_batches
from mirrorbench.models.packing import can_pack
from mirrorbench.models.pooling import Pooling
from mirrorbench.models.transformer import Transformer
from mirrorbench.training.cpu_functions import FastCpuFunctions
from mirrorbench.training.data_parallel import DataParallelThreads
from mirrorbench.training.recipes import Recipe
from mirrorbench.training.tokenized import TokenizedPairs, TokenizedView


@dataclass(frozen=True, slots=True)
class MicroBatch:
    """What is read in one pass: some pairs of a batch.

    Attributes:
        view: their first views, then their second views.
        seed: of all that is drawn in the pass.
    """

    view: TokenizedView
    seed: int


class MicroBatchReader:
    """Reads parts with one model.

    Args:
        transformer: the backbone, in training mode.
        recipe: pooling, layers and maximum length.
        precision: ``fp32``, or ``bf16`` for autocast.
        packs: whether all that was attached to the model permits texts end to end in one row.
        beside: reads packed parts side by side; without it they are read one after the other.
    """

    def __init__(
        self,
        transformer: Transformer,
        recipe: Recipe,
        precision: str,
        packs: bool,
        beside: DataParallelThreads | None = None,
    ) -> None:
        self.transformer = transformer
        self.precision = precision
        self.pooling = Pooling(recipe.pooling, recipe.layers, recipe.train_max_length)
        self.fixed = recipe.train_max_length if recipe.pooling == "mean-padded" else 0
        self.packed = packs and not self.fixed and can_pack(transformer.model)
        self.beside = beside if self.packed else None
        self.weights = [weight for weight in transformer.model.parameters() if weight.requires_grad]

    def split(self, pairs: TokenizedPairs, most: int, draws: np.random.Generator) -> tuple[list[MicroBatch], list[int]]:
        """Parts of pairs of similar length, and the pairs in the order of the parts.

        The two views of a pair are always in one part, the first views in its first half and the second views in the
        same order in its second half: controlled dropout relies on that.

        Args:
            pairs: the batch.
            most: tokens of a part, at most, however many the device would like.
            draws: of the parts' seeds.
        """
        device = self.transformer.device.type
        budget = min(TOKEN_BUDGET[device], most)
        if self.packed:
            chosen = list(even_batches(pairs.left.ids.lengths + pairs.right.ids.lengths, budget))
        else:
            chosen = list(similar_length_batches(pairs.lengths, budget // 2, self.fixed, PASS_COST[device] // 2))
        seeds = draws.integers(1 << 32, size=len(chosen)).tolist()
        parts = [MicroBatch(pairs.take(rows).stacked(), seed) for rows, seed in zip(chosen, seeds, strict=True)]
        return parts, [row for rows in chosen for row in rows]

    def positions(self, part: MicroBatch) -> int:
        """Positions that the model computes for one part."""
        ids = part.view.ids
        return len(ids.values) if self.packed else len(ids) * max(self.fixed, int(ids.lengths.max()))

    def read(self, parts: Sequence[MicroBatch], keep: bool = True) -> list[torch.Tensor]:
        """The vectors of each part; ``keep`` what ``differentiate`` needs."""
        if self.beside is None:
            with torch.set_grad_enabled(keep):
                return [self._vectors(part) for part in parts]
        shares = self.beside.map(partial(self._side_by_side, keep=keep), self.beside.shares(parts))
        vectors: list[torch.Tensor] = [torch.empty(0)] * len(parts)
        for start, share in enumerate(shares):
            vectors[start :: len(shares)] = share
        return vectors

    def differentiate(self, vectors: Sequence[torch.Tensor], gradients: Sequence[torch.Tensor]) -> None:
        """Given the gradients of the vectors that ``read`` kept, add those of the weights to theirs."""
        if self.beside is None:
            torch.autograd.backward(vectors, gradients)
            return
        shares = self.beside.shares(list(zip(vectors, gradients, strict=True)))
        for found in self.beside.map(self._gradients, shares):  # added in their order, or rounding would be chance
            for weight, gradient in zip(self.weights, found, strict=True):
                if gradient is not None:
                    weight.grad = gradient if weight.grad is None else _added(weight.grad, gradient)

    def _vectors(self, part: MicroBatch) -> torch.Tensor:
        torch.manual_seed(part.seed)
        return self._pass(part.view)

    def _side_by_side(self, parts: Sequence[MicroBatch], keep: bool) -> list[torch.Tensor]:
        """As ``_vectors``; torch's own generator is one for all threads, so each part draws from one of its own."""
        vectors = []
        with torch.set_grad_enabled(keep):
            for part in parts:
                with FastCpuFunctions(torch.Generator().manual_seed(part.seed)):
                    vectors.append(self._pass(part.view))
        return vectors

    def _pass(self, view: TokenizedView) -> torch.Tensor:
        with autocast(self.transformer.device, self.precision):
            return self.transformer.forward(view.ids, [self.pooling], self.fixed, view.targets, self.packed)[0]

    def _gradients(self, share: Sequence[tuple[torch.Tensor, torch.Tensor]]) -> Sequence[torch.Tensor | None]:
        vectors, gradients = zip(*share, strict=True)
        return torch.autograd.grad(vectors, self.weights, gradients, allow_unused=True)


def _added(one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """The sum of two gradients; torch wants the dense one first."""
    return other + one if one.is_sparse and not other.is_sparse else one + other
