"""``tune`` killed at random moments: it ends as if nothing had happened, and the encoder of before is never lost."""

from __future__ import annotations

import multiprocessing
import os
import random
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from safetensors.numpy import load_file

pytestmark = pytest.mark.slow

OLD = "spiece.model"
"""A file that some encoders have and the tuned one has not."""


def weights(folder: Path) -> dict[str, Any]:
    return {name: array.tobytes() for name, array in load_file(folder / "model.safetensors").items()}


def start(folder: Path, model: Path) -> Any:
    import killable

    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["killable"])
    process = context.Process(target=killable.tune_on_the_way, args=(folder, model), daemon=True)
    process.start()
    return process


@pytest.mark.real
def test_a_killed_tuning_ends_as_if_nothing_had_happened(
    tmp_path: Path, random_model: Callable[[str], Path], times: Callable[[int, int], int],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setenv("OMP_NUM_THREADS", "1")  # before the fork server starts
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, sys.path)))
    model, moments, wanted = random_model("bert"), random.Random(7), times(3, 60)
    straight = tmp_path / "straight"
    start(straight, model).join()  # what an uninterrupted one leaves; the fork server has imported torch by then
    expected = weights(straight / "enc")
    (straight / "enc" / "mirrorbench.json").rename(tmp_path / "mirrorbench.json")
    shutil.rmtree(straight)
    began = time.monotonic()
    start(straight, model).join()
    whole = time.monotonic() - began
    kills = tunings = 0
    while kills < wanted:
        folder = tmp_path / str(tunings)
        (folder / "enc").mkdir(parents=True)
        shutil.copy(tmp_path / "mirrorbench.json", folder / "enc")  # what tells an encoder of mirrorbench
        (folder / "enc" / OLD).write_bytes(b"the encoder of before")
        tunings += 1
        process = start(folder, model)
        while process.is_alive():
            process.join(moments.uniform(0, whole))
            if kills < wanted and process.is_alive():
                process.kill()
                process.join()
                kills += 1
                homes = (folder / "enc", folder / ".enc.mirrorbench" / "old")
                assert any((home / OLD).is_file() or (home / "model.safetensors").is_file() for home in homes)
                process = start(folder, model)
        assert process.exitcode == 0
        assert weights(folder / "enc") == expected
        assert {path.name for path in folder.iterdir()} == {"enc", "cache"}
        assert not (folder / "enc" / OLD).exists()
        left = [path for path in (folder / "cache").rglob("*") if path.name.startswith(".part-")]
        left += (folder / "cache" / "checkpoints").glob("*/*")
        assert left == []
    assert kills == wanted
