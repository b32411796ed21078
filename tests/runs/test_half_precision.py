"""The remark on bf16: only on a processor with AMX, for long work in fp32, once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from mirrorbench.core.devices import has_amx
from mirrorbench.runs import half_precision
from mirrorbench.runs.half_precision import Work, progress_callback
from mirrorbench.runs.outcomes import Reporter
from mirrorbench.runs.settings import Settings
from mirrorbench.runs.workspace import Workspace


class Noted(Reporter):
    """Keeps the notes, and the number of units done."""

    def __init__(self) -> None:
        self.notes: list[str] = []
        self.done = 0

    def note(self, message: str) -> None:
        self.notes.append(message)

    def advance(self, n: int) -> None:
        self.done += n


@pytest.fixture
def noted() -> Noted:
    return Noted()


@pytest.fixture
def workspace(tmp_path: Path, noted: Noted) -> Workspace:
    return Workspace(Settings(cache=tmp_path, device="cpu"), reporter=noted)


def with_amx(monkeypatch: pytest.MonkeyPatch, *seconds: float) -> None:
    """Let torch see AMX, and the clock show these times."""
    times: Iterator[float] = iter(seconds)
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: {"amx_bf16": True}, raising=False)
    monkeypatch.setattr(half_precision.time, "perf_counter", lambda: next(times))


def test_amx_is_what_the_processor_says() -> None:
    flags = Path("/proc/cpuinfo")
    if not flags.is_file():
        pytest.skip("this system does not list what its processor has")
    assert has_amx() == ("amx_bf16" in flags.read_text().split())


@pytest.mark.parametrize(
    ("work", "remark"),
    [
        (
            "encoding",
            "encoding takes about 10.0 min in fp32; this processor has AMX, with which --eval-precision bf16",
        ),
        (
            "tuning",
            "tuning takes about 10.0 min in fp32; this processor has AMX, with which --precision bf16",
        ),
    ],
)
def test_long_work_is_remarked_on_once(
    workspace: Workspace, noted: Noted, monkeypatch: pytest.MonkeyPatch, work: Work, remark: str
) -> None:
    with_amx(monkeypatch, 0, 1, 12, 0, 6)
    advance = progress_callback(workspace.compute, workspace.reporter, work, "fp32", 100)
    advance(1)  # too early to tell
    assert not noted.notes
    advance(1)
    progress_callback(workspace.compute, workspace.reporter, work, "fp32", 100)(1)
    (note,) = noted.notes
    assert note.startswith(remark)
    assert noted.done == 3


def test_streams_are_remarked_on_after_a_minute(
    workspace: Workspace, noted: Noted, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_amx(monkeypatch, 0, 59, 61)
    advance = progress_callback(workspace.compute, workspace.reporter, "encoding", "fp32", 0)
    advance(5)
    assert not noted.notes
    advance(5)
    assert len(noted.notes) == 1


def test_short_work_and_bf16_are_not_remarked_on(
    workspace: Workspace, noted: Noted, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_amx(monkeypatch, 0, 6)
    progress_callback(workspace.compute, workspace.reporter, "encoding", "fp32", 100)(50)
    progress_callback(workspace.compute, workspace.reporter, "encoding", "bf16", 100)(1)
    assert not noted.notes


def test_nothing_is_said_without_amx(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cpu, "get_capabilities", dict, raising=False)
    assert (
        progress_callback(workspace.compute, workspace.reporter, "encoding", "fp32", 100)
        == workspace.reporter.advance
    )
