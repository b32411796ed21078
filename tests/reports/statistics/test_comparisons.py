"""Two encoders on the same items, against loops."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import replace
from zlib import crc32

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import rankdata, spearmanr
from swaps import correlation_permutation, mean_permutation

from mirrorbench.core.errors import UsageError
from mirrorbench.core.plugins import Plugins
from mirrorbench.reports.statistics import PairedTest
from mirrorbench.reports.statistics.comparisons import Comparison, Comparisons, mean_of_seeds
from mirrorbench.reports.statistics.items import MEAN, ItemScores
from mirrorbench.reports.statistics.resampling import Interval, mcnemar

Floats = NDArray[np.float64]
N = 40
IDS = tuple(f"i{n}" for n in range(N))
GOLD = np.random.default_rng(0).normal(size=N)
SEED = (4, crc32(b"task"))
"""Of the resamples of the task, for the seed 4."""
CLUSTERS = np.repeat(np.arange(10, dtype=np.int32), 4)[:, None]


def pairs(noise: float, seed: int, kind: str = "spearman", gold: Floats = GOLD) -> ItemScores:
    return ItemScores(kind, IDS, GOLD + noise * np.random.default_rng(seed).normal(size=N), gold)


def hits(share: float, seed: int) -> ItemScores:
    return ItemScores(MEAN, IDS, (np.random.default_rng(seed).random(N) < share).astype(float), np.zeros(N), True)


def test_a_score_is_the_mean_over_seeds_and_not_that_of_mean_predictions(plugins: Plugins) -> None:
    seeds = [pairs(1.0, seed) for seed in (1, 2, 3)]
    values = [spearmanr(items.values, GOLD).statistic for items in seeds]
    found = mean_of_seeds(seeds, plugins)
    expected = (statistics.fmean(values), statistics.stdev(values), 3)
    assert (found.mean, found.sd, found.seeds) == pytest.approx(expected)
    pooled = spearmanr(np.mean([items.values for items in seeds], axis=0), GOLD).statistic
    assert found.mean < pooled - 0.01
    assert mean_of_seeds(seeds[:1], plugins).sd is None


def comparison(
    first: Sequence[ItemScores], second: Sequence[ItemScores], plugins: Plugins, test: PairedTest = PairedTest.auto,
    resamples: int = 100,
) -> Comparison:  # fmt: skip
    rows = {("A", "task"): list(first), ("B", "task"): list(second)}
    return Comparisons(rows, plugins, resamples, seed=4).compare("A", "B", ["task"], test)


def test_resamples_are_the_same_items_for_all_seeds_and_encoders(plugins: Plugins) -> None:
    """Against a loop that draws indices and scores each encoder on them."""
    first, second = [pairs(0.8, seed) for seed in (1, 2)], [pairs(1.2, 3)]
    drawn = np.random.default_rng(SEED).integers(0, N, (300, N))
    gold, *scores = (rankdata(x[drawn], axis=1) for x in (GOLD, *(items.values for items in (*first, *second))))
    a, b, other = ([np.corrcoef(x, y)[0, 1] for x, y in zip(rows, gold, strict=True)] for rows in scores)
    expected = (np.array(a) + b) / 2 - other
    found = comparison(first, second, plugins, resamples=1500)
    low, high = np.quantile(expected, [0.025, 0.975])
    assert found.interval == Interval(pytest.approx(low), pytest.approx(high))  # of a fifth of the resamples
    assert (found.n, found.left_out, found.first.seeds, found.second.seeds) == (N, 0, 2, 1)


def test_each_score_gets_the_test_that_suits_it(plugins: Plugins) -> None:
    labels = (GOLD > 0).astype(float)
    one, other = hits(0.8, 1), hits(0.5, 2)
    found = comparison([one], [other], plugins)
    assert (found.test, found.p) == (PairedTest.mcnemar, mcnemar(one.values, other.values))
    found = comparison([one, hits(0.8, 3)], [other], plugins)
    both = np.stack([one.values, hits(0.8, 3).values])
    assert (found.test, found.p) == (PairedTest.permutation, mean_permutation(both, other.values, 100, SEED))
    a, b = pairs(0.5, 1), pairs(1.5, 2)
    found = comparison([a], [b], plugins)
    expected = correlation_permutation(a.values, b.values, GOLD, "spearman", 100, SEED)
    assert (found.test, found.p) == (PairedTest.permutation, expected)
    area = comparison([pairs(0.5, 1, "auc", labels)], [pairs(0.9, 2, "auc", labels)], plugins, resamples=750)
    assert area.test is PairedTest.bootstrap
    assert area.p is not None
    assert area.interval is not None
    assert (area.p < 0.05) == (area.interval.low > 0)
    assert comparison([a], [b], plugins, PairedTest.bootstrap).test is PairedTest.bootstrap


def test_items_that_share_texts_are_no_binomial(plugins: Plugins) -> None:
    """Each hit and miss four times over, in groups that share a text: McNemar would count them four times."""
    rng = np.random.default_rng(2)
    few = [(rng.random(10) < share).astype(float) for share in (0.9, 0.3)]
    one, other = (replace(hits(0.5, 1), values=np.repeat(values, 4), shared=CLUSTERS) for values in few)
    found = comparison([one], [other], plugins, resamples=2000)
    assert found.test is PairedTest.permutation
    assert found.p is not None
    assert found.p > 5 * mcnemar(one.values, other.values)
    assert found.p == pytest.approx(mcnemar(*few), abs=0.03)  # that of the ten groups
    with pytest.raises(UsageError, match="these share texts"):
        comparison([one], [other], plugins, PairedTest.mcnemar)
    alone = [replace(x, shared=np.arange(N, dtype=np.int32)[:, None]) for x in (one, other)]
    assert comparison([alone[0]], [alone[1]], plugins).test is PairedTest.mcnemar


def test_what_items_share_widens_interval_and_test(plugins: Plugins) -> None:
    """Copies of ten items say no more than the ten; of either encoder's results one has to say what is shared."""
    rng = np.random.default_rng(8)
    gold = np.repeat(rng.normal(size=10), 4) + 1e-6 * rng.normal(size=N)
    a, b = (np.repeat(rng.normal(size=10), 4) * noise + gold for noise in (0.6, 1.5))
    sides = [ItemScores("pearson", IDS, values, gold) for values in (a, b)]
    known = [replace(items, shared=CLUSTERS) for items in sides]
    apart = comparison(sides[:1], sides[1:], plugins, resamples=2000)
    for first, second in ((known[0], known[1]), (known[0], sides[1]), (sides[0], known[1])):
        found = comparison([first], [second], plugins, resamples=2000)
        assert found.interval is not None
        assert apart.interval is not None
        ratio = (found.interval.high - found.interval.low) / (apart.interval.high - apart.interval.low)
        assert 1.9 < ratio < 2.7  # the root of 4, and the few degrees of freedom
        assert found.p is not None
        assert apart.p is not None
        assert found.p > apart.p


