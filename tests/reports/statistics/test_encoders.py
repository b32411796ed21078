from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from stored import correlated

from mirrorbench.core.errors import DataFormatError, UsageError
from mirrorbench.core.plugins import Plugins
from mirrorbench.reports.leaderboard import build_table
from mirrorbench.reports.selection import Stored, judged
from mirrorbench.reports.statistics import PairedTest
from mirrorbench.reports.statistics.encoders import EncoderComparison, compare_encoders
from mirrorbench.reports.statistics.resampling import holm
from mirrorbench.reports.table import Verdict

TASKS = ("one", "two", "three")
Sides = tuple[list[Stored], list[Stored]]


@pytest.fixture(scope="module")
def sides(tmp_path_factory: pytest.TempPathFactory) -> Sides:
    """A (two seeds) and B (one); A is far better on the first task, a little on the second, and alike on the third."""
    rng, folder = np.random.default_rng(0), tmp_path_factory.mktemp("sides")
    first, second = [], []
    for task, noise in zip(TASKS, (0.5, 1.1, 1.3), strict=True):
        gold = rng.normal(size=150)
        first += [correlated(folder, "a", task, gold, gold + noise * rng.normal(size=150), seed) for seed in (0, 1)]
        second.append(correlated(folder, "b", task, gold, gold + 1.3 * rng.normal(size=150)))
    return first, second


def compared(sides: Sides, plugins: Plugins, **more: Any) -> EncoderComparison:
    return compare_encoders(*sides, TASKS, plugins, resamples=400, **more)


def test_every_task_and_their_average(sides: Sides, plugins: Plugins) -> None:
    found = compared(sides, plugins)
    assert [entry.task for entry in found.tasks] == list(TASKS)
    assert [(e.first.seeds, e.second.seeds, e.n) for e in found.tasks] == [(2, 1, 150)] * 3
    p = [entry.p for entry in found.tasks]
    assert [entry.corrected for entry in found.tasks] == holm([value for value in p if value is not None])
    assert found.tasks[0].verdict == "A better"
    assert found.tasks[2].verdict == "not separable"
    assert found.average is not None
    differences = found.tasks
    assert found.average.first.mean == pytest.approx(sum(d.first.mean for d in differences) / 3)
    assert found.average.second.mean == pytest.approx(sum(d.second.mean for d in differences) / 3)
    assert found.average.n == 450
    assert found.notes == ()


def test_the_other_way_round_and_with_another_seed(sides: Sides, plugins: Plugins) -> None:
    there, again, other = (compared(sides, plugins, seed=seed) for seed in (0, 0, 1))
    back = compared((sides[1], sides[0]), plugins)
    assert back.tasks[0].verdict == "B better"
    for one, turned in zip(there.tasks, back.tasks, strict=True):
        assert one.difference == pytest.approx(-turned.difference)
        assert one.p == turned.p
    assert there.tasks == again.tasks
    assert (there.tasks[1].p, there.tasks[1].interval) != (other.tasks[1].p, other.tasks[1].interval)


def test_what_one_lacks_is_noted(sides: Sides, plugins: Plugins) -> None:
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


def test_what_does_not_belong_together(tmp_path: Path, plugins: Plugins) -> None:
    gold = np.arange(30.0)
    a, b = ([correlated(tmp_path, s, "one", gold, gold % n)] for s, n in (("a", 11), ("b", 7)))
    changes: list[tuple[dict[str, Any], str]] = [
        ({"files": "2"}, "different data"),
        ({"version": 2}, "different versions of the task"),
        ({"protocol": "released"}, "protocols paper and released"),
        ({"precision": "bf16"}, "evaluated in bf16 and fp32"),
        ({"seed": 1, "corpus": "x"}, "the seeds of A differ in recipe, corpus or precision"),
    ]
    for change, reason in changes:
        odd = correlated(tmp_path / "odd", "a" if "seed" in change else "b", "one", gold, gold % 5, **change)
        sides = ([*a, odd], b) if "seed" in change else (a, [odd])
        with pytest.raises(UsageError, match=f"one: {reason}") as caught:
            compare_encoders(*sides, ["one"], plugins, resamples=100)
        assert "--allow-mixed" in caught.value.hint
        found = compare_encoders(*sides, ["one"], plugins, resamples=100, allow_mixed=True)
        assert found.notes[0].startswith(f"mixed: one: {reason}")
        assert found.tasks[0].n == 30
    other = correlated(tmp_path, "b", "one", gold[::-1].copy(), gold % 7, files="2")
    with pytest.raises(DataFormatError, match="different gold"):
        compare_encoders(a, [other], ["one"], plugins, resamples=100, allow_mixed=True)


