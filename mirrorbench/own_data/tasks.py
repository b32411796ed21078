"""Tasks on a user's own data: the base class of all, and those on pairs, triplets and linking."""

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
    fold_numbers,
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
from mirrorbench.tasks.thresholds import exact_threshold, f1_threshold, notes_on_few_items

if TYPE_CHECKING:
    from mirrorbench.data.store import DataStore

STORED_PREDICTIONS = 3
"""Number of predictions that are stored for an item, for ``--items``."""


class OwnData:
    """Base class of the tasks on own data; a task derives from it and from a task class such as ``TaskKind``.

    Attributes:
        kind: the kind of the task, as in ``--kind``.
        measures: names of the measures for ``metric=``, the main one first.
        items_name: noun for the scored items, plural.
        values_name: description of the values that ``--items`` shows; empty if they are scores of the items.
    """

    kind: ClassVar[str]
    measures: ClassVar[tuple[str, ...]]
    items_name: ClassVar[str]
    values_name: ClassVar[str] = ""
    text_names: ClassVar[tuple[str, ...]] = ()
    """Names of an item's texts, if they differ in their roles."""

    untuned: ClassVar[bool] = True
    private: ClassVar[bool] = True
    layout: DataLayout | None = None
    """The layout of the files; ``None`` for items that are given in Python."""
    _loaded: tuple[FileStates, Any] | None = None
    """The state of the files when they were read, and the items."""
    _identified: tuple[Any, dict[str, str]] | None = None
    """Items, and their checksum by ``items_name``."""

    def load(self, data: DataStore) -> Any:
        """Return the items, from memory if no file has changed since they were read.

        Raises:
            DataFormatError: data do not follow their layout, or changed while they were read.
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
        """Return the checksum of items; it takes seconds for a million items, so the last one is kept."""
        if self._identified is None or self._identified[0] is not items:
            written = self.written(items)  # type: ignore[attr-defined]
            self._identified = (items, {self.items_name: checksum(written)})
        return self._identified[1]

    def count_items(self, n: int) -> str:
        """Return a number of items with the noun: ``1 query``, ``225 queries``."""
        noun = self.items_name
        if n == 1:
            noun = noun.replace("ies", "ys").removesuffix("s")
        return f"{n:,} {noun}"

    def summary(self, items: Any) -> str:
        """Return the number of items and the remarks on them, as one line."""
        n_items = len(self.texts(items))  # type: ignore[attr-defined]
        return "; ".join((self.count_items(n_items), *self.remarks(items)))

    def remarks(self, items: Any) -> Sequence[str]:
        """Return remarks on what affects the score and is easily overlooked."""
        if self.layout is None:
            return ()
        return tuple(dict.fromkeys((*self.layout.remarks, *self.layout.notes)))

    def shared(self, items: Any) -> Mapping[str, tuple[str, ...]]:
        """Return the groups of each item; the items of a group are resampled together."""
        return resampling_groups(self.texts(items))  # type: ignore[attr-defined]

    def gold_words(self, items: Any, item: str) -> str:
        """Return the answer for an item in the data, such as ``label 1``; by default it is empty."""
        return ""

    def documents(self, items: Any) -> Sequence[str]:
        """Return the texts for fitting transformations; by default all."""
        return [item.text for item in self.inputs(items)]  # type: ignore[attr-defined]

    def retrieved(self, items: Any, item: str, predictions: Sequence[Any]) -> list[str]:
        """Return a line for each prediction of an item, best first; right ones are marked with a star."""
        return []


class RatedPairs(OwnData, PairSimilarity):
    """Base class of tasks on pairs of texts with a number each."""

    values_name = "cosines, by their influence on the score"
    gold_name: ClassVar[str]
    """Noun for the number of a pair."""

    def gold_words(self, items: Sequence[Pair], item: str) -> str:
        """Return the number of a pair with its noun, such as ``label 1``."""
        gold = next(pair.gold for pair in items if pair.id == item)
        return f"{self.gold_name} {gold:g}"


class Similarity(RatedPairs):
    """Pairs with a rating, scored by ``cosine_spearman`` and the metrics of ``PairSimilarity``."""

    kind = "similarity"
    gold_name = "rating"
    main_metric = "cosine_spearman"
    measures = (main_metric,)


class Pairs(RatedPairs):
    """Pairs with a label of 1 or 0.

    Metrics: average precision (``cosine_ap``) and the area under the ROC curve (``auc``). ``threshold`` is the cosine
    above which pairs are positive with the best F1 on all pairs. ``precision``, ``recall`` and ``f1`` are
    measured on each of five folds, with a threshold chosen in the same way on the other four. The threshold and these
    three are left out unless each label occurs in five groups of pairs that share no text with each other. ``accuracy``,
    also with thresholds chosen on other folds, is only computed as the main metric. Pairs that share a text are in one
    fold.
    """

    kind = "pairs"
    gold_name = "label"
    main_metric = "cosine_ap"
    measures = (main_metric, "auc", "accuracy")
    version = 2

    def check(self, items: Sequence[Pair]) -> None:
        """Check the pairs and, if ``accuracy`` is the main metric, that each label is in all folds."""
        super().check(items)
        if self.main_metric == "accuracy":
            labels, texts = _labels_and_texts(items)
            check_folds(self.name, labels, text_groups(texts))

    def score(self, items: Sequence[Pair], vectors: Vectors, protocol: str = "paper") -> Scores:
        """Return the metrics of cosines against labels; the scores of items are cosines or, for accuracy, hits."""
        cosines = self.cosines(items, vectors)
        gold = np.array([pair.gold for pair in items])
        # The same labels as whole numbers, by which folds are made.
        labels, texts = _labels_and_texts(items)
        metrics: dict[str, float | None] = {
            "cosine_ap": average_precision(cosines, gold),
            "auc": auc(cosines, gold),
        }
        ids = [pair.id for pair in items]

        groups = text_groups(texts)
        fold_of_item = fold_numbers(labels, groups)
        # Choosing a threshold on all folds but one needs pairs of both labels there.
        has_both_labels = all(
            len(np.unique(labels[fold_of_item != fold])) == 2 for fold in range(FOLDS)
        )
        if has_both_labels and not rare_labels(labels, groups):
            metrics |= _threshold_metrics(cosines, labels, fold_of_item)
        if self.main_metric != "accuracy":
            return Scores(metrics, ids, cosines, gold)

        # Accuracy is the share of hits with thresholds chosen on other folds; a note says if some fold has few pairs.
        hits = np.zeros(len(gold))
        fewest_fitted = len(gold)
        for fitted_rows, scored_rows in folds(labels, texts):
            fewest_fitted = min(fewest_fitted, len(fitted_rows))
            threshold = exact_threshold(cosines[fitted_rows], gold[fitted_rows])
            hits[scored_rows] = (cosines[scored_rows] > threshold) == gold[scored_rows]
        return Scores(
            {**metrics, "accuracy": float(hits.mean())},
            ids,
            hits,
            # The right answer to every item is a hit.
            np.ones(len(hits)),
            notes=tuple(notes_on_few_items(fewest_fitted)),
            extra={"cosine": cosines, "label": gold},
        )


def _labels_and_texts(items: Sequence[Pair]) -> tuple[NDArray[Any], list[tuple[str, str]]]:
    """Return the labels of pairs as whole numbers, and their texts."""
    labels = np.array([int(pair.gold) for pair in items])
    texts = [(pair.left, pair.right) for pair in items]
    return labels, texts


def _threshold_metrics(
    cosines: NDArray[Any], labels: NDArray[Any], fold_of_item: NDArray[np.intp]
) -> dict[str, float | None]:
    """Return the threshold with the best F1, and precision, recall and F1 of thresholds chosen on other folds.

    Precision is ``None`` if no pair is predicted to be positive.
    """
    predicted = np.zeros(len(labels), bool)
    for fold in range(FOLDS):
        scored = fold_of_item == fold
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
    """An anchor, a text that is similar to it, and one that is less similar."""

    id: str
    anchor: str
    positive: str
    negative: str


class Triplets(OwnData, TaskKind[Sequence[Triplet]]):
    """Triplets of texts, scored by ``accuracy``: the share whose positive is nearer to the anchor than the negative."""

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
        """Compare the cosines of each anchor with its positive and its negative."""
        texts = self.inputs(items)
        anchors, positives, negatives = (vectors(texts[start::3]) for start in range(3))
        margins = cosine(anchors, positives) - cosine(anchors, negatives)
        # Equal cosines are wrong.
        hits = (margins > 0).astype(np.float64)
        return Scores(
            {"accuracy": float(hits.mean())},
            [item.id for item in items],
            hits,
            np.ones(len(hits)),
            extra={"margin": margins},
        )


@dataclass(frozen=True)
class LinkingData:
    """A dictionary of names, and mentions with their right id in it."""

    names: tuple[tuple[str, str], ...]
    """Text and id of each name."""
    mentions: tuple[tuple[str, str, str], ...]
    """Item id, text, and right id, of each mention."""


class Linking(OwnData, TaskKind[LinkingData]):
    """Linking of mentions to a dictionary of names by cosine.

    Metrics: ``accuracy@1`` and ``accuracy@5``. A name is right if it has the mention's id. Mentions whose id is not in
    the dictionary count as errors.
    """

    kind = "linking"
    items_name = "mentions"
    level = "phrase"
    main_metric = "accuracy@1"
    measures = (main_metric, "accuracy@5")

    def check(self, items: LinkingData) -> None:
        """Raise a ``DataFormatError`` unless item ids are unique, and some mention has an id of the dictionary."""
        self.check_ids([item_id for item_id, *_ in items.mentions])
        gold_ids = {gold_id for *_, gold_id in items.mentions}
        if not gold_ids & {name_id for _, name_id in items.names}:
            first_gold = shown(items.mentions[0][-1])
            first_name = shown(items.names[0][-1])
            raise DataFormatError(
                f"{self.name}: no mention has an id of the dictionary; the first have {first_gold} and {first_name}"
            )

    def summary(self, items: LinkingData) -> str:
        """Return the numbers of mentions and names, and the remarks on them."""
        counts = f"{self.count_items(len(items.mentions))}, {len(items.names):,} names"
        return "; ".join((counts, *self.remarks(items)))

    def remarks(self, items: LinkingData) -> Sequence[str]:
        """Add a remark on mentions whose id is not in the dictionary."""
        name_ids = {name_id for _, name_id in items.names}
        unknown = [gold_id for *_, gold_id in items.mentions if gold_id not in name_ids]
        remarks = list(super().remarks(items))
        if unknown:
            remark = "mentions with an id that is not in the dictionary, which are errors"
            remarks.append(f"{remark}: {len(unknown):,}, the first {shown(unknown[0])}")
        return remarks

    def documents(self, items: LinkingData) -> Sequence[str]:
        """Return the names of the dictionary."""
        return [name for name, _ in items.names]

    def retrieved(self, items: LinkingData, item: str, predictions: Sequence[Any]) -> list[str]:
        """Return a line for each of the first names; right ones are marked with a star."""
        right_id = next(gold_id for item_id, _, gold_id in items.mentions if item_id == item)
        lines = []
        for row in predictions:
            name, name_id = items.names[row]
            mark = "*" if name_id == right_id else " "
            lines.append(f"{mark} {name_id}: {name}")
        return lines

    def first(self, items: LinkingData, limit: int) -> LinkingData:
        """Return the first mentions, with all names."""
        return replace(items, mentions=items.mentions[:limit])

    def inputs(self, items: LinkingData) -> list[TextInput]:
        """Return all names, then all mentions."""
        names = [TextInput(name) for name, _ in items.names]
        mentions = [TextInput(mention) for _, mention, _ in items.mentions]
        return names + mentions

    def place(self, items: LinkingData, text: str) -> str:
        """Return where a text occurs: a mention, by its item id, or a name, by its id; empty if nowhere."""
        mention = super().place(items, text)
        if mention:
            return mention
        for name, name_id in items.names:
            if name == text:
                return f"a name of {name_id}"
        return ""

    def texts(self, items: LinkingData) -> Mapping[str, tuple[str, ...]]:
        """Return the text of each mention."""
        return {item_id: (mention,) for item_id, mention, _ in items.mentions}

    def score(self, items: LinkingData, vectors: Vectors, protocol: str) -> Scores:
        """Search the five nearest names for each mention, and find the rank of the first right one."""
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
