"""Two encoders, task by task and on average: numbers, corrections, sentences."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.stored_results import correlated

from mirrorbench import Session
from mirrorbench.core.errors import DataFormatError, UsageError
from mirrorbench.core.plugins import Plugins
from mirrorbench.reports.comparable import Stored
from mirrorbench.reports.encoder_pairs import compare_encoders
from mirrorbench.reports.leaderboard import build_table
from mirrorbench.reports.renderers.notes import note_lines
from mirrorbench.reports.selection import with_statistics
from mirrorbench.reports.statistics.estimates import holm
from mirrorbench.reports.table import Verdict
from mirrorbench.storage.results import hidden_id

TASKS = ("one", "two", "three")
Sides = tuple[list[Stored], list[Stored]]


@pytest.fixture(scope="module")
def sides(tmp_path_factory: pytest.TempPathFactory) -> Sides:
    """A (two seeds) and B (one); A is far better on the first task, a little on the second, and alike on the third."""
    rng, folder = np.random.default_rng(0), tmp_path_factory.mktemp("sides")
    first, second = [], []
    for task, noise in zip(TASKS, (0.5, 1.1, 1.3), strict=True):
        gold = rng.normal(size=150)
        first += [
            correlated(folder, "a", task, gold, gold + noise * rng.normal(size=150), seed)
            for seed in (0, 1)
        ]
        second.append(correlated(folder, "b", task, gold, gold + 1.3 * rng.normal(size=150)))
    return first, second


def test_comparison_covers_tasks_average_and_swapped_encoders(
    sides: Sides, plugins: Plugins
) -> None:
    found = compare_encoders(*sides, TASKS, plugins)
    assert [entry.task for entry in found.tasks] == list(TASKS)
    assert [(e.first.seeds, e.second.seeds, e.n) for e in found.tasks] == [(2, 1, 150)] * 3
    assert [entry.corrected for entry in found.tasks] == holm(
        [entry.estimate.p for entry in found.tasks]
    )
    assert found.tasks[0].verdict == "A better"
    assert found.tasks[2].verdict == "not separable"
    assert found.average is not None
    differences = found.tasks
    assert found.average.first.mean == pytest.approx(sum(d.first.mean for d in differences) / 3)
    assert found.average.second.mean == pytest.approx(sum(d.second.mean for d in differences) / 3)
    assert found.average.n == 450
    (note,) = found.notes
    assert note.startswith(f"Items of {', '.join(TASKS)} are matched with those of other tasks by")
    back = compare_encoders(*sides[::-1], TASKS, plugins)
    assert back.tasks[0].verdict == "B better"
    assert [entry.estimate.value for entry in back.tasks] == [
        -entry.estimate.value for entry in found.tasks
    ]


def test_single_tuning_seed_limits_verdict_to_model(tmp_path: Path, plugins: Plugins) -> None:
    """An untuned encoder has no seeds, and several are about the method."""
    gold = np.arange(60.0)
    rng = np.random.default_rng(1)

    def side(spec: str, noise: float, *seeds: int) -> list[Stored]:
        return [
            correlated(tmp_path, spec, "one", gold, gold + noise * rng.normal(size=60), seed)
            for seed in seeds
        ]

    base, one, two = side("m+base", 30, 0), side("m+mirror", 3, 0), side("m+mirror:lr=1", 3, 0, 1)
    for first, second, expected in (
        (one, base, "A better (this model)"),
        (base, one, "B better (this model)"),
        (two, base, "A better"),
        (two, one, "not separable"),
    ):
        assert compare_encoders(first, second, ["one"], plugins).tasks[0].verdict == expected


def test_unseen_difference_equals_that_of_leaderboard(tmp_path: Path, plugins: Plugins) -> None:
    gold = np.arange(60.0)
    rng = np.random.default_rng(1)
    flags = np.array([1, 0, 0] * 20, np.int8)
    base = correlated(tmp_path, "m+base", "one", gold, gold + 20 * rng.normal(size=60))
    tuned = correlated(
        tmp_path,
        "m+mirror",
        "one",
        gold,
        gold + 9 * rng.normal(size=60),
        overlap=flags,
        corpus="c",
    )
    (task,) = compare_encoders([tuned], [base], ["one"], plugins).tasks
    table = with_statistics(
        build_table([tuned.result, base.result], plugins), [tuned, base], plugins
    )
    assert task.unseen is not None
    assert task.unseen.share == pytest.approx(1 / 3)
    assert task.unseen == table.verdicts[0].unseen
    (plain,) = compare_encoders([base], [base], ["one"], plugins).tasks
    assert plain.unseen is None


def test_tasks_of_only_one_encoder_are_noted(sides: Sides, plugins: Plugins) -> None:
    first, second = sides
    found = compare_encoders(first[:2], second, TASKS, plugins)
    assert [entry.task for entry in found.tasks] == ["one"]
    assert found.average is None
    assert found.notes == ("only B has: two, three",)
    with pytest.raises(UsageError, match="no task on which both"):
        compare_encoders(first[:2], second[1:], TASKS, plugins)


def test_an_undefined_score_is_not_compared(tmp_path: Path, plugins: Plugins) -> None:
    gold = np.arange(20.0)
    a, b = (
        correlated(tmp_path, spec, "one", gold, x) for spec, x in (("a", gold), ("b", np.ones(20)))
    )
    c, d = (correlated(tmp_path, spec, "two", gold, gold % 7) for spec in "ab")
    found = compare_encoders([a, c], [b, d], ["one", "two"], plugins)
    assert [entry.task for entry in found.tasks] == ["two"]
    assert found.tasks[0].estimate.p == 1
    assert "one: not compared" in found.notes[0]
    with pytest.raises(UsageError, match="one: not compared"):
        compare_encoders([a], [b], ["one"], plugins)


def test_incomparable_results_are_refused_unless_allowed(tmp_path: Path, plugins: Plugins) -> None:
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
        odd = correlated(
            tmp_path / "odd", "a" if "seed" in change else "b", "one", gold, gold % 5, **change
        )
        sides = ([*a, odd], b) if "seed" in change else (a, [odd])
        with pytest.raises(UsageError, match=f"one: {reason}") as caught:
            compare_encoders(*sides, ["one"], plugins)
        assert "--allow-mixed" in caught.value.hint
        found = compare_encoders(*sides, ["one"], plugins, allow_mixed=True)
        assert found.notes[0].startswith(f"not comparable: one: {reason}")
        assert found.tasks[0].n == 30
    other = correlated(tmp_path, "b", "one", gold[::-1].copy(), gold % 7, files="2")
    with pytest.raises(DataFormatError, match="different gold"):
        compare_encoders(a, [other], ["one"], plugins, allow_mixed=True)


def judge(sides: Sequence[Stored], plugins: Plugins) -> list[Verdict]:
    """The verdicts below the leaderboard of some results."""
    return list(
        with_statistics(
            build_table([entry.result for entry in sides], plugins), sides, plugins
        ).verdicts
    )


def test_leaderboard_and_compare_give_equal_verdicts(tmp_path: Path, plugins: Plugins) -> None:
    """Difference, interval and p are those of a comparison; the corrected p is Holm's over the steps of the column."""
    rng, tasks = np.random.default_rng(1), [f"t{n}" for n in range(5)]
    specs = {
        "m+base:pooling=cls": 1.8,
        "m+base:pooling=mean": 1.5,
        "m+mirror": 1.0,
        "m+mirror:lr=1": 1.2,
    }
    rows = []
    for task in tasks:
        gold = rng.normal(size=60)
        for spec, noise in specs.items():
            encoder = {
                "weights": spec,
                "pooling": "cls" if "cls" in spec else "mean",
                "layers": "-1:",
            }
            rows.append(
                correlated(
                    tmp_path, spec, task, gold, gold + noise * rng.normal(size=60), encoder=encoder
                )
            )

    def of(spec: str) -> list[Stored]:
        return [entry for entry in rows if entry.result.spec == spec]

    def shown(*names: str) -> dict[tuple[str, str], Verdict]:
        return {
            (v.spec, v.column): v
            for v in judge([e for e in rows if e.result.task in names], plugins)
            if not v.best
        }

    everything = shown(*tasks)
    pair = ("m+mirror", "m+base:pooling=mean")
    found = compare_encoders(of(pair[0]), of(pair[1]), tasks, plugins)
    for task, one in zip([*tasks, "avg."], [*found.tasks, found.average], strict=True):
        verdict = everything["m+mirror", task]
        assert one is not None
        assert (verdict.over, verdict.difference, verdict.p) == (
            pair[1],
            one.estimate.value,
            one.estimate.p,
        )
        assert verdict.interval == one.estimate.interval()
        both = [everything[spec, task] for spec in ("m+mirror", "m+mirror:lr=1")]
        assert [v.corrected for v in both] == holm([v.p for v in both])
    assert everything.items() > shown("t1").items()
    assert {v.column for v in everything.values()} == {*tasks, "avg."}


