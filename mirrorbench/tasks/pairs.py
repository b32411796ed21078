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
"""Number of pairs whose vectors are copied at once, which bounds the memory of ``CosineTask.cosines``."""

Item = TypeVar("Item", bound=Pair | ContextPair | RatedContexts | ContextChange)


class CosineTask(TaskKind[Sequence[Item]], Generic[Item]):
    """Base class of the tasks on pairs, which score the cosine of the two sides.

    A subclass sets ``item_class``, ``level`` and ``main_metric``, and implements ``score`` and ``inputs``, which returns
    the two sides of each pair one after the other. Its ``score`` calls ``cosines``.
    """

    def check(self, items: Sequence[Item]) -> None:
        """Check that the ids are unique."""
        self.check_ids([item.id for item in items])

    def texts(self, items: Sequence[Item]) -> Mapping[str, tuple[str, ...]]:
        """Return the texts of each item, without repeats."""
        texts = {}
        for item in items:
            sides = self.inputs([item])
            texts[item.id] = tuple(dict.fromkeys(side.text for side in sides))
        return texts

    def cosines(self, items: Sequence[Item], vectors: Vectors) -> NDArray[np.float64]:
        """Return the cosine of each of n pairs, shape (n,)."""
        sides = self.inputs(items)
        # np.concatenate needs an array even without pairs.
        chunks = [np.empty(0)]
        for start in range(0, len(sides), 2 * _PAIRS_AT_ONCE):
            chunk = sides[start : start + 2 * _PAIRS_AT_ONCE]
            # Left and right sides alternate.
            chunks.append(cosine(vectors(chunk[::2]), vectors(chunk[1::2])))
        return np.concatenate(chunks)


class PairSimilarity(CosineTask[Pair]):
    """Cosine similarity of two texts against a human judgement.

    Metrics: ``spearman`` and ``pearson`` over all pairs, as the papers report them; where the set has parts, also
    ``spearman_mean`` and ``spearman_wmean``: within each part, then averaged plainly or weighted by size (the three
    readings of an STS score differ by several points).

    Args:
        name: the task's name.
        items: ``Pair`` objects, or a function ``(DataStore) -> list[Pair]``.
        **info: attributes of ``Task``: ``title`` (default: the name), ``level`` (``sentence``), ``languages``
            (``("en",)``), ``corpus``, ``main_metric`` (``spearman``), ``version`` (1) and ``identifies``. Of two
            ``languages`` the first is that of the left texts, the second that of the right ones.

    Raises:
        DataFormatError: by ``load``, if there are no pairs, or two have the same id.

    Example:
        A plugin makes the task in code and registers it with ``register_tasks``; mirrorbench makes it from a card of
        the kind ``pair-similarity``. A subclass may override any method, and must implement none.

        >>> import mirrorbench
        >>> from mirrorbench.plugin import Pair, PairSimilarity, Vectors
        >>> pairs = [
        ...     Pair("1", "a cat", "a kitten", gold=4.5),
        ...     Pair("2", "a cat", "a bus", gold=0.5),
        ...     Pair("3", "a car", "a bus", gold=2.5),
        ... ]
        >>> task = PairSimilarity("vehicles", pairs, corpus="quick-sentences")

        To try it without a plugin:

        >>> items = task.load(None)
        >>> inputs = task.inputs(items)
        >>> vectors = Vectors(inputs, mirrorbench.load("tiny", device="cpu").encode(inputs))
        >>> sorted(task.score(items, vectors).metrics)
        ['pearson', 'spearman']
    """

    item_class = Pair
    items_name = "pairs"
    level = "sentence"
    main_metric = "spearman"

    def inputs(self, items: Sequence[Pair]) -> list[TextInput]:
        """Return the texts of all pairs as one list: left, right, left, right, ...

        In a task of two languages, left texts have the first one and right texts the second one.
        """
        left_language = ""
        right_language = ""
        if len(self.languages) == 2:
            left_language, right_language = self.languages
        # A text may be in thousands of pairs: make one object for it, and repeat that in the list.
        inputs_by_text: dict[tuple[str, str], TextInput] = {}

        def input_of(text: str, language: str) -> TextInput:
            key = (text, language)
            if key not in inputs_by_text:
                inputs_by_text[key] = TextInput(text, language=language)
            return inputs_by_text[key]

        inputs = []
        for pair in items:
            inputs.append(input_of(pair.left, left_language))
            inputs.append(input_of(pair.right, right_language))
        return inputs

    def texts(self, items: Sequence[Pair]) -> Mapping[str, tuple[str, ...]]:
        """Return the texts of each pair, once if they are equal."""
        return {
            pair.id: (pair.left,) if pair.left == pair.right else (pair.left, pair.right)
            for pair in items
        }

    def score(self, items: Sequence[Pair], vectors: Vectors, protocol: str = "paper") -> Scores:
        """Score cosines by their correlations with the judgements; the protocol makes no difference."""
        cosines = self.cosines(items, vectors)
        gold = np.array([pair.gold for pair in items], dtype=np.float64)
        metrics = {"spearman": spearman(cosines, gold), "pearson": pearson(cosines, gold)}
        subsets = [pair.subset for pair in items]
        if len(set(subsets)) > 1:
            mean, weighted_mean = over_subsets(spearman, cosines, gold, subsets)
            metrics["spearman_mean"] = mean
            metrics["spearman_wmean"] = weighted_mean
        notes: tuple[str, ...] = ()
        if metrics["spearman"] is None:
            notes = ("all similarities are equal: correlations are undefined",)
        return Scores(metrics, [pair.id for pair in items], cosines, gold, notes=notes)


