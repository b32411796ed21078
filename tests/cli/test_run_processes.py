"""``run`` as processes of its own: interrupted, with workers, and what torch is told in each."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from harness.terminal import wait_until
from toys import CATS_AND_DOGS, PLUGIN, results


def lives(group: int) -> bool:
    """Whether any process of a group is left."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.slow
@pytest.mark.parametrize("workers", ["1", "2"])
def test_an_interrupted_run_goes_on_where_it_was(
    process: Callable[..., subprocess.Popen[str]], toys: Callable, folder: Path, monkeypatch: pytest.MonkeyPatch,
    workers: str,
) -> None:  # fmt: skip
    """A terminal sends Ctrl-C to the workers too; one message comes of it, and nothing stays behind."""
    encoders = ("-e", "letters", "-e", "blocking", *CATS_AND_DOGS)
    running = process("run", "--plugin", str(PLUGIN), *encoders, "--workers", workers)
    wait_until(lambda: (folder / "waiting").exists() and len(results(folder / "results")) == 2, running)
    os.killpg(running.pid, signal.SIGINT)
    _, err = running.communicate(timeout=120)
    assert running.returncode == 130
    assert "Traceback" not in err, err
    assert err.count("Interrupted. What is done is stored in results; the same command goes on from there.") == 1
    deadline = time.monotonic() + 120
    while lives(running.pid):
        assert time.monotonic() < deadline
    assert list((folder / "results" / ".leases").iterdir()) == []
    assert set(results(folder / "results")) == {"letters/cats/seed-0.json", "letters/dogs/seed-0.json"}
    times = {path: path.stat().st_mtime_ns for path in (folder / "results").rglob("seed-*")}
    (folder / "go").touch()
    again = toys(*encoders).assert_works()
    assert "4 results in results, 2 of them from earlier runs" in again.err
    assert {path: path.stat().st_mtime_ns for path in times} == times
    assert sorted((folder / "calls").read_text().splitlines()) == ["blocking 4", "blocking 4", "letters 4"]
    assert not list((folder / "results").rglob(".part-*"))
    monkeypatch.setenv("MIRRORBENCH_CACHE", str(folder / "fresh"))
    assert toys(*encoders, "--output", "straight").out == again.out
    found, expected = results(folder / "results"), results(folder / "straight")
    assert found.keys() == expected.keys()
    for path in expected:
        for key in ("cell", "cell_id", "metrics", "main_score", "n_items", "data"):
            assert found[path][key] == expected[path][key]


SAYING = """
import os
from pathlib import Path
import numpy as np
import torch
from mirrorbench import hookimpl

class Saying:
    fingerprint = "saying"
    def encode(self, inputs):
        said = torch.are_deterministic_algorithms_enabled(), os.environ.get('CUBLAS_WORKSPACE_CONFIG')
        Path("said").write_text(str(said))
        return np.eye(len(inputs), 9, dtype=np.float32)

@hookimpl
def register_encoders(register):
    register("saying", lambda spec, context: Saying(), "says how torch computes")
"""


@pytest.mark.full
def test_deterministic_reaches_torch_in_a_worker(
    process: Callable[..., subprocess.Popen[str]], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CUBLAS_WORKSPACE_CONFIG", raising=False)  # of a test that had a GPU
    (folder / "saying.py").write_text(SAYING)
    command = ("run", "--plugin", str(PLUGIN), "--plugin", "saying.py", "-e", "saying", "-e", "letters", "-t", "cats")
    running = process(*command, "--workers", "2", "--deterministic")
    _, err = running.communicate(timeout=120)
    assert running.returncode == 0, err
    assert (folder / "said").read_text() == "(True, ':4096:8')"
