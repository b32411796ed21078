"""The measures of own data are those of scikit-learn."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import average_precision_score, f1_score

from mirrorbench.own_data.measures import (
    average_precision,
    fold_numbers,
    macro_f1,
    rare_labels,
    resampling_groups,
)


@pytest.mark.parametrize("decimals", [0, 1, 12])
@pytest.mark.parametrize("n", [2, 3, 10, 200])
def test_average_precision_equals_scikit_learn(n: int, decimals: int) -> None:
    rng = np.random.default_rng(n)
    for _ in range(30):
        scores, gold = (
            rng.normal(size=n).round(decimals),
            (rng.random(n) < rng.random()).astype(np.float64),
        )
        gold[:2] = 0, 1
        assert average_precision(scores, gold) == pytest.approx(
            average_precision_score(gold, scores), abs=1e-12
        )


def test_measures_of_a_single_class_are_undefined() -> None:
    assert macro_f1([], []) is None
    assert average_precision([0.1, 0.2], [1, 1]) is None
    assert average_precision([0.1, 0.2], [0, 0]) is None


@pytest.mark.parametrize("labels", [2, 5, 30])
def test_macro_f1_equals_scikit_learn(labels: int) -> None:
    """Some labels are never predicted, others never right, and some indices stand for no label."""
    rng = np.random.default_rng(labels)
    for n in (1, 10, 100):
        predicted, gold = rng.integers(0, labels, size=(2, n)) * 2
        expected = f1_score(gold, predicted, average="macro", zero_division=0)
        assert macro_f1(predicted.astype(np.float64), gold.astype(np.float64)) == pytest.approx(
            expected, abs=1e-12
        )
        assert macro_f1(predicted.astype(str), gold.astype(str)) == pytest.approx(
            expected, abs=1e-12
        )


def test_items_with_shared_texts_form_one_group() -> None:
    texts = {"a": ("x", "y"), "b": ("Y ", "z"), "c": ("z",), "d": ("w",), "e": ("v",), "f": ("u",)}
    groups = resampling_groups(texts)
    assert groups["a"] == groups["b"] == groups["c"]
    assert len(set(groups.values())) == 4
    assert resampling_groups(fewer := {item: texts[item] for item in "abcde"}) == fewer


def test_dealt_folds_have_equal_shares_of_labels() -> None:
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(400), rng.integers(1, 4, size=400))
    labels = (rng.random(len(groups)) < 0.2).astype(int)
    folds = fold_numbers(labels, groups)
    assert all(len(set(folds[groups == group])) == 1 for group in range(400))
    positives = np.bincount(folds, weights=labels)
    assert len(positives) == 5
    assert np.ptp(positives) <= 3
    assert np.ptp(np.bincount(folds)) <= 6
    few = np.array([1, 0, 0, 0, 0, 0])
    assert rare_labels(few, np.arange(6)) == {1: 1}
    assert set(fold_numbers(np.array([1, 0] * 5), np.arange(10))[::2]) == set(range(5))
