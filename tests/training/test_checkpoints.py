"""A tuning that was interrupted ends in the same weights, bit for bit, as one that was not."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch
from augmented import AUGMENTATIONS, TEXTS, opened, recipe
from random_models import Models
from suites import few

from mirrorbench.cli import main
from mirrorbench.core.devices import cpu_threads
from mirrorbench.models.transformer import Transformer
from mirrorbench.runs.cache import Cache
from mirrorbench.runs.maintenance import damage, entries
from mirrorbench.training import checkpoints
from mirrorbench.training.checkpoints import STATE, Checkpoint, damaged
from mirrorbench.training.held_out import positive_pairs
from mirrorbench.training.loop import TuningReport, tune_backbone
from mirrorbench.training.losses import LOSSES
from mirrorbench.training.methods import identical_pairs
from mirrorbench.training.objective import OfVectors
from mirrorbench.training.progress import Progress, Trajectory
from mirrorbench.training.recipes import Recipe

TRAIN, ASIDE = TEXTS[:40], positive_pairs(TEXTS[80:], 0, identical_pairs)
EPOCHS, STEPS = 2, 4
Found = tuple[list[torch.Tensor], TuningReport, Trajectory | None]


class Interrupted(BaseException):
    """As Ctrl-C."""


@pytest.fixture(autouse=True)
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """A checkpoint after each step."""
    monkeypatch.setattr(checkpoints, "INTERVAL", 0)
    monkeypatch.setattr(checkpoints, "SHARE", float("inf"))


def tune(path: Path, changed: Recipe, checkpoint: Checkpoint, stop_after: int = 0, losses: Any = LOSSES) -> Found:
    """Tune as ``tune_model`` does; ``stop_after`` steps it is interrupted."""
    transformer: Transformer = opened(path, changed)
    saved = checkpoint.read()
    progress = Progress(transformer, changed, ASIDE, len(TRAIN) * changed.epochs)
    checkpoint.parts["progress"] = progress
    if saved:
        progress.load_state_dict(saved["progress"])
    calls = 0

    def advance(n: int) -> None:
        nonlocal calls
        calls += 1
        if calls > stop_after > 0:
            raise Interrupted
        progress.advance(n)

    report = tune_backbone(
        transformer, TRAIN, changed, 0, AUGMENTATIONS, advance=advance, losses=losses, checkpoint=checkpoint,
        saved=saved.get("loop"),
    )  # fmt: skip
    checkpoint.steps = calls  # type: ignore[attr-defined]
    return [weight.detach().clone() for weight in transformer.model.parameters()], report, progress.finish()


def check_equal(one: Found, other: Found) -> None:
    assert all(torch.equal(*both) for both in zip(one[0], other[0], strict=True))
    assert asdict(replace(one[1], seconds=0)) == asdict(replace(other[1], seconds=0))
    assert one[2] == other[2]


NOISES: list[dict[str, Any]] = [
    {"drophead": 0.2, "span_mask": 3, "sides": 2, "stop": "auto"}, {"dropout": 0.2}, {"controlled_dropout": 0.2},
    {"dropout": 0.1, "lora": 4}, {"loss": "multi-similarity", "drop_last": True, "word_shuffle": 2},
]  # fmt: skip


@pytest.mark.parametrize("noise", few(NOISES), ids=str)
def test_it_goes_on_bit_for_bit(random_model: Models, tmp_path: Path, noise: dict[str, Any]) -> None:
    """Interrupted in the first epoch, at the end of an epoch, and before the last step, one after the other."""
    changed, path = recipe(batch_size=10, epochs=EPOCHS, lr=0.01, **noise), random_model("bert")
    expected = tune(path, changed, Checkpoint(tmp_path / "straight", {}))
    assert expected[1].steps == EPOCHS * STEPS
    for done, more in ((0, 2), (2, 2), (4, 3)):
        with pytest.raises(Interrupted):
            tune(path, changed, Checkpoint(tmp_path / "cut", {}), stop_after=more)
        assert Checkpoint(tmp_path / "cut", {}).read()["loop"]["steps"] == done + more
    assert Checkpoint(tmp_path / "cut", {"device": "cuda"}).read() == {}  # of another origin
    last = Checkpoint(tmp_path / "cut", {})
    check_equal(tune(path, changed, last), expected)
    assert last.steps == 1  # type: ignore[attr-defined]


def test_a_damaged_one_is_not_used(random_model: Models, tmp_path: Path) -> None:
    changed, path = recipe(batch_size=20, dropout=0.1), random_model("bert")
    with pytest.raises(Interrupted):
        tune(path, changed, Checkpoint(tmp_path, {}), stop_after=1)
    assert damaged(tmp_path) == ""
    whole = (tmp_path / STATE).read_bytes()
    half = len(whole) // 2
    for broken in (b"", b"x" * 100, whole[:-100], whole[:half] + bytes([whole[half] ^ 1]) + whole[half + 1 :]):
        (tmp_path / STATE).write_bytes(broken)
        (tmp_path / ".part-x").write_bytes(b"of a process that was killed while it wrote")
        assert damaged(tmp_path)
        assert Checkpoint(tmp_path, {}).read() == {}
    last = Checkpoint(tmp_path, {})
    tune(path, changed, last)
    assert last.steps == 2  # type: ignore[attr-defined]
    assert [file.name for file in tmp_path.iterdir()] == [STATE]


class Counting(OfVectors):
    """An objective with a state."""

    made: ClassVar[list[Counting]] = []

    def __init__(self, transformer: Transformer, recipe: Recipe) -> None:
        super().__init__(transformer, recipe, LOSSES["infonce"])
        self.count = 0
        self.made.append(self)

    def stepped(self, optimizer: torch.optim.Optimizer, steps: int) -> None:
        self.count += 1


class Shown(Counting):
    """One that shows it."""

    def state_dict(self) -> dict[str, Any]:
        return {"count": self.count}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.count = state["count"]


@pytest.mark.parametrize("objective", [Counting, Shown])
def test_an_objective_with_a_state_must_show_it(
    random_model: Models, tmp_path: Path, objective: type[Counting]
) -> None:
    changed, path, losses = recipe(batch_size=10, loss="counting"), random_model("bert"), {"counting": objective}
    with pytest.raises(Interrupted):
        tune(path, changed, Checkpoint(tmp_path, {}), 2, losses)
    assert (tmp_path / STATE).is_file() == (objective is Shown)
    tune(path, changed, Checkpoint(tmp_path, {}), 0, losses)
    assert objective.made[-1].count == STEPS


def test_a_full_disk_ends_the_checkpoints_and_not_the_tuning(
    random_model: Models, tmp_path: Path, full_disk: Callable[[str], None]
) -> None:
    notes: list[str] = []
    changed, path = recipe(batch_size=20, dropout=0.1), random_model("bert")
    expected = tune(path, changed, Checkpoint(tmp_path / "straight", {}))
    full_disk("full")
    check_equal(tune(path, changed, Checkpoint(tmp_path / "full", {}, notes.append)), expected)
    (note,) = notes
    assert note.startswith("No checkpoint could be written")
    assert "No space left on device" in note


KILLED = """
import os, signal, sys
from mirrorbench.cli import main
from mirrorbench.training import checkpoints
checkpoints.INTERVAL, checkpoints.SHARE, written = 0, float("inf"), 0
save = checkpoints.Checkpoint.save

