"""Interrupted tunings end in the same weights, bit for bit, as uninterrupted ones."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from helpers.augmented_models import AUGMENTATIONS, TEXTS, opened, recipe
from helpers.damaged_files import flip
from helpers.random_models import Models
from helpers.suite_marks import few

from mirrorbench.cli import main
from mirrorbench.core.devices import cpu_threads
from mirrorbench.models.transformer import Transformer
from mirrorbench.storage.cache import CHECKPOINTS, Cache
from mirrorbench.training import checkpoints
from mirrorbench.training.checkpoints import STATE, Checkpoint, checkpoint_fault
from mirrorbench.training.held_out import positive_pairs
from mirrorbench.training.loop import tune_backbone
from mirrorbench.training.losses import LOSSES, FunctionObjective
from mirrorbench.training.methods import identical_pairs
from mirrorbench.training.recipes import Recipe
from mirrorbench.training.trajectory import Progress

TRAIN = TEXTS[:40]
ASIDE = positive_pairs(TEXTS[80:], 0, identical_pairs)
EPOCHS = 2
STEPS = 4


class Interrupted(BaseException):
    """Interruption of a tuning, as by Ctrl-C."""


@pytest.fixture(autouse=True)
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Write a checkpoint after each step."""
    monkeypatch.setattr(checkpoints, "INTERVAL", 0)
    monkeypatch.setattr(checkpoints, "SHARE", float("inf"))


def tune(
    path: Path, changed: Recipe, checkpoint: Checkpoint, stop_after: int = 0, losses: Any = LOSSES
) -> tuple[torch.Tensor, Any, int]:
    """Tune as ``tune_model`` until ``stop_after``; return weights, reports and the number of steps."""
    transformer = opened(path, changed)
    saved = checkpoint.read()
    steps = 0

    def interrupt(n: int) -> None:
        nonlocal steps
        steps += 1
        if steps > stop_after > 0:
            raise Interrupted

    progress = Progress(transformer, changed, ASIDE, len(TRAIN) * changed.epochs, interrupt)
    checkpoint.parts["progress"] = progress
    if saved:
        progress.load_state_dict(saved["progress"])
    report = tune_backbone(
        transformer,
        TRAIN,
        changed,
        0,
        AUGMENTATIONS,
        advance=progress.advance,
        losses=losses,
        checkpoint=checkpoint,
        saved=saved.get("loop"),
    )
    reported = (replace(report, seconds=0), progress.finish())
    return (
        torch.cat([weight.detach().flatten() for weight in transformer.model.parameters()]),
        reported,
        steps,
    )


NOISES: list[dict[str, Any]] = [
    {"drophead": 0.2, "span_mask": 3, "sides": 2, "stop": "auto"},
    {"dropout": 0.2},
    {"controlled_dropout": 0.2},
    {"dropout": 0.1, "lora": 4},
    {"loss": "multi-similarity", "drop_last": True, "word_shuffle": 2},
]


@pytest.mark.parametrize("noise", few(NOISES), ids=str)
def test_interrupted_tuning_resumes_bit_for_bit(
    random_model: Models, tmp_path: Path, noise: dict[str, Any]
) -> None:
    """Interruptions are in the first epoch, at the end of an epoch, and before the last step."""
    changed = recipe(batch_size=10, epochs=EPOCHS, lr=0.01, **noise)
    path = random_model("bert")
    weights, reported, steps = tune(path, changed, Checkpoint(tmp_path / "straight", {}))
    assert steps == EPOCHS * STEPS
    for done, more in ((0, 2), (2, 2), (4, 3)):
        with pytest.raises(Interrupted):
            tune(path, changed, Checkpoint(tmp_path / "cut", {}), stop_after=more)
        assert Checkpoint(tmp_path / "cut", {}).read()["loop"]["steps"] == done + more
    assert Checkpoint(tmp_path / "cut", {"device": "cuda"}).read() == {}  # of another origin
    actual, again, steps = tune(path, changed, Checkpoint(tmp_path / "cut", {}))
    assert torch.equal(actual, weights)
    assert again == reported
    assert steps == 1


