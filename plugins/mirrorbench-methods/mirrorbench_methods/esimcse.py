"""ESimCSE (Wu et al., COLING 2022): SimCSE with repeated tokens in one view, and negatives of earlier batches.

The queue holds vectors of the last texts from a slow copy of the model, the moving average of its weights.
"Released code" is ESimCSE of https://github.com/caskcsg/sentemb, with the authors' log of a RoBERTa-base run.
"""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from mirrorbench.plugin import (
    AugmentationContext,
    Objective,
    Recipe,
    TokenizedPairs,
    in_batch,
    moved,
)
from mirrorbench_methods import simcse

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from mirrorbench.plugin import Transformer


QUEUE = 2.5
"""Number of vectors in the queue, in batches (released log: 160 for batches of 64)."""
MOMENTUM = 0.995
"""Share of its own weights that the copy keeps in a step (from re-implementations of the paper)."""
RELEASED_LIMIT = 10
"""The released code repeats fewer tokens than this."""


def preset(level: str, architecture: str, protocol: str) -> Recipe:
    """Return ESimCSE's recipe: SimCSE's for base models, in batches of 64, with repeated tokens.

    Batches of 64 and 1e-5 for RoBERTa, no weight decay, dropout 0.1: the released log. Temperature 0.05, 32 tokens, the
    head in training only: the released code and its README. 3e-5 for BERT: SimCSE's. Of the tokens up to 32 % are
    repeated, 30 % under ``released``, as in the log.
    """
    recipe = simcse.preset(level, architecture, protocol)
    repeated = ("repetition", 0.3 if protocol == "released" else 0.32)
    return replace(
        recipe, batch_size=64, loss="momentum-contrast", augment=(*recipe.augment, repeated)
    )


def repeat_tokens(ids: list[int], context: AugmentationContext) -> list[int]:
    """Repeat some tokens of a text, but no special ones (section 3.1); their number is drawn first, then the positions.

    The largest number is a share ``context.rate`` of the tokens, but two for a short text. Under the protocol
    ``released`` the share is of all tokens, special ones included, and the number stays below it and below
    ``RELEASED_LIMIT``.
    """
    positions = [position for position, token in enumerate(ids) if token not in context.special_ids]
    if context.protocol == "released":
        largest = min(RELEASED_LIMIT, int(context.rate * len(ids))) - 1
    else:
        largest = max(2, int(context.rate * len(positions)))
    largest = max(0, min(largest, len(positions)))
    number = context.rng.integers(largest + 1)
    repeated = context.rng.choice(positions, number, replace=False) if number else []
    # How often each token occurs in the result.
    counts = np.where(np.isin(np.arange(len(ids)), repeated), 2, 1)
    return np.repeat(ids, counts).tolist()


class MomentumContrast(Objective):
    """The loss ``in-batch`` with further negatives for each anchor: the queue (section 3.2)."""

    def __init__(self, transformer: Transformer, recipe: Recipe) -> None:
        super().__init__(transformer, recipe)
        self.slow = replace(transformer, model=copy.deepcopy(transformer.model).eval())
        # Traits are found by trying the model, which works only without the head.
        self.slow.traits = transformer.traits
        # Both models share one head (released code).
        if recipe.rate("simcse_head"):
            self.slow.model.simcse_head = transformer.model.simcse_head
        self.queue: list[Tensor] = []
        self.first_views: Tensor | None = None

    def loss(self, left: Tensor, right: Tensor, batch: TokenizedPairs, most: int) -> Tensor:
        """Average the cross-entropy over the first views."""
        import torch

        self.first_views = self.read(self.slow, *batch.view(0), most)
        candidates = torch.cat([right, *self.queue])
        return in_batch(left, candidates, self.recipe.temperature, moved(batch.labels, left.device))

    def state_dict(self) -> dict[str, Any]:
        """Return the weights of the copy, and the queue."""
        return {"slow": self.slow.model.state_dict(), "queue": self.queue}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the copy and the queue."""
        self.slow.model.load_state_dict(state["slow"])
        self.queue = [vectors.to(self.transformer.device) for vectors in state["queue"]]

    def stepped(self, optimizer: torch.optim.Optimizer, steps: int) -> None:
        """Put the copy's vectors of the first views into the queue, then move the copy towards the model."""
        import torch

        if self.first_views is not None:
            size = round(QUEUE * self.recipe.batch_size)
            # A list of at most one tensor, so that an empty queue needs no shape.
            self.queue = [torch.cat([*self.queue, self.first_views])[-size:]]
        slow_weights = self.slow.model.parameters()
        weights = self.transformer.model.parameters()
        with torch.no_grad():
            for slow_weight, weight in zip(slow_weights, weights, strict=True):
                slow_weight.lerp_(weight, 1 - MOMENTUM)
