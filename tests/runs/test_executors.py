from __future__ import annotations

import platform
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest
import torch
from helpers.executor_bench import Bench, bench
from helpers.plugin_fixtures import plugins

from mirrorbench import hookimpl
from mirrorbench.core.devices import worker_device
from mirrorbench.core.errors import UsageError
from mirrorbench.core.specs import Value, parse_spec
from mirrorbench.runs import executors
from mirrorbench.runs.executors import Job, compute, worker_devices
from mirrorbench.runs.outcomes import Failure, Reporter
from mirrorbench.runs.plan import Plan, Request
from mirrorbench.runs.run import make_plan
from mirrorbench.runs.workspace import Settings, WorkerContext, Workspace

__all__ = ["bench", "plugins"]


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


def test_deterministic_setting_reaches_torch_and_workers(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever computes: ``load`` and ``tune`` leave models in the cache that a run takes."""
    monkeypatch.setenv("RAYON_NUM_THREADS", "1")
    for deterministic in (False, True):
        workspace = Workspace(Settings(device="cpu", deterministic=deterministic), bench.plugins)
        for made in (workspace, workspace.context().workspace()):
            assert made.torch_device.type == "cpu"
            assert torch.are_deterministic_algorithms_enabled() == deterministic
            torch.use_deterministic_algorithms(False)


def test_executor_text_is_parsed_into_options(bench: Bench) -> None:
    made = Workspace(
        Settings(executor="local:workers=3,cpus=1", workers=2, address="auto"), bench.plugins
    )
    assert (made.executor, made.options) == ("local", {"workers": 2, "cpus": 1, "address": "auto"})
    with pytest.raises(UsageError, match="is not KEY=VALUE"):
        Workspace(Settings(executor="local:workers"), bench.plugins)


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
    job = Job(
        ((), (), ()),
        {},
        context,
        {"workers": workers},
        Reporter(),
        Workspace(Settings(data_dir=tmp_path)),
    )
    assert worker_devices(job) == expected
    assert worker_devices(replace(job, groups=((),))) == expected[:1]


@pytest.fixture
def elsewhere(bench: Bench) -> Callable[..., Workspace]:
    """Workspaces under an executor whose workers are on other machines: ``elsewhere(options, **settings)``."""

    class Plugin:
        @hookimpl
        def register_executors(self, register: Callable[..., None]) -> None:
            def device(asked: str, options: Mapping[str, Value]) -> str:
                return worker_device(asked, options.get("gpus"))

            register("elsewhere", lambda job: iter(()), device=device)

    bench.plugins.add(Plugin(), "elsewhere")
    return lambda options="", **settings: Workspace(
        Settings(
            bench.folder / "there",
            bench.folder / "data",
            bench.folder / "cache",
            offline=True,
            executor=f"elsewhere:{options}".rstrip(":"),
            **settings,
        ),
        bench.plugins,
    )


def planned(workspace: Workspace, bench: Bench) -> Plan:
    specs = (parse_spec("tiny+mirror:batch_size=6"), parse_spec("letters"))
    return make_plan(workspace, Request(specs, ("cats",), (0,), str(bench.folder / "mine.txt")))


@pytest.mark.parametrize(
    ("options", "settings", "device", "tuning"),
    [
        ("", {}, "cpu", "fp32"),
        ("gpus=1", {}, "cuda", "bf16"),
        ("", {"device": "cuda"}, "cuda", "bf16"),
        ("gpus=1", {"precision": "fp16"}, "cuda", "fp16"),
        ("gpus=0", {"precision": "bf16"}, "cpu", "bf16"),
    ],
)
def test_remote_gpus_decide_device_and_precision(
    bench: Bench,
    elsewhere: Callable[..., Workspace],
    options: str,
    settings: dict[str, str],
    device: str,
    tuning: str,
) -> None:
    """As on a login node without a GPU: this machine."""
    workspace = elsewhere(options, **settings)
    tuned, letters = planned(workspace, bench).cells
    assert workspace.context().settings.device == device
    assert tuned.to_json()["precision"] == {"tuning": tuning, "encoding": "fp32"}
    assert letters.to_json()["precision"] == {"tuning": None, "encoding": "fp32"}
    assert (
        str(workspace.torch_device) == "cpu"
    )  # where this process opens encoders for their fingerprints


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


def test_deterministic_tuning_on_gpu_has_separate_identity(
    bench: Bench, elsewhere: Callable[..., Workspace], monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a CPU, where all algorithms repeat, both are one model; an encoder that is not tuned is the same anyway."""
    monkeypatch.setattr(
        "mirrorbench.core.devices.use_deterministic_algorithms", lambda: None
    )  # of this process
    for options, differs in (("gpus=0", False), ("gpus=1", True)):
        cells = [
            planned(elsewhere(options, deterministic=asked), bench).cells for asked in (False, True)
        ]
        for (one, other), expected in zip(zip(*cells, strict=True), (differs, False), strict=True):
            assert (one.model.key != other.model.key) == (one.id != other.id) == expected
