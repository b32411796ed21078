"""Progress is true: cells of the whole, units of the stage."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from mirrorbench.cli.progress import (
    LOG,
    PLAIN_INTERVAL,
    Display,
    print_logged,
    progress_display,
)
from mirrorbench.core.specs import parse_spec
from mirrorbench.runs.outcomes import Failure


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
    assert {*lines} == {"loading a; 0 s"}


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Moves the time on by some seconds."""
    now = [100.0]
    monkeypatch.setattr("mirrorbench.cli.progress.time.monotonic", lambda: now[0])

    def wait(seconds: float) -> None:
        now[0] += seconds

    return wait


def test_unchanged_state_is_told_ever_less_often(
    clock: Callable[[float], None], capsys: pytest.CaptureFixture[str]
) -> None:
    shown = Display()
    shown.stage("loading", "a")
    for _ in range(32):
        clock(PLAIN_INTERVAL)
        shown.tell()
    lines = capsys.readouterr().err.splitlines()
    seconds = [int(line.removeprefix("loading a; ").split()[0]) for line in lines[:4]]
    assert seconds == [10, 20, 40, 80]
    assert len(lines) == len(set(lines)) < 8


def test_end_of_stage_is_estimated_from_its_throughput(
    clock: Callable[[float], None], capsys: pytest.CaptureFixture[str]
) -> None:
    shown = Display()
    clock(60)
    shown.stage("tuning", "a", 1000, "strings")
    clock(2)
    shown.advance(20)
    assert told(shown, capsys) == "tuning a: 20 of 1,000 strings; 62 s"
    clock(18)
    shown.advance(180)
    assert told(shown, capsys) == "tuning a: 200 of 1,000 strings, about 80 s left; 80 s"
    shown.begin(2)
    shown.advance(300)
    assert told(shown, capsys) == (
        "0 of 2 cells, tuning a: 500 of 1,000 strings, about 20 s left of this step; 80 s"
    )
    clock(20)
    shown.stage("encoding", "a", 10, "texts")
    assert "left" not in told(shown, capsys)
    shown.begin(18)
    shown.done = 5
    assert "left" in told(shown, capsys)
    shown.done = 6
    shown.cached = 1  # which took no time
    assert told(shown, capsys) == (
        "6 of 20 cells, encoding a: 0 of 10 texts, about 4 min 40 s left; 100 s"
    )


def test_progress_counts_cells_and_stage_units(capsys: pytest.CaptureFixture[str]) -> None:
    shown = Display()
    shown.begin(2)
    shown.stage("encoding", "a", 400, "texts")
    shown.advance(80)
    assert told(shown, capsys) == "0 of 2 cells, encoding a: 80 of 400 texts; 0 s"
    shown.advance(120)
    shown.done = 1
    assert told(shown, capsys) == "1 of 2 cells, encoding a: 200 of 400 texts; 0 s"
    shown.begin(3)  # as of ``paper --run``, which measures tasks, then analyses
    shown.stage("tuning", "b", 50, "strings")
    shown.failed = 1
    assert told(shown, capsys) == "1 of 5 cells, tuning b: 0 of 50 strings, 1 failed; 0 s"


def test_progress_without_plan_counts_stage_units(capsys: pytest.CaptureFixture[str]) -> None:
    shown = Display()
    shown.stage("tuning", "a", 200, "strings")
    shown.advance(100)
    assert told(shown, capsys) == "tuning a: 100 of 200 strings; 0 s"
    shown.stage("encoding", "a file", 0, "texts")  # a stream has no size
    shown.advance(7)
    assert told(shown, capsys) == "encoding a file: 7 texts; 0 s"


def test_quiet_display_prints_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    Display(quiet=True).note("something")
    assert capsys.readouterr().err == ""


def test_tracebacks_are_logged_and_printed_when_debugging(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    failure = Failure(parse_spec("tiny"), "stsb", "KeyError: 'a'", traceback="line 7, in encode")
    print_logged([replace(failure, traceback="")], tmp_path)
    assert capsys.readouterr().err == ""
    print_logged([failure], tmp_path)
    assert "line 7" not in capsys.readouterr().err
    assert "line 7, in encode" in (tmp_path / LOG).read_text()
    monkeypatch.setenv("MIRRORBENCH_DEBUG", "1")
    print_logged([failure], tmp_path)
    assert "line 7, in encode" in capsys.readouterr().err