def test_damaged_checkpoint_is_ignored(random_model: Models, tmp_path: Path) -> None:
    changed = recipe(batch_size=20, dropout=0.1)
    path = random_model("bert")
    with pytest.raises(Interrupted):
        tune(path, changed, Checkpoint(tmp_path, {}), stop_after=1)
    assert checkpoint_fault(tmp_path) == ""
    whole = (tmp_path / STATE).read_bytes()
    flip(tmp_path / STATE, len(whole) // 2)
    for broken in (b"", b"x" * 100, whole[:-100], (tmp_path / STATE).read_bytes()):
        (tmp_path / STATE).write_bytes(broken)
        (tmp_path / ".part-x").write_bytes(b"of a process that was killed while it wrote")
        assert checkpoint_fault(tmp_path)
        assert Checkpoint(tmp_path, {}).read() == {}
    assert tune(path, changed, Checkpoint(tmp_path, {}))[2] == 2
    assert [file.name for file in tmp_path.iterdir()] == [STATE]


class Counting(FunctionObjective):
    """An objective with a state that it does not show."""

    def __init__(self, transformer: Transformer, recipe: Recipe) -> None:
        super().__init__(transformer, recipe, LOSSES["infonce"])

    def stepped(self, optimizer: torch.optim.Optimizer, steps: int) -> None:
        """Count the steps."""


def test_objective_with_undeclared_state_gets_no_checkpoint(
    random_model: Models, tmp_path: Path
) -> None:
    """Objectives of ``mirrorbench-methods`` do so."""
    changed = recipe(batch_size=10, loss="counting")
    path = random_model("bert")
    losses = {"counting": Counting}
    with pytest.raises(Interrupted):
        tune(path, changed, Checkpoint(tmp_path, {}), 2, losses)
    assert not (tmp_path / STATE).exists()
    assert tune(path, changed, Checkpoint(tmp_path, {}), 0, losses)[2] == STEPS


def test_full_disk_stops_checkpoints_but_not_tuning(
    random_model: Models, tmp_path: Path, full_disk: Callable[[str], None]
) -> None:
    notes: list[str] = []
    changed = recipe(batch_size=20, dropout=0.1)
    path = random_model("bert")
    weights, reported, _ = tune(path, changed, Checkpoint(tmp_path / "straight", {}))
    full_disk("full")
    actual, again, _ = tune(path, changed, Checkpoint(tmp_path / "full", {}, notes.append))
    assert torch.equal(actual, weights)
    assert again == reported
    (note,) = notes
    assert note.startswith("No checkpoint could be written")
    assert "No space left on device" in note


KILLED = """
import os, signal
from mirrorbench.cli import main
from mirrorbench.training import checkpoints
checkpoints.INTERVAL, checkpoints.SHARE = 0, float("inf")
save = checkpoints.Checkpoint.save

def killed(self):
    save(self)
    if self.parts["loop"].steps == 5:
        os.kill(os.getpid(), signal.SIGKILL)

checkpoints.Checkpoint.save = killed
main()
"""


@pytest.mark.slow
def test_killed_tune_command_resumes_from_checkpoint(
    random_model: Models,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The tuning is killed after 5 of 10 steps; ``tests/cli`` has the same with Ctrl-C."""
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    (tmp_path / "texts.txt").write_text("".join(f"{text}\n" for text in TEXTS[:60]))
    spec = f"{random_model('bert')}+mirror:batch_size=5,span_mask=0"
    asked = [
        "tune",
        str(tmp_path / "texts.txt"),
        "-e",
        spec,
        "--device",
        "cpu",
        "--held-out",
        "10",
        "-o",
    ]
    for name, goes_on in (("straight", False), ("cut", True)):
        cache = Cache(tmp_path / f"cache-{name}")
        command = [*asked, str(tmp_path / name)]
        monkeypatch.setenv("MIRRORBENCH_CACHE", str(tmp_path / f"cache-{name}"))
        if goes_on:
            done = subprocess.run([sys.executable, "-c", KILLED, *command], check=False)
            assert done.returncode == -signal.SIGKILL
            assert [checkpoint_fault(path) for path in (cache.root / CHECKPOINTS).iterdir()] == [""]
        monkeypatch.setattr(sys, "argv", ["mirrorbench", *command])
        with cpu_threads(1), pytest.raises(SystemExit, match="0"):
            main()
        assert ("from its checkpoint at 50%" in capsys.readouterr().err) == goes_on
        assert not list((cache.root / CHECKPOINTS).glob("*"))
    straight, resumed = (
        (tmp_path / name / "model.safetensors").read_bytes() for name in ("straight", "cut")
    )
    assert straight == resumed
