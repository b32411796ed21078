from __future__ import annotations

import statistics
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from stored import correlated, stored, with_predictions
from swaps import correlation_permutation, mean_permutation

from mirrorbench.core.errors import DataFormatError, UsageError
from mirrorbench.core.plugins import Plugins
from mirrorbench.reports.leaderboard import build_table
from mirrorbench.reports.selection import Stored
from mirrorbench.reports.statistics import PairedTest
from mirrorbench.reports.statistics.encoders import (
    EncoderComparison,
    Marker,
    compare_encoders,
    compare_items,
    drawn_means,
    mean_of_seeds,
)
from mirrorbench.reports.statistics.items import MEAN, ItemScores
from mirrorbench.reports.statistics.resampling import Interval, holm, mcnemar
from mirrorbench.reports.table import Table
from mirrorbench.tasks.metrics import spearman

TASKS = ("one", "two", "three")
Floats = NDArray[np.float64]
N = 40
IDS = tuple(f"i{n}" for n in range(N))
GOLD = np.random.default_rng(0).normal(size=N)


@pytest.fixture
def sides(tmp_path: Path) -> tuple[list[Stored], list[Stored]]:
    """A (two seeds) and B (one); A is far better on the first task, a little on the second, and alike on the third."""
    rng = np.random.default_rng(0)
    first, second = [], []
    for task, noise in zip(TASKS, (0.5, 1.1, 1.3), strict=True):
        gold = rng.normal(size=150)
        first += [correlated(tmp_path, "a", task, gold, gold + noise * rng.normal(size=150), seed) for seed in (0, 1)]
        second.append(correlated(tmp_path, "b", task, gold, gold + 1.3 * rng.normal(size=150)))
    return first, second


def compared(sides: tuple[list[Stored], list[Stored]], plugins: Plugins, **more: Any) -> EncoderComparison:
    return compare_encoders(*sides, TASKS, plugins, resamples=400, **more)


def test_every_task_and_their_average(sides: tuple[list[Stored], list[Stored]], plugins: Plugins) -> None:
    found = compared(sides, plugins)
    assert [entry.task for entry in found.tasks] == list(TASKS)
    assert [(e.first.seeds, e.second.seeds, e.n) for e in found.tasks] == [(2, 1, 150)] * 3
    p = [entry.p for entry in found.tasks]
    assert [entry.corrected for entry in found.tasks] == holm([value for value in p if value is not None])
    assert found.tasks[0].verdict == "A better"
    assert found.tasks[2].verdict == "not separable"
    assert found.average is not None
    differences = found.tasks
    assert found.average.first == pytest.approx(sum(d.first.mean for d in differences) / 3)
    assert found.average.second == pytest.approx(sum(d.second.mean for d in differences) / 3)
    low, high = np.quantile(sum(d.drawn for d in differences) / 3, [0.025, 0.975])
    assert found.average.interval == Interval(pytest.approx(low), pytest.approx(high))
    assert found.notes == ()


def test_tasks_are_resampled_independently(tmp_path: Path, plugins: Plugins) -> None:
    """The same items twice: were both resampled alike, their average would have the variance of one."""
    rng = np.random.default_rng(1)
    gold = rng.normal(size=100)
    a, b = (gold + rng.normal(size=100) for _ in range(2))
    sides = [[correlated(tmp_path, spec, t, gold, x) for t in TASKS] for spec, x in (("a", a), ("b", b))]
    found = compare_encoders(sides[0], sides[1], TASKS, plugins, resamples=1000)
    single = [float(np.std(entry.drawn)) for entry in found.tasks]
    together = float(np.std(sum(entry.drawn for entry in found.tasks) / 3))
    assert together == pytest.approx(single[0] / np.sqrt(3), rel=0.15)
    assert len({entry.p for entry in found.tasks}) > 1


def test_the_other_way_round(sides: tuple[list[Stored], list[Stored]], plugins: Plugins) -> None:
    there, back = compared(sides, plugins), compared((sides[1], sides[0]), plugins)
    assert back.tasks[0].verdict == "B better"
    for one, other in zip(there.tasks, back.tasks, strict=True):
        assert one.difference == pytest.approx(-other.difference)
        assert one.p == other.p