LADDER = ("m+base:pooling=cls", "m+base:pooling=mean", "m+mirror", "m+mirror:lr=1")


@pytest.fixture(scope="module")
def ladder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Results of a ladder on two tasks."""
    rng, folder = np.random.default_rng(3), tmp_path_factory.mktemp("ladder")
    gold = rng.normal(size=90)
    for task in TASKS[:2]:
        for spec, noise in zip(LADDER, (3.0, 1.5, 1.1, 1.0), strict=True):
            pooling = spec.partition("pooling=")[2] or "mean"
            encoder = {"weights": spec, "pooling": pooling, "layers": "-1:"}
            scores = gold + noise * rng.normal(size=90)
            correlated(folder, spec, task, gold, scores, encoder=encoder)
    return folder


@pytest.mark.parametrize("reverse", [False, True])
def test_average_is_corrected_as_below_the_leaderboard(ladder: Path, reverse: bool) -> None:
    """A step of the leaderboard, and its best rows: the same p, interval and number of tests."""
    session = Session(ladder, offline=True)
    verdicts = [v for v in session.leaderboard().table.verdicts if v.column == "avg."]
    assert {verdict.best for verdict in verdicts} == {True, False}
    for verdict in verdicts:
        pair = [verdict.spec, verdict.over]
        found = session.compare(*(pair[::-1] if reverse else pair)).average
        assert found is not None
        assert (found.test.p, found.corrected) == (verdict.p, verdict.corrected)
        assert found.test.n_tests == verdict.n_tests
        assert verdict.interval is not None
        ends = [-end for end in reversed(verdict.interval)] if reverse else verdict.interval
        assert found.test.interval == pytest.approx(tuple(ends), abs=1e-12)


def test_average_of_another_pair_is_one_test_more(ladder: Path) -> None:
    session = Session(ladder, offline=True)
    verdicts = session.leaderboard().table.verdicts
    steps = [v for v in verdicts if v.column == "avg." and not v.best]
    compared = session.compare(LADDER[3], LADDER[0])
    assert compared.average is not None
    p_values = [compared.average.p, *(step.p for step in steps)]
    assert compared.average.corrected == holm(p_values)[0]
    assert compared.average.test.n_tests == len(steps) + 1
    others = [v for v in verdicts if v.column != "avg."]
    tasks, *_, note = compared.notes
    assert tasks == (
        f"The leaderboard of {ladder} has {len(others)} other tests on these tasks, for which p is not "
        "corrected here."
    )
    assert note.startswith("p of the average: corrected for other steps of the leaderboard too (")
    assert "(m + Mirror over m-mp" in note


def test_sentences_are_those_of_the_leaderboard(ladder: Path) -> None:
    session = Session(ladder, offline=True)
    compared = session.compare(LADDER[2], LADDER[1])
    *_, average = compared.sentences()
    assert average in [text for _, text in note_lines(session.leaderboard().table)]


def test_items_match_under_hidden_ids(tmp_path: Path, plugins: Plugins) -> None:
    rng = np.random.default_rng(1)
    gold = np.arange(30.0)
    ids = [f"i{n}" for n in range(30)]
    plain = correlated(tmp_path, "a", "one", gold, gold + 9 * rng.normal(size=30))
    scores = gold + 9 * rng.normal(size=30)
    shown = correlated(tmp_path, "b", "one", gold, scores)
    (expected,) = compare_encoders([plain], [shown], ["one"], plugins).tasks
    hidden = correlated(tmp_path, "c", "one", gold, scores, ids=list(map(hidden_id, ids)))
    (found,) = compare_encoders([plain], [hidden], ["one"], plugins).tasks
    assert (found.n, found.left_out, found.estimate) == (30, 0, expected.estimate)
