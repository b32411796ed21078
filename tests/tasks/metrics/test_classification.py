from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirrorbench.tasks.metrics.classification import auc, roc


@given(st.lists(st.tuples(st.integers(-3, 3), st.booleans()), min_size=1, max_size=40))
def test_auc_counts_pairs_in_the_right_order(items: list[tuple[int, bool]]) -> None:
    positive = [score for score, label in items if label]
    negative = [score for score, label in items if not label]
    got = auc([score for score, _ in items], [float(label) for _, label in items])
    if not positive or not negative:
        assert got is None
        return
    won = sum((p > n) + 0.5 * (p == n) for p in positive for n in negative)
    assert got == pytest.approx(won / (len(positive) * len(negative)))


def test_the_area_under_the_points_is_the_auc() -> None:
    rng = np.random.default_rng(0)
    scores, gold = rng.normal(size=200).round(1), rng.integers(0, 2, 200)
    points = roc(scores, gold)
    assert np.trapezoid(points["roc_tpr"], points["roc_fpr"]) == pytest.approx(auc(scores, gold))
    for fpr, tpr, threshold in zip(*(points[f"roc_{name}"] for name in ("fpr", "tpr", "thresholds")), strict=True):
        assert fpr == pytest.approx(np.mean(scores[gold == 0] >= threshold))
        assert tpr == pytest.approx(np.mean(scores[gold == 1] >= threshold))
