"""Words in context (WiC, WiC-TSV): do two words mean the same where they stand?"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from mirrorbench.core.errors import DataFormatError
from mirrorbench.core.identity import checksum
from mirrorbench.core.inputs import TextInput
from mirrorbench.data.formats import parse
from mirrorbench.data.items import ContextPair, check_targets
from mirrorbench.tasks import Scores, Task, Vectors
from mirrorbench.tasks.from_card import FromCard, arguments
from mirrorbench.tasks.metrics.classification import auc
from mirrorbench.tasks.metrics.similarity import cosine
from mirrorbench.tasks.metrics.threshold import accuracy, exact_threshold, stepped_threshold

if TYPE_CHECKING:
    from mirrorbench.data.cards import Card
    from mirrorbench.data.store import DataStore

TUNED_ON = "dev"
"""The split on which the threshold is chosen, and the only one."""


class WordInContext(Task):
    """Cosine of two words in context, and a threshold chosen on the development split (MirrorWiC, section 4).

    Metrics: ``<split>_accuracy`` and ``<split>_auc`` for each split that has labels, and ``threshold``. Protocol
    ``paper`` searches all thresholds, ``released`` goes down in steps of 0.01 as the authors' code does.

    Args:
        name: the task's name.
        pairs: the items themselves, or a function that reads them from a ``DataStore``.
        level: picks the recipe.
        title: the column's head, by default the name.
        languages: ISO codes.
        corpus: what an encoder is tuned on for this task by default.
        main_metric: which metric tables show; left undefined where its split has no labels here.
        version: raised when the same files would give other numbers.
        answers: how the organisers write no and yes, for the submission of a test split without labels.
    """

    def __init__(
        self,
        name: str,
        pairs: Sequence[ContextPair] | Callable[[DataStore], Sequence[ContextPair]],
        level: str = "wic",
        title: str = "",
        languages: tuple[str, ...] = ("en",),
        corpus: str = "",
        main_metric: str = "test_accuracy",
        version: int = 1,
        answers: tuple[str, str] = ("F", "T"),
    ) -> None:
        self.name, self.title, self.level, self.languages = name, title or name, level, languages
        self.corpus, self.main_metric, self.version = corpus, main_metric, version
        self._pairs, self._answers = pairs, answers

    def identity(self, data: DataStore) -> dict[str, str]:
        """A checksum over the items."""
        return {"pairs": checksum(repr(self.load(data)))}

    def load(self, data: DataStore) -> list[ContextPair]:
        """The items, checked: unique ids, spans inside their texts, labels on the development split.

        Raises:
            DataFormatError: one of these does not hold.
        """
        pairs = list(self._pairs(data) if callable(self._pairs) else self._pairs)
        if len({pair.id for pair in pairs}) != len(pairs):
            raise DataFormatError(f"task {self.name}: item ids repeat")
        check_targets(self.name, pairs)
        labels = {pair.label for pair in pairs if pair.split == TUNED_ON}
        if labels != {0, 1}:
            raise DataFormatError(f"task {self.name}: the split {TUNED_ON!r} must have labels 0 and 1, and both")
        return pairs

    def inputs(self, items: Sequence[ContextPair]) -> list[TextInput]:
        """Both sides of each item."""
        return [side for pair in items for side in (pair.left, pair.right)]

    def texts(self, items: Sequence[ContextPair]) -> Mapping[str, tuple[str, ...]]:
        """Both contexts of each pair."""
        return {pair.id: (pair.left.text, pair.right.text) for pair in items}

    def score(self, items: Sequence[ContextPair], vectors: Vectors, protocol: str = "paper") -> Scores:
        """Cosines, the threshold that suits the development split, and how well it decides on each split."""
        cosines = cosine(vectors([pair.left for pair in items]), vectors([pair.right for pair in items]))
        gold = np.array([np.nan if pair.label is None else pair.label for pair in items], dtype=np.float64)
        splits = np.array([pair.split for pair in items])
        labelled = [str(s) for s in dict.fromkeys(splits.tolist()) if not np.isnan(gold[splits == s]).any()]
        search = stepped_threshold if protocol == "released" else exact_threshold
        on_dev = splits == TUNED_ON
        threshold = search(cosines[on_dev], gold[on_dev])
        # The released code takes a threshold of exactly 0 for none, and then searches without end.
        found = protocol != "released" or threshold != 0
        metrics: dict[str, float | None] = {}
        for split in labelled:
            here = splits == split
            metrics[f"{split}_accuracy"] = accuracy(cosines[here], gold[here], threshold) if found else None
            metrics[f"{split}_auc"] = auc(cosines[here], gold[here])
        metrics["threshold"] = threshold if found else None
        metrics.setdefault(self.main_metric, None)
        notes = []
        if labelled == [TUNED_ON]:
            notes.append(f"only {TUNED_ON} has labels: its accuracy is that of a threshold chosen on the same items")
        if not found:
            notes.append("the best threshold is exactly 0, which the released code takes for none: no accuracy")
        predictions = (cosines > threshold).astype(np.int8)
        secret = predictions[splits == "test"] if found and "test" not in labelled else ()
        return Scores(
            metrics,
            [pair.id for pair in items],
            cosines,
            gold,
            notes=tuple(notes),
            extra={"predictions": predictions, "splits": splits},
            submission="".join(f"{self._answers[answer]}\n" for answer in secret),
        )


class CardWordInContext(FromCard, WordInContext):
    """Words in context on the files of a card."""

    def __init__(self, card: Card) -> None:
        answers = tuple(card.options.get("answers", ("F", "T")))
        super().__init__(pairs=lambda data: parse(data.resolve(card)), answers=answers, **arguments(card))
        self.card = card
