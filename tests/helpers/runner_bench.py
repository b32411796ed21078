"""A bench for runners: everything around one, in one folder."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from helpers.recording_reporter import Log
from mirrorbench.core.plugins import Plugins
from mirrorbench.core.specs import parse_spec
from mirrorbench.runs.outcomes import Outcome
from mirrorbench.runs.plan import Plan
from mirrorbench.runs.requests import Request
from mirrorbench.runs.settings import Settings
from mirrorbench.runs.workspace import Workspace
from mirrorbench.storage.cache import Cache
from mirrorbench.storage.results import ResultStore
from mirrorbench.workspace_functions import execute_plan, make_plan


class Bench:
    """A workspace in one temporary folder; each run is a new process, as far as that goes."""

    def __init__(self, folder: Path, plugins: Plugins) -> None:
        self.folder, self.plugins = folder, plugins
        self.results, self.cache = ResultStore(folder / "results"), Cache(folder / "cache")
        self.corpus = folder / "corpus.txt"
        self.corpus.write_text("".join(f"line number {n}\n" for n in range(30)))

    def workspace(self, log: Log | None = None) -> Workspace:
        settings = Settings(
            self.results.root, self.folder / "data", self.cache.root, "cpu", offline=True
        )
        return Workspace(settings, self.plugins, log or Log())

    def plan(
        self,
        *encoders: str,
        tasks: Sequence[str] = ("cats", "dogs"),
        seeds: int = 1,
        protocol: str = "paper",
    ) -> Plan:
        specs = tuple(map(parse_spec, encoders))
        return make_plan(
            self.workspace(),
            Request(specs, tuple(tasks), tuple(range(seeds)), str(self.corpus), protocol),
        )

    def run(self, *encoders: str, log: Log | None = None, **options: Any) -> Outcome:
        return execute_plan(self.workspace(log), self.plan(*encoders, **options))
