"""Tasks on words in context, scored by their cosine: WiC and its like, Usim, and CoSimLex."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Generic, TypeVar, Unpack

import numpy as np

from mirrorbench.core.encoder_protocol import TextInput
from mirrorbench.core.errors import DataFormatError
from mirrorbench.core.vectors import rounded
from mirrorbench.data.items import ContextChange, ContextPair, RatedContexts
from mirrorbench.tasks.base import Scores, TaskInfo, Vectors
from mirrorbench.tasks.metrics import (
    auc,
    harmonic_mean,
    pearson,
    spearman,
    uncentred_pearson,
)
from mirrorbench.tasks.pairs import CosineTask
from mirrorbench.tasks.thresholds import (
    accuracy,
    exact_threshold,
    notes_on_choice,
    stepped_threshold,
)

TUNED_ON = "dev"
"""The split on which the threshold is chosen."""
SAME = 1e-4
"""Largest distance of cosines from 1 at which both words are taken to have the vector of their text."""

Item = TypeVar("Item", bound=ContextPair | RatedContexts | ContextChange)


class ContextTask(CosineTask[Item], Generic[Item]):
    """Base class of the tasks on pairs of words in context."""

    level = "wic"

    @staticmethod
    def pairs(items: Sequence[Any]) -> Sequence[Any]:
        """Return the pairs of words of which the items consist."""
        return items

    def check(self, items: Sequence[Item]) -> None:
        """Check that the ids are unique, and the target words in their texts."""
        super().check(items)
        for item in items:
            for side in self.inputs([item]):
                if not all(0 <= start < end <= len(side.text) for start, end in side.spans):
                    raise DataFormatError(
                        f"task {self.name}: a target of item {item.id} is not in its text"
                    )

    def inputs(self, items: Sequence[Item]) -> list[TextInput]:
        """Return both words of each pair."""
        return [side for pair in self.pairs(items) for side in (pair.left, pair.right)]

    def shared(self, items: Sequence[Item]) -> Mapping[str, tuple[str, ...]]:
        """Return the texts and the target words of each item."""
        return {
            item.id: tuple(
                dict.fromkeys(
                    text for side in self.inputs([item]) for text in (side.text, side.target)
                )
            )
            for item in items
        }

    def contents(self, items: Sequence[Item]) -> Mapping[str, tuple[str, ...]]:
        """Return the texts and the target words of each item."""
        return self.shared(items)


class WordInContext(ContextTask[ContextPair]):
    """Cosine of two words in context, and a threshold chosen on the development split (MirrorWiC, section 4).

    Metrics: ``<split>_accuracy`` and ``<split>_auc`` for each split that has labels, and ``threshold``. Protocol
    ``paper`` searches all thresholds, ``released`` goes down in steps of 0.01 as the authors' code does.

    Args:
        name, items, **info: as for ``TaskKind``; main_metric is undefined where its split has no labels.
        answers: the organisers' words for no and yes, for the submission of a test split without labels.
    """

    item_class = ContextPair
    items_name = "pairs"
    main_metric = "test_accuracy"
    from_options = ("answers",)

    def __init__(
        self, name: str, items: Any, answers: Sequence[str] = ("F", "T"), **info: Unpack[TaskInfo]
    ) -> None:
        super().__init__(name, items, **info)
        self._answers = answers

    def check(self, items: Sequence[ContextPair]) -> None:
        """Check ids and targets, and that the development split has both labels."""
        super().check(items)
        if {pair.label for pair in items if pair.split == TUNED_ON} != {0, 1}:
            raise DataFormatError(
                f"task {self.name}: the split {TUNED_ON!r} must have labels 0 and 1, and both"
            )

    def score(
        self, items: Sequence[ContextPair], vectors: Vectors, protocol: str = "paper"
    ) -> Scores:
        """Score cosines by the best threshold of the development split, on each labelled split."""
        cosines = self.cosines(items, vectors)
        gold = np.array(
            [np.nan if pair.label is None else pair.label for pair in items], dtype=np.float64
        )
        splits = np.array([pair.split for pair in items])
        labelled = [
            str(s) for s in dict.fromkeys(splits.tolist()) if not np.isnan(gold[splits == s]).any()
        ]
        search = stepped_threshold if protocol == "released" else exact_threshold
        on_dev = splits == TUNED_ON
        threshold = search(cosines[on_dev], gold[on_dev])
        # The released code mistakes a threshold of exactly 0 for none, and then searches forever.
        has_threshold = protocol != "released" or threshold != 0
        metrics: dict[str, float | None] = {}
        for split in labelled:
            here = splits == split
            metrics[f"{split}_accuracy"] = (
                accuracy(cosines[here], gold[here], threshold) if has_threshold else None
            )
            metrics[f"{split}_auc"] = auc(cosines[here], gold[here])
        metrics["threshold"] = threshold if has_threshold else None
        metrics.setdefault(self.main_metric, None)
        notes = []
        if labelled == [TUNED_ON]:
            notes.append(
                f"only {TUNED_ON} has labels: its accuracy is that of a threshold chosen on the same items"
            )
        if not has_threshold:
            notes.append(
                "the best threshold is exactly 0, which the released code takes for none: no accuracy"
            )
        notes += notes_on_choice(int(on_dev.sum()))
        predictions = (cosines > threshold).astype(np.int8)
        secret = predictions[splits == "test"] if has_threshold and "test" not in labelled else ()
        return Scores(
            metrics,
            [pair.id for pair in items],
            cosines,
            gold,
            notes=tuple(notes),
            extra={"predictions": predictions, "splits": splits},
            submission="".join(f"{self._answers[answer]}\n" for answer in secret),
        )


class UsageSimilarity(ContextTask[RatedContexts]):
    """Cosine of two uses of a word against human ratings of their similarity (MirrorWiC, section 4).

    Metrics: ``spearman`` (the paper's) and ``pearson`` over all pairs.
    """

    item_class = RatedContexts
    main_metric = "spearman"

    def score(
        self, items: Sequence[RatedContexts], vectors: Vectors, protocol: str = "paper"
    ) -> Scores:
        """Score cosines by their correlations with the ratings; the protocol makes no difference."""
        cosines, gold = self.cosines(items, vectors), np.array([pair.rating for pair in items])
        metrics = {"spearman": spearman(cosines, gold), "pearson": pearson(cosines, gold)}
        return Scores(metrics, [pair.id for pair in items], cosines, gold)


class SimilarityChange(ContextTask[ContextChange]):
    """Similarity of two words in two contexts, and its change between them (SemEval-2020 task 3).

    Metrics of subtask 1, the change (second context minus first): ``subtask1_uncentred_pearson``, the organisers'
    measure; ``subtask1_pearson`` and ``subtask1_spearman``. Metrics of subtask 2, the similarity in all contexts
    together: ``subtask2_pearson``, ``subtask2_spearman`` and their ``subtask2_harmonic_mean``, the organisers' measure.
    Undefined for an encoder whose vectors of both words of a context are the same, that of the text.

    The stored scores are the changes; ``similarities``, shape (n, 2), is stored beside them.
    """

    item_class = ContextChange
    main_metric = "subtask1_spearman"

    @staticmethod
    def pairs(items: Sequence[ContextChange]) -> Sequence[RatedContexts]:
        """Return the first and the second context of each item."""
        return [pair for item in items for pair in (item.first, item.second)]

    def score(
        self, items: Sequence[ContextChange], vectors: Vectors, protocol: str = "paper"
    ) -> Scores:
        """Score similarities and changes by their correlations; the protocol makes no difference."""
        similarities, ratings = (
            self.cosines(items, vectors),
            np.array([pair.rating for pair in self.pairs(items)]),
        )
        notes: tuple[str, ...] = ()
        if np.abs(1 - similarities).max() < SAME:
            notes = (
                "the encoder gives both words of a text the same vector: there is nothing to correlate",
            )
            similarities = np.ones_like(similarities)
        changes, gold = (rounded(values[1::2] - values[::2]) for values in (similarities, ratings))
        linear, ranks = pearson(similarities, ratings), spearman(similarities, ratings)
        metrics = {
            "subtask1_uncentred_pearson": uncentred_pearson(changes, gold),
            "subtask1_pearson": pearson(changes, gold),
            "subtask1_spearman": spearman(changes, gold),
            "subtask2_pearson": linear,
            "subtask2_spearman": ranks,
            "subtask2_harmonic_mean": harmonic_mean(linear, ranks),
        }
        extra = {"similarities": similarities.reshape(-1, 2), "ratings": ratings.reshape(-1, 2)}
        return Scores(metrics, [item.id for item in items], changes, gold, notes=notes, extra=extra)
