"""Progress is true: one share of the whole, and a time that is left only once a tenth is done."""

from __future__ import annotations

import time

import pytest

from mirrorbench.cli.progress import PLAIN_INTERVAL, Display, progress_display
from mirrorbench.runs.outcomes import TUNING_COST


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [0.0]
    monkeypatch.setattr("mirrorbench.cli.progress.time.monotonic", lambda: now[0])
    return now


def told(shown: Display, capsys: pytest.CaptureFixture[str]) -> str:
    shown.tell()
    return capsys.readouterr().err.strip()


def test_a_line_every_ten_seconds_without_a_terminal(
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


def test_one_share_of_the_whole_and_a_time_from_a_tenth_on(
    clock: list[float], capsys: pytest.CaptureFixture[str]
) -> None:
    shown = Display()
    shown.begin(2)
    shown.remaining(1000.0)
    shown.stage("encoding", "a", 400, "texts")
    clock[0] = 11.0
    shown.advance(80)
    assert told(shown, capsys) == "8%, encoding a: 80 of 400 texts"
    clock[0] = 22.0
    shown.advance(120)
    assert told(shown, capsys) == "20%, encoding a: 200 of 400 texts, 88 s left"
    shown.remaining(600.0)
    shown.stage("tuning", "b", 50, "strings", TUNING_COST)
    clock[0] = 40.0
    shown.advance(25)
    assert told(shown, capsys) == "55%, tuning b: 25 of 50 strings, 33 s left"


def test_a_second_plan_is_counted_by_its_cells(clock: list[float], capsys: pytest.CaptureFixture[str]) -> None:
    """As of ``paper --run``, which measures tasks, then analyses: what is done of both, since the first began."""
    shown = Display()
    shown.begin(1)
    shown.remaining(100.0)
    shown.stage("encoding", "a", 100, "texts")
    shown.advance(100)
    shown.done = 1
    clock[0] = 30.0
    shown.begin(3)
    shown.stage("encoding", "b", 10, "texts")
    assert told(shown, capsys) == "25%, encoding b: 0 of 10 texts, 2 min left"


def test_without_a_plan_the_stage_is_the_whole(clock: list[float], capsys: pytest.CaptureFixture[str]) -> None:
    shown = Display()
    clock[0] = 100.0
    shown.stage("tuning", "a", 200, "strings", TUNING_COST)
    assert told(shown, capsys) == "tuning a: 0 of 200 strings"
    clock[0] = 111.0
    shown.advance(100)
    assert told(shown, capsys) == "50%, tuning a: 100 of 200 strings, 11 s left"
    shown.stage("encoding", "a file", 0, "texts")  # a stream has no size
    shown.advance(7)
    assert told(shown, capsys) == "encoding a file: 7 texts"


def test_quiet_says_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    Display(quiet=True).note("something")
    assert capsys.readouterr().err == ""
