"""``run`` as processes of its own: interrupted, with workers."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from helpers.processes import wait_until
from helpers.toy_plugin import CATS_AND_DOGS, PLUGIN, results


def lives(group: int) -> bool:
    """Whether any process of a group is left."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.slow
@pytest.mark.parametrize("workers", ["1", "2"])
def test_interrupted_run_resumes_without_recomputation(
    process: Callable[..., subprocess.Popen[str]],
    toys: Callable,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    workers: str,
) -> None:
    """A terminal sends Ctrl-C to the workers too; one message comes of it, and nothing stays behind."""
    encoders = ("-e", "letters", "-e", "blocking", *CATS_AND_DOGS)
    running = process("run", "--plugin", str(PLUGIN), *encoders, "--workers", workers)
    wait_until(
        lambda: (folder / "waiting").exists() and len(results(folder / "results")) == 2, running
    )
    os.killpg(running.pid, signal.SIGINT)
    _, err = running.communicate(timeout=120)
    assert running.returncode == 130
    assert "Traceback" not in err, err
    assert (
        err.count(
            "Interrupted. Results so far are in results; run the same command again to continue."
        )
        == 1
    )
    deadline = time.monotonic() + 120
    while lives(running.pid):
        assert time.monotonic() < deadline
    assert set(results(folder / "results")) == {
        "letters/cats/seed-0.json",
        "letters/dogs/seed-0.json",
    }
    times = {path: path.stat().st_mtime_ns for path in (folder / "results").rglob("seed-*")}
    (folder / "go").touch()
    again = toys(*encoders).assert_works()
    assert "4 results in results, 2 of them from earlier runs" in again.err
    assert {path: path.stat().st_mtime_ns for path in times} == times
    assert sorted((folder / "calls").read_text().splitlines()) == [
        "blocking 4",
        "blocking 4",
        "letters 4",
    ]
    assert not list((folder / "results").rglob(".part-*"))
    monkeypatch.setenv("MIRRORBENCH_CACHE", str(folder / "fresh"))
    assert toys(*encoders, "--output", "straight").out == again.out
    found = results(folder / "results")
    expected = results(folder / "straight")
    assert found.keys() == expected.keys()
    for path in expected:
        for key in ("cell", "cell_id", "metrics", "main_score", "n_items", "data"):
            assert found[path][key] == expected[path][key]
