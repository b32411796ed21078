"""Pairs of texts: do cosines rank them as people do (STS), or separate related from unrelated pairs (QNLI)?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from mirrorbench.core.errors import DataFormatError
from mirrorbench.core.inputs import TextInput
from mirrorbench.data.items import Pair
from mirrorbench.tasks.base import Scores, TaskKind, Vectors
from mirrorbench.tasks.metrics import auc, cosine, over_subsets, pearson, roc_points, spearman


class PairSimilarity(TaskKind[Sequence[Pair]]):
    """Cosine similarity of two texts against a human judgement.

    Metrics: ``spearman`` and ``pearson`` over all pairs, as the papers report them; where the set has parts, also
    ``spearman_mean`` and ``spearman_wmean``: within each part, then averaged plainly or weighted by size (the three
    readings of an STS score differ by several points).

    Args:
        name: the task's name.
        items: the pairs themselves, or a function that reads them from a ``DataStore``.
        **info: title, level, languages (two are those of the left and of the right texts), corpus, main_metric and
            version, see ``Task``.
    """

    items_name = "pairs"
    level = "sentence"
    main_metric = "spearman"

    def check(self, items: Sequence[Pair]) -> None:
        """The ids are unique."""
        self.check_ids([pair.id for pair in items])

    def inputs(self, items: Sequence[Pair]) -> list[TextInput]:
        """Both texts of each pair."""
        return [side for pair in zip(*self._sides(items), strict=True) for side in pair]

    def _sides(self, items: Sequence[Pair]) -> tuple[list[TextInput], list[TextInput]]:
        """The left and the right texts; with two languages each has its own."""
        left, right = self.languages if len(self.languages) == 2 else ("", "")
        return [TextInput(p.left, language=left) for p in items], [TextInput(p.right, language=right) for p in items]

    def texts(self, items: Sequence[Pair]) -> Mapping[str, tuple[str, ...]]:
        """Both texts of each pair."""
        return {pair.id: (pair.left, pair.right) for pair in items}

    def cosines(self, items: Sequence[Pair], vectors: Vectors) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The cosine and the reference of each pair."""
        left, right = self._sides(items)
        return cosine(vectors(left), vectors(right)), np.array([pair.gold for pair in items], dtype=np.float64)

    def score(self, items: Sequence[Pair], vectors: Vectors, protocol: str = "paper") -> Scores:
        """Cosines, and their correlations with the judgements; the protocol makes no difference."""
        cosines, gold = self.cosines(items, vectors)
        metrics = {"spearman": spearman(cosines, gold), "pearson": pearson(cosines, gold)}
        subsets = [pair.subset for pair in items]
        if len(set(subsets)) > 1:
            metrics["spearman_mean"], metrics["spearman_wmean"] = over_subsets(spearman, cosines, gold, subsets)
        notes = () if metrics["spearman"] is not None else ("all similarities are equal: correlations are undefined",)
        return Scores(metrics, [pair.id for pair in items], cosines, gold, notes=notes)


class PairClassification(PairSimilarity):
    """Cosine similarity of two texts against a label, without a threshold or training.

    Metric: ``auc``, the area under the ROC curve (Mirror-BERT, section 3, footnote 4). The points of the curve are
    stored beside the predictions (``roc_fpr``, ``roc_tpr``, ``roc_thresholds``).

    Args:
        name: the task's name.
        items: pairs whose gold is 0 or 1, or a function that reads them from a ``DataStore``.
        **info: those of ``PairSimilarity``.
    """

    main_metric = "auc"

    def check(self, items: Sequence[Pair]) -> None:
        """The labels are 0 and 1, and both occur."""
        super().check(items)
        if {pair.gold for pair in items} != {0.0, 1.0}:
            raise DataFormatError(f"task {self.name}: the labels must be 0 and 1, and both must occur")

    def score(self, items: Sequence[Pair], vectors: Vectors, protocol: str = "paper") -> Scores:
        """Cosines, and how well they separate the labels; the protocol makes no difference."""
        cosines, gold = self.cosines(items, vectors)
        ids = [pair.id for pair in items]
        return Scores({"auc": auc(cosines, gold)}, ids, cosines, gold, extra=roc_points(cosines, gold))
