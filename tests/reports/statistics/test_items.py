from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.stored_results import correlated, stored
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score

from mirrorbench import Session, hookimpl
from mirrorbench.core.errors import DataFormatError, UsageError
from mirrorbench.core.plugins import Plugins
from mirrorbench.reports.comparable import Stored, read_stored
from mirrorbench.reports.selection import without_overlap
from mirrorbench.reports.statistics.items import (
    ItemScores,
    common_items,
    item_scores,
    items_of,
    score_on,
)
from mirrorbench.tasks.metrics import pearson, spearman, uncentred_pearson

Arrays = Mapping[str, NDArray[Any]]
RNG = np.random.default_rng(0)
N = 30
IDS = np.array([f"i{n}" for n in range(N)])
GOLD = RNG.normal(size=N)
SCORES = GOLD + RNG.normal(size=N)
LABELS = (GOLD > 0).astype(float)
SPLITS = np.array(["dev"] * 12 + ["test"] * 18)
GUESSED = (SCORES > 0.1).astype(np.int8)
RANKS = np.array([1, 2, 1, 6, np.inf] * 6)
FOLDS = np.array(["a"] * 10 + ["b"] * 20)
PAIRS = {"ids": IDS, "scores": SCORES, "gold": GOLD}
LABELLED = {"ids": IDS, "scores": SCORES, "gold": LABELS}
CONTEXTS = {**LABELLED, "predictions": GUESSED, "splits": SPLITS}
RANKED = {
    "ids": IDS,
    "scores": (RANKS <= 1).astype(float),
    "gold": np.ones(N),
    "rank": RANKS,
    "nn_rank": RANKS[::-1],
}
FOLDED = {**RANKED, "fold": FOLDS}
TEST = SPLITS == "test"


def over_folds(values: NDArray[Any]) -> float:
    return float((values[:10].mean() + values[10:].mean()) / 2)


CASES: list[tuple[str, Arrays, float | None]] = [
    ("spearman", PAIRS, spearman(SCORES, GOLD)),
    ("pearson", PAIRS, pearson(SCORES, GOLD)),
    ("subtask1_spearman", PAIRS, spearman(SCORES, GOLD)),
    ("subtask1_uncentred_pearson", PAIRS, uncentred_pearson(SCORES, GOLD)),
    ("auc", LABELLED, float(roc_auc_score(LABELS, SCORES))),
    ("test_auc", CONTEXTS, float(roc_auc_score(LABELS[TEST], SCORES[TEST]))),
    ("test_accuracy", CONTEXTS, float((GUESSED == LABELS)[TEST].mean())),
    ("dev_accuracy", CONTEXTS, float((GUESSED == LABELS)[~TEST].mean())),
    ("accuracy", RANKED, float((RANKS <= 1).mean())),
    ("accuracy@1", RANKED, float((RANKS <= 1).mean())),
    ("accuracy@5", RANKED, float((RANKS <= 5).mean())),
    ("mrr", RANKED, float((1 / RANKS).mean())),
    ("nn_accuracy@1", RANKED, float((RANKS[::-1] <= 1).mean())),
    ("accuracy@1", FOLDED, over_folds(RANKS <= 1)),
    ("accuracy@5", FOLDED, over_folds(RANKS <= 5)),
]


def test_scores_are_recomputed_from_predictions(plugins: Plugins) -> None:
    for number, (metric, arrays, value) in enumerate(CASES):
        items = item_scores(stored("a", "t", value, metric=metric), arrays, plugins)
        assert items is not None, (number, metric)
        assert score_on(items, plugins) == pytest.approx(value), (number, metric)
        expected = (
            TEST
            if metric.startswith("test")
            else ~TEST
            if metric.startswith("dev")
            else np.ones(N, bool)
        )
        assert items.ids == tuple(IDS[expected])
        assert items.hits == ("accuracy" in metric)


def test_scores_not_recomputable_yield_no_items(plugins: Plugins) -> None:
    for metric, arrays, value in (
        ("spearman", PAIRS, None),  # undefined
        ("spearman", PAIRS, 0.123),  # the task means something else by the name
        ("spearman_wmean", PAIRS, 0.5),  # parts are not stored
        ("pair_accuracy@1", RANKED, 0.4),
        ("accuracy@1", PAIRS, 0.4),  # no ranks
        ("test_accuracy", {**CONTEXTS, "splits": np.array(["dev"] * N)}, 0.4),  # no such items
        ("test_f1", CONTEXTS, 0.4),
    ):
        assert item_scores(stored("a", "t", value, metric=metric), arrays, plugins) is None, (
            metric,
            value,
        )


