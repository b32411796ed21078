"""Verdicts on the steps of a leaderboard, in every format; intervals and ties in a table."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from helpers.stored_results import correlated, path_of, stored, with_predictions
from scipy.stats import spearmanr

from mirrorbench import Session
from mirrorbench.core.plugins import Plugins
from mirrorbench.reports.comparable import Stored
from mirrorbench.reports.encoder_pairs import compare_encoders
from mirrorbench.reports.leaderboard import build_table
from mirrorbench.reports.renderers import comma_separated, escape_latex, latex, markdown
from mirrorbench.reports.renderers.notes import note_lines
from mirrorbench.reports.renderers.text import as_json
from mirrorbench.reports.selection import with_statistics
from mirrorbench.reports.statistics.comparisons import Comparisons
from mirrorbench.reports.statistics.items import ItemScores, items_of
from mirrorbench.reports.statistics.verdicts import tied_with_best
from mirrorbench.reports.table import NOTES, Table, Verdict, read_table

CLS, MEAN, TUNED = "m+base:pooling=cls", "m+base:pooling=mean", "m+mirror"
N = 60
GOLD = np.random.default_rng(0).normal(size=N)


def row(
    folder: Path,
    spec: str,
    task: str,
    noise: float,
    seed: int = 0,
    pooling: str = "mean",
    **more: object,
) -> Stored:
    """A result whose scores are the gold with noise."""
    name = f"{spec} {task} {seed}".encode()
    scores = GOLD + noise * np.random.default_rng(list(name)).normal(size=N)
    encoder = {"weights": f"weights of {spec}", "pooling": pooling, "layers": "-1:"}
    return correlated(folder, spec, task, GOLD, scores, seed, encoder=encoder, **more)


@pytest.fixture
def ladder(tmp_path: Path) -> list[Stored]:
    """Two tasks; on the first the tuned row, of two seeds, is far better than the mean row, on the second alike."""
    found = []
    for task, gain in (("one", 0.4), ("two", 1.5)):
        found += [row(tmp_path, CLS, task, 9, pooling="cls"), row(tmp_path, MEAN, task, 1.5)]
        found += [row(tmp_path, TUNED, task, gain, seed) for seed in (0, 1)]
    return found


def judge(stored: list[Stored], plugins: Plugins, **what: bool) -> Table:
    return with_statistics(
        build_table([entry.result for entry in stored], plugins), stored, plugins, **what
    )


def test_verdicts_appear_in_every_format(
    tmp_path: Path, ladder: list[Stored], plugins: Plugins
) -> None:
    table = judge(ladder, plugins)
    lines = [text for _, text in note_lines(table) if "the untuned model (mp)" in text]
    average, one, two = lines
    verdict = table.verdicts[0]
    assert verdict.difference is not None
    difference = f"+{verdict.difference:.3f} [".replace("0.", ".")
    assert one.startswith(f"Mirror beats the untuned model (mp) on one: {difference}")
    assert one.endswith("], p < .001, two seeds")
    assert two.startswith("No separable difference on two: Mirror over the untuned model (mp) ")
    assert average.startswith("Mirror beats the untuned model (mp) on average over 2 tasks: +")
    assert average.endswith("], p = .040, two seeds")
    assert "over items, and over seeds where there are several" in table.notes[-3]
    assert table.notes[-1].startswith(
        "Items of one, two are matched with those of other tasks by file"
    )
    path = tmp_path / "table.json"
    path.write_text(as_json(table))
    assert read_table(path) == table
    data = json.loads(path.read_text())
    assert [entry["sentence"] for entry in data["verdicts"]] == [one, two, average]
    assert average.startswith(data["summary"][0])
    by_verdict = list(csv.DictReader(io.StringIO(comma_separated(table, verdicts=True))))
    assert [entry["sentence"] for entry in by_verdict] == [one, two, average]
    assert [float(entry["p"]) for entry in by_verdict] == [v.p for v in table.verdicts]
    assert set(lines) <= set(markdown(table).splitlines())
    assert all(escape_latex(line) in latex(table) for line in lines)
    assert note_lines(Session().leaderboard(path).table) == note_lines(table)  # without predictions


def test_rows_are_compared_at_equal_pooling(tmp_path: Path, plugins: Plugins) -> None:
    stored = [
        row(tmp_path, spec, task, 1, pooling=pooling)
        for task in ("one", "two")
        for spec, pooling in (
            (CLS, "cls"),
            (MEAN, "mean"),
            (TUNED, "cls" if task == "two" else "mean"),
        )
    ]
    found = [(v.over, v.column) for v in judge(stored, plugins).verdicts if not v.best]
    assert found == [(CLS, "two"), (MEAN, "one")]


def test_best_tuned_row_faces_best_untuned_row(tmp_path: Path, plugins: Plugins) -> None:
    """In each column the best tuned row of a backbone over its best untuned one."""
    static, other = "m+static", "m+mirror:lr=1"
    noise = {
        CLS: (9, 9),
        MEAN: (1.5, 0.5),
        TUNED: (0.4, 3),
        other: (1, 1.2),
        "m+mirror:lr=2": (0.6, 3),
        "n+mirror": (0.1, 0.1),
    }
    stored = [
        row(tmp_path, spec, task, amount[n])
        for n, task in enumerate(("one", "two"))
        for spec, amount in noise.items()
    ]
    assert (other, MEAN, "two") in {
        (v.spec, v.over, v.column) for v in judge(stored, plugins).verdicts if v.best
    }
    stored += [
        row(tmp_path, static, task, noise, pooling="") for task, noise in (("one", 0.8), ("two", 1))
    ]
    table = judge(stored, plugins)
    best = [verdict for verdict in table.verdicts if verdict.best]
    assert [(v.spec, v.over, v.column) for v in best] == [
        (TUNED, static, "one"),
        (other, MEAN, "two"),
        (other, MEAN, "avg."),
    ]
    for verdict in best:
        means = {
            row.spec: s.mean
            for row in table.rows
            for c, s in zip(table.columns, row.scores, strict=True)
            if s and c.name == verdict.column
        }
        assert verdict.difference == pytest.approx(means[verdict.spec] - means[verdict.over])
    assert "those of best rows, which like their p are corrected for the choice" in table.notes[-3]
    assert table.notes[-2].startswith("This model: tuned with one seed")
    for verdict in (
        best
    ):  # three tuned rows of m and three untuned ones; the interval is for all of these pairs
        assert verdict.corrected == pytest.approx(min(1.0, 3 * 3 * (verdict.p or 0)))
        sides = (
            [e for e in stored if e.result.spec == spec] for spec in (verdict.spec, verdict.over)
        )
        found = compare_encoders(*sides, ["one", "two"], plugins)
        tested = {**{one.task: one for one in found.tasks}, "avg.": found.average}[verdict.column]
        assert tested is not None
        assert verdict.interval == tested.estimate.interval(1 - 0.05 / 9)
        assert verdict.n_tests == 9
    lines = [text for _, text in note_lines(table) if "the best untuned row" in text]
    assert [line.partition(": ")[0] for line in lines] == [
        "No separable difference on average over 2 tasks",
        "m + Mirror beats the best untuned row (m-static) on one",
        "m + Mirror (lr=1) loses to the best untuned row (m-mp) on two",
    ]
    steps = [v for v in table.verdicts if not v.best]
    assert any(not v.separable for v in steps)
    leader, measured = 1, 1
    assert len(note_lines(table)) == len(table.verdicts) + leader + measured + len(table.notes)
    path = tmp_path / "table.json"
    path.write_text(as_json(table))
    for level in NOTES:
        assert note_lines(read_table(path).with_notes(level)) == note_lines(table.with_notes(level))


def test_note_on_many_tasks_reports_only_average(tmp_path: Path, plugins: Plugins) -> None:
    tasks = [f"t{n}" for n in range(5)]
    stored = [
        row(tmp_path, spec, task, noise)
        for task in tasks
        for spec, noise in ((MEAN, 1.5), (TUNED, 1.3))
    ]
    table = judge(stored, plugins)
    assert [v.column for v in table.verdicts] == [*tasks, "avg."]
    text = " ".join(text for _, text in note_lines(table))
    assert " on average over 5 tasks: " in text
    assert "on t0" not in text
    for fewer in (stored[:-2], stored[:-1]):
        text = " ".join(text for _, text in note_lines(judge(fewer, plugins)))
        assert all(f" on {task}: " in text for task in tasks[:-1])


def test_gain_on_unseen_items_is_reported(tmp_path: Path, plugins: Plugins) -> None:
    """Of the best tuned row, beside Spearman's correlation of scipy on the other items; no row of it, no such gain."""
    flags = np.array([1, 2, 0] * (N // 3), np.int8)
    scores = {
        spec: GOLD + np.random.default_rng(seed).normal(size=N)
        for seed, spec in enumerate((MEAN, TUNED))
    }
    stored = [
        correlated(
            tmp_path,
            spec,
            "t",
            GOLD,
            scores[spec],
            overlap=flags if spec == TUNED else None,
            corpus="c" * (spec == TUNED),
        )
        for spec in scores
    ]
    (verdict,) = judge(stored, plugins).verdicts
    assert verdict.unseen is not None
    assert verdict.unseen.share == pytest.approx(2 / 3)
    base, tuned = (
        spearmanr(scores[spec][flags == 0], GOLD[flags == 0]).statistic for spec in scores
    )
    assert verdict.unseen.difference == pytest.approx(tuned - base)
    low, high = verdict.unseen.interval or (0.0, 0.0)
    assert low < tuned - base < high
    assert verdict.unseen.p is not None
    line = " ".join(text for _, text in note_lines(judge(stored, plugins)))
    assert f"; without overlap {tuned - base:+.3f}".replace("0.", ".", 1) in line
    (plain,) = judge([row(tmp_path / "other", spec, "t", 1.0) for spec in scores], plugins).verdicts
    assert plain.unseen is None


def test_untestable_verdicts_give_their_reason(
    tmp_path: Path, ladder: list[Stored], plugins: Plugins
) -> None:
    path_of(tmp_path, ladder[-1].result).with_suffix(".npz").unlink()
    table = judge(ladder, plugins)
    one, two, average = table.verdicts
    assert average.why_not == two.why_not
    assert (one.corrected, one.separable) == (one.p, True)
    assert two == Verdict(
        TUNED,
        MEAN,
        "paper",
        "two",
        why_not="the score cannot be computed from stored predictions",
        two_seeds=True,
    )
    lines = [text for _, text in note_lines(table)]
    for where in ("two", "average over 2 tasks"):
        assert (
            f"Not tested on {where}: Mirror over the untuned model (mp) "
            "(the score cannot be computed from stored predictions)"
        ) in lines
    for entry in ladder:
        path_of(tmp_path, entry.result).with_suffix(".npz").unlink(missing_ok=True)
    assert not any("Verdicts" in note for note in judge(ladder, plugins).notes)


def test_incomparable_rows_are_not_tested(
    tmp_path: Path, ladder: list[Stored], plugins: Plugins
) -> None:
    other = [
        Stored(replace(e.result, data={"files": {"f": "other"}, "version": 1}), e.path)
        if e.result.spec == TUNED
        else e
        for e in ladder
    ]
    assert {v.why_not for v in judge(other, plugins).verdicts} == {"different data (checksums)"}
    released = [row(tmp_path, TUNED, "one", 1, protocol="released")]
    assert judge(released + ladder[:2], plugins).verdicts == ()
    undefined = Stored(replace(ladder[2].result, main_score=None), ladder[2].path)
    assert judge([*ladder[:2], undefined], plugins).verdicts == ()


ITEMS = 120


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> list[Stored]:
    """Three encoders on two tasks, the first with two seeds; ``near`` is all but as good as ``best``."""
    found, folder = [], tmp_path_factory.mktemp("three")
    for task, draw in (("one", 4), ("two", 8)):
        rng = np.random.default_rng(draw)
        gold = rng.normal(size=ITEMS)
        for spec, noise in (("best", 0.9), ("near", 1.0), ("far", 2.5)):
            for seed in (0, 1) if spec == "best" else (0,):
                found.append(
                    correlated(
                        folder, spec, task, gold, gold + noise * rng.normal(size=ITEMS), seed
                    )
                )
    return found


def tied(table: Table) -> list[list[bool]]:
    return [[bool(score and score.tied) for score in row.scores] for row in table.rows]


def test_scores_inseparable_from_best_are_tied(three: list[Stored], plugins: Plugins) -> None:
    """By the comparison of ``compare``, corrected for the choice of the best row."""
    table = judge(three, plugins, ties=True)
    assert [row.spec for row in table.rows] == ["best", "near", "far"]
    assert tied(table) == [[False] * 3, [True] * 3, [False] * 3]  # two tasks and their average
    assert all(
        score is not None and score.interval is None for row in table.rows for score in row.scores
    )
    assert "corrected for the choice of the best" in table.notes[-2]
    first = [entry for entry in three if entry.result.task == "one"]
    best, near, far = (
        [e for e in first if e.result.spec == spec] for spec in ("best", "near", "far")
    )
    p = [
        compare_encoders(best, other, ["one"], plugins).tasks[0].estimate.p for other in (near, far)
    ]
    assert p[0] is not None
    assert p[1] is not None
    assert p[0] > 0.05
    assert 3 * p[1] < 0.05  # Bonferroni's correction for all pairs is stricter


def test_table_intervals_equal_estimated_intervals(three: list[Stored], plugins: Plugins) -> None:
    table = judge(three, plugins, intervals=True)
    seeds = {entry.result.seed: items for entry in three[:2] if (items := items_of(entry, plugins))}
    expected = Comparisons({("best", "one"): seeds}, plugins).estimate("best", ["one"])
    score = table.rows[0].scores[0]
    assert score is not None
    assert score.interval == expected.interval()
    assert expected.value == pytest.approx(score.mean)
    widths = [s.interval[1] - s.interval[0] for s in table.rows[1].scores if s and s.interval]
    assert widths[2] == pytest.approx(
        np.mean(widths[:2]) / np.sqrt(2), rel=0.2
    )  # two tasks of other items
    assert not any(any(row) for row in tied(table))
    assert (
        table.notes[-2]
        == "[low, high]: 95% interval over items, and over seeds where there are several."
    )


def test_score_with_unknown_items_is_not_marked(
    tmp_path: Path, three: list[Stored], plugins: Plugins
) -> None:
    lost = with_predictions(tmp_path, stored("lost", "one", 0.99), ids=np.array(["x"]))
    table = judge([*three, lost], plugins, intervals=True, ties=True)
    (row,) = (row for row in table.rows if row.spec == "lost")
    assert row.scores[0] is not None
    assert (row.scores[0].interval, row.scores[0].tied) == (None, False)
    assert not any(row[0] for row in tied(table))  # the best cannot be compared
    assert table.warnings[-1] == "Not marked, since stored predictions do not yield the score: one"


def test_single_row_is_never_tied(three: list[Stored], plugins: Plugins) -> None:
    for what in ({}, {"intervals": True}, {"ties": True}):
        assert tied(judge(three[:2], plugins, **what)) == [[False]]


def test_rows_with_other_items_do_not_untie_others(plugins: Plugins) -> None:
    """A row of three items leaves the tie of two rows as it is, and a certain difference is no tie."""
    rng = np.random.default_rng(0)
    names = tuple(map(str, range(100)))
    gold = rng.normal(size=100)
    values = gold + rng.normal(size=100)
    rows = {
        "best": values,
        "near": values + 0.01 * rng.normal(size=100),
        "few": -gold[:3],
    }
    seeds = {
        (row, "t"): {0: ItemScores("spearman", names[: len(own)], own, gold[: len(own)])}
        for row, own in rows.items()
    }
    tied_rows = tied_with_best(Comparisons(seeds, plugins), "best", ["near", "few"], ["t"])
    assert "near" in tied_rows
    answers = {
        (row, "t"): {
            seed: ItemScores("mean", names, np.full(100, share), np.zeros(100)) for seed in (0, 1)
        }
        for row, share in (("right", 1.0), ("wrong", 0.0))
    }
    assert tied_with_best(Comparisons(answers, plugins), "right", ["wrong"], ["t"]) == set()
