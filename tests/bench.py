"""A bench for runners: everything around one, in one folder."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from harness.log import Log

from mirrorbench.core.plugins import Plugins
from mirrorbench.core.specs import parse_spec
from mirrorbench.data.store import DataStore
from mirrorbench.runs.cache import Cache
from mirrorbench.runs.outcomes import Outcome
from mirrorbench.runs.plan import Plan, Planner, Request
from mirrorbench.runs.results import ResultStore
from mirrorbench.runs.runner import Runner


class Bench:
    """Everything around a runner, in one temporary folder; each run is a new process, as far as that goes."""

    def __init__(self, folder: Path, plugins: Plugins) -> None:
        self.plugins = plugins
        self.data = DataStore(folder / "data", offline=True)
        self.results = ResultStore(folder / "results")
        self.cache = Cache(folder / "cache")
        self.corpus = folder / "corpus.txt"
        self.corpus.write_text("".join(f"line number {n}\n" for n in range(30)))

    def plan(self, *encoders: str, tasks: Sequence[str] = ("cats", "dogs"), seeds: int = 1) -> Plan:
        request = Request(tuple(map(parse_spec, encoders)), tuple(tasks), tuple(range(seeds)), str(self.corpus))
        return Planner(request, self.plugins, self.data, offline=True).plan()

    def run(self, *encoders: str, log: Log | None = None, **options: Any) -> Outcome:
        device = torch.device("cpu")
        runner = Runner(self.plugins, self.data, self.results, self.cache, device, offline=True, reporter=log or Log())
        return runner.run(self.plan(*encoders, **options))