def test_same_items_are_recognised_across_tasks(tmp_path: Path, plugins: Plugins) -> None:
    """The concept 203 of Multi-SimLex in each language, and both directions of it across two."""
    ids = np.array(["203", *IDS[1:]])
    across = np.array(["203/12", "203/21", *IDS[2:]])

    def units(task: str, ids: NDArray[Any], files: str) -> tuple[str, ...]:
        entry = correlated(tmp_path, "a", task, GOLD, SCORES, ids=list(ids), files=files)
        items = items_of(entry, plugins)
        assert items is not None
        return items.only(range(2)).units

    assert units("multisimlex-en", ids, "x") == units("quick-simlex", ids, "y")
    assert set(units("clws-en-fr", across, "x")) == {units("multisimlex-fr", ids, "x")[0]}
    assert units("one", ids, "x") == units("two", ids, "x") != units("two", ids, "y")
    assert len(set(units("one", across, "x"))) == 2


def test_plugin_metrics_are_recomputed_from_predictions(plugins: Plugins) -> None:
    class Median:
        @hookimpl
        def register_metrics(self, register: Any) -> None:
            register("median", lambda scores, gold: float(np.median(scores * gold)), "a toy")

    plugins.add(Median(), "median")
    items = item_scores(
        stored("a", "t", float(np.median(SCORES * GOLD)), metric="median"), PAIRS, plugins
    )
    assert items is not None
    keep = SCORES > 0
    assert score_on(items.only(keep), plugins) == np.median((SCORES * GOLD)[keep])


def pair(ids: str, gold: list[float], kind: str = "spearman") -> ItemScores:
    return ItemScores(kind, tuple(ids), np.arange(len(ids)) + 0.5, np.array(gold))


def test_items_are_joined_by_id() -> None:
    first, second = common_items(
        [
            {0: pair("abcd", [1, 2, 3, 4])},
            {0: pair("dbxa", [4, 2, 9, 1]), 1: pair("bad", [2, 1, 4])},
        ]
    )
    a, b, c = first[0], second[0], second[1]
    assert a.ids == b.ids == c.ids == ("a", "b", "d")
    assert [x.values.tolist() for x in (a, b, c)] == [
        [0.5, 1.5, 3.5],
        [3.5, 1.5, 0.5],
        [1.5, 0.5, 2.5],
    ]
    assert a.gold.tolist() == b.gold.tolist() == c.gold.tolist() == [1, 2, 4]
    for other in (pair("ab", [1, 3]), pair("ab", [1, 2], "pearson")):
        with pytest.raises(DataFormatError, match="different gold"):
            common_items([{0: pair("ab", [1, 2])}, {0: other}])


def test_stored_results_are_read_with_their_predictions(tmp_path: Path, plugins: Plugins) -> None:
    for seed in (0, 1):
        correlated(tmp_path, "b", "t", GOLD, SCORES, seed)
    correlated(tmp_path, "a", "t", GOLD, SCORES)
    (tmp_path / "a" / "t" / "seed-0.0123456789ab.json").write_text("moved aside")
    found = read_stored([tmp_path])
    assert [(entry.result.spec, entry.result.seed) for entry in found] == [
        ("a", 0),
        ("b", 0),
        ("b", 1),
    ]
    items = items_of(found[0], plugins)
    assert items is not None
    assert items.values.tolist() == SCORES.tolist()
    with pytest.raises(UsageError, match=r"no folder .* with results"):
        read_stored([tmp_path / "nowhere"])


STEPS = np.arange(12.0)
A, B, C = (np.random.default_rng(seed).normal(size=12) + STEPS / 4 for seed in range(3))
FLAGS_A = np.array([1, 2] + [0] * 10, np.int8)
FLAGS_B = np.array([0] * 11 + [2], np.int8)


