"""Fixtures for the tests of an executor: a small grid, computed by the executor and by this process alike.

A plugin's ``conftest.py`` imports ``bench``, ``command`` and ``interrupted``, and has a program ``command.py`` beside
it: ``mirrorbench`` with the executor registered, installed or not. The encoders and the task are those of ``letters``.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from mirrorbench import plugins as plugin_manager
from mirrorbench.data.store import DataStore
from mirrorbench.executors.jobs import Context, execute
from mirrorbench.outcomes import Outcome
from mirrorbench.plan import Planner, Request
from mirrorbench.progress import Silent
from mirrorbench.specs import parse_spec
from mirrorbench.testing import comparable, letters

LETTERS = Path(letters.__file__)
PATIENCE = 120.0
"""Seconds after which a test gives a command up."""


class Log(Silent):
    """A reporter that remembers notes."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    def note(self, message: str) -> None:
        """Remember it."""
        self.notes.append(message)


class Bench:
    """Runs plans of ``letters`` and of tuned models under an executor, each in folders of its own.

    Args:
        folder: where those folders go.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.plugins = plugin_manager.plugins()
        self.plugins.add_file(LETTERS)
        (folder / "mine.txt").write_text("".join(f"line number {n}\n" for n in range(12)))
        self.log = Log()

    def run(self, name: str, *encoders: str, executor: str = "local", **options: Any) -> Outcome:
        """Compute the task ``cats`` for some encoders and two seeds, into the folder ``name``."""
        data = DataStore(self.folder / "data", offline=True)
        request = Request(tuple(map(parse_spec, encoders)), ("cats",), (0, 1), str(self.folder / "mine.txt"))
        plan = Planner(request, self.plugins, data, offline=True).plan()
        context = Context(
            data.root, self.folder / name, self.folder / f"{name}-cache", "cpu", tuple(self.plugins.files),
            offline=True, threads=1,
        )  # fmt: skip
        self.log = Log()
        return execute(plan, context, executor, options, self.plugins, self.log)

    def stored(self, name: str) -> dict[str, bytes]:
        """All in the folder ``name`` that must not depend on the executor: everything but dates and costs."""
        return comparable.stored(self.folder / name)


Command = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def bench(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    """A ``Bench`` in a folder of the test's own; workers find the plugin's modules above the tests."""
    above = request.path.parents[1]
    monkeypatch.setenv("LETTERS_FOLDER", str(tmp_path))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(above), os.environ.get("PYTHONPATH", "")]))
    plugin_manager.plugins.cache_clear()
    yield Bench(tmp_path)
    plugin_manager.plugins.cache_clear()


@pytest.fixture
def command(bench: Bench, request: pytest.FixtureRequest) -> Command:
    """Starts ``command.py`` with its arguments and ``letters`` in a process group of its own, as a terminal does."""
    program = request.path.parent / "command.py"

    def start(*arguments: str, **environment: str) -> subprocess.Popen[str]:
        folders = {"MIRRORBENCH_CACHE": str(bench.folder / "cache"), "MIRRORBENCH_DATA": str(bench.folder / "data")}
        return subprocess.Popen(
            [sys.executable, str(program), *arguments, "--plugin", str(LETTERS), "--offline"],
            cwd=bench.folder, env=os.environ | folders | environment, text=True, start_new_session=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
        )  # fmt: skip

    return start


@pytest.fixture
def interrupted(bench: Bench, command: Command) -> Callable[..., tuple[int, str]]:
    """Runs a command, presses Ctrl-C when ``blocking`` waits and as many results as given are stored; what it left."""

    def run(*arguments: str, stored: int) -> tuple[int, str]:
        process = command(*arguments)
        deadline = time.monotonic() + PATIENCE
        while not (bench.folder / "waiting").exists() or len(list(bench.folder.rglob("seed-*.json"))) < stored:
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < deadline
            time.sleep(0.1)
        os.killpg(process.pid, signal.SIGINT)
        _, err = process.communicate(timeout=PATIENCE)
        return process.returncode, err

    return run
