"""Thresholds against plain searches."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from sklearn.metrics import accuracy_score, f1_score

from mirrorbench.tasks import thresholds

scored = st.lists(
    st.tuples(
        st.one_of(st.sampled_from([0.0, 0.01, 0.5, 0.51, 1.0]), st.floats(-1, 1)), st.integers(0, 1)
    ),
    min_size=1,
)


FEWER = settings(max_examples=settings().max_examples // 4)


@FEWER
@given(scored)
@example([(0.5, 1), (0.5, 0)])
@example([(0.1, 1), (np.nextafter(0.1, 1), 0), (np.nextafter(0.1, 0), 1)])
@example([(0.3, 0)])
def test_exact_threshold_is_optimal(drawn: list[tuple[float, int]]) -> None:
    scores, gold = (np.array(column) for column in zip(*drawn, strict=True))
    found = thresholds.exact_threshold(scores, gold)
    assert np.isfinite(found)
    best = max(accuracy_score(gold, scores > cut) for cut in [-2.0, *scores, *(scores + 1e-9), 2.0])
    assert thresholds.accuracy(scores, gold, found) == pytest.approx(
        accuracy_score(gold, scores > found)
    )
    assert thresholds.accuracy(scores, gold, found) >= best - 1e-12


@FEWER
@given(scored)
@example([(0.5, 1), (0.5, 0)])
@example([(0.3, 0)])
@example([(0.1, 1), (0.2, 0), (0.3, 1), (0.3, 0)])
def test_f1_threshold_is_optimal(drawn: list[tuple[float, int]]) -> None:
    scores, gold = (np.array(column) for column in zip(*drawn, strict=True))
    cuts = [-2.0, *scores, 2.0, thresholds.f1_threshold(scores, gold)]
    values = [f1_score(gold, scores > cut, zero_division=0) for cut in cuts]
    assert values[-1] == pytest.approx(max(values))


def test_exact_threshold_lies_midway_between_scores() -> None:
    assert thresholds.exact_threshold([0.1, 0.2, 0.6, 0.9], [0, 0, 1, 1]) == pytest.approx(0.4)
    assert thresholds.exact_threshold([0.1, 0.2], [0, 0]) == 0.2
    assert thresholds.exact_threshold([0.1, 0.2], [1, 1]) < 0.1
    scores, gold = [0.505, 0.5, 0.495, 0.4], [1, 0, 0, 0]
    assert thresholds.accuracy(scores, gold, thresholds.exact_threshold(scores, gold)) == 1
    assert thresholds.accuracy(scores, gold, thresholds.stepped_threshold(scores, gold)) == 0.75


def stepped_by_hand(scores: Sequence[float], gold: Sequence[int]) -> float:
    """What the released search amounts to: each step below the highest score, judged one by one."""
    candidates, threshold = [], max(scores)
    while (threshold := threshold - 0.01) >= min(scores):
        right = [
            (score > threshold) == bool(label) for score, label in zip(scores, gold, strict=True)
        ].count(True)
        candidates.append((right, threshold))
    most = max((right for right, _ in candidates), default=0)
    return next((threshold for right, threshold in candidates if right == most > 0), max(scores))


@FEWER
@given(scored)
@example([(0.5, 1), (0.5, 0)])
@example([(1.0, 0), (0.0, 1)])
def test_stepped_threshold_equals_plain_search(drawn: list[tuple[float, int]]) -> None:
    scores, gold = zip(*drawn, strict=True)
    assert thresholds.stepped_threshold(scores, gold) == stepped_by_hand(scores, gold)


def test_threshold_of_few_items_is_noted() -> None:
    assert thresholds.notes_on_few_items(100) == []
    (note,) = thresholds.notes_on_few_items(99)
    assert note.startswith("the threshold is chosen on 99 items")
