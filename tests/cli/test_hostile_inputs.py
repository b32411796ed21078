"""Random hostile inputs through the command line: an exit code of ours, one message, nothing unfinished left.

The suite draws a few; ``nox -s soak`` (``pytest --soak``) a thousand.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

import hostile
import pytest
from toys import PLUGIN

SECONDS = 300
"""A command that takes longer hangs."""


@pytest.fixture(scope="module")
def model(random_model: Callable[[str], Path]) -> Path:
    return random_model("bert")


@pytest.fixture
def scene(toys: Callable, folder: Path, model: Path, tmp_path: Path) -> hostile.Scene:
    toys("-e", "letters", "-t", "cats,dogs", "--seeds", "2").assert_works()
    for file in list((folder / "results").rglob("seed-*.json")):  # a second encoder
        moved = folder / "results" / "other" / file.parent.name / file.name
        moved.parent.mkdir(parents=True, exist_ok=True)
        stored = json.loads(file.read_text())
        stored["cell"]["spec"] = "other"
        stored["cell_id"] = stored["cell_id"][::-1]
        moved.write_text(json.dumps(stored))
        shutil.copy(file.with_suffix(".npz"), moved.with_suffix(".npz"))
    (folder / "results").rename(tmp_path / "results")
    return hostile.Scene(model, tmp_path / "results")


@contextmanager
def ended_in(seconds: int) -> Iterator[None]:
    def stop(*_: Any) -> None:
        raise TimeoutError(f"not ended in {seconds} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


@pytest.mark.skipif(os.name == "nt", reason="no alarm on this system")
@pytest.mark.parametrize("kind", hostile.KINDS)
def test_no_input_is_a_traceback(
    kind: str, mirrorbench: Callable, scene: hostile.Scene, tmp_path: Path, times: Callable[[int, int], int],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setenv("LETTERS_FOLDER", str(tmp_path))
    wrong = []
    for seed in range(times(4, 200)):
        place = tmp_path / f"{seed}"
        place.mkdir()
        monkeypatch.chdir(place)
        command = hostile.KINDS[kind](Random(f"{kind} {seed}"), place, scene)
        plugin = () if "import" in command else ("--plugin", str(PLUGIN))
        if problem := problem_of(mirrorbench, place, *command, *plugin):
            wrong.append(f"{kind} {seed}: {command}: {problem}")
        else:
            shutil.rmtree(place)
    assert not wrong, "\n".join(wrong)


def problem_of(mirrorbench: Callable, place: Path, *command: str) -> str:
    """What is wrong with how a command ended; empty if nothing is."""
    try:
        with ended_in(SECONDS):
            ended = mirrorbench(*command)
    except Exception as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        return f"{type(error).__name__}: {error!s:.200} ({where.filename}, line {where.lineno})"
    if ended.code not in (0, 1, 2) or (ended.code and not ended.err.strip()):
        return f"exit code {ended.code} without a message"
    if "\x1b" in ended.out + ended.err:
        return "an escape of the terminal was printed"
    left = [path.name for path in place.rglob("*") if path.name.startswith((".part-", ".mirrorbench"))]
    return f"left: {left}" if left else ""
