"""Which rows are compared below a leaderboard, and what is said of them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from zlib import crc32

import numpy as np
import pytest
from scipy.stats import permutation_test, rankdata, spearmanr
from stored import correlated, path_of

from mirrorbench import Session
from mirrorbench.core.plugins import Plugins
from mirrorbench.core.specs import parse_spec
from mirrorbench.reports.leaderboard import build_table
from mirrorbench.reports.renderers import html, latex, markdown
from mirrorbench.reports.renderers.text import as_json, with_legend
from mirrorbench.reports.selection import Stored, judged
from mirrorbench.reports.statistics.resampling import holm
from mirrorbench.reports.statistics.steps import below
from mirrorbench.reports.table import Table, Verdict, read_table

CLS, MEAN, TUNED = "m+base:pooling=cls", "m+base:pooling=mean", "m+mirror"
N = 60
GOLD = np.random.default_rng(0).normal(size=N)


@pytest.mark.parametrize(
    ("spec", "rows", "expected"),
    [
        # the untuned row that is read in the same way, whatever its place
        (TUNED, {CLS: ("cls", "-1:"), MEAN: ("mean", "-1:"), TUNED: ("mean", "-1:")}, MEAN),
        (TUNED, {CLS: ("cls", "-1:"), MEAN: ("mean", "-1:"), TUNED: ("cls", "-1:")}, CLS),
        (TUNED, {MEAN: ("mean", "-1:"), "m+base:layers=:": ("mean", ":"), TUNED: ("mean", ":")}, "m+base:layers=:"),
        # else the one with the same pooling, else mean pooling, else the target word, else any
        (TUNED, {CLS: ("cls", "-1:"), MEAN: ("mean", "-1:"), TUNED: ("cls", ":")}, CLS),
        (TUNED, {CLS: ("cls", "-1:"), MEAN: ("mean", "-1:"), TUNED: ("target", "-4:")}, MEAN),
        (TUNED, {CLS: ("cls", "-1:"), "m+base:pooling=target": ("target", "-4:"), TUNED: ("mean", ":")},
         "m+base:pooling=target"),
        (TUNED, {CLS: ("cls", "-1:"), TUNED: ("mean", ":")}, CLS),
        # what only adds to another row's settings is a step above that one, the nearest
        ("m+mirror:lr=1,seed=2", {MEAN: ("mean", ""), TUNED: ("mean", ""), "m+mirror:lr=1": ("mean", ""),
                                  "m+mirror:lr=1,seed=2": ("mean", "")}, "m+mirror:lr=1"),
        (f"{MEAN},post=w", {CLS: ("cls", ""), MEAN: ("mean", ""), f"{MEAN},post=w": ("mean", "")}, MEAN),
        ("s:path=a,post=w", {"s:path=a": ("", ""), "s:path=b": ("", ""), "s:path=a,post=w": ("", "")}, "s:path=a"),
        ("m+static:layers=:", {MEAN: ("mean", "-1:"), f"{MEAN},layers=:": ("mean", ":"), CLS: ("cls", "-1:"),
                               "m+static:layers=:": ("", "")}, f"{MEAN},layers=:"),
        # but another readout or another model is none
        ("m+mirror:layers=:", {MEAN: ("mean", ""), TUNED: ("mean", ""), "m+mirror:layers=:": ("mean", ":")}, MEAN),
        ("s:path=a", {"s": ("", ""), "s:path=a": ("", "")}, None),
        # an untuned row is a step above none, and another backbone or revision is no row to compare with
        (MEAN, {CLS: ("cls", ""), "m+base": ("mean", ""), MEAN: ("mean", "")}, None),
        (TUNED, {"n+base": ("mean", ""), "m@1+base": ("mean", ""), TUNED: ("mean", "")}, None),
        ("m+base:post=w", {TUNED: ("mean", ""), "m+base:post=w": ("mean", "")}, None),
    ],
)  # fmt: skip
def test_a_step(spec: str, rows: dict[str, tuple[str, str]], expected: str | None) -> None:
    found = below(parse_spec(spec), {parse_spec(row): readout for row, readout in rows.items()})
    assert found == (expected and parse_spec(expected))


def row(
    folder: Path, spec: str, task: str, noise: float, seed: int = 0, pooling: str = "mean", **more: object
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


def correlations(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Pearson's, of each row."""
    x, y = (v - v.mean(-1, keepdims=True) for v in (x, y))
    return (x * y).sum(-1) / np.sqrt((x * x).sum(-1) * (y * y).sum(-1))


def judge(stored: list[Stored], plugins: Plugins) -> Table:
    return judged(build_table([entry.result for entry in stored], plugins), stored, plugins)


