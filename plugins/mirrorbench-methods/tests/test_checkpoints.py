"""Methods with models, modules and queues of their own go on from a checkpoint, bit for bit."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from suites import few, slow
from tuned import TEXTS, opened

from mirrorbench.core.plugins import Plugins
from mirrorbench.training import checkpoints
from mirrorbench.training.checkpoints import Checkpoint
from mirrorbench.training.loop import TuningReport, tune_backbone


class Interrupted(BaseException):
    """As Ctrl-C."""


def run(plugins: Plugins, method: str, folder: Path, most: int = 0) -> tuple[TuningReport, dict[str, torch.Tensor]]:
    """A tuning, interrupted after the checkpoint of step ``most``."""
    transformer, recipe = opened(plugins, method, batch_size=8, epochs=1)
    checkpoint, calls = Checkpoint(folder, {}), 0

    def advance(n: int) -> None:
        nonlocal calls
        calls += 1
        if calls > most > 0:
            raise Interrupted

    report = tune_backbone(
        transformer, TEXTS[:24], recipe, 0, plugins.augmentations.by_name(), pairs=plugins.methods[method].pairs,
        losses=plugins.losses.by_name(), advance=advance, saved=checkpoint.read().get("loop"), checkpoint=checkpoint,
    )  # fmt: skip
    return report, transformer.model.state_dict()


@pytest.mark.parametrize("method", few(["esimcse", "ct", "diffcse", "promptbert", "simcse", "tsdae"], suite=slow))
def test_each_method_goes_on(plugins: Plugins, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str) -> None:
    monkeypatch.setattr(checkpoints, "INTERVAL", 0)
    monkeypatch.setattr(checkpoints, "SHARE", float("inf"))
    report, expected = run(plugins, method, tmp_path / "straight")
    with pytest.raises(Interrupted):
        run(plugins, method, tmp_path / "cut", most=2)
    assert Checkpoint(tmp_path / "cut", {}).read()["loop"]["steps"] == 2
    again, found = run(plugins, method, tmp_path / "cut")
    assert (again.steps, again.losses) == (report.steps, report.losses)
    assert all(torch.equal(expected[name], found[name]) for name in expected)
