"""Pairs as token ids: each text tokenised once, token augmentations applied."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mirrorbench.core.errors import TuningError
from mirrorbench.core.inputs import TextInput
from mirrorbench.models.batching import Ragged, TokenIds
from mirrorbench.models.transformer import Transformer
from mirrorbench.training.augmentations import Augmentation, AugmentationContext, in_use
from mirrorbench.training.pairs import PairMaker, Pairs


@dataclass(frozen=True, slots=True)
class TokenizedPairs:
    """Both views of n pairs: rows 0 to n - 1 are the first views, rows n to 2n - 1 the second ones in the same order.

    Attributes:
        ids: token ids, special tokens included, not padded.
        targets: positions of the targets' tokens, for the pooling ``target`` only.
        labels: shape (n,); pairs of one group have the same label.
    """

    ids: Ragged
    targets: Ragged | None
    labels: Tensor

    def take(self, rows: Sequence[int] | NDArray[np.int64]) -> TokenizedPairs:
        """Some of the pairs."""
        chosen = np.asarray(rows, dtype=np.int64)
        both = np.concatenate([chosen, chosen + len(self.labels)])
        targets = None if self.targets is None else self.targets.take(both)
        return TokenizedPairs(self.ids.take(both), targets, self.labels[torch.from_numpy(chosen)])

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Tokens of each view, shape (2, n)."""
        return self.ids.lengths.reshape(2, -1)


class PairTokenizer:
    """Tokenises pairs, and remembers the ids of the corpus's own strings.

    Augmented text is tokenised anew: a mask in the middle of a word changes the tokens around it.
    """

    def __init__(
        self, transformer: Transformer, maker: PairMaker, registered: dict[str, Augmentation], texts: Sequence[str]
    ) -> None:
        self.transformer = transformer
        self.recipe = maker.recipe
        self._own = frozenset(texts)
        self._known: dict[TextInput, tuple[TokenIds, TokenIds | None]] = {}
        tokenizer = transformer.tokenizer
        plain = AugmentationContext(
            maker.rng, 0.0, maker.mask_token, maker.protocol,
            mask_id=tokenizer.mask_token_id, special_ids=frozenset(tokenizer.all_special_ids),
        )  # fmt: skip
        chosen = in_use(self.recipe, registered, "tokens")
        self._augment = [(function, replace(plain, rate=rate)) for function, rate in chosen]

    def batches(self, pairs: Pairs, order: Iterator[NDArray[np.int64]]) -> Iterator[TokenizedPairs]:
        """One epoch's pairs, tokenised batch by batch; ``order`` yields the rows of each batch.

        Token augmentations draw for all first views, then for all second views, before the first batch is drawn; with
        them, all texts are tokenised at once. Fewer than two pairs are a ``TuningError``.
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

    def _tokenized(self, left: Sequence[TextInput], right: Sequence[TextInput], labels: Tensor) -> TokenizedPairs:
        """Token ids of pairs, after the recipe's token augmentations in the order of their names."""
        rows = self._rows([*left, *right])
        ids: list[Any] = [row for row, _ in rows]
        targets = [target for _, target in rows if target is not None]
        first = 0 if self.recipe.sides == 2 else len(left)
        for views in (slice(first, len(left)), slice(len(left), None)) if self._augment else ():
            lists = [row.tolist() for row in ids[views]]
            for function, context in self._augment:
                lists = [function(row, context) for row in lists]
            ids[views] = lists
        return TokenizedPairs(Ragged.of(ids), Ragged.of(targets) if targets else None, labels)

    def _rows(self, inputs: Sequence[TextInput]) -> list[tuple[TokenIds, TokenIds | None]]:
        fresh = [item for item in dict.fromkeys(inputs) if item not in self._known]
        found = dict(zip(fresh, self._tokenize(fresh), strict=True))
        self._known.update((item, row) for item, row in found.items() if not item.spans and item.text in self._own)
        return [found[item] if item in found else self._known[item] for item in inputs]

    def _tokenize(self, inputs: Sequence[TextInput]) -> Iterator[tuple[TokenIds, TokenIds | None]]:
        if self.recipe.pooling == "target":
            located = self.transformer.locate(inputs, self.recipe.train_max_length)
            return zip(located.ids, located.targets, strict=True)
        ids = self.transformer.tokenize([item.text for item in inputs], self.recipe.train_max_length)
        return ((row, None) for row in ids)
