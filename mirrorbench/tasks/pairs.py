"""Tasks on pairs of texts, scored by their cosine: similarity (STS) and classification (QNLI)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from mirrorbench.core.encoder_protocol import TextInput
from mirrorbench.core.errors import DataFormatError
from mirrorbench.data.items import ContextChange, ContextPair, Pair, RatedContexts
from mirrorbench.tasks.base import Scores, TaskKind, Vectors
from mirrorbench.tasks.metrics import auc, cosine, over_subsets, pearson, roc_points, spearman

_PAIRS_AT_ONCE = 8192

Item = TypeVar("Item", bound=Pair | ContextPair | RatedContexts | ContextChange)


class CosineTask(TaskKind[Sequence[Item]], Generic[Item]):
    """Base class of the tasks on pairs, which score the cosine of the two sides."""

    def check(self, items: Sequence[Item]) -> None:
        """Check that the ids are unique."""
        self.check_ids([item.id for item in items])

    def texts(self, items: Sequence[Item]) -> Mapping[str, tuple[str, ...]]:
        """Return the texts of each item, without repeats."""
        return {
            item.id: tuple(dict.fromkeys(side.text for side in self.inputs([item])))
            for item in items
        }

    def cosines(self, items: Sequence[Item], vectors: Vectors) -> NDArray[np.float64]:
        """Return the cosine of each pair; vectors are taken for ``_PAIRS_AT_ONCE``, of which memory is bounded."""
        sides = self.inputs(items)
        cosines = [np.empty(0)]
        for start in range(0, len(sides), 2 * _PAIRS_AT_ONCE):
            part = sides[start : start + 2 * _PAIRS_AT_ONCE]
            cosines.append(cosine(vectors(part[::2]), vectors(part[1::2])))
        return np.concatenate(cosines)


class PairSimilarity(CosineTask[Pair]):
    """Cosine similarity of two texts against a human judgement; of two languages, the first is that of the left texts.

    Metrics: ``spearman`` and ``pearson`` over all pairs, as the papers report them; where the set has parts, also
    ``spearman_mean`` and ``spearman_wmean``: within each part, then averaged plainly or weighted by size (the three
    readings of an STS score differ by several points).
    """

    item_class = Pair
    items_name = "pairs"
    level = "sentence"
    main_metric = "spearman"

    def inputs(self, items: Sequence[Pair]) -> list[TextInput]:
        """Return both texts of each pair; with two languages each has its own."""
        left, right = self.languages if len(self.languages) == 2 else ("", "")
        known: dict[tuple[str, str], TextInput] = {}  # a text may be in thousands of pairs

        def side(text: str, language: str) -> TextInput:
            key = text, language
            if key not in known:
                known[key] = TextInput(text, language=language)
            return known[key]

        inputs = []
        for pair in items:
            inputs.append(side(pair.left, left))
            inputs.append(side(pair.right, right))
        return inputs

    def texts(self, items: Sequence[Pair]) -> Mapping[str, tuple[str, ...]]:
        """Return the texts of each pair, once if they are equal."""
        return {
            pair.id: (pair.left,) if pair.left == pair.right else (pair.left, pair.right)
            for pair in items
        }

    def score(self, items: Sequence[Pair], vectors: Vectors, protocol: str = "paper") -> Scores:
        """Score cosines by their correlations with the judgements; the protocol makes no difference."""
        cosines, gold = (
            self.cosines(items, vectors),
            np.array([pair.gold for pair in items], dtype=np.float64),
        )
        metrics = {"spearman": spearman(cosines, gold), "pearson": pearson(cosines, gold)}
        subsets = [pair.subset for pair in items]
        if len(set(subsets)) > 1:
            metrics["spearman_mean"], metrics["spearman_wmean"] = over_subsets(
                spearman, cosines, gold, subsets
            )
        notes = (
            ()
            if metrics["spearman"] is not None
            else ("all similarities are equal: correlations are undefined",)
        )
        return Scores(metrics, [pair.id for pair in items], cosines, gold, notes=notes)


class PairClassification(PairSimilarity):
    """Cosine similarity of two texts against a label, without a threshold or training.

    Metric: ``auc``, the area under the ROC curve (Mirror-BERT, section 3, footnote 4). The points of the curve are
    stored beside the predictions (``roc_fpr``, ``roc_tpr``, ``roc_thresholds``).
    """

    main_metric = "auc"

    def check(self, items: Sequence[Pair]) -> None:
        """Check that the labels (``gold``) are 0 and 1, and both occur."""
        super().check(items)
        if {pair.gold for pair in items} != {0.0, 1.0}:
            raise DataFormatError(
                f"task {self.name}: the labels must be 0 and 1, and both must occur"
            )

    def score(self, items: Sequence[Pair], vectors: Vectors, protocol: str = "paper") -> Scores:
        """Score cosines by their separation of the labels; the protocol makes no difference."""
        cosines, gold = (
            self.cosines(items, vectors),
            np.array([pair.gold for pair in items], dtype=np.float64),
        )
        metrics = {"auc": auc(cosines, gold)}
        return Scores(
            metrics, [pair.id for pair in items], cosines, gold, extra=roc_points(cosines, gold)
        )
