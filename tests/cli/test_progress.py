"""Progress is true: cells of the whole, units of the stage."""

from __future__ import annotations

import time

import pytest

from mirrorbench.cli.progress import PLAIN_INTERVAL, Display, progress_display


def told(shown: Display, capsys: pytest.CaptureFixture[str]) -> str:
    shown.tell()
    return capsys.readouterr().err.strip()


def test_progress_prints_periodically_without_a_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also where nothing happens."""
    assert PLAIN_INTERVAL == 10
    monkeypatch.setattr("mirrorbench.cli.progress.PLAIN_INTERVAL", 0.05)
    with progress_display() as shown:
        shown.stage("loading", "a")
        deadline = time.monotonic() + 60
        lines: list[str] = []
        while len(lines) < 2 and time.monotonic() < deadline:
            time.sleep(0.02)
            lines += capsys.readouterr().err.splitlines()
    assert {*lines} == {"loading a"}


def test_progress_counts_cells_and_stage_units(capsys: pytest.CaptureFixture[str]) -> None:
    shown = Display()
    shown.begin(2)
    shown.stage("encoding", "a", 400, "texts")
    shown.advance(80)
    assert told(shown, capsys) == "0 of 2 cells, encoding a: 80 of 400 texts"
    shown.advance(120)
    shown.done = 1
    assert told(shown, capsys) == "1 of 2 cells, encoding a: 200 of 400 texts"
    shown.begin(3)  # as of ``paper --run``, which measures tasks, then analyses
    shown.stage("tuning", "b", 50, "strings")
    shown.failed = 1
    assert told(shown, capsys) == "1 of 5 cells, tuning b: 0 of 50 strings, 1 failed"


def test_progress_without_plan_counts_stage_units(capsys: pytest.CaptureFixture[str]) -> None:
    shown = Display()
    shown.stage("tuning", "a", 200, "strings")
    shown.advance(100)
    assert told(shown, capsys) == "tuning a: 100 of 200 strings"
    shown.stage("encoding", "a file", 0, "texts")  # a stream has no size
    shown.advance(7)
    assert told(shown, capsys) == "encoding a file: 7 texts"


def test_quiet_display_prints_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    Display(quiet=True).note("something")
    assert capsys.readouterr().err == ""