def test_difference_interval_and_p_are_those_of_naive_loops(ladder: list[Stored], plugins: Plugins) -> None:
    verdicts = judge(ladder, plugins).verdicts
    assert [(v.spec, v.over, v.column) for v in verdicts] == [(TUNED, MEAN, "one"), (TUNED, MEAN, "two")]
    expected = []
    for task, verdict in enumerate(verdicts):
        of_task = [entry.items(plugins) for entry in ladder[4 * task : 4 * task + 4]]
        mean, *tuned = (items.values for items in of_task[1:] if items)

        scores = [spearmanr(x, GOLD).statistic for x in (*tuned, mean)]
        assert verdict.difference == pytest.approx(np.mean(scores[:2]) - scores[2])
        rng = np.random.default_rng((0, crc32(verdict.column.encode())))  # each task has resamples of its own
        drawn = rng.integers(0, N, (2000, N))
        gold, *scores = (rankdata(x[drawn], axis=1) for x in (GOLD, *tuned, mean))
        first, second, other = (correlations(x, gold) for x in scores)
        assert verdict.interval == pytest.approx(tuple(np.quantile((first + second) / 2 - other, [0.025, 0.975])))
        # Deutsch et al. 2021: ranks swapped item by item, in both seeds at once, and not ranked again.
        ranks = np.stack([rankdata(x) for x in (*tuned, mean, GOLD)])

        def swapped_gain(order: np.ndarray, other: np.ndarray, axis: int, ranks: np.ndarray = ranks) -> np.ndarray:
            kept = [correlations(np.where(order == 0, x, ranks[2]), ranks[3]) for x in ranks[:2]]
            given = [correlations(np.where(order == 0, ranks[2], x), ranks[3]) for x in ranks[:2]]
            return (sum(kept) - sum(given)) / 2

        zeros, ones = np.zeros(N), np.ones(N)
        p = permutation_test(
            (zeros, ones), swapped_gain, permutation_type="samples", n_resamples=2000, vectorized=True, rng=1
        ).pvalue
        assert verdict.p == pytest.approx(p, abs=0.03)
        assert verdict.test == "permutation"
        expected.append(verdict.p)
    low, high = sorted(p for p in expected if p is not None)  # Holm, by hand
    by_hand = {low: min(1.0, 2 * low), high: max(min(1.0, 2 * low), high)}
    assert [v.corrected for v in verdicts] == [by_hand[v.p] for v in verdicts if v.p is not None]
    assert [v.separable for v in verdicts] == [True, False]


def test_it_is_said_in_every_format(tmp_path: Path, ladder: list[Stored], plugins: Plugins) -> None:
    table = judge(ladder, plugins)
    (line,) = (note for note in with_legend(table) if " over m" in note)
    verdict = table.verdicts[0]
    assert verdict.difference is not None
    assert line.startswith(f"m + Mirror over m-mp: +{verdict.difference:.3f} [".replace("0.", "."))
    assert line.endswith("] on one (p ≤ .0001, corrected ≤ .0002); no separable difference on two.")
    assert "Holm-corrected over the columns of each line" in table.notes[-2]
    for text in (markdown(table), latex(table).replace(r"\_", "_"), html(table)):
        assert "no separable difference on two" in text
    path = tmp_path / "table.json"
    path.write_text(as_json(table))
    assert read_table(path) == table
    assert with_legend(Session().leaderboard(path).table) == with_legend(table)  # without predictions


def test_each_row_is_compared_with_the_one_read_alike_on_each_task(tmp_path: Path, plugins: Plugins) -> None:
    stored = [row(tmp_path, spec, task, 1, pooling=pooling) for task in ("one", "two") for spec, pooling in
              ((CLS, "cls"), (MEAN, "mean"), (TUNED, "cls" if task == "two" else "mean"))]  # fmt: skip
    found = [(v.over, v.column) for v in judge(stored, plugins).verdicts]
    assert found == [(CLS, "two"), (MEAN, "one")]


