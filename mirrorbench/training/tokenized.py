"""Pairs as a model sees them: token ids of both views, each text tokenised once, token augmentations applied."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from mirrorbench.core.errors import TuningError
from mirrorbench.core.inputs import TextInput
from mirrorbench.models.batching import Ragged, TokenIds
from mirrorbench.models.transformer import Transformer
from mirrorbench.training.augmentations import Augmentation, AugmentationContext, TokenFunction
from mirrorbench.training.pairs import Pairs
from mirrorbench.training.recipes import Recipe


@dataclass(frozen=True, slots=True)
class TokenizedView:
    """One view of each pair.

    Attributes:
        ids: token ids, special tokens included, not padded.
        targets: positions of the targets' tokens, where the pooling reads only those.
    """

    ids: Ragged
    targets: Ragged | None = None

    def take(self, rows: ArrayLike) -> TokenizedView:
        """Some of them."""
        return TokenizedView(self.ids.take(rows), None if self.targets is None else self.targets.take(rows))


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

    def take(self, rows: ArrayLike) -> TokenizedPairs:
        """Some of them."""
        chosen = torch.as_tensor(np.asarray(rows, dtype=np.int64))
        return TokenizedPairs(self.left.take(rows), self.right.take(rows), self.labels[chosen])

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Tokens of the longer view of each pair."""
        return np.maximum(self.left.ids.lengths, self.right.ids.lengths)

    def stacked(self) -> TokenizedView:
        """All first views, then all second views."""
        ids = Ragged.joined([self.left.ids, self.right.ids])
        if self.left.targets is None or self.right.targets is None:
            return TokenizedView(ids)
        return TokenizedView(ids, Ragged.joined([self.left.targets, self.right.targets]))


class PairTokenizer:
    """Turns pairs of texts into pairs of token ids, and remembers those of the corpus' own strings.

    What an augmentation changed is tokenised as text: a mask in the middle of a word changes the tokens around it.

    Args:
        transformer: its tokenizer does it.
        recipe: maximum length, pooling, augmentations and sides.
        registered: augmentations by name.
        protocol: ``paper`` or ``released``.
        texts: the strings of the corpus.
        rng: generator of the token augmentations.
    """

    def __init__(
        self, transformer: Transformer, recipe: Recipe, registered: dict[str, Augmentation], protocol: str,
        texts: Sequence[str], rng: np.random.Generator,
    ) -> None:  # fmt: skip
        self.transformer = transformer
        self.recipe = recipe
        self._own = frozenset(texts)
        self._known: dict[TextInput, tuple[TokenIds, TokenIds | None]] = {}
        self._rng = rng
        tokenizer = transformer.tokenizer
        special = frozenset(tokenizer.all_special_ids)
        masks = (tokenizer.mask_token or "", protocol, 0, tokenizer.mask_token_id, special)
        self._augment = [
            (
                cast("TokenFunction", registered[name].function),
                AugmentationContext(rng, rate, *masks),
            )
            for name, rate in recipe.augment
            if registered[name].on == "tokens" and rate > 0
        ]

    def batches(self, pairs: Pairs, order: Iterator[NDArray[np.int64]]) -> Iterator[TokenizedPairs]:
        """One epoch's pairs, batch by batch, each tokenised when it is asked for.

        Token augmentations draw for all first views, then for all second views, in the order of the pairs, and before
        the first batch is drawn: so all texts are tokenised at once where there are any.

        Args:
            pairs: the pairs.
            order: the indices of each batch.

        Raises:
            TuningError: fewer than two pairs.
        """
        n = len(pairs.left)
        if n < 2:
            raise TuningError(f"the corpus gives {n} pairs to tune on", "It needs at least two.")
        numbers: dict[Any, int] = {}
        groups = range(n) if pairs.groups is None else pairs.groups
        labels = torch.tensor([numbers.setdefault(group, len(numbers)) for group in groups])
        if self._augment:
            left = self._view(pairs.left, self.recipe.sides == 2)
            everything = TokenizedPairs(left, self._view(pairs.right, True), labels)
            for rows in order:
                yield everything.take(rows)
        else:
            for rows in order:
                left = self._view([pairs.left[row] for row in rows], False)
                right = self._view([pairs.right[row] for row in rows], False)
                yield TokenizedPairs(left, right, labels[rows])

    def _view(self, inputs: Sequence[TextInput], augmented: bool) -> TokenizedView:
        """Token ids of some texts, after all token augmentations of the recipe in the order of their names."""
        fresh = [item for item in dict.fromkeys(inputs) if item not in self._known]
        found = dict(zip(fresh, self._tokenize(fresh), strict=True))
        self._known.update((item, row) for item, row in found.items() if not item.spans and item.text in self._own)
        rows = [found[item] if item in found else self._known[item] for item in inputs]
        ids = [row for row, _ in rows]
        targets = [target for _, target in rows if target is not None]
        view = TokenizedView(Ragged.of(ids), Ragged.of(targets) if targets else None)
        if not augmented:
            return view
        lists = [row.tolist() for row in ids]
        for function, context in self._augment:
            lists = [function(row, context) for row in lists]
        return replace(view, ids=Ragged.of(lists))

    def _tokenize(self, inputs: Sequence[TextInput]) -> Iterator[tuple[TokenIds, TokenIds | None]]:
        if self.recipe.pooling == "target":
            located = self.transformer.locate(inputs, self.recipe.train_max_length)
            return zip(located.ids, located.targets, strict=True)
        ids = self.transformer.tokenize([item.text for item in inputs], self.recipe.train_max_length)
        return ((row, None) for row in ids)
