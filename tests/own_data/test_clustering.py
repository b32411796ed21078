"""Clustering of own texts against scikit-learn, and its answers."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.own_data_files import TEXTS, Write, task_and_scores, vector
from sklearn.cluster import MiniBatchKMeans
from sklearn.metrics import v_measure_score

from mirrorbench.core.errors import DataFormatError
from mirrorbench.core.plugins import Plugins
from mirrorbench.own_data.clustering import majority_labels

LABELS = ["one" if n % 3 else "two" for n in range(40)]


def test_v_measure_equals_scikit_learn(plugins: Plugins, write: Write) -> None:
    path = write("a.csv", {"text": TEXTS, "category": LABELS})
    task, scores = task_and_scores(plugins, f"{path}:kind=clustering")
    vectors = np.array([vector(text) for text in TEXTS])
    values = [
        v_measure_score(
            LABELS, MiniBatchKMeans(2, batch_size=500, random_state=seed).fit_predict(vectors)
        )
        for seed in range(10)
    ]
    assert scores.metrics == pytest.approx(
        {"v_measure": np.mean(values), "v_measure_std": np.std(values, ddof=1)}
    )
    assert task.main_metric == "v_measure"
    assert "columns category read as label" in scores.notes


def test_columns_alone_are_those_of_classification(plugins: Plugins, write: Write) -> None:
    path = write("a.csv", {"text": TEXTS, "label": LABELS})
    assert plugins.tasks[path].kind == "classification"


@pytest.mark.parametrize(
    ("labels", "problem"),
    [
        (["x"] * 40, "all 40 texts have one label"),
        (TEXTS, "each of 40 texts has a label of its own"),
    ],
)
def test_labels_that_make_no_clusters_are_refused(
    plugins: Plugins, write: Write, labels: list[str], problem: str
) -> None:
    path = write("a.csv", {"text": TEXTS, "label": labels})
    with pytest.raises(DataFormatError, match=problem):
        task_and_scores(plugins, f"{path}:kind=clustering")


def test_items_get_the_commonest_label_of_their_cluster() -> None:
    clusters, labels = np.array([0, 0, 0, 1, 1]), np.array([1, 1, 0, 2, 0])
    assert majority_labels(clusters, labels).tolist() == [1, 1, 1, 0, 0]


def test_texts_with_several_labels_are_counted(plugins: Plugins, write: Write) -> None:
    path = write("a.csv", {"text": [*TEXTS, TEXTS[0]], "label": [*LABELS, LABELS[1]]})
    for kind in ("clustering", "classification"):
        _, scores = task_and_scores(plugins, f"{path}:kind={kind}")
        assert "texts with several labels: 1" in scores.notes
