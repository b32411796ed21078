"""Fixtures for the tests of an executor: a small grid, computed by the executor and, for comparison, by this process.

They need the fixtures of ``plugin_fixtures``; encoders and tasks are those of ``letters_plugin``.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from helpers import comparable_results, letters_plugin
from helpers.plugin_fixtures import PATIENCE, Command, Said
from helpers.recording_reporter import Log
from mirrorbench.core.plugins import Plugins
from mirrorbench.core.specs import parse_spec
from mirrorbench.runs.cells import Cell
from mirrorbench.runs.outcomes import Outcome
from mirrorbench.runs.requests import Request
from mirrorbench.runs.settings import Settings
from mirrorbench.runs.workspace import Workspace
from mirrorbench.workspace_functions import execute_plan, make_plan

LETTERS = Path(letters_plugin.__file__)


class Bench:
    """Runner of plans of ``letters`` and of tuned models under an executor, each in folders of its own.

    Args:
        folder: where those folders go.
        plugins: the process-wide ones, without ``letters``.
    """

    def __init__(self, folder: Path, plugins: Plugins) -> None:
        self.folder = folder
        self.plugins = plugins
        self.plugins.add_file(LETTERS)
        (folder / "mine.txt").write_text("".join(f"line number {n}\n" for n in range(12)))
        self.log = Log()

    def run(self, name: str, *encoders: str, executor: str = "local", **options: Any) -> Outcome:
        """Compute the tasks ``cats`` and ``dogs`` for some encoders and two seeds, into the folder ``name``."""
        self.log = Log()
        folders = (self.folder / name, self.folder / "data", self.folder / f"{name}-cache")
        workspace = Workspace(Settings(*folders, "cpu", offline=True), self.plugins, self.log)
        workspace.compute.executor = executor
        workspace.compute.options = options
        specs, corpus = tuple(map(parse_spec, encoders)), str(self.folder / "mine.txt")
        return execute_plan(
            workspace, make_plan(workspace, Request(specs, ("cats", "dogs"), (0, 1), corpus))
        )

    def planned(self, encoder: str, executor: str, device: str) -> tuple[str, dict[str, str]]:
        """Return the planned device and precisions of a cell of an encoder under an executor with options."""
        workspace, cell = self._planned_cell(encoder, executor, device)
        return workspace.context().settings.device, cell.to_json()["precision"]

    def model_key(self, encoder: str) -> str:
        """Return the key of an encoder's model, by which processes lease it."""
        _, cell = self._planned_cell(encoder, "local", "cpu")
        return cell.model.key

    def _planned_cell(self, encoder: str, executor: str, device: str) -> tuple[Workspace, Cell]:
        folders = (self.folder / "planned", self.folder / "data")
        workspace = Workspace(
            Settings(*folders, device=device, offline=True, executor=executor), self.plugins
        )
        request = Request((parse_spec(encoder),), ("cats",), (0,), str(self.folder / "mine.txt"))
        (cell,) = make_plan(workspace, request).cells
        return workspace, cell

    def stored(self, name: str) -> dict[str, bytes]:
        """Read the content of the folder ``name`` that must not depend on the executor: all but dates and costs."""
        return comparable_results.stored(self.folder / name)


@pytest.fixture
def bench(plugins: Plugins, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    """A ``Bench`` in the test's folder."""
    monkeypatch.setenv("LETTERS_FOLDER", str(tmp_path))
    return Bench(tmp_path, plugins)


@pytest.fixture
def interrupted(
    bench: Bench, command: Command, said: Said, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Callable[[], tuple[str, str]]]:
    """A function that presses Ctrl-C in a run under the executor of its arguments, and returns one that runs on.

    The run computes ``cats`` for ``letters`` and ``blocking``, and is interrupted when the first is stored and the
    second waits. It must end cleanly and say how to go on; begun again, it must keep the stored result and store the
    same as a run without an executor. The returned function runs on in this process, and returns the output of that run
    and of a run without an executor.
    """
    cells = ("run", "-t", "cats", "-e", "letters", "-e", "blocking", "--offline")
    first = bench.folder / "results" / "letters" / "cats" / "seed-0.json"

    def run(*executor: str) -> Callable[[], tuple[str, str]]:
        process = command(*cells, "--plugin", str(LETTERS), *executor)
        deadline = time.monotonic() + PATIENCE
        while not (bench.folder / "waiting").exists() or not first.exists():
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < deadline
            time.sleep(0.1)
        os.killpg(process.pid, signal.SIGINT)
        _, err = process.communicate(timeout=PATIENCE)
        assert process.returncode == 130, err
        assert "Traceback" not in err, err
        message = (
            "Interrupted. Results so far are in results; run the same command again to continue."
        )
        assert err.count(message) == 1, err
        kept = first.read_bytes()

        def go_on() -> tuple[str, str]:
            (bench.folder / "go").touch()
            _, out, err = said(*cells, *executor)
            assert "2 results in results, 1 of them from earlier runs" in err, err
            assert first.read_bytes() == kept
            monkeypatch.setenv("MIRRORBENCH_CACHE", str(bench.folder / "fresh"))
            _, expected, _ = said(*cells, "-o", "straight")
            assert bench.stored("results") == bench.stored("straight")
            return out, expected

        return go_on

    return run
