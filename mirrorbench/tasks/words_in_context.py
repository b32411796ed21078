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
    notes_on_few_items,
    stepped_threshold,
)

THRESHOLD_SPLIT = "dev"
"""The split on which the threshold is chosen."""
SAME_VECTOR_TOLERANCE = 1e-4
"""If no cosine differs from 1 by more, the encoder is taken to give both words of a text the same vector."""

Item = TypeVar("Item", bound=ContextPair | RatedContexts | ContextChange)


class ContextTask(CosineTask[Item], Generic[Item]):
    """Base class of the tasks on pairs of words in context.

    A subclass sets ``item_class`` and ``main_metric``, and implements ``score``. Items that are not one pair, with
    ``left`` and ``right``, need ``pairs`` too.
    """

    level = "wic"

    @staticmethod
    def pairs(items: Sequence[Any]) -> Sequence[Any]:
        """Return the pairs of words of the items, in order; by default each item is a pair."""
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
        """Return both words of each pair, the left one first."""
        inputs = []
        for pair in self.pairs(items):
            inputs += [pair.left, pair.right]
        return inputs

    def shared(self, items: Sequence[Item]) -> Mapping[str, tuple[str, ...]]:
        """Return the texts and the target words of each item."""
        shared = {}
        for item in items:
            texts: list[str] = []
            for side in self.inputs([item]):
                texts += [side.text, side.target]
            shared[item.id] = tuple(dict.fromkeys(texts))
        return shared

    def contents(self, items: Sequence[Item]) -> Mapping[str, tuple[str, ...]]:
        """Return the texts and the target words of each item."""
        return self.shared(items)


