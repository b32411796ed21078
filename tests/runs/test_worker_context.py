"""What a worker needs: the settings of the run, and the device and precision that were planned."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType

import pytest
import torch
from helpers.executor_bench import Bench, bench
from helpers.plugin_fixtures import plugins
from helpers.remote_workspaces import elsewhere, planned

from mirrorbench.runs import executors
from mirrorbench.runs.settings import Settings
from mirrorbench.runs.workspace import Workspace

__all__ = ["bench", "elsewhere", "plugins"]


@pytest.fixture
def plugin() -> ModuleType:
    return executors


def test_deterministic_setting_reaches_torch_and_workers(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever computes: ``load`` and ``tune`` leave models in the cache that a run takes."""
    monkeypatch.setenv("RAYON_NUM_THREADS", "1")
    for deterministic in (False, True):
        workspace = Workspace(Settings(device="cpu", deterministic=deterministic), bench.plugins)
        _, _, of_worker = workspace.context().enter()
        for compute in (workspace.compute, of_worker):
            assert compute.device.type == "cpu"
            assert torch.are_deterministic_algorithms_enabled() == deterministic
            torch.use_deterministic_algorithms(False)


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
