"""A grid of toys and a tiny transformer that can be killed: run in forked processes, which start in no time.

The fork server imports this module first, so that every child has torch and transformers loaded.
"""

from __future__ import annotations

import os
import socket
import time
from pathlib import Path
from typing import Any

import scipy.stats  # noqa: F401  (loaded here so that no child has to)
import torch
from toys import ToyEncoder, ToyPlugin, toy_tasks
from transformers.models.bert import modeling_bert  # noqa: F401
from transformers.models.bert.tokenization_bert import BertTokenizer  # noqa: F401

from mirrorbench.core import locks as leases
from mirrorbench.core.plugins import Plugins
from mirrorbench.data.store import DataStore
from mirrorbench.runs.builtin import load_plugins
from mirrorbench.runs.cache import Cache
from mirrorbench.runs.cells import Cell
from mirrorbench.runs.grids import plan_grid, read_grid
from mirrorbench.runs.plan import Plan
from mirrorbench.runs.results import ResultStore
from mirrorbench.runs.runner import Runner

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


class _Logged(Runner):
    """Writes down each cell that it scores, and when."""

    log: Path

    def _score(self, cell: Cell, *rest: Any) -> Any:
        line = f"{cell.id} {time.time_ns()}\n"
        handle = os.open(self.log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(handle, line.encode())
        os.close(handle)
        return super()._score(cell, *rest)


def write_grid(folder: Path, model: Path) -> None:
    folder.mkdir(parents=True)
    corpus = folder.parent / "corpus.txt"
    corpus.write_text("".join(f"line number {n}\n" for n in range(20)))
    (folder / "grid.yaml").write_text(GRID.format(corpus=corpus, model=model))


def plugins() -> Plugins:
    registered = load_plugins(discover=False)
    registered.add(ToyPlugin({"toy": ToyEncoder()}, toy_tasks()), "toys")
    return registered


def plan(folder: Path) -> Plan:
    registered = plugins()
    data = DataStore(folder / "data", offline=True)
    return plan_grid(read_grid(folder / "grid.yaml", registered), registered, data, offline=True)


def run_grid(folder: Path, host: str = "") -> None:
    """What a killed process was doing: everything in ``folder``, as the command line would.

    With a ``host`` it passes for a process of a machine of that name, and leases end after ``LEASE_SECONDS``.
    """
    if host:
        socket.gethostname = lambda: host
        leases.LEASE_SECONDS = LEASE_SECONDS
    torch.set_num_threads(1)
    os.environ["MIRRORBENCH_CACHE"] = str(folder / "cache")
    results, data = ResultStore(folder / "results"), DataStore(folder / "data", offline=True)
    runner = _Logged(plugins(), data, results, Cache(), torch.device("cpu"), offline=True)
    runner.log = folder / "scored"
    outcome = runner.run(plan(folder))
    if outcome.failures:
        (folder / "failures").write_text(repr(outcome.failures))
        raise SystemExit(1)