def test_what_one_lacks_is_noted(sides: tuple[list[Stored], list[Stored]], plugins: Plugins) -> None:
    first, second = sides
    found = compare_encoders(first[:2], second, TASKS, plugins, resamples=100)
    assert [entry.task for entry in found.tasks] == ["one"]
    assert found.average is None
    assert found.notes == ("only B has: two, three",)
    with pytest.raises(UsageError, match="no task on which both"):
        compare_encoders(first[:2], second[1:], TASKS, plugins)


def test_an_undefined_score_is_not_compared(tmp_path: Path, plugins: Plugins) -> None:
    gold = np.arange(20.0)
    a, b = (correlated(tmp_path, spec, "one", gold, x) for spec, x in (("a", gold), ("b", np.ones(20))))
    c, d = (correlated(tmp_path, spec, "two", gold, gold % 7) for spec in "ab")
    found = compare_encoders([a, c], [b, d], ["one", "two"], plugins, resamples=100)
    assert [entry.task for entry in found.tasks] == ["two"]
    assert found.tasks[0].p == 1
    assert "one: not compared" in found.notes[0]
    with pytest.raises(UsageError, match="one: not compared"):
        compare_encoders([a], [b], ["one"], plugins, resamples=100)


@pytest.mark.parametrize(
    ("spec", "change", "reason"),
    [
        ("b", {"files": "2"}, "one: different data"),
        ("b", {"version": 2}, "one: different versions of the task"),
        ("b", {"protocol": "released"}, "one: protocols paper and released"),
        ("b", {"precision": "bf16"}, "one: evaluated in bf16 and fp32"),
        ("a", {"seed": 1, "corpus": "x"}, "one: the seeds of A differ in recipe, corpus or precision"),
    ],
)
def test_what_does_not_belong_together(
    spec: str, change: dict[str, Any], reason: str, tmp_path: Path, plugins: Plugins
) -> None:
    gold = np.arange(30.0)
    sides = {s: [correlated(tmp_path / "1", s, "one", gold, gold % n)] for s, n in (("a", 11), ("b", 7))}
    odd = correlated(tmp_path / "2", spec, "one", gold, gold % 5, **change)
    a, b = (sides["a"] + [odd], sides["b"]) if spec == "a" else (sides["a"], [odd])
    with pytest.raises(UsageError, match=reason) as caught:
        compare_encoders(a, b, ["one"], plugins, resamples=100)
    assert "--allow-mixed" in caught.value.hint
    found = compare_encoders(a, b, ["one"], plugins, resamples=100, allow_mixed=True)
    assert found.notes[0].startswith(f"mixed: {reason}")
    assert found.tasks[0].n == 30


def test_mixing_does_not_join_what_has_other_answers(tmp_path: Path, plugins: Plugins) -> None:
    gold = np.arange(30.0)
    a = correlated(tmp_path, "a", "one", gold, gold % 11)
    b = correlated(tmp_path, "b", "one", gold[::-1].copy(), gold % 7, files="2")
    with pytest.raises(DataFormatError, match="different gold"):
        compare_encoders([a], [b], ["one"], plugins, resamples=100, allow_mixed=True)


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


ITEMS = 120
NOISE = {"best": 0.9, "near": 1.0, "far": 2.5}


@pytest.fixture
def three(tmp_path: Path) -> list[Stored]:
    """Three encoders on two tasks, the first with two seeds; ``near`` is all but as good as ``best``."""
    found = []
    for task, draw in (("one", 4), ("two", 8)):
        rng = np.random.default_rng(draw)
        gold = rng.normal(size=ITEMS)
        for spec, noise in NOISE.items():
            for seed in (0, 1) if spec == "best" else (0,):
                scores = gold + noise * rng.normal(size=ITEMS)
                found.append(correlated(tmp_path, spec, task, gold, scores, seed))
    return found


def behind(three: list[Stored], plugins: Plugins) -> dict[str, ItemScores]:
    return {entry.result.cell_id: items for entry in three if (items := entry.items(plugins))}


def marked(three: list[Stored], plugins: Plugins, resamples: int = 500, **what: bool) -> Table:
    table = build_table([entry.result for entry in three], plugins)
    return Marker(table, behind(three, plugins), plugins, resamples).mark(**what)


