from __future__ import annotations

import platform
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest
import torch
from helpers.documentation_pages import ROOT, files
from helpers.executor_bench import Bench, bench
from helpers.plugin_fixtures import plugins
from helpers.remote_workspaces import elsewhere, planned
from helpers.workspace_parts import parts

from mirrorbench.core.errors import UsageError
from mirrorbench.runs import executors
from mirrorbench.runs.executors import Job, compute, worker_devices
from mirrorbench.runs.outcomes import Failure
from mirrorbench.runs.settings import Settings
from mirrorbench.runs.worker_context import WorkerContext
from mirrorbench.runs.workspace import Workspace

__all__ = ["bench", "elsewhere", "plugins"]


@pytest.fixture
def plugin() -> ModuleType:
    """The executor ``local`` is tested as those of plugins are."""
    return executors


def test_wrong_executor_options_are_rejected(bench: Bench) -> None:
    for options, message in (
        ({"workers": -1}, "-1 workers"),
        ({"wrokers": 2}, "unknown executor option 'wrokers'.*\n.*workers"),
        ({"workers": "two"}, "workers=two is not of type int"),
        ({"workers": True}, "is not of type int"),
    ):
        with pytest.raises(UsageError, match=message):
            bench.run("none", "letters", **options)
    assert not (bench.folder / "none").exists()


@pytest.mark.parametrize(
    ("device", "gpus", "workers", "expected"),
    [
        ("cpu", 0, 0, ["cpu"]),
        ("cpu", 0, 3, ["cpu"] * 3),
        ("cuda", 3, 0, ["cuda:0", "cuda:1", "cuda:2"]),
        ("cuda", 2, 3, ["cuda:0", "cuda:1", "cuda:0"]),
        ("cuda:1", 3, 0, ["cuda:1"]),
    ],
)
def test_each_worker_has_a_device(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    device: str,
    gpus: int,
    workers: int,
    expected: list[str],
) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: gpus)
    context = WorkerContext(Settings(tmp_path, tmp_path, tmp_path, device, offline=True), threads=1)
    plugins, folders, compute, reporter = parts(Workspace(Settings(data_dir=tmp_path)))
    job = Job(((), (), ()), {}, context, {"workers": workers}, reporter, plugins, folders, compute)
    assert worker_devices(job) == expected
    assert worker_devices(replace(job, groups=((),))) == expected[:1]


def test_worker_lacking_planned_device_or_precision_refuses(
    bench: Bench, elsewhere: Callable[..., Workspace], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(options: str) -> Failure:
        workspace = elsewhere(options)
        (outcome,) = compute(workspace.context(), planned(workspace, bench).cells[:1]).done
        assert isinstance(outcome.outcome, Failure)
        return outcome.outcome

    found = refused("gpus=1")
    assert f"the worker on {platform.node()} has: --device cuda: " in found.reason
    assert "gpus" in found.hint
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (7, 5))
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "RTX 2080 Ti")
    found = refused("gpus=0.5")
    assert "RTX 2080 Ti has no bf16: its compute capability is 7.5" in found.reason
    assert "fp16" in found.hint
    assert not (bench.folder / "there").exists()


def test_documented_threads_executor_agrees_with_local(bench: Bench) -> None:
    executor = bench.folder / "threads.py"
    executor.write_text(files(ROOT / "docs" / "plugins.md")["threads.py"], encoding="utf-8")
    bench.plugins.add_file(executor)
    encoders = ("tiny+base:pooling=mean", "tiny+mirror:batch_size=6")
    local = bench.run("local", *encoders)
    local_lines = bench.log.lines
    threads = bench.run("threads", *encoders, executor="threads", workers=2)
    assert not threads.failures
    assert threads.computed == len(threads.results) == 6
    scores_of_local, scores_of_threads = (
        {(result.spec, result.task, result.seed): result.metrics for result in outcome.results}
        for outcome in (local, threads)
    )
    assert scores_of_threads == scores_of_local
    assert bench.stored("threads") == bench.stored("local")
    assert sorted(bench.log.lines) == sorted(local_lines)  # with the notes


def test_documented_threads_executor_reports_lost_groups(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    executor = bench.folder / "threads.py"
    executor.write_text(files(ROOT / "docs" / "plugins.md")["threads.py"], encoding="utf-8")
    bench.plugins.add_file(executor)
    monkeypatch.setattr(executors, "runner_of", lambda context, send: 1 / 0)
    outcome = bench.run("threads", "letters", executor="threads")
    assert not outcome.results
    assert [failure.task for failure in outcome.failures] == ["cats", "dogs"]
    assert "ZeroDivisionError" in outcome.failures[0].reason
