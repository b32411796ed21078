"""Results that an earlier version wrote (0.1.0 at commit 320fa15, computation 4) are read and shown, not reused."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from helpers.recording_reporter import Log

from mirrorbench import Session
from mirrorbench.core.identity import COMPUTATION
from mirrorbench.storage.results import read_results

BEFORE = Path(__file__).parent / "stored_before"


def session(folder: Path, log: Log) -> Session:
    shutil.copytree(BEFORE, folder / "results")
    return Session(
        folder / "results",
        data_dir=folder / "data",
        cache=folder / "cache",
        device="cpu",
        offline=True,
        workers=1,
        reporter=log,
    )


def test_identities_of_earlier_results_are_unchanged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the plan would not find them, and compute anew."""
    monkeypatch.setattr("mirrorbench.runs.cells.COMPUTATION", 4)
    monkeypatch.setattr(
        "mirrorbench.runs.encoder_loading.EncoderLoader.load",
        lambda *_: pytest.fail("computed anew"),
    )
    log = Log()
    tasks = ["quick-sts", "quick-simlex"]  # the card of quick-wic has another version since
    specs = ["tiny+base:pooling=cls", "tiny+base:pooling=mean", "tiny+mirror"]  # the ladder of then
    board = session(tmp_path, log).run(specs, tasks, seeds=1)
    assert board.failures == ()
    assert [
        (v.over, v.column, v.why_not) for v in board.table.verdicts if not v.best
    ] == [  # predictions are read
        ("tiny+base:pooling=cls", "quick-simlex", ""),
        ("tiny+base:pooling=mean", "quick-sts", ""),
    ]
    assert (
        len(log.lines) == sum(path.parts[-2] in tasks for path in BEFORE.rglob("seed-0.json")) == 6
    )
    assert {line.split()[-1] for line in log.lines} == {"cached"}


def test_earlier_results_are_not_reused(tmp_path: Path) -> None:
    planned = {cell.id for cell in session(tmp_path, Log()).plan("tiny", "quick", seeds=1).cells}
    stored = {json.loads(path.read_text())["cell_id"] for path in BEFORE.rglob("seed-0.json")}
    assert (len(planned), len(stored)) == (13, 9)
    assert not planned & stored
    assert {result.computation for result in read_results(BEFORE)} == {
        None
    }  # their files state none


def test_leaderboard_shows_only_the_newest_computation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of them of a version to come."""
    space = session(tmp_path, Log())
    space.run("tiny+base:pooling=mean", "quick-sts")
    with monkeypatch.context() as later:
        later.setattr("mirrorbench.runs.cells.COMPUTATION", COMPUTATION + 1)
        space.run("tiny+base:pooling=cls", "quick-sts")
    of = {result.cell_id: result.computation for result in read_results(tmp_path / "results")}
    assert sorted(filter(None, of.values())) == [COMPUTATION, COMPUTATION + 1]
    board = space.leaderboard()
    (row,) = board.table.rows
    assert {of[cell] for score in row.scores if score for cell in score.cell_ids} == {
        COMPUTATION + 1
    }
    newer, older = board.table.warnings
    assert newer.startswith(f"Shown: 1 result of computation {COMPUTATION + 1},")
    assert older.startswith("Left out: 7 results of an unknown computation,")
    assert "by mirrorbench 0.1.0 (320fa15db)" in older