def test_encoders_are_scored_on_commonly_unseen_items(tmp_path: Path, plugins: Plugins) -> None:
    entries = [
        correlated(tmp_path, "a", "t", STEPS, A, overlap=FLAGS_A, corpus="x"),
        correlated(tmp_path, "b", "t", STEPS, B, overlap=FLAGS_B, corpus="y"),
        correlated(tmp_path, "c", "t", STEPS, C),  # not tuned
        correlated(tmp_path, "c", "u", STEPS, C),  # no tuned encoder here: all items
    ]
    items = {e.result.cell_id: found for e in entries if (found := items_of(e, plugins))}
    rescored, behind, lines = without_overlap(entries, items, plugins)
    results = [entry.result for entry in rescored]
    assert [entry.path for entry in rescored] == [entry.path for entry in entries]
    assert [r.main_score for r in results] == pytest.approx(
        [*(spearman(x[2:11], STEPS[2:11]) for x in (A, B, C)), spearman(C, STEPS)]
    )
    assert [r.n_items for r in results] == [9, 9, 9, 12]
    assert [r.overlap for r in results] == [None] * 4  # nothing of what is left was tuned on
    assert [r.metrics for r in results] == [{"spearman": r.main_score} for r in results]
    assert [len(behind[r.cell_id].ids) for r in results] == [9, 9, 9, 12]
    assert lines == ["Scored on items without a text of the tuning corpora: t 9 of 12, u 12 of 12"]


def test_results_not_rescorable_without_overlap_are_missing(
    tmp_path: Path, plugins: Plugins
) -> None:
    tuned = correlated(tmp_path, "a", "t", STEPS, A, corpus="x")  # from before overlaps were stored
    other = correlated(tmp_path, "c", "t", STEPS, C)
    items = {e.result.cell_id: found for e in (tuned, other) if (found := items_of(e, plugins))}
    lost = Stored(stored("d", "t", 0.5), tmp_path / "lost.json")
    rescored, behind, lines = without_overlap([tuned, other, lost], items, plugins)
    assert [entry.result.spec for entry in rescored] == ["c"]
    assert list(behind) == [other.result.cell_id]
    assert "missing: a on t, seed 0: its overlap is unknown (run it again)." in lines
    assert "missing: d on t, seed 0: its items are not stored (run it again)." in lines


def test_score_with_one_lost_seed_is_missing(tmp_path: Path, plugins: Plugins) -> None:
    """Else the mean over the seeds that are left would stand for one over all of them."""
    kept = [
        correlated(tmp_path, "b", "t", STEPS, x, seed, overlap=FLAGS_B, corpus="x")
        for seed, x in enumerate((A, B))
    ]
    cut = [
        correlated(tmp_path, "a", "t", STEPS, x, seed, overlap=FLAGS_A, corpus="x")
        for seed, x in enumerate((A, B))
    ]
    cut[0].path.with_suffix(".npz").unlink()
    board = Session(tmp_path).leaderboard(tmp_path, without_overlap=True)
    shown = {row.spec: row.scores[0] and row.scores[0].n for row in board.table.rows}
    assert shown in ({"b": 2}, {"a": None, "b": 2})
    assert (
        "missing: a on t, seed 0: its items are not stored (run it again)." in board.table.warnings
    )
    assert {r.cell_id for r in board.results} == {entry.result.cell_id for entry in kept}


def test_score_on_few_unseen_items_is_undefined(tmp_path: Path, plugins: Plugins) -> None:
    for left in (0, 1):
        flags = np.array([0] * left + [2] * (12 - left), np.int8)
        entry = correlated(tmp_path, "a", "t", STEPS, A, overlap=flags, corpus="x")
        items = items_of(entry, plugins)
        assert items is not None
        ((result, *_),), _, _ = without_overlap([entry], {entry.result.cell_id: items}, plugins)
        assert (result.main_score, result.n_items) == (None, left)


def test_items_are_matched_by_stored_content(tmp_path: Path, plugins: Plugins) -> None:
    """Without it by file and row, as in results of earlier versions."""
    gold = np.arange(12.0)
    entries = []
    for task, rows in (("one", range(12)), ("two", range(1, 12))):
        kept = gold[list(rows)]
        entry = correlated(tmp_path, "a", task, kept, kept, ids=[f"{task} {row}" for row in rows])
        arrays = {**entry.predictions(), "content": np.array(list(rows), np.uint64)}
        entries.append(entry._replace(in_memory=arrays))
    one, two = (items_of(entry, plugins) for entry in entries)
    assert one is not None
    assert two is not None
    assert one.units[1:] == two.units
    assert one.only([3, 4]).units == one.units[3:5]
    plain = [items_of(entry._replace(in_memory=None), plugins) for entry in entries]
    assert plain[0] is not None
    assert plain[1] is not None
    assert not set(plain[0].units) & set(plain[1].units)
