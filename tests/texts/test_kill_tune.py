"""``tune`` killed at random moments: it ends as if nothing had happened, and the encoder of before is never lost."""

from __future__ import annotations

import random
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from helpers.random_models import Models

pytestmark = pytest.mark.slow

OLD = "spiece.model"
"""A file that some encoders have and the tuned one has not."""


@pytest.mark.real
def test_killed_tuning_resumes_to_identical_weights(
    tmp_path: Path,
    random_model: Models,
    times: Callable[[int, int], int],
    started: Callable[..., Any],
) -> None:
    model, moments, wanted = random_model("bert"), random.Random(7), times(3, 60)

    def start(folder: Path) -> Any:
        return started("tune_on_the_way", folder, model)

    straight = tmp_path / "straight"
    start(
        straight
    ).join()  # what an uninterrupted one leaves; the fork server has imported torch by then
    expected = (straight / "enc" / "model.safetensors").read_bytes()
    (straight / "enc" / "mirrorbench.json").rename(tmp_path / "mirrorbench.json")
    shutil.rmtree(straight)
    began = time.monotonic()
    start(straight).join()
    whole = time.monotonic() - began
    kills = tunings = 0
    while kills < wanted:
        folder = tmp_path / str(tunings)
        (folder / "enc").mkdir(parents=True)
        shutil.copy(
            tmp_path / "mirrorbench.json", folder / "enc"
        )  # what tells an encoder of mirrorbench
        (folder / "enc" / OLD).write_bytes(b"the encoder of before")
        tunings += 1
        process = start(folder)
        while process.is_alive():
            process.join(moments.uniform(0, whole))
            if kills < wanted and process.is_alive():
                process.kill()
                process.join()
                kills += 1
                homes = (folder / "enc", folder / ".enc.mirrorbench" / "old")
                assert any(
                    (home / OLD).is_file() or (home / "model.safetensors").is_file()
                    for home in homes
                )
                process = start(folder)
        assert process.exitcode == 0
        assert (folder / "enc" / "model.safetensors").read_bytes() == expected
        assert {path.name for path in folder.iterdir()} == {"enc", "cache"}
        assert not (folder / "enc" / OLD).exists()
        left = [path for path in (folder / "cache").rglob("*") if path.name.startswith(".part-")]
        left += (folder / "cache" / "checkpoints").glob("*/*")
        assert left == []
    assert kills == wanted
