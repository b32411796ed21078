from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import stats

from mirrorbench.tasks.metrics.correlation import over_subsets, pearson, spearman

few = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=2, max_size=30)  # few values: many ties


def naive_ranks(values: list[float]) -> list[float]:
    """Mean of the ranks that equal values would share."""
    return [
        sum(other < value for other in values) + (sum(other == value for other in values) + 1) / 2 for value in values
    ]


def naive_pearson(x: list[float], y: list[float]) -> float:
    mx, my = sum(x) / len(x), sum(y) / len(y)
    products = sum((a - mx) * (b - my) for a, b in zip(x, y, strict=True))
    return products / math.sqrt(sum((a - mx) ** 2 for a in x) * sum((b - my) ** 2 for b in y))


@given(few)
def test_correlations_equal_their_definitions(pairs: list[tuple[int, int]]) -> None:
    x, y = [float(a) for a, _ in pairs], [float(b) for _, b in pairs]
    assume(len(set(x)) > 1 and len(set(y)) > 1)
    assert pearson(x, y) == pytest.approx(naive_pearson(x, y), abs=1e-9)
    assert spearman(x, y) == pytest.approx(naive_pearson(naive_ranks(x), naive_ranks(y)), abs=1e-9)


def test_ties_get_their_mean_rank() -> None:
    assert spearman([1, 1, 2, 3], [1, 2, 2, 3]) == pytest.approx(naive_pearson([1.5, 1.5, 3, 4], [1, 2.5, 2.5, 4]))


def test_only_the_order_matters_to_spearman() -> None:
    x = np.linspace(0.1, 3, 20)
    assert spearman(np.exp(x), x) == pytest.approx(1)
    assert spearman(-x, x) == pytest.approx(-1)
    assert pearson(np.exp(x), x) < 0.95  # type: ignore[operator]


@pytest.mark.parametrize("correlate", [spearman, pearson])
@pytest.mark.parametrize(("x", "y"), [([1, 1, 1], [1, 2, 3]), ([1, 2, 3], [0.3, 0.3, 0.3]), ([], []), ([1], [2])])
def test_the_undefined_is_not_zero(correlate, x: list[float], y: list[float]) -> None:
    assert correlate(x, y) is None


def test_over_subsets_weights_by_size() -> None:
    generator = np.random.default_rng(0)
    scores, gold = generator.normal(size=30), generator.normal(size=30)
    subsets = ["a"] * 5 + ["b"] * 10 + ["c"] * 15
    order = generator.permutation(30)  # subsets need not be contiguous
    parts = [(slice(0, 5), 5), (slice(5, 15), 10), (slice(15, 30), 15)]
    values = [float(stats.spearmanr(scores[part], gold[part]).statistic) for part, _ in parts]
    mean, weighted = over_subsets(spearman, scores[order], gold[order], [subsets[i] for i in order])
    assert mean == pytest.approx(sum(values) / 3)
    assert weighted == pytest.approx(sum(v * n for v, (_, n) in zip(values, parts, strict=True)) / 30)


def test_a_subset_without_correlation_leaves_the_mean_undefined() -> None:
    scores, gold = np.array([1.0, 2, 3, 3]), np.array([1.0, 2, 3, 4])
    assert over_subsets(spearman, scores, gold, ["a", "a", "b", "b"]) == (None, None)
