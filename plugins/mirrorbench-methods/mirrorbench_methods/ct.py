"""Contrastive Tension (Carlsson et al., "Semantic Re-tuning with Contrastive Tension", ICLR 2021).

Two copies of the model read the two texts of a pair; the dot product of the vectors predicts whether the texts are the
same. Seven pairs of different texts follow each pair of the same text. Both copies learn, and the second is kept.

"Released code" is https://github.com/FreddeFrallan/Contrastive-Tension, which states the paper's hyper-parameters.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from mirrorbench.plugin import (
    Objective,
    PairMaker,
    Pairs,
    Recipe,
    TokenizedPairs,
    TuningError,
    moved,
)

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from mirrorbench.plugin import Transformer


LOSS = "contrastive-tension"
DIFFERENT = 7
"""Number of pairs of different texts for each pair of the same (K; released code: ``negative_k=7``)."""
BOUNDARIES = (500, 1000, 1500, 2000)
"""Steps after which the learning rate falls."""
RATES = (1.0, 0.8, 0.6, 0.4, 0.2)
"""Learning rates between the boundaries, as shares of the first (released code: 1e-5, 8e-6, 6e-6, 4e-6, 2e-6)."""


def preset(level: str, architecture: str, protocol: str) -> Recipe:
    """Return CT's recipe, the same at every level.

    Learning rate, batches of 16 pairs, texts of at most 75 tokens: the released code (``ExampleTraining.py``,
    "Hyperparamters from the Original CT paper"). Mean pooling, and no dropout, since both copies are called with
    ``training=False``: the released code (``ContrastiveTensionModel.py``). Its 10 epochs of 500 batches are as many
    steps, 5,000, as one epoch over 10,000 strings here.
    """
    return Recipe(
        temperature=1.0,
        epochs=1,
        train_max_length=75,
        pooling="mean",
        lr=1e-5,
        batch_size=16,
        weight_decay=0.0,
        loss=LOSS,
        augment=(("dropout", 0.0),),
        clean_corpus=protocol == "paper",
    )


def pairs(texts: Sequence[str], maker: PairMaker) -> Pairs:
    """Pair each text with itself (group ``same``), then with ``DIFFERENT`` other texts (group ``different``).

    Under the protocol ``released``, both texts of the latter pairs are drawn, and may be the same text.

    Raises:
        TuningError: the recipe has another loss, to which the pairs mean nothing.
    """
    if maker.recipe.loss != LOSS:
        raise TuningError(
            f"ct makes pairs of different texts, but loss={maker.recipe.loss}",
            f"Leave loss at {LOSS}.",
        )
    n = len(texts)
    index = np.arange(n)[:, None]  # shape (n, 1)
    # Rows of the first and second texts of different pairs, both of shape (n, DIFFERENT).
    if maker.protocol == "released":
        left, right = maker.rng.integers(n, size=(2, n, DIFFERENT))
    else:
        left = index.repeat(DIFFERENT, axis=1)
        # A distance from 1 to n - 1, so that no text is paired with itself.
        distance = 1 + maker.rng.integers(n - 1, size=(n, DIFFERENT))
        right = (index + distance) % n
    # Each text with itself, followed by its different pairs; these pairs stay together in a batch.
    first = [texts[i] for i in np.hstack([index, left]).ravel()]
    second = [texts[i] for i in np.hstack([index, right]).ravel()]
    # Groups are numbered in the order of their occurrence: the loss gets the label 0 for "same", 1 for "different".
    groups = ["same", *["different"] * DIFFERENT] * n
    return replace(maker.pairs(first, second, groups), together=DIFFERENT + 1)


class ContrastiveTension(Objective):
    """Binary cross-entropy of the dot products of both copies, with RMSprop and a falling learning rate."""

    def __init__(self, transformer: Transformer, recipe: Recipe) -> None:
        super().__init__(transformer, recipe)
        self.readers = (replace(transformer, model=copy.deepcopy(transformer.model)), transformer)

    def loss(self, left: Tensor, right: Tensor, batch: TokenizedPairs, most: int) -> Tensor:
        """Average the cross-entropy over the pairs."""
        from torch.nn.functional import binary_cross_entropy_with_logits

        if int(batch.labels.max()) > 1:
            problem = f"loss={self.recipe.loss} needs pairs of the same and of different texts"
            raise TuningError(problem, "Write +ct, or choose another loss.")
        same = moved((batch.labels == 0).to(left.dtype), left.device)
        return binary_cross_entropy_with_logits((left * right).sum(1), same)

    def optimizer(self) -> torch.optim.Optimizer:
        """Create RMSprop (released code) with TensorFlow's defaults, rho = 0.9 and epsilon = 1e-7."""
        import torch

        recipe = self.recipe
        return torch.optim.RMSprop(
            self.weights, recipe.lr, alpha=0.9, eps=1e-7, weight_decay=recipe.weight_decay
        )

    def state_dict(self) -> dict[str, Any]:
        """Return nothing: the rate is in the optimiser."""
        return {}

    def stepped(self, optimizer: torch.optim.Optimizer, steps: int) -> None:
        """Set the learning rate of the next step; at a boundary itself it has not fallen yet, as in TensorFlow."""
        n_passed = sum(steps > boundary for boundary in BOUNDARIES)
        optimizer.param_groups[0]["lr"] = self.recipe.lr * RATES[n_passed]
