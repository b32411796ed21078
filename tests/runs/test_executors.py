from __future__ import annotations

import os
import pickle
import platform
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import MagicMock

import pytest
import torch
from harness.executors import Bench, bench
from harness.fixtures import plugins

from mirrorbench import hookimpl
from mirrorbench.core.devices import worker_device
from mirrorbench.core.errors import UsageError
from mirrorbench.core.specs import Value, parse_spec
from mirrorbench.runs import local
from mirrorbench.runs.cells import Failure
from mirrorbench.runs.executors import Job, compute
from mirrorbench.runs.local import devices_for
from mirrorbench.runs.plan import Plan, Request
from mirrorbench.runs.workspace import Workspace

__all__ = ["bench", "plugins"]


@pytest.fixture
def plugin() -> ModuleType:
    """The executor ``local`` is tested as those of plugins are."""
    return local


def test_variables_of_workers_give_way_to_the_users(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    monkeypatch.delenv("OMP_WAIT_POLICY", raising=False)
    with local._defaults(OMP_NUM_THREADS="1", OMP_WAIT_POLICY="PASSIVE"):
        assert (os.environ["OMP_NUM_THREADS"], os.environ["OMP_WAIT_POLICY"]) == ("3", "PASSIVE")
    assert os.environ["OMP_NUM_THREADS"] == "3"
    assert "OMP_WAIT_POLICY" not in os.environ


def test_workers_on_one_gpu_share_its_memory(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    spawning = MagicMock()
    spawning.Pipe.return_value = MagicMock(), MagicMock()
    monkeypatch.setattr(local, "get_context", lambda how: spawning)
    workspace = Workspace.create(bench.folder / "data", device="cpu", plugins=bench.plugins)
    devices = ("cuda:0", "cuda:1", "cuda:0")
    pool = local.Pool(Job((), {}, workspace.context(), {}, workspace.reporter, workspace), devices)
    for device in devices:
        pool._start(device, device)
    contexts = [call.kwargs["args"][1] for call in spawning.Process.call_args_list]
    assert [context.device for context in contexts] == [*devices]
    assert [context.share for context in contexts] == [0.5, 1, 0.5]


@pytest.mark.parametrize(("options", "message", "hint"), [
    ({"workers": -1}, "-1 workers", ""),
    ({"wrokers": 2}, "unknown executor option 'wrokers'", "workers"),
    ({"workers": "two"}, "executor option workers=two is not of type int", ""),
    ({"workers": True}, "is not of type int", ""),
])  # fmt: skip
def test_options_that_are_wrong(bench: Bench, options: dict[str, Any], message: str, hint: str) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        bench.run("none", "letters", **options)
    assert hint in caught.value.hint
    assert not (bench.folder / "none").exists()


def test_deterministic_reaches_torch_in_this_process(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever computes: ``load`` and ``tune`` leave models in the cache that a run takes."""
    asked = []
    monkeypatch.setattr("mirrorbench.core.devices.use_deterministic_algorithms", lambda: asked.append(1))
    for deterministic in (False, True):
        Workspace.create(device="cpu", deterministic=deterministic, plugins=bench.plugins).torch_device  # noqa: B018
        assert len(asked) == deterministic


def test_the_text_of_the_command_line(bench: Bench) -> None:
    made = Workspace.create(executor="local:workers=3,cpus=1", workers=2, address="auto", plugins=bench.plugins)
    assert (made.executor, made.options) == ("local", {"workers": 2, "cpus": 1, "address": "auto"})
    for text, message in (("lcoal", "unknown executor 'lcoal'"), ("local:workers", "is not KEY=VALUE")):
        with pytest.raises(UsageError, match=message):
            Workspace.create(executor=text, plugins=bench.plugins)


@pytest.mark.parametrize(("device", "gpus", "workers", "expected"), [
    ("cpu", 0, 0, ["cpu"]), ("cpu", 0, 3, ["cpu"] * 3), ("cuda", 3, 0, ["cuda:0", "cuda:1", "cuda:2"]),
    ("cuda", 2, 3, ["cuda:0", "cuda:1", "cuda:0"]), ("cuda:1", 3, 0, ["cuda:1"]),
])  # fmt: skip
def test_each_worker_has_a_device(
    monkeypatch: pytest.MonkeyPatch, device: str, gpus: int, workers: int, expected: list[str]
) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: gpus)
    assert devices_for(device, workers) == expected


@pytest.fixture
def elsewhere(bench: Bench, tmp_path: Path) -> Callable[..., Workspace]:
    """Workspaces under an executor whose workers are on other machines: ``elsewhere(options, **settings)``."""

    class Plugin:
        @hookimpl
        def register_executors(self, register: Callable[..., None]) -> None:
            def device(asked: str, options: Mapping[str, Value]) -> str:
                return worker_device(asked, options.get("gpus"))

            register("elsewhere", lambda job: iter(()), device=device)

    bench.plugins.add(Plugin(), "elsewhere")

    def workspace(options: str = "", **settings: Any) -> Workspace:
        return Workspace.create(
            bench.folder / "data", bench.folder / "there", bench.folder / "cache", offline=True, plugins=bench.plugins,
            executor=f"elsewhere:{options}".rstrip(":"), **settings,
        )  # fmt: skip

    return workspace


def planned(workspace: Workspace, bench: Bench) -> Plan:
    specs = (parse_spec("tiny+mirror:batch_size=6"), parse_spec("letters"))
    return workspace.plan(Request(specs, ("cats",), (0,), str(bench.folder / "mine.txt")))


@pytest.mark.parametrize(
    ("options", "settings", "device", "tuning"),
    [
        ("", {}, "cpu", "fp32"), ("gpus=1", {}, "cuda", "bf16"), ("", {"device": "cuda"}, "cuda", "bf16"),
        ("gpus=1", {"precision": "fp16"}, "cuda", "fp16"), ("gpus=0", {"precision": "bf16"}, "cpu", "bf16"),
    ],
)  # fmt: skip
def test_a_run_is_planned_for_the_gpus_of_workers_elsewhere(
    bench: Bench, elsewhere: Callable[..., Workspace], options: str, settings: dict[str, str], device: str, tuning: str
) -> None:
    """As on a login node without a GPU: this machine."""
    workspace = elsewhere(options, **settings)
    tuned, letters = planned(workspace, bench).cells
    assert workspace.context().device == device
    assert tuned.to_json()["precision"] == {"tuning": tuning, "encoding": "fp32"}
    assert letters.to_json()["precision"] == {"tuning": None, "encoding": "fp32"}
    assert str(workspace.torch_device) == "cpu"  # where this process opens encoders for their fingerprints


def test_a_gpu_that_a_worker_elsewhere_cannot_have(bench: Bench, elsewhere: Callable[..., Workspace]) -> None:
    with pytest.raises(UsageError, match="--device cuda:1: a worker of this executor sees only the GPUs"):
        planned(elsewhere(device="cuda:1"), bench)
    with pytest.raises(UsageError, match="--device cuda, but gpus=0"):
        planned(elsewhere("gpus=0", device="cuda"), bench)


def test_a_worker_without_what_was_planned_refuses(
    bench: Bench, elsewhere: Callable[..., Workspace], monkeypatch: pytest.MonkeyPatch
) -> None:
    def answer(options: str) -> Failure:
        workspace = elsewhere(options)
        cell = planned(workspace, bench).cells[0]
        (outcome,) = compute(workspace.context(), (cell,)).done
        assert isinstance(outcome.outcome, Failure)
        return outcome.outcome

    refused = answer("gpus=1")
    assert f"the worker on {platform.node()} is not what the run was planned for: --device cuda: " in refused.reason
    assert "gpus" in refused.hint
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (7, 5))
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "RTX 2080 Ti")
    old = answer("gpus=0.5")
    assert "RTX 2080 Ti has no bf16: its compute capability is 7.5" in old.reason
    assert "fp16" in old.hint
    assert not (bench.folder / "there").exists()


def test_what_was_tuned_without_repeating_algorithms_is_not_reused_under_them(
    bench: Bench, elsewhere: Callable[..., Workspace], monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a CPU, where all algorithms repeat, both are one model; an encoder that is not tuned is the same anyway."""
    monkeypatch.setattr("mirrorbench.core.devices.use_deterministic_algorithms", lambda: None)  # of this process
    keys = {
        (options, deterministic): planned(elsewhere(options, deterministic=deterministic), bench).cells
        for options in ("gpus=0", "gpus=1")
        for deterministic in (False, True)
    }
    assert keys["gpus=0", True] == keys["gpus=0", False]
    for part in (lambda cell: cell.model.key, lambda cell: cell.id):
        assert part(keys["gpus=1", True][0]) != part(keys["gpus=1", False][0])
        assert part(keys["gpus=1", True][1]) == part(keys["gpus=1", False][1])


def test_an_executor_of_a_plugin_gets_groups_and_a_context_that_pickles(bench: Bench) -> None:
    jobs: list[Job] = []

    class Plugin:
        @hookimpl
        def register_executors(self, register: Callable[..., None]) -> None:
            def elsewhere(job: Job) -> Iterator[Any]:
                jobs.append(job)
                job.known(speed=1.0)
                job.share()
                for cells in reversed(job.groups):
                    answer = compute(*pickle.loads(pickle.dumps((job.context, cells))))
                    yield from pickle.loads(pickle.dumps(answer)).done

            register("elsewhere", elsewhere)

    bench.plugins.add(Plugin(), "elsewhere")
    there = bench.run("there", "letters", "tiny+mirror:batch_size=6", executor="elsewhere", speed=2)
    assert len(there.results) == 6
    assert len(jobs[0].groups) == 1 + 2
    here = bench.run("here", "letters", "tiny+mirror:batch_size=6")
    assert bench.stored("here") == bench.stored("there")
    assert [r.cell_id for r in here.results] == [r.cell_id for r in there.results]