class WordInContext(ContextTask[ContextPair]):
    """Cosine of two words in context, and a threshold chosen on the development split (MirrorWiC, section 4).

    Metrics: ``<split>_accuracy`` and ``<split>_auc`` for each split that has labels, and ``threshold``. Protocol
    ``paper`` searches all thresholds, ``released`` goes down in steps of 0.01 as the authors' code does.

    Args:
        name: the task's name.
        items: ``ContextPair`` objects, or a function ``(DataStore) -> list[ContextPair]``. The split ``dev`` must have
            labels.
        answers: the organisers' words for no and yes, for the submission of a test split without labels; by default
            ``F`` and ``T``.
        **info: attributes of ``Task``: ``title`` (default: the name), ``level`` (``wic``), ``languages`` (``("en",)``),
            ``corpus``, ``main_metric`` (``test_accuracy``), ``version`` (1) and ``identifies``.
            The main metric is undefined where its split has no labels.

    Raises:
        DataFormatError: by ``load``, if two pairs have the same id, a target is not in its text, or the split ``dev``
            lacks pairs of either label or has other labels than 0 and 1.

    Example:
        A plugin makes the task in code and registers it with ``register_tasks``; mirrorbench makes it from a card of
        the kind ``word-in-context``. A subclass may override any method, and must implement none.

        >>> import mirrorbench
        >>> from mirrorbench.plugin import ContextPair, TextInput, Vectors, WordInContext
        >>> def word(text, target):
        ...     start = text.index(target)
        ...     return TextInput(text, ((start, start + len(target)),))
        >>> shore, trees = word("They sat on the bank.", "bank"), word("Trees grow along the bank.", "bank")
        >>> money, loan = word("She works in a bank.", "bank"), word("The bank gave us a loan.", "bank")
        >>> pairs = [
        ...     ContextPair("dev/1", shore, trees, label=1, split="dev"),
        ...     ContextPair("dev/2", shore, money, label=0, split="dev"),
        ...     ContextPair("test/1", money, loan, label=1, split="test"),
        ... ]
        >>> task = WordInContext("senses", pairs)

        To try it without a plugin:

        >>> items = task.load(None)
        >>> inputs = list(dict.fromkeys(task.inputs(items)))  # without repeats
        >>> encoder = mirrorbench.load("tiny", level="wic", device="cpu")
        >>> scores = task.score(items, Vectors(inputs, encoder.encode(inputs)))
        >>> list(scores.metrics)
        ['dev_accuracy', 'dev_auc', 'test_accuracy', 'test_auc', 'threshold']
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
        if {pair.label for pair in items if pair.split == THRESHOLD_SPLIT} != {0, 1}:
            raise DataFormatError(
                f"task {self.name}: the split {THRESHOLD_SPLIT!r} must have labels 0 and 1, and both must occur"
            )

    def score(
        self, items: Sequence[ContextPair], vectors: Vectors, protocol: str = "paper"
    ) -> Scores:
        """Choose the best threshold on the development split, and score each labelled split with it."""
        cosines = self.cosines(items, vectors)
        labels = [np.nan if pair.label is None else pair.label for pair in items]
        gold = np.array(labels, dtype=np.float64)
        splits = np.array([pair.split for pair in items])
        labelled_splits = []
        for split in dict.fromkeys(splits.tolist()):
            if not np.isnan(gold[splits == split]).any():
                labelled_splits.append(split)

        search = stepped_threshold if protocol == "released" else exact_threshold
        in_threshold_split = splits == THRESHOLD_SPLIT
        threshold = search(cosines[in_threshold_split], gold[in_threshold_split])
        # The released code treats a threshold of exactly 0 as not found yet, and never ends: accuracies are undefined.
        has_threshold = protocol != "released" or threshold != 0

        metrics: dict[str, float | None] = {}
        for split in labelled_splits:
            in_split = splits == split
            split_accuracy = None
            if has_threshold:
                split_accuracy = accuracy(cosines[in_split], gold[in_split], threshold)
            metrics[f"{split}_accuracy"] = split_accuracy
            metrics[f"{split}_auc"] = auc(cosines[in_split], gold[in_split])
        metrics["threshold"] = threshold if has_threshold else None
        metrics.setdefault(self.main_metric, None)

        notes = []
        if labelled_splits == [THRESHOLD_SPLIT]:
            notes.append(
                f"only {THRESHOLD_SPLIT} has labels: its accuracy is of the items on which the threshold is chosen"
            )
        if not has_threshold:
            notes.append(
                "the best threshold is exactly 0, which the released code treats as not found: no accuracy"
            )
        notes += notes_on_few_items(int(in_threshold_split.sum()))

        # Stored for all splits, also for a threshold that counts as not found; a submission needs one that was found.
        predictions = (cosines > threshold).astype(np.int8)
        submission = ""
        if has_threshold and "test" not in labelled_splits:
            test_predictions = predictions[splits == "test"]
            submission = "".join(f"{self._answers[label]}\n" for label in test_predictions)
        return Scores(
            metrics,
            ids=[pair.id for pair in items],
            scores=cosines,
            gold=gold,
            notes=tuple(notes),
            extra={"predictions": predictions, "splits": splits},
            submission=submission,
        )


class UsageSimilarity(ContextTask[RatedContexts]):
    """Cosine of two uses of a word against human ratings of their similarity (MirrorWiC, section 4).

    Metrics: ``spearman`` (the paper's) and ``pearson`` over all pairs; ``None`` for fewer than two pairs, or if all
    cosines or all ratings are equal.

    Args:
        name: the task's name.
        items: ``RatedContexts`` objects, or a function ``(DataStore) -> list[RatedContexts]``.
        **info: attributes of ``Task``: ``title`` (default: the name), ``level`` (``wic``), ``languages`` (``("en",)``),
            ``corpus``, ``main_metric`` (``spearman``), ``version`` (1) and ``identifies``.

    Raises:
        DataFormatError: by ``load``, if there are no pairs, two have the same id, or a target is not in its text.

    Example:
        A plugin makes the task in code and registers it with ``register_tasks``; mirrorbench makes it from a card of
        the kind ``usage-similarity``. A subclass may override any method, and must implement none.

        >>> import numpy as np
        >>> from mirrorbench.plugin import RatedContexts, TextInput, UsageSimilarity, Vectors
        >>> river = TextInput("the river bank", ((10, 14),))
        >>> shore = TextInput("the bank of the lake", ((4, 8),))
        >>> money = TextInput("a bank in the city", ((2, 6),))
        >>> pairs = [
        ...     RatedContexts("1", river, shore, rating=4.5),
        ...     RatedContexts("2", river, money, rating=1.5),
        ... ]
        >>> task = UsageSimilarity("uses", pairs)

        To try it without a plugin, with an encoder's vectors of the three words in context:

        >>> items = task.load(None)
        >>> vectors = Vectors([river, shore, money], np.array([[2, 1], [2, 2], [0, 1]], dtype=np.float32))
        >>> round(task.score(items, vectors).metrics["spearman"], 6)
        1.0
    """

    item_class = RatedContexts
    main_metric = "spearman"

    def score(
        self, items: Sequence[RatedContexts], vectors: Vectors, protocol: str = "paper"
    ) -> Scores:
        """Score cosines by their correlations with the ratings; the protocol makes no difference."""
        cosines = self.cosines(items, vectors)
        ratings = np.array([pair.rating for pair in items])
        metrics = {"spearman": spearman(cosines, ratings), "pearson": pearson(cosines, ratings)}
        return Scores(metrics, [pair.id for pair in items], cosines, ratings)


class SimilarityChange(ContextTask[ContextChange]):
    """Similarity of two words in two contexts, and its change between them (SemEval-2020 task 3).

    Metrics of subtask 1, the change (second context minus first): ``subtask1_uncentred_pearson``, the organisers'
    measure; ``subtask1_pearson`` and ``subtask1_spearman``. Metrics of subtask 2, the similarity in all contexts
    together: ``subtask2_pearson``, ``subtask2_spearman`` and their ``subtask2_harmonic_mean``, the organisers' measure.
    Undefined for an encoder whose vectors of both words of a context are the same, that of the text.

    The stored scores are the changes of the n items; their ``similarities`` and ``ratings``, each of shape (n, 2), are
    stored beside them.

    Args:
        name: the task's name.
        items: ``ContextChange`` objects, or a function ``(DataStore) -> list[ContextChange]``.
        **info: attributes of ``Task``: ``title`` (default: the name), ``level`` (``wic``), ``languages`` (``("en",)``),
            ``corpus``, ``main_metric`` (``subtask1_spearman``), ``version`` (1) and ``identifies``.

    Raises:
        DataFormatError: by ``load``, if there are no items, two have the same id, or a target is not in its text.

    Example:
        A plugin makes the task in code and registers it with ``register_tasks``; mirrorbench makes it from a card of
        the kind ``similarity-change``. A subclass may override any method, and must implement none.

        >>> import numpy as np
        >>> from mirrorbench.plugin import ContextChange, RatedContexts, SimilarityChange, TextInput, Vectors
        >>> def in_context(text, left, right, rating):
        ...     spans = [(text.index(word), text.index(word) + len(word)) for word in (left, right)]
        ...     return RatedContexts(text, TextInput(text, (spans[0],)), TextInput(text, (spans[1],)), rating)
        >>> changes = [
        ...     ContextChange(
        ...         "bank",
        ...         first=in_context("The bank of the river floods.", "bank", "river", rating=8.0),
        ...         second=in_context("The bank by the river lends money.", "bank", "river", rating=3.0),
        ...     ),
        ...     ContextChange(
        ...         "plant",
        ...         first=in_context("The plant needs rain.", "plant", "rain", rating=6.0),
        ...         second=in_context("The plant closed in the rain.", "plant", "rain", rating=4.0),
        ...     ),
        ... ]
        >>> task = SimilarityChange("changes", changes)

        To try it without a plugin, with an encoder's vectors of the two words in each of the four contexts:

        >>> items = task.load(None)
        >>> rows = [[1, 0], [3, 1], [1, 0], [1, 3], [1, 0], [2, 1], [1, 0], [1, 1]]
        >>> scores = task.score(items, Vectors(task.inputs(items), np.array(rows, dtype=np.float32)))
        >>> scores.scores.round(2)  # the changes of the cosines
        array([-0.63, -0.19])
        >>> round(scores.metrics["subtask1_spearman"], 6)
        1.0
    """

    item_class = ContextChange
    main_metric = "subtask1_spearman"

    @staticmethod
    def pairs(items: Sequence[ContextChange]) -> Sequence[RatedContexts]:
        """Return the first and the second context of each item."""
        pairs = []
        for item in items:
            pairs += [item.first, item.second]
        return pairs

    def score(
        self, items: Sequence[ContextChange], vectors: Vectors, protocol: str = "paper"
    ) -> Scores:
        """Score similarities and changes by their correlations; the protocol makes no difference."""
        similarities = self.cosines(items, vectors)
        ratings = np.array([pair.rating for pair in self.pairs(items)])
        notes: tuple[str, ...] = ()
        if np.abs(1 - similarities).max() < SAME_VECTOR_TOLERANCE:
            notes = (
                "the encoder gives both words of a text the same vector: there is nothing to correlate",
            )
            # Differences by rounding must not be correlated; the correlations of equal values are undefined.
            similarities = np.ones_like(similarities)
        # First and second contexts of the items alternate.
        changes = rounded(similarities[1::2] - similarities[::2])
        rated_changes = rounded(ratings[1::2] - ratings[::2])
        similarity_pearson = pearson(similarities, ratings)
        similarity_spearman = spearman(similarities, ratings)
        metrics = {
            "subtask1_uncentred_pearson": uncentred_pearson(changes, rated_changes),
            "subtask1_pearson": pearson(changes, rated_changes),
            "subtask1_spearman": spearman(changes, rated_changes),
            "subtask2_pearson": similarity_pearson,
            "subtask2_spearman": similarity_spearman,
            "subtask2_harmonic_mean": harmonic_mean(similarity_pearson, similarity_spearman),
        }
        return Scores(
            metrics,
            ids=[item.id for item in items],
            scores=changes,
            gold=rated_changes,
            notes=notes,
            extra={
                "similarities": similarities.reshape(-1, 2),
                "ratings": ratings.reshape(-1, 2),
            },
        )
