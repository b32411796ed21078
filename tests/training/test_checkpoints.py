"""A tuning that was interrupted ends in the same weights, bit for bit, as one that was not."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from augmented import AUGMENTATIONS, TEXTS, opened, recipe
from random_models import Models
from suites import few

from mirrorbench.core.errors import StorageError
from mirrorbench.models.transformer import Transformer
from mirrorbench.runs.cache import Cache
from mirrorbench.runs.maintenance import damage, entries
from mirrorbench.training import checkpoints
from mirrorbench.training.checkpoints import STATE, Checkpoint, damaged
from mirrorbench.training.held_out import positive_pairs
from mirrorbench.training.loop import TuningReport, tune_backbone
from mirrorbench.training.losses import LOSSES
from mirrorbench.training.methods import identical_pairs
from mirrorbench.training.objective import Objective, OfVectors
from mirrorbench.training.progress import Progress, Trajectory
from mirrorbench.training.recipes import Recipe

TRAIN, ASIDE = TEXTS[:80], positive_pairs(TEXTS[80:], 0, identical_pairs)
EPOCHS, STEPS = 3, 4
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
    {"dropout": 0.2}, {"drophead": 0.2, "span_mask": 3, "sides": 2}, {"controlled_dropout": 0.2, "stop": "auto"},
    {"dropout": 0.1, "lora": 4}, {"loss": "multi-similarity", "drop_last": True, "word_shuffle": 2},
]  # fmt: skip


@pytest.mark.parametrize("noise", few(NOISES, 1), ids=str)
def test_it_goes_on_bit_for_bit(random_model: Models, tmp_path: Path, noise: dict[str, Any]) -> None:
    """Interrupted in the first epoch, at the end of an epoch, and before the last step, one after the other."""
    if "lora" in noise:
        pytest.importorskip("peft")
    changed, path = recipe(batch_size=20, epochs=EPOCHS, lr=0.01, **noise), random_model("bert")
    expected = tune(path, changed, Checkpoint(tmp_path / "straight", {}))
    assert expected[1].steps == EPOCHS * STEPS
    for done, more in ((0, 2), (2, 2), (4, 7)):
        with pytest.raises(Interrupted):
            tune(path, changed, Checkpoint(tmp_path / "cut", {}), stop_after=more)
        assert Checkpoint(tmp_path / "cut", {}).read()["loop"]["steps"] == done + more
    last = Checkpoint(tmp_path / "cut", {})
    check_equal(tune(path, changed, last), expected)
    assert last.steps == 1  # type: ignore[attr-defined]


def flipped(data: bytes) -> bytes:
    return data[: len(data) // 2] + bytes([data[len(data) // 2] ^ 1]) + data[len(data) // 2 + 1 :]


@pytest.mark.parametrize("change", few([flipped, lambda data: data[:-100], lambda data: b"", lambda data: b"x" * 100]))
def test_a_damaged_one_is_not_used(random_model: Models, tmp_path: Path, change: Callable[[bytes], bytes]) -> None:
    changed, path = recipe(batch_size=20, epochs=EPOCHS, lr=0.01, dropout=0.1), random_model("bert")
    with pytest.raises(Interrupted):
        tune(path, changed, Checkpoint(tmp_path, {}), stop_after=5)
    assert damaged(tmp_path) == ""
    (tmp_path / STATE).write_bytes(change((tmp_path / STATE).read_bytes()))
    (tmp_path / ".part-x").write_bytes(b"of a process that was killed while it wrote")
    assert damaged(tmp_path)
    last = Checkpoint(tmp_path, {})
    tune(path, changed, last)
    assert last.steps == EPOCHS * STEPS  # type: ignore[attr-defined]
    assert [file.name for file in tmp_path.iterdir()] == [STATE]


def test_one_of_another_origin_is_not_used(tmp_path: Path) -> None:
    Checkpoint(tmp_path, {"device": "cpu"}).save()
    assert (tmp_path / STATE).is_file()
    assert Checkpoint(tmp_path, {"device": "cuda"}).read() == {}


class Counting(OfVectors):
    """An objective with a state that it does not show."""

    def __init__(self, transformer: Transformer, recipe: Recipe) -> None:
        super().__init__(transformer, recipe, LOSSES["infonce"])
        self.count = 0

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
    made: list[Objective] = []

    class Watched(objective):  # type: ignore[misc, valid-type]
        def __init__(self, *args: Any) -> None:
            super().__init__(*args)
            made.append(self)

    changed, path = recipe(batch_size=20, epochs=2, loss="counting"), random_model("bert")
    with pytest.raises(Interrupted):
        tune(path, changed, Checkpoint(tmp_path, {}), 5, {"counting": Watched})
    assert (tmp_path / STATE).is_file() == (objective is Shown)
    tune(path, changed, Checkpoint(tmp_path, {}), 0, {"counting": Watched})
    assert made[-1].count == 8  # type: ignore[attr-defined]


def test_a_full_disk_ends_the_checkpoints_and_not_the_tuning(
    random_model: Models, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*args: Any, **named: Any) -> Any:
        raise StorageError("Cannot write: No space left on device.", "Free some space.")

    notes: list[str] = []
    changed, path = recipe(batch_size=20, epochs=EPOCHS, dropout=0.1), random_model("bert")
    expected = tune(path, changed, Checkpoint(tmp_path / "straight", {}))
    monkeypatch.setattr(checkpoints, "writing", full)
    check_equal(tune(path, changed, Checkpoint(tmp_path / "full", {}, notes.append)), expected)
    (note,) = notes
    assert note.startswith("No checkpoint could be written")
    assert "No space left on device" in note


KILLED_AFTER = """
import os, signal, sys
from mirrorbench.training import checkpoints
signal.signal(signal.SIGINT, signal.default_int_handler)  # a process in the background ignores it
checkpoints.INTERVAL, checkpoints.SHARE, written = 0, float("inf"), 0
after, sent = int(sys.argv.pop(1)), int(sys.argv.pop(1))
save = checkpoints.Checkpoint.save

