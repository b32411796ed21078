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


@pytest.mark.slow
def test_an_interrupted_run_goes_on_where_it_was(
    process: Callable[..., subprocess.Popen[str]], toys: Callable, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoders = ("-e", "letters", "-e", "blocking", *CATS_AND_DOGS)
    running = process("run", "--plugin", str(PLUGIN), *encoders)
    wait_until((folder / "waiting").exists, running)
    running.send_signal(signal.SIGINT)
    _, err = running.communicate(timeout=120)
    assert running.returncode == 130
    assert "Traceback" not in err
    assert "Interrupted. What is done is stored in results" in err
    first = results(folder / "results")
    assert set(first) == {"letters/cats/seed-0.json", "letters/dogs/seed-0.json"}
    times = {path: path.stat().st_mtime_ns for path in (folder / "results").rglob("seed-*")}

    (folder / "go").touch()
    again = toys(*encoders).assert_works()
    assert "2 of them from earlier runs" in again.err
    assert {path: path.stat().st_mtime_ns for path in times} == times
    assert (folder / "calls").read_text().splitlines() == ["letters 4", "blocking 4", "blocking 4"]
    assert not list((folder / "results").rglob(".part-*"))

    monkeypatch.setenv("MIRRORBENCH_CACHE", str(folder / "fresh"))
    assert toys(*encoders, "--output", "straight").out == again.out
    found, expected = results(folder / "results"), results(folder / "straight")
    assert found.keys() == expected.keys()
    for path in expected:
        for key in ("cell", "cell_id", "metrics", "main_score", "n_items", "data"):
            assert found[path][key] == expected[path][key]


def lives(group: int) -> bool:
    """Whether any process of a group is left."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.slow
def test_ctrl_c_ends_the_workers_too(
    process: Callable[..., subprocess.Popen[str]], toys: Callable, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A terminal sends it to all of them; one message comes of it, and nothing stays behind."""
    command = ("run", "--plugin", str(PLUGIN), "-e", "letters", "-e", "blocking", *CATS_AND_DOGS, "--workers", "2")
    running = process(*command)
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
    (folder / "go").touch()
    again = toys(*command[3:-2]).assert_works()
    assert "4 results in results, 2 of them from earlier runs" in again.err
    monkeypatch.setenv("MIRRORBENCH_CACHE", str(folder / "fresh"))
    assert toys(*command[3:-2], "--output", "straight").out == again.out


SAYING = """
import os
from pathlib import Path
import numpy as np
import torch
from mirrorbench import hookimpl

class Saying:
    fingerprint = "saying"
    def encode(self, inputs):
        said = f"{torch.are_deterministic_algorithms_enabled()} {os.environ.get('CUBLAS_WORKSPACE_CONFIG')}"
        Path("said").write_text(said)
        return np.eye(len(inputs), 9, dtype=np.float32)

@hookimpl
def register_encoders(register):
    register("saying", lambda spec, context: Saying(), "says how torch computes")
"""


@pytest.mark.full
@pytest.mark.parametrize(("workers", "option"), [("1", False), ("2", True)])
def test_deterministic_reaches_torch_in_every_process(
    process: Callable[..., subprocess.Popen[str]], folder: Path, workers: str, option: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.delenv("CUBLAS_WORKSPACE_CONFIG", raising=False)  # of a test that had a GPU
    (folder / "saying.py").write_text(SAYING)
    command = ("run", "--plugin", str(PLUGIN), "--plugin", "saying.py", "-e", "saying", "-e", "letters", "-t", "cats")
    running = process(*command, "--workers", workers, *(["--deterministic"] if option else []))
    _, err = running.communicate(timeout=120)
    assert running.returncode == 0, err
    assert (folder / "said").read_text() == ("True :4096:8" if option else "False None")
