"""Workspaces whose cells are computed on other machines, and their plans."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from helpers.executor_bench import Bench
from mirrorbench import hookimpl
from mirrorbench.core.devices import worker_device
from mirrorbench.core.specs import Value, parse_spec
from mirrorbench.runs.plan import Plan
from mirrorbench.runs.requests import Request
from mirrorbench.runs.settings import Settings
from mirrorbench.runs.workspace import Workspace
from mirrorbench.workspace_functions import make_plan


@pytest.fixture
def elsewhere(bench: Bench) -> Callable[..., Workspace]:
    """Workspaces under an executor whose workers are on other machines: ``elsewhere(options, **settings)``."""

    class Plugin:
        @hookimpl
        def register_executors(self, register: Callable[..., None]) -> None:
            def device(asked: str, options: Mapping[str, Value]) -> str:
                return worker_device(asked, options.get("gpus"))

            register("elsewhere", lambda job: iter(()), device=device)

    bench.plugins.add(Plugin(), "elsewhere")
    return lambda options="", **settings: Workspace(
        Settings(
            bench.folder / "there",
            bench.folder / "data",
            bench.folder / "cache",
            offline=True,
            executor=f"elsewhere:{options}".rstrip(":"),
            **settings,
        ),
        bench.plugins,
    )


def planned(workspace: Workspace, bench: Bench) -> Plan:
    """The plan of a tuned encoder and an encoder system on the task ``cats``."""
    specs = (parse_spec("tiny+mirror:batch_size=6"), parse_spec("letters"))
    return make_plan(workspace, Request(specs, ("cats",), (0,), str(bench.folder / "mine.txt")))
