"""Classification of labelled texts by logistic regression on their vectors."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mirrorbench.core.errors import DataFormatError
from mirrorbench.core.quoting import shown
from mirrorbench.core.vectors import unit
from mirrorbench.own_data.labelled_texts import LabelledText, LabelledTextTask, differing_in_case
from mirrorbench.own_data.measures import (
    FOLDS,
    MIN_TEXTS_OF_LABEL,
    check_folds,
    folds,
    macro_f1,
    text_groups,
)
from mirrorbench.tasks.base import Scores, Vectors


class Classification(LabelledTextTask):
    """Texts with labels: logistic regression on the vectors, which are scaled to length 1 as for cosines.

    The classifier is trained on the split ``train`` and scored on ``test``. Without a split, each of five stratified
    folds is scored by a classifier that was trained on the others; equal texts are in one fold. Metrics: ``accuracy``,
    and ``macro_f1``, the mean F1 over the labels.
    """

    kind = "classification"
    main_metric = "accuracy"
    measures = (main_metric, "macro_f1")

    def documents(self, items: Sequence[LabelledText]) -> Sequence[str]:
        """Return the training texts; without a split all texts."""
        training_texts = [item.text for item in items if item.train]
        return training_texts or [item.text for item in items]

    def check(self, items: Sequence[LabelledText]) -> None:
        """Check that ids are unique, and that labels have enough items for folds and ``macro_f1``.

        Raises:
            DataFormatError: an id occurs twice, a label has too few texts for the folds or too few scored texts for
                ``macro_f1``, or no scored label is trained on.
        """
        self.check_ids([item.id for item in items])
        self._check_labels_are_trained(items)
        labels = np.array([item.label for item in items])
        if not any(item.train for item in items):
            check_folds(self.name, labels, text_groups([(item.text,) for item in items]))
        if self.main_metric == "macro_f1":
            counts = Counter(item.label for item in items if not item.train)
            for label in np.unique(labels):
                if counts[label] < MIN_TEXTS_OF_LABEL:
                    needed = f"macro_f1 needs {MIN_TEXTS_OF_LABEL} scored texts of each label"
                    problem = f"{self.name}: {needed}, and {shown(str(label))} has {counts[label]}"
                    raise DataFormatError(
                        problem, "Take accuracy, leave the label out, or add texts of it."
                    )

    def _check_labels_are_trained(self, items: Sequence[LabelledText]) -> None:
        """Raise a ``DataFormatError`` if there is a training split, and it has none of the scored labels.

        Labels of a test split may be hidden (-1), or written in another case than those of the training split.
        """
        trained_labels = dict.fromkeys(item.label for item in items if item.train)
        scored_labels = dict.fromkeys(item.label for item in items if not item.train)
        if not trained_labels or trained_labels.keys() & scored_labels.keys():
            return
        first_scored = shown(next(iter(scored_labels)))
        first_trained = shown(next(iter(trained_labels)))
        problem = (
            f"{self.name}: none of the {len(scored_labels)} scored labels (the first is {first_scored}) is trained on "
            f"(the first of those is {first_trained})"
        )
        alike = differing_in_case([*trained_labels, *scored_labels])
        if alike:
            problem += f"; labels that differ only in case: {alike}"
        raise DataFormatError(
            problem,
            "Write labels in the same way in both. Labels that are hidden in a published test split cannot be scored.",
        )

    def remarks(self, items: Sequence[LabelledText]) -> Sequence[str]:
        """Add remarks on scored texts that are also in the training split, and on those whose label is not in it."""
        remarks = list(super().remarks(items))
        training_items = [item for item in items if item.train]
        if not training_items:
            return remarks
        scored_items = [item for item in items if not item.train]
        trained_texts = {item.text for item in training_items}
        trained_labels = {item.label for item in training_items}
        n_unknown_labels = sum(item.label not in trained_labels for item in scored_items)
        n_trained_texts = sum(item.text in trained_texts for item in scored_items)
        if n_unknown_labels:
            remarks.append(
                f"scored texts whose label is not in the training split, each an error: {n_unknown_labels:,}"
            )
        if n_trained_texts:
            remarks.append(f"scored texts that are also trained on: {n_trained_texts:,}")
        return remarks

    def score(self, items: Sequence[LabelledText], vectors: Vectors, protocol: str) -> Scores:
        """Return accuracy and macro F1 of the predicted labels.

        The scores of items are hits or, if ``macro_f1`` is the main metric, indices of the predicted labels.
        """
        from sklearn.linear_model import LogisticRegression

        unit_vectors = unit(vectors(self.inputs(items)))
        labels = np.array([item.label for item in items])
        is_train = np.array([item.train for item in items])
        # For each classifier, the items that it is fitted on, and those whose labels it predicts.
        splits: Iterable[tuple[NDArray[Any], NDArray[Any]]]
        if is_train.any():
            splits = [(is_train, ~is_train)]
            training = f"trained on {is_train.sum():,} texts"
        else:
            splits = folds(labels, [(item.text,) for item in items])
            training = f"{FOLDS} folds"

        predicted_labels = np.empty_like(labels)
        for fitted, scored in splits:
            classifier = LogisticRegression(max_iter=1000).fit(unit_vectors[fitted], labels[fitted])
            predicted_labels[scored] = classifier.predict(unit_vectors[scored])
        # Training items have no predicted label.
        predicted = predicted_labels[~is_train]
        gold = labels[~is_train]

        hits = (predicted == gold).astype(np.float64)
        if self.main_metric == "macro_f1":
            # Verdicts compute macro F1 again from stored labels, which are numbers: the indices of their names.
            label_names = np.unique(labels)
            values = np.searchsorted(label_names, predicted).astype(np.float64)
            answers = np.searchsorted(label_names, gold).astype(np.float64)
        else:
            # Accuracy is the mean of the hits: the right answer to every item is 1.
            values = hits
            answers = np.ones(len(hits))
        return Scores(
            {"accuracy": float(hits.mean()), "macro_f1": macro_f1(predicted, gold)},
            [item.id for item in items if not item.train],
            values,
            answers,
            notes=(f"logistic regression of vectors of length 1, {training}",),
            # Each item has a list of predictions, here of one label.
            extra={"found": predicted[:, None], "label": gold},
        )
