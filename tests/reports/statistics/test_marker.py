"""Intervals and ties in a table."""

from __future__ import annotations

from pathlib import Path
from zlib import crc32

import numpy as np
import pytest
from scipy.stats import rankdata
from stored import correlated, stored, with_predictions
from swaps import correlation_permutation

from mirrorbench.core.plugins import Plugins
from mirrorbench.reports.leaderboard import build_table
from mirrorbench.reports.selection import Stored
from mirrorbench.reports.statistics.items import ItemScores
from mirrorbench.reports.statistics.marker import Marker
from mirrorbench.reports.statistics.resampling import holm
from mirrorbench.reports.table import Table

ITEMS = 120
NOISE = {"best": 0.9, "near": 1.0, "far": 2.5}


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> list[Stored]:
    """Three encoders on two tasks, the first with two seeds; ``near`` is all but as good as ``best``."""
    found, folder = [], tmp_path_factory.mktemp("three")
    for task, draw in (("one", 4), ("two", 8)):
        rng = np.random.default_rng(draw)
        gold = rng.normal(size=ITEMS)
        for spec, noise in NOISE.items():
            for seed in (0, 1) if spec == "best" else (0,):
                scores = gold + noise * rng.normal(size=ITEMS)
                found.append(correlated(folder, spec, task, gold, scores, seed))
    return found


def behind(three: list[Stored], plugins: Plugins) -> dict[str, ItemScores]:
    return {entry.result.cell_id: items for entry in three if (items := entry.items(plugins))}


def marked(three: list[Stored], plugins: Plugins, **what: bool) -> Table:
    table = build_table([entry.result for entry in three], plugins)
    return Marker(table, behind(three, plugins), plugins).mark(**what)


def tied(table: Table) -> list[list[bool]]:
    return [[bool(score and score.tied) for score in row.scores] for row in table.rows]


def test_what_is_not_separable_from_the_best_is_tied(three: list[Stored], plugins: Plugins) -> None:
    """By the test of ``compare``, corrected within the column."""
    table = marked(three, plugins, ties=True)
    assert [row.spec for row in table.rows] == ["best", "near", "far"]
    assert tied(table) == [[False] * 3, [True] * 3, [False] * 3]  # two tasks and their average
    assert all(score is not None and score.interval is None for row in table.rows for score in row.scores)
    assert "Holm" in table.notes[-2]
    assert (
        table.notes[-1]
        == "Items are taken as independent where results do not say which of them share texts: one, two."
    )
    a0, a1, near, far = (found.values for entry in three[:4] if (found := entry.items(plugins)))
    gold = behind(three, plugins)[three[0].result.cell_id].gold
    both = np.stack([a0, a1])
    p = [correlation_permutation(both, x, gold, "spearman", 10_000, (0, crc32(b"one"))) for x in (near, far)]
    expected = [value >= 0.05 for value in holm([value for value in p if value is not None])]
    assert [row[0] for row in tied(table)][1:] == expected


def test_intervals_come_from_resampled_items(three: list[Stored], plugins: Plugins) -> None:
    table = marked(three, plugins, intervals=True)
    items = behind(three, plugins)
    seeds = [items[entry.result.cell_id] for entry in three[:2]]
    drawn = np.random.default_rng((0, crc32(b"one"))).integers(0, ITEMS, (2000, ITEMS))
    values = np.zeros(2000)
    for x in seeds:
        a, b = (rankdata(side[drawn], axis=1) - (ITEMS + 1) / 2 for side in (x.values, x.gold))
        values += (a * b).sum(1) / np.sqrt((a * a).sum(1) * (b * b).sum(1)) / 2
    score = table.rows[0].scores[0]
    assert score is not None
    assert score.sd is not None
    assert score.interval == pytest.approx(tuple(np.quantile(values, [0.025, 0.975])))
    assert score.interval[0] < score.mean < score.interval[1]
    widths = [s.interval[1] - s.interval[0] for s in table.rows[0].scores if s and s.interval]
    assert len(widths) == 3
    assert widths[2] == pytest.approx(np.mean(widths[:2]) / np.sqrt(2), rel=0.2)  # two tasks, drawn independently
    assert not any(any(row) for row in tied(table))
    assert "percentile bootstrap over items" in table.notes[-2]


def test_unknown_items_leave_a_cell_unmarked(tmp_path: Path, three: list[Stored], plugins: Plugins) -> None:
    lost = with_predictions(tmp_path, stored("lost", "one", 0.99), ids=np.array(["x"]))
    table = build_table([entry.result for entry in (*three, lost)], plugins)
    table = Marker(table, behind(three, plugins), plugins).mark(intervals=True, ties=True)
    (row,) = (row for row in table.rows if row.spec == "lost")
    assert row.scores[0] is not None
    assert (row.scores[0].interval, row.scores[0].tied) == (None, False)
    assert tied(table)[0][0] is False  # the best of those that are known is still what others are tied with
    assert tied(table)[1][0] is True
    assert "Not marked" in table.notes[-2]
    assert "one" in table.notes[-2]


def test_encoders_that_cover_other_items_are_tested_on_those_they_share(tmp_path: Path, plugins: Plugins) -> None:
    rng = np.random.default_rng(5)
    gold = rng.normal(size=ITEMS)
    a = correlated(tmp_path, "a", "one", gold, gold + 0.5 * rng.normal(size=ITEMS))
    b = correlated(tmp_path, "b", "one", gold[:70], gold[:70] + 3 * rng.normal(size=70))
    c = correlated(tmp_path, "c", "one", gold[:1], np.ones(1), ids=["elsewhere"])
    assert tied(marked([a, b], plugins, ties=True, intervals=True)) == [[False], [False]]
    assert marked([a, c], plugins, ties=True).rows[1].scores == (None,)  # undefined, as it was


def test_a_single_row_and_no_row(three: list[Stored], plugins: Plugins) -> None:
    for what in ({}, {"intervals": True}, {"ties": True}):
        assert tied(marked(three[:2], plugins, **what)) == [[False]]
        assert marked([], plugins, **what).rows == ()
