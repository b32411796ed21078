"""Smoke runs: the first items of each task, in a folder of their own."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from helpers.stored_results import stored
from scipy.stats import spearmanr

from mirrorbench import Session
from mirrorbench.core.errors import UsageError
from mirrorbench.data.items import Disambiguation, Lexicon, Linking, Mention
from mirrorbench.papers.measured_tables import measured_table
from mirrorbench.papers.table_files import find_table
from mirrorbench.reports.html.page import html, notebook
from mirrorbench.reports.renderers import as_json, comma_separated, latex, markdown
from mirrorbench.runs.registry import plugins
from mirrorbench.storage.results import read_results


def first(task: str, items: object, limit: int) -> object:
    return plugins().tasks[task].first(items, limit)


def test_limited_run_leaves_full_results_untouched(tmp_path: Path) -> None:
    session = Session(
        tmp_path / "results", cache=tmp_path / "cache", data_dir=tmp_path / "data", offline=True
    )
    spec = "tiny+base:pooling=mean"
    full = tmp_path / "results"
    whole = session.run(spec, "quick-sts").results
    before = {path: path.read_bytes() for path in full.rglob("*.json")}
    with np.load(next(full.rglob("seed-0.npz"))) as arrays:
        of_first_items = spearmanr(arrays["scores"][:30], arrays["gold"][:30]).statistic
    board = session.run(spec, "quick-sts,quick-wic", limit=30)
    sts, wic = board.results
    assert sts.main_score == pytest.approx(of_first_items, abs=1e-6)
    assert (sts.n_items, sts.data["limit"], whole[0].data.get("limit")) == (30, 30, None)
    assert wic.n_items % 30 == 0  # of each split

    # Never for a full score: other identities, a folder of their own, a note; no paper's table takes them.
    assert not {r.cell_id for r in whole} & {r.cell_id for r in board.results}
    assert {path: path.read_bytes() for path in before} == before
    assert {r.cell_id for r in read_results(full)} == {r.cell_id for r in whole}
    assert {r.cell_id for r in read_results(full / "limit-30")} == {sts.cell_id, wic.cell_id}
    assert board.table.banner.startswith("SMOKE RUN on only the first 30 items")
    table = board.table.with_notes("none")
    for render in (markdown, latex, html, comma_separated, as_json, notebook):
        assert "SMOKE RUN on only the first 30 items" in render(table), render.__name__
    whole = session.run(spec, "quick-sts").table
    assert not whole.banner
    assert "SMOKE" not in comma_separated(whole)
    with pytest.raises(UsageError, match="cannot be compared"):
        session.leaderboard([full, full / "limit-30"])
    assert (
        session.execute(session.plan(spec, "quick-sts", limit=30)).results[0].created == sts.created
    )  # found again
    (uncut,), (cut,) = (session.plan(spec, "quick-sts", limit=n).cells for n in (0, 7))
    assert {**uncut.identity(), "limit": 7} == cut.identity()
    assert "limit" not in json.dumps(uncut.to_json())


def test_paper_tables_ignore_limited_results() -> None:
    table = find_table("mirror-bert/table3")
    found = stored("roberta+mirror", "sts12", 0.7)
    assert measured_table(table, [found]).counts[0] == 1
    found.data["limit"] = 5
    assert measured_table(table, [found]).counts[0] == 0


def test_limit_cuts_lexical_tasks_to_first_items() -> None:
    mentions = tuple(Mention(str(i), ("x",), frozenset({f"C{i}"})) for i in range(5))
    names = tuple("abcdef")
    ids = tuple(frozenset({f"C{i}"}) for i in (9, 8, 1, 0, 2, 7))
    (cut,) = first("ncbi-disease", [Linking(mentions, names, ids)], 2)  # type: ignore[misc]
    assert (cut.mentions, cut.names) == (mentions[:2], tuple("abcd"))
    words = (("a", "b"), ("c", "d"), ("e", "f"))
    cut = first("bli-en-fr", Lexicon(words, words, ("g", "h", "i"), ("j",)), 2)
    assert cut == Lexicon(words[:2], words[:2], ("g", "h"), ("j",))
    assert first("wsd", Disambiguation((), {"no": None}), 2) == Disambiguation((), {})  # type: ignore[dict-item]
