from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from comparison_samples import correlated, made

from mirrorbench.core.plugins import Plugins
from mirrorbench.reports.statistics.items import without_overlap
from mirrorbench.tasks.metrics import spearman

GOLD = np.arange(12.0)
A, B, C = (np.random.default_rng(seed).normal(size=12) + GOLD / 4 for seed in range(3))
FLAGS_A = np.array([1, 2] + [0] * 10, np.int8)
FLAGS_B = np.array([0] * 11 + [2], np.int8)


def test_all_are_scored_on_what_none_has_seen(tmp_path: Path, plugins: Plugins) -> None:
    stored = [
        correlated(tmp_path, "a", "t", GOLD, A, overlap=FLAGS_A, corpus="x"),
        correlated(tmp_path, "b", "t", GOLD, B, overlap=FLAGS_B, corpus="y"),
        correlated(tmp_path, "c", "t", GOLD, C),  # not tuned
        correlated(tmp_path, "c", "u", GOLD, C),  # no tuned encoder here: all items
    ]
    items = {e.result.cell_id: found for e in stored if (found := e.items(plugins))}
    results, behind, lines = without_overlap([e.result for e in stored], items, plugins)
    assert [r.main_score for r in results] == pytest.approx(
        [*(spearman(x[2:11], GOLD[2:11]) for x in (A, B, C)), spearman(C, GOLD)]
    )
    assert [r.n_items for r in results] == [9, 9, 9, 12]
    assert [r.overlap for r in results] == [None] * 4  # nothing of what is left was tuned on
    assert [r.metrics for r in results] == [{"spearman": r.main_score} for r in results]
    assert [len(behind[r.cell_id].ids) for r in results] == [9, 9, 9, 12]
    assert lines == [
        "t: 9 of 12 items, of which no text was tuned on.", "u: 12 of 12 items, of which no text was tuned on."
    ]  # fmt: skip


def test_what_cannot_be_scored_anew_is_missing(tmp_path: Path, plugins: Plugins) -> None:
    tuned = correlated(tmp_path, "a", "t", GOLD, A, corpus="x")  # from before overlaps were stored
    other = correlated(tmp_path, "c", "t", GOLD, C)
    items = {e.result.cell_id: found for e in (tuned, other) if (found := e.items(plugins))}
    lost = made("d", "t", 0.5)
    results, behind, lines = without_overlap([tuned.result, other.result, lost], items, plugins)
    assert [r.spec for r in results] == ["c"]
    assert list(behind) == [other.result.cell_id]
    assert "missing: a on t: its overlap is unknown (run it again)." in lines
    assert "missing: d on t: its items are not stored." in lines


@pytest.mark.parametrize("left", [0, 1])
def test_nothing_is_left_to_correlate(left: int, tmp_path: Path, plugins: Plugins) -> None:
    flags = np.array([0] * left + [2] * (12 - left), np.int8)
    entry = correlated(tmp_path, "a", "t", GOLD, A, overlap=flags, corpus="x")
    items = entry.items(plugins)
    assert items is not None
    results, _, _ = without_overlap([entry.result], {entry.result.cell_id: items}, plugins)
    assert [(r.main_score, r.n_items) for r in results] == [(None, left)]
