"""V-measure against scikit-learn."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import v_measure_score

from mirrorbench.tasks.v_measure import v_measure, without_groups

RNG = np.random.default_rng(0)
LABELS = RNG.integers(0, 4, 60)
CLUSTERS = np.stack(
    [np.where(RNG.random(60) < 0.6, LABELS, RNG.integers(0, 5, 60)) for _ in range(3)], axis=1
)


@pytest.mark.parametrize(
    ("clusters", "labels"),
    [
        *((clusters, LABELS) for clusters in CLUSTERS.T),
        (LABELS, LABELS),
        (np.zeros(60), LABELS),
        (np.arange(60), np.zeros(60)),
        (np.zeros(60), np.zeros(60)),
        ([7], [3]),
    ],
)
def test_v_measure_equals_scikit_learn(clusters: np.ndarray, labels: np.ndarray) -> None:
    assert v_measure(clusters, labels) == pytest.approx(v_measure_score(labels, clusters))


def test_several_clusterings_are_averaged() -> None:
    each = [v_measure_score(LABELS, clusters) for clusters in CLUSTERS.T]
    assert v_measure(CLUSTERS, LABELS) == pytest.approx(np.mean(each))
    assert v_measure([], []) is None


def test_groups_are_left_out_of_their_clusters() -> None:
    groups = np.unique(RNG.integers(0, 20, 60), return_inverse=True)[1]
    expected = [
        np.mean([v_measure_score(LABELS[kept], clusters[kept]) for clusters in CLUSTERS.T])
        for kept in (groups != group for group in range(groups.max() + 1))
    ]
    assert without_groups(CLUSTERS, LABELS, groups) == pytest.approx(expected)
    assert np.isnan(without_groups([0, 1], [0, 1], np.zeros(2, np.intp))).all()
