"""Pair similarity (STS, word similarity): do an encoder's cosines rank pairs of texts as people do?"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from mirrorbench.core.errors import DataFormatError
from mirrorbench.core.identity import checksum
from mirrorbench.core.inputs import TextInput
from mirrorbench.data.formats import parse
from mirrorbench.data.items import Pair
from mirrorbench.tasks import Scores, Task, Vectors
from mirrorbench.tasks.from_card import FromCard, arguments
from mirrorbench.tasks.metrics.correlation import over_subsets, pearson, spearman
from mirrorbench.tasks.metrics.similarity import cosine

if TYPE_CHECKING:
    from mirrorbench.data.cards import Card
    from mirrorbench.data.store import DataStore


class PairSimilarity(Task):
    """Cosine similarity of two texts against a human judgement.

    Metrics: ``spearman`` and ``pearson`` over all pairs, as the papers report them; where the set has parts, also
    ``spearman_mean`` and ``spearman_wmean``: within each part, then averaged plainly or weighted by size (three
    readings of "the" STS score that differ by several points).

    Args:
        name: the task's name.
        pairs: the pairs themselves, or a function that reads them from a ``DataStore``.
        level: ``word``, ``phrase`` or ``sentence``.
        title: the column's head, by default the name.
        languages: ISO codes; two are those of the left and of the right texts.
        corpus: what an encoder is tuned on for this task by default.
        main_metric: which metric tables show.
        version: raised when the same files would give other numbers.
    """

    def __init__(
        self,
        name: str,
        pairs: Sequence[Pair] | Callable[[DataStore], Sequence[Pair]],
        level: str = "sentence",
        title: str = "",
        languages: tuple[str, ...] = ("en",),
        corpus: str = "",
        main_metric: str = "spearman",
        version: int = 1,
    ) -> None:
        self.name, self.title, self.level, self.languages = name, title or name, level, languages
        self.corpus, self.main_metric, self.version = corpus, main_metric, version
        self._pairs = pairs

    def identity(self, data: DataStore) -> dict[str, str]:
        """A checksum over the pairs."""
        return {"pairs": checksum(repr(self.load(data)))}

    def load(self, data: DataStore) -> list[Pair]:
        """The pairs, their ids checked to be unique."""
        pairs = list(self._pairs(data) if callable(self._pairs) else self._pairs)
        if not pairs:
            raise DataFormatError(f"task {self.name}: the data set holds no pairs")
        if len({p.id for p in pairs}) != len(pairs):
            raise DataFormatError(f"task {self.name}: item ids repeat")
        return pairs

    def inputs(self, items: Sequence[Pair]) -> list[TextInput]:
        """Both texts of each pair."""
        return [side for pair in zip(*self._sides(items), strict=True) for side in pair]

    def _sides(self, items: Sequence[Pair]) -> tuple[list[TextInput], list[TextInput]]:
        """The left and the right texts; in a task across two languages each says which is its own."""
        left, right = self.languages if len(self.languages) == 2 else ("", "")
        return [TextInput(p.left, language=left) for p in items], [TextInput(p.right, language=right) for p in items]

    def texts(self, items: Sequence[Pair]) -> Mapping[str, tuple[str, ...]]:
        """Both texts of each pair."""
        return {pair.id: (pair.left, pair.right) for pair in items}

    def score(self, items: Sequence[Pair], vectors: Vectors, protocol: str = "paper") -> Scores:
        """Cosines, and their correlations with the judgements; the protocol makes no difference here."""
        left, right = self._sides(items)
        cosines = cosine(vectors(left), vectors(right))
        gold = np.array([p.gold for p in items], dtype=np.float64)
        metrics: dict[str, float | None] = {
            "spearman": spearman(cosines, gold),
            "pearson": pearson(cosines, gold),
        }
        subsets = [p.subset for p in items]
        if len(set(subsets)) > 1:
            metrics["spearman_mean"], metrics["spearman_wmean"] = over_subsets(spearman, cosines, gold, subsets)
        notes = () if metrics["spearman"] is not None else ("all similarities are equal: correlations are undefined",)
        return Scores(metrics, [p.id for p in items], cosines, gold, notes=notes)


class CardPairSimilarity(FromCard, PairSimilarity):
    """Pair similarity on the files of a card."""

    def __init__(self, card: Card) -> None:
        super().__init__(pairs=lambda data: parse(data.resolve(card)), **arguments(card))
        self.card = card
