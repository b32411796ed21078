"""Methods with models, modules and queues of their own resume from a checkpoint, bit for bit."""

from __future__ import annotations

from itertools import count
from pathlib import Path

import pytest
import torch
from helpers.method_tunings import TEXTS, opened, tuned

from mirrorbench.core.plugins import Plugins
from mirrorbench.training import checkpoints
from mirrorbench.training.checkpoints import Checkpoint
from mirrorbench.training.loop import TuningReport


class Interrupted(BaseException):
    """An interruption as by Ctrl-C."""


def run(
    plugins: Plugins, method: str, folder: Path, most: int = 0, seed: int = 0
) -> tuple[TuningReport, dict[str, torch.Tensor]]:
    """A tuning, interrupted after the checkpoint of step ``most``; it changes weights, but not their names."""
    checkpoint, steps = Checkpoint(folder, {}), count(1)

    def advance(n: int) -> None:
        if next(steps) > most > 0:
            raise Interrupted

    torch.rand(1)  # what went before must not matter
    options = {"advance": advance, "saved": checkpoint.read().get("loop"), "checkpoint": checkpoint}
    texts = TEXTS[: 4 if method == "ct" else 24]
    report, after = tuned(plugins, method, seed, texts, options, batch_size=8, epochs=1)
    before = opened(plugins, method)[0].model.state_dict()
    assert after.keys() == before.keys()
    assert not same(after, before)
    return report, after


def same(first: dict[str, torch.Tensor], second: dict[str, torch.Tensor]) -> bool:
    return all(torch.equal(first[name], second[name]) for name in first)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["esimcse", "ct", "diffcse", "promptbert", "simcse", "tsdae"])
def test_interrupted_tuning_resumes_bit_for_bit(
    plugins: Plugins, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    """A tuning repeats bit for bit, interrupted or not; another seed has other weights."""
    report, expected = run(plugins, method, tmp_path / "straight")
    other_report, weights = run(plugins, method, tmp_path / "other", seed=1)
    assert other_report.steps == report.steps > 2
    assert not same(expected, weights)
    monkeypatch.setattr(checkpoints, "INTERVAL", 0)
    monkeypatch.setattr(checkpoints, "SHARE", float("inf"))
    with pytest.raises(Interrupted):
        run(plugins, method, tmp_path / "cut", most=2)
    assert Checkpoint(tmp_path / "cut", {}).read()["loop"]["steps"] == 2
    again, resumed = run(plugins, method, tmp_path / "cut")
    assert (again.steps, again.losses) == (report.steps, report.losses)
    assert same(expected, resumed)
