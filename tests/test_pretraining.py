"""Pretraining goes on where it was killed, waits for no device, and computes the loss that transformers computes."""

from __future__ import annotations

import signal
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from helpers.documentation_pages import ROOT

OPTIONS = {
    "device": "cpu",
    "precision": "fp32",
    "feed-forward": "32",
    "tokens": "6400",
    "tokens-per-step": "256",
    "log-steps": "4",
    "checkpoint-seconds": "0",
}
# Saves after steps 4, 8 and 12; dies in step 15, and leaves half a checkpoint.
KILLED = """
import os, signal, sys
from pathlib import Path
from pretraining import pretrain

batch = pretrain.RowOrder.batch
def last(order, step):
    if step == 14:
        Path(sys.argv[-1], "checkpoint.partial").write_bytes(b"half of it")
        os.kill(os.getpid(), signal.SIGKILL)
    return batch(order, step)
pretrain.RowOrder.batch = last
pretrain.main()
"""


@pytest.fixture
def pretrain(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT))
    return import_module("pretraining.pretrain")


@pytest.fixture
def prepared(tmp_path: Path) -> list[str]:
    """The options for packed rows and vectors of 16 dimensions, at random."""
    rng = np.random.default_rng(0)
    for name, rows in (("train", 30), ("valid", 5)):
        np.save(tmp_path / f"{name}.npy", rng.integers(2, 8192, (rows, 64)).astype(np.uint16))
    np.save(tmp_path / "vectors.npy", rng.normal(size=(8192, 16)).astype(np.float32))
    options = {"packed": str(tmp_path), "static": str(tmp_path), **OPTIONS}
    return [word for key, value in options.items() for word in (f"--{key}", value)]


@pytest.fixture
def run(pretrain: ModuleType, prepared: list[str], monkeypatch: pytest.MonkeyPatch) -> Any:
    def started(folder: Path, *more: str) -> dict[str, Any]:
        monkeypatch.setattr(sys, "argv", ["pretrain", *prepared, *more, "--output", str(folder)])
        pretrain.main()
        return torch.load(folder / "checkpoint.pt", weights_only=True)

    return started


@pytest.mark.slow
def test_killed_pretraining_resumes_to_identical_weights(
    run: Any, prepared: list[str], tmp_path: Path
) -> None:
    whole, folder = run(tmp_path / "whole"), tmp_path / "killed"
    command = [sys.executable, "-c", KILLED, *prepared, "--output", str(folder)]
    assert subprocess.run(command, cwd=ROOT).returncode == -signal.SIGKILL
    assert torch.load(folder / "checkpoint.pt", weights_only=True)["step"] == 12
    again = run(folder)
    assert again["step"] == whole["step"] == 25
    assert all(torch.equal(again["model"][name], weight) for name, weight in whole["model"].items())
    logs = [[{**row, "tokens_per_s": ""} for row in state["log"]] for state in (again, whole)]
    assert logs[0] == logs[1]
    assert [row["step"] for row in logs[0]] == ["4", "8", "12", "16", "20", "24", "25"]


def test_pretraining_loss_equals_transformers(pretrain: ModuleType) -> None:
    """Which runs the output layer on all places, and leaves those labelled -100 out."""
    settings = pretrain.Settings(layers=1, feed_forward=32)
    rng = np.random.default_rng(1)
    model = pretrain.build_model(rng.normal(size=(8192, 16)).astype(np.float32), settings)
    rows = rng.integers(2, 8192, (6, 64)).astype(np.uint16)
    batch = pretrain.make_batch(rows, np.random.default_rng(2), 0.15)
    labels = torch.full(batch.ids.shape, -100)
    labels.view(-1)[batch.masked] = batch.targets
    assert torch.equal(
        batch.targets, torch.from_numpy(rows.astype(np.int64)).view(-1)[batch.masked]
    )
    output = model(input_ids=batch.ids, labels=labels)
    guesses = output.logits.view(-1, 8192)[batch.masked].argmax(1)
    loss, accuracy = pretrain.masked_loss(model, batch, "fp32").tolist()
    assert loss == pytest.approx(output.loss.item(), rel=1e-6)
    assert accuracy == pytest.approx(float(np.mean(guesses.numpy() == batch.targets.numpy())))


def test_three_layer_model_is_exported(pretrain: ModuleType, run: Any, tmp_path: Path) -> None:
    run(tmp_path / "run", "--tokens", "512", "--layers", "3")
    export = import_module("pretraining.export")
    export.export(
        tmp_path / "run" / "checkpoint.pt",
        ROOT / "mirrorbench" / "embedded" / "tiny",
        tmp_path / "model",
    )
    export.check(tmp_path / "model")
    assert '"num_hidden_layers": 3' in (tmp_path / "model" / "config.json").read_text()
