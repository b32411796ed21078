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
from pages import ROOT

OPTIONS = {
    "device": "cpu", "precision": "fp32", "feed-forward": "32", "tokens": "6400", "tokens-per-step": "256",
    "log-steps": "4", "checkpoint-seconds": "0",
}  # fmt: skip
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
def test_a_run_that_was_killed_ends_as_one_that_was_not(run: Any, prepared: list[str], tmp_path: Path) -> None:
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


def test_a_run_goes_on_with_its_own_settings_alone(
    run: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    short = run(tmp_path / "short", "--tokens", "1024")
    for more in (["--layers", "3"], ["--tokens", "2048"]):  # the learning rate has begun to fall
        with pytest.raises(SystemExit):
            run(tmp_path / "short", "--tokens", "1024", *more)
        name, value = more[0].strip("-"), short["settings"][more[0].strip("-")]
        assert f"cannot go on like this: {name} was {value} and is" in capsys.readouterr().err


def test_the_loss_is_that_of_transformers(pretrain: ModuleType) -> None:
    """Which runs the output layer on all places, and leaves those labelled -100 out."""
    settings = pretrain.Settings(layers=1, feed_forward=32)
    rng = np.random.default_rng(1)
    model = pretrain.build_model(rng.normal(size=(8192, 16)).astype(np.float32), settings)
    rows = rng.integers(2, 8192, (6, 64)).astype(np.uint16)
    batch = pretrain.make_batch(rows, np.random.default_rng(2), 0.15)
    labels = torch.full(batch.ids.shape, -100)
    labels.view(-1)[batch.masked] = batch.targets
    assert torch.equal(batch.targets, torch.from_numpy(rows.astype(np.int64)).view(-1)[batch.masked])
    output = model(input_ids=batch.ids, labels=labels)
    guesses = output.logits.view(-1, 8192)[batch.masked].argmax(1)
    loss, accuracy = pretrain.masked_loss(model, batch, "fp32").tolist()
    assert loss == pytest.approx(output.loss.item(), rel=1e-6)
    assert accuracy == pytest.approx(float(np.mean(guesses.numpy() == batch.targets.numpy())))


def test_a_step_waits_for_no_device(pretrain: ModuleType) -> None:
    """On ``meta``, which has no values, whatever asks for one raises."""
    settings, meta = pretrain.Settings(feed_forward=32, precision="fp32"), torch.device("meta")
    model = pretrain.build_model(np.ones((8192, 16), dtype=np.float32), settings).to(meta)
    optimizer = torch.optim.AdamW(model.parameters())  # the fused one knows no meta device
    ids, masked = (torch.zeros(shape, dtype=torch.int64, device=meta) for shape in ((4, 64), (9,)))
    assert pretrain.train_step(model, optimizer, pretrain.Batch(ids, masked, masked), settings).shape == (2,)


@pytest.mark.parametrize(
    ("layers", "width", "feed_forward", "fits"),
    [(2, 256, 1024, True), (6, 256, 1024, True), (4, 384, 1024, True), (6, 384, 1536, False)],
)
def test_what_fits_into_the_wheel(pretrain: ModuleType, layers: int, width: int, feed_forward: int, fits: bool) -> None:
    """Counted by hand: two bytes for each weight of the embeddings, the layers, and the output's transformation."""
    embeddings = (8192 + 64 + 2 + 2) * width
    layer = 4 * (width + 1) * width + 2 * width * feed_forward + feed_forward + width + 4 * width
    weights = embeddings + layers * layer + (width + 1) * width + 2 * width + 8192
    assert (2 * weights + 300_000 <= 20_000_000) == fits
    settings, vectors = pretrain.Settings(layers=layers, feed_forward=feed_forward), np.ones((8192, width), np.float32)
    if fits:
        assert pretrain.build_model(vectors, settings).num_parameters() == weights
    else:
        with pytest.raises(ValueError, match=f"take {(2 * weights + 300_000) / 1e6:.1f} MB, and 20 MB fit"):
            pretrain.build_model(vectors, settings)


def test_any_size_is_exported(pretrain: ModuleType, run: Any, tmp_path: Path) -> None:
    run(tmp_path / "run", "--tokens", "512", "--layers", "3")
    export = import_module("pretraining.export")
    export.export(tmp_path / "run" / "checkpoint.pt", ROOT / "mirrorbench" / "embedded" / "tiny", tmp_path / "model")
    export.check(tmp_path / "model")
    assert '"num_hidden_layers": 3' in (tmp_path / "model" / "config.json").read_text()