def judge(sides: Sequence[Stored], plugins: Plugins) -> list[Verdict]:
    """The verdicts below the leaderboard of some results."""
    return list(judged(build_table([entry.result for entry in sides], plugins), sides, plugins).verdicts)


def test_one_answer_in_a_leaderboard_and_a_comparison(tmp_path: Path, plugins: Plugins) -> None:
    """Difference, interval, p and corrected p, also where other rows and columns are there, on tasks and on average."""
    rng = np.random.default_rng(7)
    specs = {"m+base:pooling=mean": 1.3, "m+mirror": 1.1, "m+mirror:lr=1": 1.6, "m+base:pooling=cls": 3.0}
    tasks, rows = [f"t{n}" for n in range(5)], []
    for task in tasks:
        gold = rng.normal(size=60)
        for spec, noise in specs.items():
            encoder = {"weights": spec, "pooling": "cls" if "cls" in spec else "mean", "layers": "-1:"}
            rows.append(correlated(tmp_path, spec, task, gold, gold + noise * rng.normal(size=60), encoder=encoder))

    def of(spec: str, names: Sequence[str]) -> list[Stored]:
        return [entry for entry in rows if entry.result.spec == spec and entry.result.task in names]

    pair = ("m+mirror", "m+base:pooling=mean")
    for names in (tasks[2:4], tasks):
        found = compare_encoders(of(pair[0], names), of(pair[1], names), names, plugins)
        everything = judge([entry for entry in rows if entry.result.task in names], plugins)
        alone = judge([entry for spec in pair for entry in of(spec, names)], plugins)
        verdicts = [v for v in everything if (v.spec, v.over) == pair]
        assert verdicts == alone
        assert len(everything) > len(alone)
        one = found.average if len(names) > 4 else found.tasks[0]
        assert one is not None
        assert one.interval is not None
        assert verdicts[0].interval == (one.interval.low, one.interval.high)
        assert (verdicts[0].difference, verdicts[0].p) == (one.difference, one.p)
        if len(names) < 4:
            assert [v.corrected for v in verdicts] == [entry.corrected for entry in found.tasks]
    back = compare_encoders(of(pair[1], tasks), of(pair[0], tasks), tasks, plugins)
    assert back.average is not None
    assert back.average.p == verdicts[0].p


def test_further_rows_change_no_verdict(tmp_path: Path, plugins: Plugins) -> None:
    """A step that is just significant stays so beside others, with which Holm over a table would take it back."""
    rng = np.random.default_rng(3)
    gold = rng.normal(size=100)
    base = gold + rng.normal(size=100)
    encoder = {"weights": "w", "pooling": "mean", "layers": "-1:"}

    def row(spec: str, scores: np.ndarray) -> Stored:
        return correlated(tmp_path, spec, "one", gold, scores, encoder=encoder)

    two = [row("m+base:pooling=mean", base), row("m+mirror", base + 0.11 * gold + 0.2 * rng.normal(size=100))]
    many = [row(f"m+mirror:lr={n}", base + rng.normal(size=100)) for n in range(1, 21)]
    (alone,) = judge(two, plugins)
    (beside,) = (v for v in judge([*two, *many], plugins) if v.spec == "m+mirror")
    assert alone.p is not None
    assert 0.05 / 20 < alone.p < 0.05
    assert beside == alone
    assert beside.separable


def test_a_floor_is_a_bound(sides: Sides, plugins: Plugins) -> None:
    found = compared(sides, plugins)
    assert found.tasks[0].p == 1 / 401
    assert [entry.bound for entry in found.tasks] == [True, False, False]
    found = compare_encoders(*sides, TASKS, plugins, PairedTest.bootstrap, resamples=400)
    assert (found.tasks[0].p, found.tasks[0].bound) == (2 / 401, True)
