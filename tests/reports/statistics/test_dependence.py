"""Influences against finite differences, the design effect against loops, and both against simulated data."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats
from suites import few

from mirrorbench.reports.statistics.dependence import (
    influence_of_leaving_out,
    influence_on_auc,
    influence_on_mean,
    influence_on_pearson,
    influence_on_spearman,
    shares,
    spread,
)
from mirrorbench.reports.statistics.resampling import (
    weighted_auc,
    weighted_mean,
    weighted_pearson,
    weighted_spearman,
)

Floats = NDArray[np.float64]
CASES = [
    (lambda x, y: weighted_mean(x), influence_on_mean),
    (weighted_pearson, influence_on_pearson),
    (partial(weighted_pearson, centred=False), partial(influence_on_pearson, centred=False)),
    (weighted_spearman, influence_on_spearman),
    (lambda x, y: weighted_auc(x, y > 0), lambda x, y: influence_on_auc(x, (y > 0).astype(float))),
]


@pytest.mark.parametrize("ties", [False, True])
def test_influence_is_the_derivative_by_the_weight(ties: bool) -> None:
    rng = np.random.default_rng(0)
    gold = rng.normal(size=40)
    scores = gold + rng.normal(size=40)
    if ties:
        scores, gold = np.round(scores), np.round(gold)
    step = 1e-6 * np.eye(40)
    for number, (statistic, influence) in enumerate(CASES):
        value = statistic(scores, gold)
        expected = (value(1 + step) - value(1 - step))[0] / 2e-6
        np.testing.assert_allclose(influence(scores, gold), expected, atol=1e-8, err_msg=f"case {number}")


def test_leaving_out_is_near_the_derivative() -> None:
    rng = np.random.default_rng(1)
    gold, scores = rng.normal(size=300), rng.normal(size=(2, 300))
    left_out = influence_of_leaving_out(weighted_spearman(scores, gold), 300)
    expected = np.mean([influence_on_spearman(row, gold) for row in scores], axis=0)
    assert np.corrcoef(left_out, expected)[0, 1] > 0.999
    assert np.std(left_out) == pytest.approx(np.std(expected), rel=0.03)


SHARED = np.array([[0, 1], [1, 2], [3, -1], [-1, -1], [0, 2], [4, 5], [4, 5], [5, 6]], np.int32)


def test_the_design_effect_against_a_loop_over_pairs_of_items() -> None:
    """The sum over all pairs that share something, those that share two things counted once."""
    influence = np.array([3.0, 2, -1, 0, 2, -3, -4, 1])
    sets, n = [set(row[row >= 0]) for row in SHARED], len(SHARED)
    pairs = [(i, j) for i in range(n) for j in range(n) if i == j or sets[i] & sets[j]]
    effect = sum(influence[i] * influence[j] for i, j in pairs) / (influence @ influence)
    effect *= (1 - 1 / n) / (1 - len(pairs) / n**2)
    sizes: dict[object, float] = {}  # of groups, in items
    for i, own in enumerate(sets):
        for code in own or {f"item {i}"}:
            sizes[code] = sizes.get(code, 0) + 1 / max(1, len(own))
    groups = n**2 / sum(size**2 for size in sizes.values())
    student = stats.t.ppf(0.975, groups - 1) / stats.t.ppf(0.975, n - 1)
    assert effect > 1.5
    assert spread(influence, SHARED) == pytest.approx(np.sqrt(effect) * student)


def test_items_that_share_nothing_or_unknown_things_spread_as_they_are() -> None:
    influence = np.random.default_rng(2).normal(size=50)
    for shared in (None, np.full((50, 2), -1, np.int32), np.arange(100, dtype=np.int32).reshape(50, 2)):
        assert spread(influence, shared) == pytest.approx(1)
        assert not shares(shared)
    assert spread(np.zeros(8), SHARED) == 1
    assert spread(np.arange(8.0), np.zeros((8, 1), np.int32)) < 10  # all share one thing: nothing to estimate it from
    assert shares(SHARED)


def words_of_pairs(kind: str) -> NDArray[np.int32]:
    """The things that items share: of pairs of words, few of which are frequent, or of groups of items."""
    rng = np.random.default_rng(11)
    if kind == "groups":
        return np.repeat(np.arange(25), 8)[:, None].astype(np.int32)
    return np.array([rng.choice(60, 2, replace=False) for _ in range(200)], np.int32)


@pytest.mark.parametrize(("kind", "effect"), few([("groups", 2.0), ("words", 2.0), ("words", 0.0)], 0, 1))
def test_equal_encoders_are_separated_one_time_in_twenty(kind: str, effect: float) -> None:
    """Both have effects of each word, drawn anew; of 200 data sets 10 are expected, and 20 are 3 deviations more."""
    shared = words_of_pairs(kind)
    rng, rejected, apart = np.random.default_rng(12), 0, 0
    for _ in range(200):
        gold = rng.normal(size=200)
        if kind == "groups":  # what is judged depends on them too
            gold = rng.normal(size=shared.max() + 1)[shared[:, 0]] + gold / 2
        words = rng.normal(size=(2, shared.max() + 1))[:, shared].sum(2) / shared.shape[1] ** 0.5
        a, b = gold + rng.normal(size=(2, 200)) + effect * words
        influence = influence_on_spearman(a, gold) - influence_on_spearman(b, gold)
        first, second = weighted_spearman(np.stack([a, b]), gold)(np.ones((1, 200)))[:, 0]
        z = abs(first - second) / np.sqrt(influence @ influence)
        rejected += z / spread(influence, shared) > 1.96
        apart += z > 1.96
    assert 2 <= rejected < 20
    if kind == "groups":
        assert apart > 60  # as independent items they are separated far too often
