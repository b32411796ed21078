"""Two encoders on the same items, against scipy."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats
from sklearn.metrics import v_measure_score

from mirrorbench.core.plugins import Plugins
from mirrorbench.reports.statistics.comparisons import Comparison, Comparisons
from mirrorbench.reports.statistics.items import MEAN, ItemScores
from mirrorbench.reports.statistics.paired_answers import score_interval, score_p
from mirrorbench.storage.results import hidden_id

Floats = NDArray[np.float64]
N = 40
IDS = tuple(f"i{n}" for n in range(N))
GOLD = np.random.default_rng(0).normal(size=N)


def pairs(noise: float, seed: int, kind: str = "spearman", gold: Floats = GOLD) -> ItemScores:
    return ItemScores(kind, IDS, GOLD + noise * np.random.default_rng(seed).normal(size=N), gold)


def hits(share: float, seed: int, n: int = N) -> ItemScores:
    values = (np.random.default_rng(seed).random(n) < share).astype(float)
    return ItemScores(MEAN, tuple(map(str, range(n))), values, np.zeros(n))


def compared(
    first: Sequence[ItemScores], second: Sequence[ItemScores], plugins: Plugins, tasks: int = 1
) -> Comparison:
    names = [f"t{n}" for n in range(tasks)]
    rows = {(e, t): dict(enumerate(own)) for e, own in (("A", first), ("B", second)) for t in names}
    return Comparisons(rows, plugins).compare("A", "B", names)


def test_score_averages_seed_scores_rather_than_predictions(plugins: Plugins) -> None:
    seeds = [pairs(1.0, seed) for seed in (1, 2, 3)]
    values = [stats.spearmanr(items.values, GOLD).statistic for items in seeds]
    found = compared(seeds, [pairs(1.2, 4)], plugins).first
    expected = (statistics.fmean(values), statistics.stdev(values), 3)
    assert (found.mean, found.sd, found.seeds) == pytest.approx(expected)
    pooled = stats.spearmanr(np.mean([items.values for items in seeds], axis=0), GOLD).statistic
    assert found.mean < pooled - 0.01


def test_comparison_of_means_equals_paired_t_test(plugins: Plugins) -> None:
    rng = np.random.default_rng(1)
    ids = tuple(map(str, range(200)))
    a, b = (ItemScores(MEAN, ids, rng.random(200), np.zeros(200)) for _ in "ab")
    found = compared([a], [b], plugins).estimate
    expected = stats.ttest_rel(a.values, b.values)
    assert found.p == pytest.approx(expected.pvalue)
    assert found.interval() == pytest.approx(tuple(expected.confidence_interval(0.95)))


def changed(items: ItemScores, first: int) -> ItemScores:
    """The items with other answers to the first ones."""
    values = items.values.copy()
    values[:first] = 1 - values[:first]
    return replace(items, values=values)


def test_answers_are_compared_by_the_score_test(plugins: Plugins) -> None:
    """The same evidence has the same p: of one seed, of three identical ones, and of copies of a task."""
    one = hits(0.5, 1, 300)
    other = changed(one, 9)
    wins = int(one.values[:9].sum())
    for seeds, tasks in ((1, 1), (3, 1), (1, 5)):
        found = compared([one] * seeds, [other], plugins, tasks=tasks).estimate
        assert found.answers
        assert (found.answers.wins, found.answers.losses, found.answers.n) == pytest.approx(
            (wins, 9 - wins, 300)
        )
        assert found.p == pytest.approx(score_p(wins, 9 - wins, 299))
        assert found.interval() == pytest.approx(score_interval(wins, 9 - wins, 300, 0.95, 299))


def test_group_of_equal_answers_counts_as_one_question(plugins: Plugins) -> None:
    """Two items of each of 150 documents, answered alike: as 150 documents, whether encoders differ or not."""
    codes = np.repeat(np.arange(150), 2)[:, None].astype(np.int32)
    one = hits(0.5, 1, 150)
    for other in (changed(one, 9), one):
        alone = compared([one], [other], plugins).estimate
        twice = [
            replace(hits(0, 1, 300), values=np.repeat(items.values, 2), shared=codes)
            for items in (one, other)
        ]
        found = compared(twice[:1], twice[1:], plugins).estimate
        assert found.p == pytest.approx(alone.p)
        assert found.interval() == pytest.approx(alone.interval())
        low, high = found.interval() or (0, 0)
        assert low < 0 < high


def test_intervals_of_shares_stay_between_0_and_1(plugins: Plugins) -> None:
    """A mean over folds of unequal size is 1 where all answers are right, and so is its upper end."""
    weights = np.where(np.arange(60) < 7, 1 / 7, 1 / 53)
    for share in (1.0, 0.98):
        items = replace(hits(share, 4, 60), weights=weights)
        rows = {("A", task): {0: items} for task in ("t0", "t1")}
        for tasks in (["t0"], ["t0", "t1"]):
            found = Comparisons(rows, plugins).estimate("A", tasks)
            low, high = found.interval() or (0, 2)
            assert 0 < low < found.value <= high <= 1
            assert (found.value == 1) == (share == 1)


def test_correlation_error_equals_simulated_deviation(plugins: Plugins) -> None:
    """Standard deviation of the difference over 400 draws of the items, and the mean of the errors that each gives."""
    rng, differences, errors = np.random.default_rng(3), [], []
    ids = tuple(map(str, range(100)))
    for _ in range(400):
        gold = rng.normal(size=100)
        a, b = gold + 0.8 * rng.normal(size=100), gold + 1.2 * rng.normal(size=100)
        sides = [[ItemScores("spearman", ids, values, gold)] for values in (a, b)]
        found = compared(*sides, plugins).estimate
        differences.append(found.value)
        errors.append(found.error)
    assert statistics.fmean(errors) == pytest.approx(statistics.stdev(differences), rel=0.12)


def test_seed_variance_adds_to_item_variance(plugins: Plugins) -> None:
    """With that over items, and degrees of freedom by Satterthwaite."""
    first, second = [pairs(0.8, seed) for seed in (1, 2, 3)], [pairs(1.2, seed) for seed in (4, 5)]
    found = compared(first, second, plugins)
    (items, df), *seeds = found.estimate.parts
    assert found.first.sd
    assert found.second.sd
    assert seeds == [
        (pytest.approx(found.first.sd**2 / 3), 2),
        (pytest.approx(found.second.sd**2 / 2), 1),
    ]
    total = items + seeds[0][0] + seeds[1][0]
    assert found.estimate.error == pytest.approx(total**0.5)
    assert found.estimate.df == pytest.approx(
        total**2 / (items**2 / df + seeds[0][0] ** 2 / 2 + seeds[1][0] ** 2)
    )
    assert (
        len(compared(first, second[:1], plugins).estimate.parts) == 2
    )  # one seed says nothing about seeds


def test_clusterings_of_one_seed_vary_like_seeds(plugins: Plugins) -> None:
    """Left out are texts with their clusters; the mean over clusterings varies as they do."""
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 3, N)
    first, second = (
        np.where(rng.random((N, 4)) < share, labels[:, None], rng.integers(0, 3, (N, 4)))
        for share in (0.9, 0.7)
    )
    both = [ItemScores("v_measure", IDS, own * 1.0, labels * 1.0) for own in (first, second)]
    found = compared([both[0]], [both[1]], plugins)

    def score(clusters: Floats, kept: NDArray[np.intp]) -> list[float]:
        return [v_measure_score(labels[kept], column[kept]) for column in clusters.T]

    every = np.arange(N)
    values = score(first, every), score(second, every)
    assert found.difference == pytest.approx(np.mean(values[0]) - np.mean(values[1]))
    left = np.array(
        [
            np.mean(score(first, np.delete(every, n))) - np.mean(score(second, np.delete(every, n)))
            for n in range(N)
        ]
    )
    (items, _), *runs = found.estimate.parts
    assert items == pytest.approx((N - 1) / N * np.sum((left - left.mean()) ** 2))
    assert runs == [(pytest.approx(np.var(own, ddof=1) / 4), 3) for own in values]
    seeds = compared([both[0]] * 2, [both[1]], plugins)
    assert [df for _, df in seeds.estimate.parts[1:]] == [1, 3]  # seeds vary by clusterings too


def test_repeated_tasks_do_not_change_p_value(plugins: Plugins) -> None:
    for first, second in (
        ([pairs(0.5, 1)], [pairs(1.0, 2)]),
        ([pairs(0.5, 1), pairs(0.6, 3)], [pairs(1.0, 2)]),
    ):
        one, five = (
            compared(first, second, plugins).estimate,
            compared(first, second, plugins, tasks=5).estimate,
        )
        assert five.p == pytest.approx(one.p)
        assert five.interval() == pytest.approx(one.interval())


def test_item_groups_of_either_result_are_used(plugins: Plugins) -> None:
    """Copies of ten items say no more than the ten."""
    rng = np.random.default_rng(8)
    gold = np.repeat(rng.normal(size=10), 4) + 1e-6 * rng.normal(size=N)
    a, b = (np.repeat(rng.normal(size=10), 4) * noise + gold for noise in (0.6, 1.5))
    sides = [ItemScores("pearson", IDS, values, gold) for values in (a, b)]
    known = [
        replace(items, shared=np.repeat(np.arange(10, dtype=np.int32), 4)[:, None])
        for items in sides
    ]
    apart = compared(sides[:1], sides[1:], plugins).estimate
    for first, second in ((known[0], known[1]), (known[0], sides[1]), (sides[0], known[1])):
        found = compared([first], [second], plugins).estimate
        assert found.error == pytest.approx(2 * apart.error, rel=0.06)
        assert found.df == pytest.approx(9)


def test_items_of_only_one_encoder_are_excluded(plugins: Plugins) -> None:
    a, b = pairs(0.5, 1), pairs(1.0, 2)
    keep = np.arange(N) < 25
    found = compared([a], [b.only(keep)], plugins)
    same = compared([a.only(keep)], [b.only(keep)], plugins)
    assert (found.n, found.left_out, same.left_out) == (25, 15, 0)
    assert found.estimate == same.estimate
    for kept in (~keep, np.arange(N) == 3):  # no item in common, or a single one
        nothing = compared([a.only(keep)], [b.only(kept)], plugins)
        assert (nothing.p, nothing.estimate.interval()) == (None, None)


def test_all_right_against_all_wrong_is_significant(plugins: Plugins) -> None:
    right, wrong = (ItemScores(MEAN, IDS, np.full(N, share), np.zeros(N)) for share in (1.0, 0.0))
    assert compared([right], [wrong], plugins).p == pytest.approx(2 * stats.t.sf(N**0.5, N - 1))


def test_single_common_item_has_no_p_value(plugins: Plugins) -> None:
    right, wrong = (ItemScores(MEAN, IDS[:1], np.full(1, share), np.zeros(1)) for share in (1, 0))
    found = compared([right], [wrong], plugins).estimate
    assert (found.value, found.p, found.interval()) == (1, None, None)
    codes = np.zeros((N, 1), np.int32)
    sides = [replace(hits(0.5, seed), shared=codes) for seed in (1, 2)]
    low, high = compared(sides[:1], sides[1:], plugins).estimate.interval() or (0, 0)
    assert -1 <= low < 0 < high <= 1
    assert compared(sides[:1], sides[:1], plugins).p == 1


def test_unseen_items_are_found_under_hidden_ids(plugins: Plugins) -> None:
    """One of the results was stored with MIRRORBENCH_NO_TEXTS."""
    flags = np.where(np.arange(N) < 10, 2, 0).astype(np.int8)
    one, other = replace(pairs(0.5, 1), overlap=flags), pairs(1.0, 2)
    hidden = replace(other, ids=tuple(map(hidden_id, IDS)))
    found = [
        Comparisons({("A", "t"): {0: one}, ("B", "t"): {0: own}}, plugins).compare_unseen(
            "A", "B", ["t"]
        )
        for own in (other, hidden)
    ]
    assert found[0] is not None
    assert found[0].share == 0.25
    assert found[1] == found[0]


def test_tasks_with_different_seeds_add_separate_variances(plugins: Plugins) -> None:
    """Of seeds 0 to 2 on one task and 3 to 5 on another, each task has a variance of its own."""
    seeds = [pairs(0.8, seed) for seed in range(6)]
    rows = {("A", "t0"): dict(enumerate(seeds[:3])), ("A", "t1"): dict(enumerate(seeds[3:], 3))}
    rows |= {("B", task): {0: pairs(1.2, 9)} for task in ("t0", "t1")}
    found = Comparisons(rows, plugins).compare("A", "B", ["t0", "t1"])
    scores = [
        [stats.spearmanr(items.values, GOLD).statistic for items in own]
        for own in (seeds[:3], seeds[3:])
    ]
    assert found.first.mean == pytest.approx(np.mean(scores))
    assert (found.first.sd, found.first.seeds) == (None, 3)
    assert found.estimate.parts[1] == (
        pytest.approx(sum(np.var(own, ddof=1) / 3 for own in scores) / 4),
        2,
    )


def test_auc_variance_combines_positives_and_negatives(plugins: Plugins) -> None:
    """With perfect negatives, its variance is that of the share of the few positives: as Welch's test has it."""
    rng = np.random.default_rng(5)
    gold = (np.arange(400) < 6).astype(float)
    a, b = (gold + rng.normal(size=400) for _ in "AB")
    sides = [[ItemScores("auc", tuple(map(str, range(400))), values, gold)] for values in (a, b)]
    (variance, df), *_ = compared(*sides, plugins).estimate.parts
    shares = [
        [
            np.mean((v[own] > v[other][:, None]) + (v[own] == v[other][:, None]) / 2, axis=0)
            for v in (a, b)
        ]
        for own, other in ((gold == 1, gold == 0), (gold == 0, gold == 1))
    ]
    parts = [np.var(first - second, ddof=1) / len(first) for first, second in shares]
    assert variance == pytest.approx(sum(parts))
    assert df == pytest.approx(sum(parts) ** 2 / (parts[0] ** 2 / 6 + parts[1] ** 2 / 394), rel=0.3)
    assert df < 12