def killed(self):
    global written
    save(self)
    written += 1
    if written == 5:
        os.kill(os.getpid(), signal.SIGKILL)

checkpoints.Checkpoint.save = killed
main()
"""


@pytest.mark.slow
def test_the_same_command_goes_on_after_a_kill(
    random_model: Models, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of 10 steps, killed after 5; Ctrl-C, which ends a tuning in the same way, is in ``tests/cli``."""
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    (tmp_path / "texts.txt").write_text("".join(f"{text}\n" for text in TEXTS[:60]))
    spec = f"{random_model('bert')}+mirror:batch_size=5,span_mask=0"
    asked = ["tune", str(tmp_path / "texts.txt"), "-e", spec, "--device", "cpu", "--held-out", "10", "-o"]

    def left(name: str) -> list[str]:
        monkeypatch.setenv("MIRRORBENCH_CACHE", str(tmp_path / f"cache-{name}"))
        cache = Cache(tmp_path / f"cache-{name}")
        return [damage(cache, entry) for entry in entries(cache) if entry.kind == "checkpoints"]

    assert left("cut") == []
    command = [sys.executable, "-c", KILLED, *asked, str(tmp_path / "cut")]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert (done.returncode, left("cut")) == (-signal.SIGKILL, [""]), done.stderr
    with cpu_threads(1):
        for name in ("cut", "straight"):
            left(name)
            monkeypatch.setattr(sys, "argv", ["mirrorbench", *asked, str(tmp_path / name)])
            with pytest.raises(SystemExit, match="0"):
                main()
            assert ("from its checkpoint at 50%" in capsys.readouterr().err) == (name == "cut")
            assert left(name) == []
    one, two = ((tmp_path / name / "model.safetensors").read_bytes() for name in ("straight", "cut"))
    assert one == two
