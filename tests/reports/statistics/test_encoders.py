from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from comparison_samples import correlated

from mirrorbench.core.errors import DataFormatError, UsageError
from mirrorbench.core.plugins import Plugins
from mirrorbench.reports.selection import Stored
from mirrorbench.reports.statistics.encoders import EncoderComparison, compare_encoders
from mirrorbench.reports.statistics.significance import Interval, holm

TASKS = ("one", "two", "three")


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


def test_seeds_of_one_side_that_are_of_two_experiments(tmp_path: Path, plugins: Plugins) -> None:
    gold = np.random.default_rng(2).normal(size=30)
    a = [correlated(tmp_path, "a", "one", gold, gold + seed, seed, corpus=corpus) for seed, corpus in enumerate("xy")]
    b = [correlated(tmp_path, "b", "one", gold, -gold)]
    with pytest.raises(UsageError, match="one: the seeds of A differ in recipe, corpus or precision"):
        compare_encoders(a, b, ["one"], plugins, resamples=100)
    assert (
        compare_encoders(a, b, ["one"], plugins, resamples=100, allow_mixed=True)
        .notes[0]
        .startswith("mixed: one: the seeds")
    )


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
    ("change", "reason"),
    [
        ({"files": "2"}, "one: different data"),
        ({"version": 2}, "one: different versions of the task"),
        ({"protocol": "released"}, "one: protocols paper and released"),
    ],
)
def test_what_does_not_belong_together(change: dict[str, Any], reason: str, tmp_path: Path, plugins: Plugins) -> None:
    gold = np.arange(30.0)
    a = correlated(tmp_path, "a", "one", gold, gold % 11)
    b = correlated(tmp_path, "b", "one", gold, gold % 7, **change)
    with pytest.raises(UsageError, match=reason) as caught:
        compare_encoders([a], [b], ["one"], plugins, resamples=100)
    assert "--allow-mixed" in caught.value.hint
    found = compare_encoders([a], [b], ["one"], plugins, resamples=100, allow_mixed=True)
    assert found.notes == (f"mixed: {reason}",) or found.notes[0].startswith(f"mixed: {reason}")
    assert found.tasks[0].n == 30


def test_mixing_does_not_join_what_has_other_answers(tmp_path: Path, plugins: Plugins) -> None:
    gold = np.arange(30.0)
    a = correlated(tmp_path, "a", "one", gold, gold % 11)
    b = correlated(tmp_path, "b", "one", gold[::-1].copy(), gold % 7, files="2")
    with pytest.raises(DataFormatError, match="different gold"):
        compare_encoders([a], [b], ["one"], plugins, resamples=100, allow_mixed=True)
