"""Results that an earlier version wrote (0.1.0 at commit 320fa15) are found, read, and not computed anew."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from harness.log import Log

from mirrorbench import Session

BEFORE = Path(__file__).parent / "stored_before"


def test_results_of_an_earlier_version_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(BEFORE, tmp_path / "results")
    monkeypatch.setattr("mirrorbench.runs.runner.EncoderLoader.load", lambda *_: pytest.fail("computed anew"))
    log = Log()
    board = Session(
        tmp_path / "results", data_dir=tmp_path / "data", cache=tmp_path / "cache", device="cpu", offline=True,
        workers=1, reporter=log,
    ).run("tiny", "quick", seeds=1)  # fmt: skip
    assert board.failures == ()
    assert len(log.lines) == len(list(BEFORE.rglob("seed-0.json"))) == 9
    assert {line.split()[-1] for line in log.lines} == {"cached"}
    rows = {row.label: [score and round(score.mean, 3) for score in row.scores] for row in board.table.rows}
    assert rows["tiny-mp"][:2] == [0.696, 0.056]
    assert rows["tiny + Mirror"][:3] == [0.706, 0.105, 0.578]


def test_their_predictions_are_read(tmp_path: Path) -> None:
    board = Session().leaderboard(BEFORE, intervals=True, ties=True)
    (row,) = (row for row in board.table.rows if row.label == "tiny-mp")
    assert row.scores[0] is not None
    assert row.scores[0].interval is not None
