"""Classification of own texts against scikit-learn."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from helpers.own_data_files import TEXTS, Write, task_and_scores, vector
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score
from sklearn.model_selection import StratifiedGroupKFold
from sklearn.preprocessing import normalize

from mirrorbench.core.errors import DataFormatError
from mirrorbench.core.plugins import Plugins


def test_classification_scores_equal_scikit_learn(plugins: Plugins, write: Write) -> None:
    labels = ["one" if n % 3 else "two" for n in range(40)]
    path, array = (
        write("a.csv", {"text": TEXTS, "label": labels}),
        normalize([vector(text) for text in TEXTS]),
    )
    _, scores = task_and_scores(plugins, path)
    predicted = np.empty(40, dtype="<U3")
    for train, test in StratifiedGroupKFold(5, shuffle=True, random_state=0).split(
        array, labels, range(40)
    ):
        model = LogisticRegression(max_iter=1000).fit(array[train], np.array(labels)[train])
        predicted[test] = model.predict(array[test])
    expected = {
        "accuracy": np.mean(predicted == labels),
        "macro_f1": f1_score(labels, predicted, average="macro"),
    }
    assert scores.metrics == pytest.approx(expected)
    by_label = task_and_scores(plugins, f"{path}:metric=macro_f1")[1]
    assert by_label.metrics == scores.metrics
    assert f1_score(by_label.gold, by_label.scores, average="macro") == pytest.approx(
        expected["macro_f1"]
    )
    write("split/train.csv", {"text": TEXTS[:30], "label": labels[:30]})
    test = write("split/test.csv", {"text": TEXTS[30:], "label": labels[30:]})
    _, scores = task_and_scores(plugins, str(Path(test).parent))
    model = LogisticRegression(max_iter=1000).fit(array[:30], labels[:30])
    assert scores.metrics["accuracy"] == model.score(array[30:], labels[30:])


def test_macro_f1_needs_scored_texts_of_each_label(plugins: Plugins, write: Write) -> None:
    rows = {
        "text": TEXTS[:18],
        "label": list("xy") * 4 + ["x"] * 10,
        "split": ["train"] * 8 + ["test"] * 10,
    }
    path = write("a.csv", rows)
    assert task_and_scores(plugins, path)[1].metrics["accuracy"] > 0
    with pytest.raises(
        DataFormatError, match="macro_f1 needs 5 scored texts of each label, and 'y' has 0"
    ):
        task_and_scores(plugins, f"{path}:metric=macro_f1")
