"""Labelled texts as a task: a classifier on their vectors."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from mirrorbench.plugin import DataFormatError, Scores, TaskKind, TextInput, Vectors, shown, unit
from mirrorbench_evaluate.measures import FOLDS, LEAST, check_folds, folds, macro_f1, together
from mirrorbench_evaluate.tasks import OwnData


class Labelled(NamedTuple):
    """A text with its label, and whether it is trained on alone."""

    id: str
    text: str
    label: str
    train: bool


class Classification(OwnData, TaskKind[Sequence[Labelled]]):
    """Texts with labels: logistic regression on the vectors, scaled to length 1 as for cosines.

    It is trained on the split ``train``, and scored on ``test``; without them each of five stratified folds is scored
    by the others, equal texts in one fold. Metrics: ``accuracy``, and ``macro_f1``, the mean over the labels of their
    F1.
    """

    kind, items_name = "classification", "texts"
    level = "sentence"
    main_metric = "accuracy"
    measures = (main_metric, "macro_f1")

    def documents(self, items: Sequence[Labelled]) -> Sequence[str]:
        """The texts that are trained on; without a split all."""
        return [item.text for item in items if item.train] or [item.text for item in items]

    def found(self, items: Sequence[Labelled], item: str, predictions: Sequence[Any]) -> list[str]:
        """The label, and the right one."""
        right = next(own.label for own in items if own.id == item)
        return [f"* {label}" if label == right else f"  {label} (right: {right})" for label in predictions]

    def check(self, items: Sequence[Labelled]) -> None:
        """Ids are unique, and labels have the items that folds and ``macro_f1`` need.

        Raises:
            DataFormatError: without a split a label has too few texts; a label has too few that are scored.
        """
        self.check_ids([item.id for item in items])
        labels = np.array([item.label for item in items])
        if not any(item.train for item in items):
            check_folds(self.name, labels, together([(item.text,) for item in items]))
        if self.main_metric == "macro_f1":
            counts = Counter(item.label for item in items if not item.train)
            for label in np.unique(labels):
                if counts[label] < LEAST:
                    problem = f"{self.name}: macro_f1 needs {LEAST} scored texts of each label"
                    few = f"{problem}, and {shown(str(label))} has {counts[label]}"
                    raise DataFormatError(few, "Take accuracy, leave the label out, or add texts of it.")

    def odd(self, items: Sequence[Labelled]) -> Sequence[str]:
        """Texts that are scored and trained on, and labels that are not trained on."""
        train = [item for item in items if item.train]
        texts, labels = {item.text for item in train}, {item.label for item in train}
        scored = [item for item in items if not item.train] if train else []
        counts = {
            "with a label that is not trained on, which are errors": sum(item.label not in labels for item in scored),
            "trained on too": sum(item.text in texts for item in scored),
        }
        return [f"texts {what}: {n:,}" for what, n in counts.items() if n]

    def inputs(self, items: Sequence[Labelled]) -> list[TextInput]:
        """All texts."""
        return [TextInput(item.text) for item in items]

    def texts(self, items: Sequence[Labelled]) -> Mapping[str, tuple[str, ...]]:
        """The text of each that is scored."""
        return {item.id: (item.text,) for item in items if not item.train}

    def score(self, items: Sequence[Labelled], vectors: Vectors, protocol: str) -> Scores:
        """Train, predict, and count the hits."""
        from sklearn.linear_model import LogisticRegression

        array, train = unit(vectors(self.inputs(items))), np.array([item.train for item in items])
        labels = np.array([item.label for item in items])
        how = f"trained on {train.sum():,} texts" if train.any() else f"{FOLDS} folds"
        parts = [(train, ~train)] if train.any() else folds(labels, [(item.text,) for item in items])
        predicted = np.empty_like(labels)
        for rows, held in parts:
            predicted[held] = LogisticRegression(max_iter=1000).fit(array[rows], labels[rows]).predict(array[held])
        predicted, gold, names = predicted[~train], labels[~train], np.unique(labels)
        hits = (predicted == gold).astype(np.float64)
        values, answers = hits, np.ones(len(hits))
        if self.main_metric == "macro_f1":  # is computed from the labels, which are stored by their numbers
            values, answers = (np.searchsorted(names, own).astype(np.float64) for own in (predicted, gold))
        return Scores(
            {"accuracy": float(hits.mean()), "macro_f1": macro_f1(predicted, gold)},
            [item.id for item in items if not item.train], values, answers,
            notes=(f"logistic regression of vectors of length 1, {how}", *self.odd(items)),
            extra={"found": predicted[:, None], "label": gold},
        )  # fmt: skip