def test_what_training_gained_over_the_best_without(tmp_path: Path, plugins: Plugins) -> None:
    """One line for a backbone: in each column its best tuned row over its best untuned one, where these are rivals."""
    static, other = "m+static", "m+mirror:lr=1"
    noise = {CLS: (9, 9), MEAN: (1.5, 0.5), TUNED: (0.4, 3), other: (1, 1.2), "n+mirror": (0.1, 0.1)}
    stored = [
        row(tmp_path, spec, task, amount[n])
        for n, task in enumerate(("one", "two")) for spec, amount in noise.items()
    ]  # fmt: skip
    assert not any(verdict.best for verdict in judge(stored, plugins).verdicts)  # nothing changed without training
    stored += [row(tmp_path, static, task, noise, pooling="") for task, noise in (("one", 0.8), ("two", 1))]
    table = judge(stored, plugins)
    best = [verdict for verdict in table.verdicts if verdict.best]
    assert [(v.spec, v.over, v.column) for v in best] == [(TUNED, static, "one"), (other, MEAN, "two")]
    for verdict in best:
        means = {row.spec: s.mean for row in table.rows for c, s in zip(table.columns, row.scores, strict=True)
                 if s and c.name == verdict.column}  # fmt: skip
        assert verdict.difference == pytest.approx(means[verdict.spec] - means[verdict.over])
    assert "over the pairs of rows that the best were chosen from" in table.notes[-2]
    p = [min(1.0, 2 * 3 * v.p) for v in best if v.p is not None]  # two tuned rows of m and three untuned ones
    assert [v.corrected for v in best] == holm(p)
    (line,) = (note for note in with_legend(table) if note.startswith("Best tuned row over best untuned row: "))
    assert "m + Mirror over m-static: +" in line
    assert "m + Mirror (lr=1) over m-mp: " in line
    steps = [v for v in table.verdicts if not v.best]
    equal = {(v.spec, v.over) for v in steps} - {(v.spec, v.over) for v in steps if v.separable}
    (line,) = (note for note in with_legend(table) if note.startswith("No separable difference in any column: "))
    assert line.count(" over ") == len(equal) > 0  # a long table says it once
    path = tmp_path / "table.json"
    path.write_text(as_json(table))
    assert with_legend(read_table(path)) == with_legend(table)


def test_an_average_over_many_tasks_stands_for_them(tmp_path: Path, plugins: Plugins) -> None:
    tasks = [f"t{n}" for n in range(5)]
    stored = [row(tmp_path, spec, task, noise) for task in tasks for spec, noise in ((MEAN, 1.5), (TUNED, 1.3))]
    table = judge(stored, plugins)
    (verdict,) = table.verdicts
    assert (verdict.column, verdict.test) == ("avg.", "permutation")
    scores = [r.scores[-1] for r in table.rows]
    assert verdict.difference == pytest.approx(scores[1].mean - scores[0].mean)  # type: ignore[union-attr]
    read = [items.values for entry in stored if (items := entry.items(plugins))]
    mean, tuned, gold = (rankdata(x, axis=-1) for x in (read[::2], read[1::2], [GOLD] * 5))
    swaps = np.random.default_rng(0).integers(0, 2, (1001, 5, N))
    swaps[0] = 0
    kept, given = np.where(swaps, mean, tuned), np.where(swaps, tuned, mean)
    gains = np.abs((correlations(kept, gold) - correlations(given, gold)).mean(1))
    extreme = np.mean(gains >= gains[0] - 1e-12)
    assert verdict.p == pytest.approx(extreme, abs=0.03)
    assert 0.01 < extreme < 0.5
    assert len(judge(stored[:-2], plugins).verdicts) == 4
    assert {v.column for v in judge(stored[:-1], plugins).verdicts} == set(tasks[:-1])


def test_what_cannot_be_tested_is_named(tmp_path: Path, ladder: list[Stored], plugins: Plugins) -> None:
    path_of(tmp_path, ladder[-1].result).with_suffix(".npz").unlink()
    table = judge(ladder, plugins)
    one, two = table.verdicts
    assert (one.corrected, one.separable) == (one.p, True)  # one comparison is left
    assert two == Verdict(TUNED, MEAN, "paper", "two", why_not="no predictions that give the score")
    (line,) = (note for note in with_legend(table) if " over m" in note)
    assert line.endswith("; not tested on two (no predictions that give the score).")
    for entry in ladder:
        path_of(tmp_path, entry.result).with_suffix(".npz").unlink(missing_ok=True)
    assert not any("Holm" in note for note in judge(ladder, plugins).notes)


def test_other_data_other_protocols_and_undefined_scores(
    tmp_path: Path, ladder: list[Stored], plugins: Plugins
) -> None:
    other = [Stored(replace(e.result, data={"files": {"f": "other"}, "version": 1}), e.path) if e.result.spec == TUNED
             else e for e in ladder]  # fmt: skip
    assert {v.why_not for v in judge(other, plugins).verdicts} == {"different data (checksums)"}
    released = [row(tmp_path, TUNED, "one", 1, protocol="released")]
    assert judge(released + ladder[:2], plugins).verdicts == ()
    undefined = Stored(replace(ladder[2].result, main_score=None), ladder[2].path)
    assert judge([*ladder[:2], undefined], plugins).verdicts == ()
