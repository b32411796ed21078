"""A grid of toys and a tiny transformer that can be killed: run in forked processes, which start in no time.

The fork server imports this module first, so that every child has torch and transformers loaded.
"""

from __future__ import annotations

import os
import signal
import socket
import time
from pathlib import Path
from typing import Any

import scipy.stats  # noqa: F401  (loaded here so that no child has to)
import torch
from transformers.models.bert import modeling_bert  # noqa: F401
from transformers.models.bert.tokenization_bert import BertTokenizer  # noqa: F401

import mirrorbench
from helpers.toy_plugin import ToyEncoder, ToyPlugin, toy_tasks
from helpers.workspace_parts import parts
from mirrorbench.core.plugins import Plugins
from mirrorbench.runs.cells import Cell
from mirrorbench.runs.grids import plan_grid, read_grid
from mirrorbench.runs.plan import Plan
from mirrorbench.runs.registry import load_plugins
from mirrorbench.runs.runner import Runner
from mirrorbench.runs.settings import Settings
from mirrorbench.runs.workspace import Workspace
from mirrorbench.storage import leases
from mirrorbench.training import checkpoints
from mirrorbench.workspace_functions import execute_plan

LEASE_SECONDS = 4.0

GRID = """
tasks: [cats, dogs]
corpus: {corpus}
blocks:
  - encoders: [toy, "{model}+base"]
  - encoders: "{model}+mirror:batch_size=10"
    sweep: {{dropout: [0, 0.1, 0.2]}}
    seeds: 2
"""


def _log_scored_cells(log: Path) -> None:
    """Let runners write down each cell that they score, and when."""
    score = Runner._score

    def logged(self: Runner, cell: Cell, *rest: Any) -> Any:
        handle = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(handle, f"{cell.id} {time.time_ns()}\n".encode())
        os.close(handle)
        return score(self, cell, *rest)

    Runner._score = logged  # type: ignore[method-assign]


def write_grid(folder: Path, model: Path) -> None:
    folder.mkdir(parents=True)
    corpus = folder.parent / "corpus.txt"
    corpus.write_text("".join(f"line number {n}\n" for n in range(20)))
    (folder / "grid.yaml").write_text(GRID.format(corpus=corpus, model=model))


def plugins() -> Plugins:
    registered = load_plugins(discover=False)
    registered.add(ToyPlugin({"toy": ToyEncoder()}, toy_tasks()), "toys")
    return registered


def workspace(folder: Path) -> Workspace:
    return Workspace(
        Settings(folder / "results", folder / "data", folder / "cache", "cpu", offline=True),
        plugins(),
    )


def plan(folder: Path) -> Plan:
    place = workspace(folder)
    return plan_grid(read_grid(folder / "grid.yaml", place.plugins), *parts(place))


def tune(folder: Path, model: Path, point: str) -> None:
    """Tune to ``folder / "enc"`` with seed 1, and die at a point of the replacing of what is there."""
    torch.set_num_threads(1)
    target, rename = folder / "enc", os.replace

    def replace(source: Any, into: Any) -> None:
        first, second = Path(source) == target, Path(into) == target
        if first and point == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        rename(source, into)
        if (first and point == "between") or (second and point == "after"):
            os.kill(os.getpid(), signal.SIGKILL)

    os.replace = replace
    lines = [f"line number {n}" for n in range(20)]
    mirrorbench.tune(lines, model, target, held_out=0, seed=1, device="cpu", force=True)


def tune_on_the_way(folder: Path, model: Path) -> None:
    """Tune to ``folder / "enc"`` with seed 1 and the cache in ``folder``, with a checkpoint after each step."""
    torch.set_num_threads(1)
    os.environ["MIRRORBENCH_CACHE"] = str(folder / "cache")
    checkpoints.INTERVAL, checkpoints.SHARE = 0, float("inf")
    lines = [f"line number {n}" for n in range(40)]
    spec = f"{model}+mirror:batch_size=8,epochs=3"
    mirrorbench.tune(lines, spec, folder / "enc", held_out=8, seed=1, device="cpu", force=True)


def run_grid(folder: Path, host: str = "") -> None:
    """What a killed process was doing: everything in ``folder``, as the command line would.

    With a ``host`` it passes for a process of a machine of that name, and leases end after ``LEASE_SECONDS``.
    """
    if host:
        socket.gethostname = lambda: host
        leases.LEASE_SECONDS = LEASE_SECONDS
    torch.set_num_threads(1)
    _log_scored_cells(folder / "scored")
    outcome = execute_plan(workspace(folder), plan(folder))
    if outcome.failures:
        (folder / "failures").write_text(repr(outcome.failures))
        raise SystemExit(1)
