"""Graded similarity in context: how similar are two uses of a word (Usim), what does a context change (CoSimLex)?"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Generic, TypeVar

import numpy as np

from mirrorbench.core.errors import DataFormatError
from mirrorbench.core.identity import checksum
from mirrorbench.core.inputs import TextInput
from mirrorbench.data.formats import parse
from mirrorbench.data.items import ContextChange, RatedContexts, check_targets
from mirrorbench.tasks import Scores, Task, Vectors
from mirrorbench.tasks.from_card import FromCard, arguments
from mirrorbench.tasks.metrics.correlation import harmonic_mean, pearson, spearman, uncentred_pearson
from mirrorbench.tasks.metrics.similarity import cosine

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from mirrorbench.data.cards import Card
    from mirrorbench.data.store import DataStore

SAME = 1e-4
"""Cosines of all pairs this close to 1 say that both words got one vector: that of their text."""

Item = TypeVar("Item", RatedContexts, ContextChange)


class GradedContexts(Task, Generic[Item]):
    """What the tasks on rated words in context share: where the items come from, and how they are checked.

    Args:
        name: the task's name.
        items: the items themselves, or a function that reads them from a ``DataStore``.
        level: picks the recipe.
        title: the column's head, by default the name.
        languages: ISO codes.
        corpus: what an encoder is tuned on for this task by default.
        main_metric: which metric tables show.
        version: raised when the same files would give other numbers.
    """

    def __init__(
        self,
        name: str,
        items: Sequence[Item] | Callable[[DataStore], Sequence[Item]],
        level: str = "wic",
        title: str = "",
        languages: tuple[str, ...] = ("en",),
        corpus: str = "",
        main_metric: str = "",
        version: int = 1,
    ) -> None:
        self.name, self.title, self.level, self.languages = name, title or name, level, languages
        self.corpus, self.version = corpus, version
        self.main_metric = main_metric or self.main_metric
        self._items: Sequence[Item] | Callable[[DataStore], Sequence[Item]] = items

    def identity(self, data: DataStore) -> dict[str, str]:
        """A checksum over the items."""
        return {"items": checksum(repr(self.load(data)))}

    def load(self, data: DataStore) -> list[Item]:
        """The items, checked: some, unique ids, spans inside their texts.

        Raises:
            DataFormatError: one of these does not hold.
        """
        items = list(self._items(data) if callable(self._items) else self._items)
        if not items or len({item.id for item in items}) != len(items):
            raise DataFormatError(f"task {self.name}: there are no items, or their ids repeat")
        check_targets(self.name, self._pairs(items))
        return items

    def inputs(self, items: Sequence[Item]) -> list[TextInput]:
        """Both words of each pair."""
        return [side for pair in self._pairs(items) for side in (pair.left, pair.right)]

    def texts(self, items: Sequence[Item]) -> Mapping[str, tuple[str, ...]]:
        """The contexts of each item, each once."""
        return {
            item.id: tuple(dict.fromkeys(side.text for pair in self._pairs([item]) for side in (pair.left, pair.right)))
            for item in items
        }

    @abstractmethod
    def _pairs(self, items: Sequence[Item]) -> list[RatedContexts]:
        """The pairs of words that the items consist of."""


class UsageSimilarity(GradedContexts[RatedContexts]):
    """Cosine of two uses of a word against how similar people find them (MirrorWiC, section 4).

    Metrics: ``spearman`` (the paper's) and ``pearson`` over all pairs.
    """

    main_metric = "spearman"

    def _pairs(self, items: Sequence[RatedContexts]) -> list[RatedContexts]:
        return list(items)

    def score(self, items: Sequence[RatedContexts], vectors: Vectors, protocol: str = "paper") -> Scores:
        """Cosines, and their correlations with the ratings; the protocol makes no difference here."""
        cosines, gold = _similarities(items, vectors), np.array([pair.rating for pair in items])
        metrics = {"spearman": spearman(cosines, gold), "pearson": pearson(cosines, gold)}
        return Scores(metrics, [pair.id for pair in items], cosines, gold)


class SimilarityChange(GradedContexts[ContextChange]):
    """Two words in two contexts: how similar they are in each, and how that changes (SemEval-2020 task 3).

    Metrics of subtask 1, the change (second context less first): ``subtask1_uncentred_pearson``, the organisers'
    measure; ``subtask1_pearson`` and ``subtask1_spearman``. Metrics of subtask 2, the similarity in each context, all
    contexts together: ``subtask2_pearson``, ``subtask2_spearman`` and their ``subtask2_harmonic_mean``, the
    organisers' measure. Undefined for an encoder that gives both words of a context one vector: that of the text.

    The scores that are stored are changes; the similarities lie beside them as ``similarities``, shape (n, 2).
    """

    main_metric = "subtask1_spearman"

    def _pairs(self, items: Sequence[ContextChange]) -> list[RatedContexts]:
        return [pair for item in items for pair in (item.first, item.second)]

    def score(self, items: Sequence[ContextChange], vectors: Vectors, protocol: str = "paper") -> Scores:
        """Similarities, changes, and their correlations; the protocol makes no difference here."""
        pairs = self._pairs(items)
        similarities, ratings = _similarities(pairs, vectors), np.array([pair.rating for pair in pairs])
        notes: tuple[str, ...] = ()
        if np.abs(1 - similarities).max() < SAME:
            notes = ("the encoder gives both words of a text the same vector: there is nothing to correlate",)
            similarities = np.ones_like(similarities)
        changes, gold = (values[1::2] - values[::2] for values in (similarities, ratings))
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


class CardUsageSimilarity(FromCard, UsageSimilarity):
    """Similarity of usages on the files of a card."""

    def __init__(self, card: Card) -> None:
        super().__init__(items=lambda data: parse(data.resolve(card)), **arguments(card))
        self.card = card


class CardSimilarityChange(FromCard, SimilarityChange):
    """Change of similarity on the files of a card."""

    def __init__(self, card: Card) -> None:
        super().__init__(items=lambda data: parse(data.resolve(card)), **arguments(card))
        self.card = card


def _similarities(pairs: Iterable[RatedContexts], vectors: Vectors) -> NDArray[np.float64]:
    left, right = zip(*((pair.left, pair.right) for pair in pairs), strict=True)
    return cosine(vectors(left), vectors(right))
