"""How a method makes the pairs that it is tuned on from the strings of a corpus.

A method brings a function ``(texts, maker) -> Pairs``, called at the start of each epoch. Mirror pairs every string
with itself; others pair two names of one concept, or a word in context with the same word in a masked context.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mirrorbench.core.inputs import TextInput
from mirrorbench.training.augmentations import Augmentation, AugmentationContext, in_use

if TYPE_CHECKING:
    import numpy as np

    from mirrorbench.training.recipes import Recipe


@dataclass(frozen=True, slots=True)
class Pairs:
    """The positive pairs of one epoch.

    Attributes:
        left: first views.
        right: second views, same length and order.
        groups: the group of each pair; pairs of one group are no negatives of each other. ``None``: each pair is a
            group.
    """

    left: Sequence[TextInput]
    right: Sequence[TextInput]
    groups: Sequence[Hashable] | None = None


@dataclass(frozen=True, slots=True)
class PairMaker:
    """What a method may use to make its pairs.

    Attributes:
        recipe: the hyper-parameters.
        rng: the tuning's own generator; the only permitted source of randomness.
        mask_token: how the backbone's tokenizer writes its mask token.
        protocol: ``paper`` or ``released``.
        augmentations: the registered ones, by name.
    """

    recipe: Recipe
    rng: np.random.Generator
    mask_token: str
    protocol: str
    augmentations: Mapping[str, Augmentation]

    def augment(self, texts: Sequence[str], shortest: int = 30) -> list[str]:
        """The texts after the recipe's text augmentations, applied in the order of their names.

        Args:
            texts: the strings.
            shortest: characters; under ``released``, shorter strings are left alone.
        """
        result = list(texts)
        for function, rate in in_use(self.recipe, self.augmentations, "text"):
            context = AugmentationContext(self.rng, rate, self.mask_token, self.protocol, shortest)
            result = [function(text, context) for text in result]
        return result

    def pairs(self, left: Sequence[str], right: Sequence[str], groups: Sequence[Hashable] | None = None) -> Pairs:
        """Pairs of strings with the second views augmented, under ``sides=2`` the first ones too."""
        if self.recipe.sides == 2:
            left = self.augment(left)
        right = self.augment(right)
        return Pairs([TextInput(text) for text in left], [TextInput(text) for text in right], groups)


PairFunction = Callable[[Sequence[str], PairMaker], Pairs]


def identical_pairs(texts: Sequence[str], maker: PairMaker) -> Pairs:
    """Every string paired with itself (paper 1, section 2.1)."""
    return maker.pairs(texts, texts)