def tied(table: Table) -> list[list[bool]]:
    return [[bool(score and score.tied) for score in row.scores] for row in table.rows]


def test_what_is_not_separable_from_the_best_is_tied(three: list[Stored], plugins: Plugins) -> None:
    table = marked(three, plugins, ties=True)
    assert [row.spec for row in table.rows] == ["best", "near", "far"]
    assert tied(table) == [[False] * 3, [True] * 3, [False] * 3]  # two tasks and their average
    assert all(score is not None and score.interval is None for row in table.rows for score in row.scores)
    assert "Holm" in table.notes[-1]


def test_the_test_is_the_one_of_compare_corrected_within_the_column(three: list[Stored], plugins: Plugins) -> None:
    items = [entry.items(plugins) for entry in three[:4]]
    a0, a1, near, far = (found.values for found in items if found)
    gold = items[0].gold if items[0] else np.empty(0)
    p = [correlation_permutation(np.stack([a0, a1]), x, gold, "spearman", 500, seed=0) for x in (near, far)]
    expected = [value >= 0.05 for value in holm([value for value in p if value is not None])]
    assert [row[0] for row in tied(marked(three, plugins, ties=True))][1:] == expected


def test_intervals_come_from_resampled_items(three: list[Stored], plugins: Plugins) -> None:
    table = marked(three, plugins, resamples=300, intervals=True)
    items = behind(three, plugins)
    seeds = [items[entry.result.cell_id] for entry in three[:2]]
    rng = np.random.default_rng(0)
    values = []
    for _ in range(300):
        drawn = rng.integers(0, ITEMS, ITEMS)
        values.append(np.mean([spearman(x.values[drawn], x.gold[drawn]) for x in seeds]))
    score = table.rows[0].scores[0]
    assert score is not None
    assert score.sd is not None
    assert score.interval == pytest.approx(tuple(np.quantile(values, [0.025, 0.975])))
    assert score.interval[0] < score.mean < score.interval[1]
    widths = [s.interval[1] - s.interval[0] for s in table.rows[0].scores if s and s.interval]
    assert len(widths) == 3
    assert widths[2] == pytest.approx(np.mean(widths[:2]) / np.sqrt(2), rel=0.2)  # two tasks, drawn independently
    assert not any(any(row) for row in tied(table))
    assert "percentile bootstrap over items" in table.notes[-1]


def test_unknown_items_leave_a_cell_unmarked(tmp_path: Path, three: list[Stored], plugins: Plugins) -> None:
    lost = with_predictions(tmp_path, stored("lost", "one", 0.99), ids=np.array(["x"]))
    table = build_table([entry.result for entry in (*three, lost)], plugins)
    table = Marker(table, behind(three, plugins), plugins, 100).mark(intervals=True, ties=True)
    (row,) = (row for row in table.rows if row.spec == "lost")
    assert row.scores[0] is not None
    assert (row.scores[0].interval, row.scores[0].tied) == (None, False)
    assert tied(table)[0][0] is False  # the best of those that are known is still what others are tied with
    assert tied(table)[1][0] is True
    assert "Not marked" in table.notes[-1]
    assert "one" in table.notes[-1]


def test_encoders_that_cover_other_items_are_tested_on_those_they_share(tmp_path: Path, plugins: Plugins) -> None:
    rng = np.random.default_rng(5)
    gold = rng.normal(size=ITEMS)
    a = correlated(tmp_path, "a", "one", gold, gold + 0.5 * rng.normal(size=ITEMS))
    b = correlated(tmp_path, "b", "one", gold[:70], gold[:70] + 3 * rng.normal(size=70))
    c = correlated(tmp_path, "c", "one", gold[:1], np.ones(1), ids=["elsewhere"])
    assert tied(marked([a, b], plugins, ties=True, intervals=True)) == [[False], [False]]
    assert marked([a, c], plugins, ties=True).rows[1].scores == (None,)  # undefined, as it was


@pytest.mark.parametrize("what", [{}, {"intervals": True}, {"ties": True}])
def test_a_single_row_and_no_row(what: dict[str, bool], three: list[Stored], plugins: Plugins) -> None:
    assert tied(marked(three[:2], plugins, **what)) == [[False]]
    assert marked([], plugins, **what).rows == ()
