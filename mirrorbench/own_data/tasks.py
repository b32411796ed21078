"""Tasks of own data: their base class, pairs, triplets and linking; the others are in modules of their own."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mirrorbench.core.encoder_protocol import TextInput
from mirrorbench.core.errors import DataFormatError, changed_while_read
from mirrorbench.core.identity import checksum
from mirrorbench.core.quoting import shown
from mirrorbench.data.items import Pair
from mirrorbench.own_data.layouts import DataLayout
from mirrorbench.own_data.measures import (
    FOLDS,
    average_precision,
    check_folds,
    dealt,
    folds,
    rare_labels,
    resampling_groups,
    text_groups,
)
from mirrorbench.own_data.rankings import search
from mirrorbench.storage.checksums import FileStates, settled, state
from mirrorbench.tasks.base import Scores, TaskKind, Vectors
from mirrorbench.tasks.metrics import auc, cosine
from mirrorbench.tasks.pairs import PairSimilarity
from mirrorbench.tasks.thresholds import exact_threshold, f1_threshold, notes_on_choice

if TYPE_CHECKING:
    from mirrorbench.data.store import DataStore

STORED_PREDICTIONS = 3
"""Number of predictions that are stored for an item, for ``--items``."""


class OwnData:
    """Base class of the tasks of own data, beside a task class of the core.

    Attributes:
        kind: the kind of the task, as in ``--kind``.
        measures: names of the measures for ``metric=``, the main one first.
        items_name: noun of the scored items, plural.
        values_name: description of the values that ``--items`` shows, if they are no scores.
    """

    kind: ClassVar[str]
    measures: ClassVar[tuple[str, ...]]
    items_name: ClassVar[str]
    values_name: ClassVar[str] = ""
    text_names: ClassVar[tuple[str, ...]] = ()
    """Names of the texts of an item, where one must know which is which."""

    untuned: ClassVar[bool] = True
    private: ClassVar[bool] = True
    layout: DataLayout | None = None
    """The layout of the files; ``None`` for items that are given in Python."""
    _loaded: tuple[FileStates, Any] | None = None
    """The state of the files when they were read, and the items."""
    _identified: tuple[Any, dict[str, str]] | None = None
    """Items, and their checksum."""

    def load(self, data: DataStore) -> Any:
        """Return the items, from memory if no file has changed since they were read.

        Raises:
            DataFormatError: data do not follow their layout, or change while they are read.
        """
        if self.layout is None:
            return super().load(data)  # type: ignore[misc]
        files = self.layout.files()
        state_before = state(files)
        started_at = time.time_ns()
        if self._loaded is not None and self._loaded[0] == state_before:
            return self._loaded[1]
        self.layout.notes.clear()
        items = super().load(data)  # type: ignore[misc]
        if state(files) != state_before:
            raise changed_while_read(self.name)  # type: ignore[attr-defined]
        if settled(state_before, started_at):
            self._loaded = (state_before, items)
        return items

    def identity(self, data: DataStore) -> dict[str, str]:
        """Return the checksum of the items."""
        return self.identity_of(self.load(data), data)

    def identity_of(self, items: Any, data: DataStore) -> dict[str, str]:
        """Return the checksum of items, which takes seconds for a million of them and is kept."""
        if self._identified is None or self._identified[0] is not items:
            written = self.written(items)  # type: ignore[attr-defined]
            self._identified = (items, {self.items_name: checksum(written)})
        return self._identified[1]

    def count_items(self, n: int) -> str:
        """Return a number of items in words: ``1 query``, ``225 queries``."""
        noun = self.items_name
        if n == 1:
            noun = noun.replace("ies", "ys").removesuffix("s")
        return f"{n:,} {noun}"

    def summary(self, items: Any) -> str:
        """Return the number of items and the remarks on them, as one line."""
        n_items = len(self.texts(items))  # type: ignore[attr-defined]
        return "; ".join((self.count_items(n_items), *self.remarks(items)))

    def remarks(self, items: Any) -> Sequence[str]:
        """Return remarks on items that change the score in a way that is easily overlooked."""
        if self.layout is None:
            return ()
        return tuple(dict.fromkeys((*self.layout.recognised, *self.layout.notes)))

    def shared(self, items: Any) -> Mapping[str, tuple[str, ...]]:
        """Return the groups of each item, which are resampled together."""
        return resampling_groups(self.texts(items))  # type: ignore[attr-defined]

    def gold_words(self, items: Any, item: str) -> str:
        """Return what the data say of an item, such as ``label 1``; empty where its texts say it."""
        return ""

    def documents(self, items: Any) -> Sequence[str]:
        """Return the texts for fitting transformations; by default all."""
        return [item.text for item in self.inputs(items)]  # type: ignore[attr-defined]

    def retrieved(self, items: Any, item: str, predictions: Sequence[Any]) -> list[str]:
        """Return a line for each prediction of an item, best first; right ones are marked with a star."""
        return []


class Rated(OwnData, PairSimilarity):
    """Pairs of texts with a number each."""

    values_name = "cosines, by their influence on the score"
    gold_name: ClassVar[str]
    """What the number of a pair is, in one word."""

    def gold_words(self, items: Sequence[Pair], item: str) -> str:
        """Return the number of a pair."""
        gold = next(pair.gold for pair in items if pair.id == item)
        return f"{self.gold_name} {gold:g}"


class Similarity(Rated):
    """Pairs with a rating, scored by ``cosine_spearman`` and the metrics of ``PairSimilarity``."""

    kind = "similarity"
    gold_name = "rating"
    main_metric = "cosine_spearman"
    measures = (main_metric,)


class Pairs(Rated):
    """Pairs with a label of 1 or 0.

    Metrics: average precision (``cosine_ap``) and the area under the ROC curve (``auc``); if it is the main metric,
    also ``accuracy`` under a threshold of the cosine, chosen for each of five folds on the others. Pairs that share a
    text are in one fold. ``threshold`` is that of the cosine with the best F1 on all pairs; ``precision``, ``recall``
    and ``f1`` are those of thresholds chosen in the same way, for each fold on the others. They are left out unless
    each label has five groups of pairs that share no text with each other.
    """

    kind = "pairs"
    gold_name = "label"
    main_metric = "cosine_ap"
    measures = (main_metric, "auc", "accuracy")
    version = 2

    def check(self, items: Sequence[Pair]) -> None:
        """Check the pairs and, for a threshold, that each label is in all folds."""
        super().check(items)
        if self.main_metric == "accuracy":
            labels, texts = _labels_and_texts(items)
            check_folds(self.name, labels, text_groups(texts))

    def score(self, items: Sequence[Pair], vectors: Vectors, protocol: str = "paper") -> Scores:
        """Score the cosines against the labels."""
        cosines = self.cosines(items, vectors)
        gold = np.array([pair.gold for pair in items])
        labels, texts = _labels_and_texts(items)
        metrics: dict[str, float | None] = {
            "cosine_ap": average_precision(cosines, gold),
            "auc": auc(cosines, gold),
        }
        ids = [pair.id for pair in items]

        groups = text_groups(texts)
        fold = dealt(labels, groups)
        both_labels_are_fitted = all(
            len(np.unique(labels[fold != number])) == 2 for number in range(FOLDS)
        )
        if both_labels_are_fitted and not rare_labels(labels, groups):
            metrics |= _decisions(cosines, labels, fold)
        if self.main_metric != "accuracy":
            return Scores(metrics, ids, cosines, gold)

        hits = np.zeros(len(gold))
        fewest = len(gold)
        for fitted_rows, scored_rows in folds(labels, texts):
            fewest = min(fewest, len(fitted_rows))
            threshold = exact_threshold(cosines[fitted_rows], gold[fitted_rows])
            hits[scored_rows] = (cosines[scored_rows] > threshold) == gold[scored_rows]
        return Scores(
            {**metrics, "accuracy": float(hits.mean())},
            ids,
            hits,
            np.ones(len(hits)),
            notes=tuple(notes_on_choice(fewest)),
            extra={"cosine": cosines, "label": gold},
        )


def _labels_and_texts(items: Sequence[Pair]) -> tuple[NDArray[Any], list[tuple[str, str]]]:
    """Return the labels of pairs as whole numbers, and their texts."""
    labels = np.array([int(pair.gold) for pair in items])
    texts = [(pair.left, pair.right) for pair in items]
    return labels, texts


def _decisions(
    cosines: NDArray[Any], labels: NDArray[Any], fold: NDArray[np.intp]
) -> dict[str, float | None]:
    """Return the threshold with the best F1, and precision, recall and F1 of thresholds chosen on other folds."""
    predicted = np.zeros(len(labels), bool)
    for number in range(FOLDS):
        scored = fold == number
        predicted[scored] = cosines[scored] > f1_threshold(cosines[~scored], labels[~scored])
    n_right = np.count_nonzero(predicted & (labels == 1))
    n_predicted = np.count_nonzero(predicted)
    n_positive = np.count_nonzero(labels)
    return {
        "threshold": f1_threshold(cosines, labels),
        "precision": n_right / n_predicted if n_predicted else None,
        "recall": n_right / n_positive,
        "f1": 2 * n_right / (n_predicted + n_positive),
    }


class Triplet(NamedTuple):
    """An anchor, a text near to it, and a less near one."""

    id: str
    anchor: str
    positive: str
    negative: str


class Triplets(OwnData, TaskKind[Sequence[Triplet]]):
    """Triplets of texts, scored by ``accuracy``: the positive is nearer than the negative; ties are wrong."""

    kind = "triplets"
    items_name = "triplets"
    level = "sentence"
    main_metric = "accuracy"
    measures = (main_metric,)
    text_names = ("anchor", "positive", "negative")

    def check(self, items: Sequence[Triplet]) -> None:
        """Check that ids are unique."""
        self.check_ids([item.id for item in items])

    def inputs(self, items: Sequence[Triplet]) -> list[TextInput]:
        """Return the three texts of each triplet."""
        return [TextInput(text) for item in items for text in item[1:]]

    def texts(self, items: Sequence[Triplet]) -> Mapping[str, tuple[str, ...]]:
        """Return the three texts of each triplet by its id."""
        return {item.id: item[1:] for item in items}

    def score(self, items: Sequence[Triplet], vectors: Vectors, protocol: str) -> Scores:
        """Compare the two cosines of each anchor."""
        texts = self.inputs(items)
        anchors, positives, negatives = (vectors(texts[start::3]) for start in range(3))
        margins = cosine(anchors, positives) - cosine(anchors, negatives)
        hits = (margins > 0).astype(np.float64)
        return Scores(
            {"accuracy": float(hits.mean())},
            [item.id for item in items],
            hits,
            np.ones(len(hits)),
            extra={"margin": margins},
        )


@dataclass(frozen=True)
class Linked:
    """A dictionary of names with their ids, and mentions with their right id."""

    names: tuple[tuple[str, str], ...]
    mentions: tuple[tuple[str, str, str], ...]
    """Item id, text, and id in the dictionary, of each mention."""


class Linking(OwnData, TaskKind[Linked]):
    """Linking of mentions to a dictionary of names by cosine: ``accuracy@1`` and ``accuracy@5``.

    A name is right if its id is the mention's. Mentions whose id is not in the dictionary count as errors.
    """

    kind = "linking"
    items_name = "mentions"
    level = "phrase"
    main_metric = "accuracy@1"
    measures = (main_metric, "accuracy@5")

    def check(self, items: Linked) -> None:
        """Check that ids of mentions are unique, and that some are in the dictionary."""
        self.check_ids([item_id for item_id, *_ in items.mentions])
        gold_ids = {gold_id for *_, gold_id in items.mentions}
        if not gold_ids & {name_id for _, name_id in items.names}:
            first_gold = shown(items.mentions[0][-1])
            first_name = shown(items.names[0][-1])
            raise DataFormatError(
                f"{self.name}: no mention has an id of the dictionary; the first have {first_gold} and {first_name}"
            )

    def summary(self, items: Linked) -> str:
        """Return the numbers of mentions and names, and the remarks on them."""
        counts = f"{self.count_items(len(items.mentions))}, {len(items.names):,} names"
        return "; ".join((counts, *self.remarks(items)))

    def remarks(self, items: Linked) -> Sequence[str]:
        """Count mentions whose id is not in the dictionary."""
        name_ids = {name_id for _, name_id in items.names}
        unknown = [gold_id for *_, gold_id in items.mentions if gold_id not in name_ids]
        remarks = list(super().remarks(items))
        if unknown:
            remark = "mentions with an id that is not in the dictionary, which are errors"
            remarks.append(f"{remark}: {len(unknown):,}, the first {shown(unknown[0])}")
        return remarks

    def documents(self, items: Linked) -> Sequence[str]:
        """Return the names of the dictionary."""
        return [name for name, _ in items.names]

    def retrieved(self, items: Linked, item: str, predictions: Sequence[Any]) -> list[str]:
        """Return the first names."""
        right_id = next(gold_id for item_id, _, gold_id in items.mentions if item_id == item)
        lines = []
        for row in predictions:
            name, name_id = items.names[row]
            mark = "*" if name_id == right_id else " "
            lines.append(f"{mark} {name_id}: {name}")
        return lines

    def first(self, items: Linked, limit: int) -> Linked:
        """Return the first mentions, with all names."""
        return replace(items, mentions=items.mentions[:limit])

    def inputs(self, items: Linked) -> list[TextInput]:
        """Return all names, then all mentions."""
        names = [TextInput(name) for name, _ in items.names]
        mentions = [TextInput(mention) for _, mention, _ in items.mentions]
        return names + mentions

    def place(self, items: Linked, text: str) -> str:
        """Return the item of the mention, or the id of the name, that has a text."""
        mention = super().place(items, text)
        if mention:
            return mention
        for name, name_id in items.names:
            if name == text:
                return f"a name of {name_id}"
        return ""

    def texts(self, items: Linked) -> Mapping[str, tuple[str, ...]]:
        """Return the text of each mention."""
        return {item_id: (mention,) for item_id, mention, _ in items.mentions}

    def score(self, items: Linked, vectors: Vectors, protocol: str) -> Scores:
        """Search the names of each mention, and compute the rank of the first right one."""
        texts = self.inputs(items)
        n_names = len(items.names)
        mentions = vectors(texts[n_names:])
        names = vectors(texts[:n_names])
        nearest, _ = search(mentions, names, 5)

        name_ids = np.array([name_id for _, name_id in items.names])
        gold_ids = np.array([gold_id for *_, gold_id in items.mentions])
        is_right = name_ids[nearest] == gold_ids[:, None]
        # argmax finds the first right name; a mention without one has no rank.
        ranks = np.where(is_right.any(axis=1), is_right.argmax(axis=1) + 1.0, np.inf)
        hits = (ranks <= 1).astype(np.float64)
        return Scores(
            {"accuracy@1": float(hits.mean()), "accuracy@5": float((ranks <= 5).mean())},
            [item_id for item_id, *_ in items.mentions],
            hits,
            np.ones(len(hits)),
            extra={"rank": ranks, "found": nearest[:, :STORED_PREDICTIONS]},
        )
