from __future__ import annotations

import json
import multiprocessing
import os
import random
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from helpers.comparable_results import stored
from helpers.suite_marks import few, slow


def start(folder: Path, host: str = "") -> Any:
    from helpers import killable_runs

    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["helpers.killable_runs"])
    process = context.Process(target=killable_runs.run_grid, args=(folder, host), daemon=True)
    process.start()
    return process


def check_nothing_was_computed_after_it_was_stored(folder: Path) -> None:
    """Scoring a cell always began before its result was written."""
    paths = (folder / "results").rglob("seed-*.json")
    written = {json.loads(path.read_text())["cell_id"]: path.stat().st_mtime_ns for path in paths}
    scored = [line.split() for line in (folder / "scored").read_text().splitlines()]
    assert {cell for cell, _ in scored} == set(written)
    assert [cell for cell, began in scored if int(began) > written[cell]] == []


@pytest.fixture
def model(random_model: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch) -> Path:
    # Before the fork server starts: it imports torch, and finds the module of the children by this path only.
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, sys.path)))
    return random_model("bert")


def straight(folder: Path, model: Path) -> tuple[dict[str, bytes], float]:
    """What an uninterrupted run leaves, and the seconds that it takes."""
    from helpers import killable_runs

    killable_runs.write_grid(folder, model)
    process = start(folder)  # returns when the fork server has imported torch
    began = time.monotonic()
    process.join()
    assert process.exitcode == 0
    expected = stored(folder / "results")
    assert len(expected) == 2 * 2 * 8
    return expected, time.monotonic() - began


@pytest.mark.parametrize("at_once", few([2, 1], suite=slow))
def test_killed_grid_resumes_to_identical_results(
    tmp_path: Path, model: Path, at_once: int, times: Callable[[int, int], int]
) -> None:
    """SIGKILL at random moments, start again, until the moments are used up; each grid that ends is compared."""
    from helpers import killable_runs

    wanted = times(6, 100)
    moments = random.Random(at_once)
    expected, whole = straight(tmp_path / "straight", model)
    kills = grids = 0
    while kills < wanted:
        folder = tmp_path / str(grids)
        killable_runs.write_grid(folder, model)
        grids += 1
        before: dict[Path, bytes] = {}
        running = [start(folder) for _ in range(at_once)]
        while running:
            victim = moments.choice(running)
            victim.join(moments.uniform(0, whole / 3))
            if kills < wanted and victim.is_alive():
                victim.kill()
                victim.join()
                kills += 1
                running[running.index(victim)] = start(folder)
            running = [process for process in running if process.is_alive() or process.exitcode]
            assert not any(process.exitcode for process in running), (
                folder / "failures"
            ).read_text()
            now = {path: path.read_bytes() for path in (folder / "results").rglob("seed-*.json")}
            assert all(now[path] == content for path, content in before.items())
            before = now
        assert stored(folder / "results") == expected
        check_nothing_was_computed_after_it_was_stored(folder)
        assert not list((folder / "results").rglob(".part-*"))
    assert kills == wanted


@pytest.mark.full
def test_group_of_lost_machine_is_taken_over(tmp_path: Path, model: Path) -> None:
    """Two machines on one folder, as far as their host names tell; one is killed in the middle of a group."""
    from helpers import killable_runs

    expected, _ = straight(tmp_path / "straight", model)
    folder = tmp_path / "shared"
    killable_runs.write_grid(folder, model)
    lost = start(folder, "node1")
    held = folder / "results" / ".leases"
    while not [lease for lease in held.glob("*.lease") if b"node1" in lease.read_bytes()]:
        assert lost.is_alive()
    lost.kill()
    lost.join()
    assert len(list(held.iterdir())) == 1
    others = [start(folder, host) for host in ("node2", "node3")]
    for process in others:
        process.join()
    assert [process.exitcode for process in others] == [0, 0]
    assert stored(folder / "results") == expected
    assert list(held.iterdir()) == []
    check_nothing_was_computed_after_it_was_stored(folder)
