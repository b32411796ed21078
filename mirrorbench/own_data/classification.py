"""Classification of labelled texts by logistic regression on their vectors."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from mirrorbench.core.errors import DataFormatError
from mirrorbench.core.quoting import shown
from mirrorbench.core.vectors import unit
from mirrorbench.own_data.labelled_texts import Labelled, LabelledTexts, differing_in_case
from mirrorbench.own_data.measures import FEWEST, FOLDS, check_folds, folds, macro_f1, text_groups
from mirrorbench.tasks.base import Scores, Vectors


class Classification(LabelledTexts):
    """Texts with labels: logistic regression on the vectors, scaled to length 1 as for cosines.

    The classifier is trained on the split ``train`` and scored on ``test``; without a split, each of five stratified
    folds is scored by a classifier of the others, with equal texts in one fold. Metrics: ``accuracy``, and
    ``macro_f1``, the mean F1 over the labels.
    """

    kind = "classification"
    main_metric = "accuracy"
    measures = (main_metric, "macro_f1")

    def documents(self, items: Sequence[Labelled]) -> Sequence[str]:
        """Return the training texts; without a split all texts."""
        return [item.text for item in items if item.train] or [item.text for item in items]

    def check(self, items: Sequence[Labelled]) -> None:
        """Check that ids are unique, and that labels have enough items for folds and ``macro_f1``.

        Raises:
            DataFormatError: a label has too few texts, or too few scored ones, or no scored label is trained on.
        """
        self.check_ids([item.id for item in items])
        self._check_trained(items)
        labels = np.array([item.label for item in items])
        if not any(item.train for item in items):
            check_folds(self.name, labels, text_groups([(item.text,) for item in items]))
        if self.main_metric == "macro_f1":
            counts = Counter(item.label for item in items if not item.train)
            for label in np.unique(labels):
                if counts[label] < FEWEST:
                    needed = f"macro_f1 needs {FEWEST} scored texts of each label"
                    problem = f"{self.name}: {needed}, and {shown(str(label))} has {counts[label]}"
                    raise DataFormatError(
                        problem, "Take accuracy, leave the label out, or add texts of it."
                    )

    def _check_trained(self, items: Sequence[Labelled]) -> None:
        """Raise a ``DataFormatError`` if no scored label is trained on, as hidden ones (-1) or others in their case."""
        trained = dict.fromkeys(item.label for item in items if item.train)
        scored = dict.fromkeys(item.label for item in items if not item.train)
        if not trained or trained.keys() & scored.keys():
            return
        first, other = (shown(next(iter(labels))) for labels in (scored, trained))
        like = differing_in_case([*trained, *scored])
        raise DataFormatError(
            f"{self.name}: none of the {len(scored)} scored labels (the first is {first}) is trained on "
            f"(the first of those is {other}){f'; in case alone differ {like}' if like else ''}",
            "Write labels in the same way in both. Labels that are hidden in a published test split cannot be scored.",
        )

    def remarks(self, items: Sequence[Labelled]) -> Sequence[str]:
        """Count also scored texts that are trained on, and those with a label that is not."""
        train = [item for item in items if item.train]
        texts, labels = {item.text for item in train}, {item.label for item in train}
        scored = [item for item in items if not item.train] if train else []
        counts = {
            "with a label that is not trained on, which are errors": sum(
                item.label not in labels for item in scored
            ),
            "trained on too": sum(item.text in texts for item in scored),
        }
        counted = [f"texts {what}: {n:,}" for what, n in counts.items() if n]
        return [*super().remarks(items), *counted]

    def score(self, items: Sequence[Labelled], vectors: Vectors, protocol: str) -> Scores:
        """Train, predict, and compute accuracy and macro F1."""
        from sklearn.linear_model import LogisticRegression

        array, train = unit(vectors(self.inputs(items))), np.array([item.train for item in items])
        labels = np.array([item.label for item in items])
        training = f"trained on {train.sum():,} texts" if train.any() else f"{FOLDS} folds"
        parts = (
            [(train, ~train)] if train.any() else folds(labels, [(item.text,) for item in items])
        )
        predicted = np.empty_like(labels)
        for rows, held in parts:
            predicted[held] = (
                LogisticRegression(max_iter=1000)
                .fit(array[rows], labels[rows])
                .predict(array[held])
            )
        predicted, gold, names = predicted[~train], labels[~train], np.unique(labels)
        hits = (predicted == gold).astype(np.float64)
        values, answers = hits, np.ones(len(hits))
        if (
            self.main_metric == "macro_f1"
        ):  # is computed from the labels, which are stored by their indices
            values, answers = (
                np.searchsorted(names, array).astype(np.float64) for array in (predicted, gold)
            )
        return Scores(
            {"accuracy": float(hits.mean()), "macro_f1": macro_f1(predicted, gold)},
            [item.id for item in items if not item.train],
            values,
            answers,
            notes=(f"logistic regression of vectors of length 1, {training}",),
            extra={"found": predicted[:, None], "label": gold},
        )