def killed(self):
    global written
    save(self)
    written += 1
    if written == after:
        os.kill(os.getpid(), sent)

checkpoints.Checkpoint.save = killed
from mirrorbench.cli import main
main()
"""


@pytest.mark.slow
def test_the_same_command_goes_on_after_a_kill(random_model: Models, tmp_path: Path) -> None:
    """Of 18 steps, killed after 9; Ctrl-C, which ends a tuning in the same way, is in ``tests/cli``."""
    (tmp_path / "texts.txt").write_text("".join(f"{text}\n" for text in TEXTS))
    spec = f"{random_model('bert')}+mirror:epochs=2,batch_size=10"
    asked = ["tune", str(tmp_path / "texts.txt"), "-e", spec, "--device", "cpu"]
    codes, errors, unfinished = [], [], []
    for name, after, sent in (
        ("straight", 0, 0),
        ("cut", 9, signal.SIGKILL),
        ("cut", 0, 0),
    ):
        done = subprocess.run(
            [sys.executable, "-c", KILLED_AFTER, str(after), str(int(sent)), *asked, "-o", str(tmp_path / name)],
            env={**os.environ, "MIRRORBENCH_CACHE": str(tmp_path / f"cache-{name}"), "OMP_NUM_THREADS": "1"},
            check=False, capture_output=True, text=True,
        )  # fmt: skip
        codes.append(done.returncode)
        errors.append(done.stderr)
        cache = Cache(tmp_path / f"cache-{name}")
        unfinished.append([damage(cache, entry) for entry in entries(cache) if entry.kind == "checkpoints"])
    assert codes == [0, -signal.SIGKILL, 0], errors
    assert unfinished == [[], [""], []]
    assert "from its checkpoint at 50%" in errors[2]
    one, two = ((tmp_path / name / "model.safetensors").read_bytes() for name in ("straight", "cut"))
    assert one == two