def test_a_test_that_does_not_suit(plugins: Plugins) -> None:
    area = [[pairs(1, seed, "auc", GOLD > 0)] for seed in (1, 2)]
    one, other = [hits(0.5, 1)], [hits(0.5, 2)]
    for test, first, second, message in (
        (PairedTest.mcnemar, [pairs(1, 1)], [pairs(1, 2)], "no accuracy"),
        (PairedTest.mcnemar, [*one, *other], [hits(0.5, 3)], "several seeds"),
        (PairedTest.mcnemar, one, [replace(other[0], hits=False)], "no accuracy"),
        (PairedTest.permutation, *area, "no permutation test"),
    ):
        with pytest.raises(UsageError, match=message):
            comparison(first, second, plugins, test)


def test_what_only_one_has_is_left_out(plugins: Plugins) -> None:
    a, b = pairs(0.5, 1), pairs(1.0, 2)
    keep = np.arange(N) < 25
    found = comparison([a], [b.only(keep)], plugins)
    same = comparison([a.only(keep)], [b.only(keep)], plugins)
    assert (found.n, found.left_out, same.left_out) == (25, 15, 0)
    assert (found.difference, found.p, found.interval) == (same.difference, same.p, same.interval)
    with pytest.raises(UsageError, match="no item in common"):
        comparison([a.only(keep)], [b.only(~keep)], plugins)