class PairClassification(PairSimilarity):
    """Cosine similarity of two texts against a label, without a threshold or training.

    Metric: ``auc``, the area under the ROC curve (Mirror-BERT, section 3, footnote 4). The points of the curve are
    stored beside the predictions (``roc_fpr``, ``roc_tpr``, ``roc_thresholds``).

    Args:
        name: the task's name.
        items: ``Pair`` objects whose ``gold`` is 0 or 1 (1: the texts belong together), or a function
            ``(DataStore) -> list[Pair]``.
        **info: attributes of ``Task``: ``title`` (default: the name), ``level`` (``sentence``), ``languages``
            (``("en",)``), ``corpus``, ``main_metric`` (``auc``), ``version`` (1) and ``identifies``. Of two
            ``languages`` the first is that of the left texts, the second that of the right ones.

    Raises:
        DataFormatError: by ``load``, if two pairs have the same id, a label is neither 0 nor 1, or one of both does not
            occur.

    Example:
        A plugin makes the task in code and registers it with ``register_tasks``; mirrorbench makes it from a card of
        the kind ``pair-classification``. A subclass may override any method, and must implement none.

        >>> import numpy as np
        >>> from mirrorbench.plugin import Pair, PairClassification, Vectors
        >>> pairs = [
        ...     Pair("1", "Where can I park?", "The car park is behind the station.", gold=1),
        ...     Pair("2", "Where can I park?", "We open at nine.", gold=0),
        ... ]
        >>> task = PairClassification("answers", pairs)

        To try it without a plugin, with an encoder's vectors of the two texts of each pair:

        >>> items = task.load(None)
        >>> question, right, wrong = [1, 0], [2, 1], [0, 1]
        >>> texts = list(dict.fromkeys(task.inputs(items)))  # without repeats
        >>> vectors = Vectors(texts, np.array([question, right, wrong], dtype=np.float32))
        >>> task.score(items, vectors).metrics
        {'auc': 1.0}
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
        """Score by how well the cosines separate the labels; the protocol makes no difference."""
        cosines = self.cosines(items, vectors)
        gold = np.array([pair.gold for pair in items], dtype=np.float64)
        return Scores(
            {"auc": auc(cosines, gold)},
            ids=[pair.id for pair in items],
            scores=cosines,
            gold=gold,
            extra=roc_points(cosines, gold),
        )
