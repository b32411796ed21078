"""Pairs as a model sees them: token ids of both views, token augmentations applied."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import torch

from mirrorbench.augmentations import Augmentation, TokenFunction, TokenView
from mirrorbench.encoding.inputs import TextInput
from mirrorbench.encoding.targets import Positions
from mirrorbench.encoding.transformer import Transformer
from mirrorbench.errors import TuningError
from mirrorbench.recipes import Recipe
from mirrorbench.training.views import Pairs

Ids = list[list[int]]


@dataclass(frozen=True, slots=True)
class TokenizedView:
    """One view of each pair.

    Attributes:
        ids: token ids, special tokens included, not padded.
        targets: positions of the targets' tokens, where the pooling reads only those; empty otherwise.
    """

    ids: Ids
    targets: list[Positions]

    def take(self, rows: Sequence[int]) -> TokenizedView:
        """Some of them."""
        return TokenizedView(
            [self.ids[row] for row in rows], [self.targets[row] for row in rows] if self.targets else []
        )


@dataclass(frozen=True, slots=True)
class TokenizedPairs:
    """Both views of some pairs.

    Attributes:
        left: first views.
        right: second views.
        labels: shape (pairs,); pairs of one group have the same label.
    """

    left: TokenizedView
    right: TokenizedView
    labels: torch.Tensor

    def take(self, rows: Iterable[int]) -> TokenizedPairs:
        """Some of them."""
        chosen = list(rows)
        return TokenizedPairs(self.left.take(chosen), self.right.take(chosen), self.labels[chosen])

    @property
    def lengths(self) -> list[int]:
        """Tokens of the longer view of each pair."""
        return [max(map(len, pair)) for pair in zip(self.left.ids, self.right.ids, strict=True)]

    def stacked(self) -> tuple[Ids, list[Positions] | None]:
        """All first views, then all second views: their ids, and their targets if there are any."""
        return self.left.ids + self.right.ids, self.left.targets + self.right.targets or None


def tokenized(
    pairs: Pairs, transformer: Transformer, recipe: Recipe, registered: dict[str, Augmentation], protocol: str,
    rng: np.random.Generator,
) -> TokenizedPairs:  # fmt: skip
    """Tokenise an epoch's pairs, and apply the recipe's token augmentations: to the second views, or to both.

    Args:
        pairs: the pairs.
        transformer: its tokenizer does it.
        recipe: maximum length, pooling, augmentations and sides.
        registered: augmentations by name.
        protocol: ``paper`` or ``released``.
        rng: generator.

    Raises:
        TuningError: fewer than two pairs.
    """
    n = len(pairs.left)
    if n < 2:
        raise TuningError(f"the corpus gives {n} pairs to tune on", "It needs at least two.")
    left, right = (_view(side, transformer, recipe) for side in (pairs.left, pairs.right))
    if recipe.sides == 2:
        left = TokenizedView(
            _augmented(left.ids, transformer.tokenizer, recipe, registered, protocol, rng), left.targets
        )
    right = TokenizedView(
        _augmented(right.ids, transformer.tokenizer, recipe, registered, protocol, rng), right.targets
    )
    numbers: dict[Any, int] = {}
    groups = range(n) if pairs.groups is None else pairs.groups
    labels = torch.tensor([numbers.setdefault(group, len(numbers)) for group in groups])
    return TokenizedPairs(left, right, labels)


def _view(inputs: Sequence[TextInput], transformer: Transformer, recipe: Recipe) -> TokenizedView:
    if recipe.pooling == "target":
        located = transformer.locate(inputs, recipe.train_max_length)
        return TokenizedView(located.ids, located.targets)
    return TokenizedView(transformer.tokenize([item.text for item in inputs], recipe.train_max_length), [])


def _augmented(
    ids: Ids, tokenizer: Any, recipe: Recipe, registered: dict[str, Augmentation], protocol: str,
    rng: np.random.Generator,
) -> Ids:  # fmt: skip
    """Token ids after all token augmentations of the recipe, in the order of their names."""
    special = frozenset(tokenizer.all_special_ids)
    for name, rate in recipe.augment:
        augmentation = registered[name]
        if augmentation.on == "tokens" and rate > 0:
            view = TokenView(rng, rate, tokenizer.mask_token_id, special, protocol)
            function = cast("TokenFunction", augmentation.function)
            ids = [function(row, view) for row in ids]
    return ids
