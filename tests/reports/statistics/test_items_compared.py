from __future__ import annotations

import statistics
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from mirrorbench.core.errors import UsageError
from mirrorbench.core.plugins import Plugins
from mirrorbench.reports.statistics import PairedTest
from mirrorbench.reports.statistics.encoders import compare_items, drawn_means, mean_of_seeds
from mirrorbench.reports.statistics.items import MEAN, ItemScores
from mirrorbench.reports.statistics.significance import Interval, correlation_permutation, mcnemar, mean_permutation
from mirrorbench.tasks.metrics import spearman

Floats = NDArray[np.float64]
N = 40
IDS = tuple(f"i{n}" for n in range(N))
GOLD = np.random.default_rng(0).normal(size=N)


def pairs(noise: float, seed: int, kind: str = "spearman", gold: Floats = GOLD) -> ItemScores:
    return ItemScores(kind, IDS, GOLD + noise * np.random.default_rng(seed).normal(size=N), gold)


def hits(share: float, seed: int) -> ItemScores:
    return ItemScores(MEAN, IDS, (np.random.default_rng(seed).random(N) < share).astype(float), np.zeros(N), True)


def test_a_score_is_the_mean_over_seeds_and_not_that_of_mean_predictions(plugins: Plugins) -> None:
    seeds = [pairs(1.0, seed) for seed in (1, 2, 3)]
    values = [spearman(items.values, GOLD) for items in seeds]
    found = mean_of_seeds(seeds, plugins)
    assert found.mean == pytest.approx(statistics.fmean(v for v in values if v is not None))
    assert found.sd == pytest.approx(statistics.stdev(v for v in values if v is not None))
    assert found.seeds == 3
    pooled = spearman(np.mean([items.values for items in seeds], axis=0), GOLD)
    assert pooled is not None
    assert found.mean < pooled - 0.01
    assert mean_of_seeds(seeds[:1], plugins).sd is None


def test_resamples_are_the_same_items_for_all_seeds_and_encoders(plugins: Plugins) -> None:
    """Against a loop that draws indices and scores each encoder on them."""
    first, second = [pairs(0.8, seed) for seed in (1, 2)], [pairs(1.2, 3)]
    rng = np.random.default_rng(9)
    expected = []
    for _ in range(60):
        drawn = rng.integers(0, N, N)
        means = [
            statistics.fmean(spearman(x.values[drawn], GOLD[drawn]) or 0 for x in side) for side in (first, second)
        ]
        expected.append(means[0] - means[1])
    found = compare_items(first, second, plugins, resamples=60, seed=9)
    assert found.drawn == pytest.approx(np.array(expected))
    assert found.drawn == pytest.approx(
        drawn_means(first, plugins, 60, seed=9) - drawn_means(second, plugins, 60, seed=9)
    )
    assert found.difference == pytest.approx(found.first.mean - found.second.mean)
    low, high = np.quantile(expected, [0.025, 0.975])
    assert found.interval == Interval(pytest.approx(low), pytest.approx(high))
    assert (found.n, found.left_out, found.first.seeds, found.second.seeds) == (N, 0, 2, 1)


def test_each_score_gets_the_test_that_suits_it(plugins: Plugins) -> None:
    labels = (GOLD > 0).astype(float)
    one, other = hits(0.8, 1), hits(0.5, 2)
    found = compare_items([one], [other], plugins, resamples=100)
    assert (found.test, found.p) == (PairedTest.mcnemar, mcnemar(one.values, other.values))
    found = compare_items([one, hits(0.8, 3)], [other], plugins, resamples=100, seed=4)
    both = np.stack([one.values, hits(0.8, 3).values])
    assert (found.test, found.p) == (PairedTest.permutation, mean_permutation(both, other.values, 100, 4))
    a, b = pairs(0.5, 1), pairs(1.5, 2)
    found = compare_items([a], [b], plugins, resamples=100, seed=4)
    expected = correlation_permutation(a.values, b.values, GOLD, "spearman", 100, 4)
    assert (found.test, found.p) == (PairedTest.permutation, expected)
    found = compare_items([pairs(0.5, 1, "auc", labels)], [pairs(1.5, 2, "auc", labels)], plugins, resamples=100)
    tail = min((found.drawn <= 0).sum(), (found.drawn >= 0).sum())
    assert (found.test, found.p) == (PairedTest.bootstrap, pytest.approx(2 * (tail + 1) / 101))
    assert compare_items([a], [b], plugins, PairedTest.bootstrap, 100).test is PairedTest.bootstrap


@pytest.mark.parametrize(
    ("test", "first", "second", "message"),
    [
        (PairedTest.mcnemar, [pairs(1, 1)], [pairs(1, 2)], "no accuracy"),
        (PairedTest.mcnemar, [hits(0.5, 1), hits(0.5, 2)], [hits(0.5, 3)], "several seeds"),
        (PairedTest.mcnemar, [hits(0.5, 1)], [replace(hits(0.5, 2), hits=False)], "no accuracy"),
        (PairedTest.permutation, [pairs(1, 1, "auc", GOLD > 0)], [pairs(1, 2, "auc", GOLD > 0)], "no permutation test"),
    ],
)
def test_a_test_that_does_not_suit(
    test: PairedTest, first: list[ItemScores], second: list[ItemScores], message: str, plugins: Plugins
) -> None:
    with pytest.raises(UsageError, match=message):
        compare_items(first, second, plugins, test, 10)


def test_what_only_one_has_is_left_out(plugins: Plugins) -> None:
    a, b = pairs(0.5, 1), pairs(1.0, 2)
    keep = np.arange(N) < 25
    found = compare_items([a], [b.only(keep)], plugins, resamples=50)
    same = compare_items([a.only(keep)], [b.only(keep)], plugins, resamples=50)
    assert (found.n, found.left_out, same.left_out) == (25, 15, 0)
    assert (found.difference, found.p, found.interval) == (same.difference, same.p, same.interval)
    with pytest.raises(UsageError, match="no item in common"):
        compare_items([a.only(keep)], [b.only(~keep)], plugins, resamples=50)
