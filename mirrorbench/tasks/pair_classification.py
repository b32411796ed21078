"""Pair classification (QNLI): does the cosine of two texts tell the pairs that belong together from the others?"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from mirrorbench.core.errors import DataFormatError
from mirrorbench.data.formats import parse
from mirrorbench.data.items import Pair
from mirrorbench.tasks import Scores, Vectors
from mirrorbench.tasks.from_card import FromCard, arguments
from mirrorbench.tasks.metrics.classification import auc, roc
from mirrorbench.tasks.metrics.similarity import cosine
from mirrorbench.tasks.pair_similarity import PairSimilarity

if TYPE_CHECKING:
    from mirrorbench.data.cards import Card
    from mirrorbench.data.store import DataStore


class PairClassification(PairSimilarity):
    """Cosine similarity of two texts against a label, without a threshold and without training.

    Metric: ``auc``, the area under the ROC curve (Mirror-BERT, section 3, footnote 4). The points of the curve are kept
    beside the predictions (``roc_fpr``, ``roc_tpr``, ``roc_thresholds``).

    Args:
        name: the task's name.
        pairs: pairs whose gold is 0 or 1, or a function that reads them from a ``DataStore``.
        main_metric: which metric tables show.
        **arguments: those of ``PairSimilarity``.
    """

    def __init__(
        self,
        name: str,
        pairs: Sequence[Pair] | Callable[[DataStore], Sequence[Pair]],
        main_metric: str = "auc",
        **arguments: Any,
    ) -> None:
        super().__init__(name, pairs, main_metric=main_metric, **arguments)

    def load(self, data: DataStore) -> list[Pair]:
        """The pairs, their labels checked: 0 or 1, and both of them."""
        pairs = super().load(data)
        if {pair.gold for pair in pairs} != {0.0, 1.0}:
            raise DataFormatError(f"task {self.name}: the labels must be 0 and 1, and both must occur")
        return pairs

    def score(self, items: Sequence[Pair], vectors: Vectors, protocol: str = "paper") -> Scores:
        """Cosines, and how well they separate the labels; the protocol makes no difference here."""
        left, right = self._sides(items)
        cosines = cosine(vectors(left), vectors(right))
        gold = np.array([p.gold for p in items], dtype=np.float64)
        return Scores({"auc": auc(cosines, gold)}, [p.id for p in items], cosines, gold, extra=roc(cosines, gold))


class CardPairClassification(FromCard, PairClassification):
    """Pair classification on the files of a card."""

    def __init__(self, card: Card) -> None:
        super().__init__(pairs=lambda data: parse(data.resolve(card)), **arguments(card))
        self.card = card
