"""Plugins that use the workspace of their hook, as the first version documented it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from helpers.recording_reporter import Log
from helpers.toy_plugin import ToyEncoder, ToyPlugin, toy_tasks

from mirrorbench import Session, hookimpl
from mirrorbench.core.plugins import Plugins
from mirrorbench.plugin import (
    EncoderSpec,
    Outcome,
    Plan,
    Register,
    Request,
    TextInput,
    Workspace,
    execute_plan,
    expand_tasks,
    load_encoder,
    make_plan,
)
from mirrorbench.runs.plan import merged
from mirrorbench.storage.results import ResultStore
from mirrorbench.workspace_classes import EncoderLoader, Planner, Runner


class OldPlugin:
    """Registers a tool, tables, an analysis and a grid, which read everything from their workspace."""

    @hookimpl
    def register_tools(self, register: Register) -> None:
        register("described", described)

    @hookimpl
    def register_tables(self, register: Register) -> None:
        register("old", OldTables())

    @hookimpl
    def register_analyses(self, register: Register) -> None:
        register("lengths", lengths)

    @hookimpl
    def register_grids(self, register: Register) -> None:
        register("both", plan_both)


def described(workspace: Workspace) -> dict[str, Any]:
    return {
        "results": str(workspace.results.root),
        "data": str(workspace.data.root),
        "cache": str(workspace.cache.root),
        "offline": workspace.settings.offline,
        "devices": [str(workspace.torch_device), workspace.planned_device],
        "executor": workspace.executor,
        "context": workspace.context().settings.device,
    }


class OldTables:
    def __call__(self, plugins: Plugins) -> dict[str, Any]:
        return {}

    def run_paper(
        self, workspace: Workspace, table: str, encoder: str, seeds: int, protocol: str
    ) -> Outcome:
        plan = make_plan(workspace, Request((EncoderSpec(encoder),), (table,)))
        return execute_plan(workspace, plan)


def lengths(workspace: Workspace, encoder: str, task: str) -> dict[str, int]:
    plan = make_plan(workspace, Request((EncoderSpec(encoder),), (task,)))
    (cell,) = plan.cells
    loaded, _ = EncoderLoader(workspace, plan.systems).load(
        cell.model, cell.pooling, cell.precision, {}
    )
    again, _ = load_encoder(workspace, EncoderSpec(encoder))
    (outcome,) = Runner(workspace, plan.corpora).compute([(cell,)])
    assert outcome.computed
    items = workspace.plugins.tasks[task].load(workspace.data)
    workspace.reporter.note("looked")
    return {
        "items": len(items),
        "dimensions": loaded.encode([TextInput("a")]).shape[1],
        "again": again.encode([TextInput("a")]).shape[1],
    }


def plan_both(
    name: str,
    workspace: Workspace,
    backbones: Sequence[EncoderSpec],
    limit: int,
    fetch: bool,
    **given: Any,
) -> Plan:
    planner = Planner(workspace, fetch)
    tasks = expand_tasks(given["tasks"], workspace.plugins)
    return merged([planner.plan(Request((spec,), tasks, limit=limit)) for spec in backbones])


@pytest.fixture
def session(plugins: Plugins, tmp_path: Path) -> Session:
    plugins.add(ToyPlugin({"toy": ToyEncoder()}, toy_tasks()), "toys")
    plugins.add(OldPlugin(), "old")
    return Session(
        tmp_path / "results",
        data_dir=tmp_path / "data",
        cache=tmp_path / "cache",
        device="cpu",
        offline=True,
        plugins=plugins,
    )


def test_tool_reads_folders_and_devices(session: Session, tmp_path: Path) -> None:
    assert session.plugins.tools["described"](session.workspace) == {
        "results": str(tmp_path / "results"),
        "data": str(tmp_path / "data"),
        "cache": str(tmp_path / "cache"),
        "offline": True,
        "devices": ["cpu", "cpu"],
        "executor": "local",
        "context": "cpu",
    }


def test_tables_plan_and_execute(session: Session) -> None:
    tables = session.plugins.tables["old"]
    (result,) = tables.run_paper(session.workspace, "cats", "toy", 1, "paper").results
    assert result.task == "cats"


def test_analysis_loads_and_computes(session: Session) -> None:
    found = session.analyze("lengths", encoder="toy", task="cats")
    assert found["items"] > 0
    assert found["dimensions"] == found["again"]


def test_parts_of_a_workspace_can_be_replaced(session: Session, tmp_path: Path) -> None:
    session.workspace.results = ResultStore(tmp_path / "elsewhere")
    session.workspace.reporter = log = Log()
    session.run("toy", "cats")
    assert (tmp_path / "elsewhere" / "toy" / "cats" / "seed-0.json").is_file()
    assert log.lines


def test_grid_merges_plans_of_one_planner(session: Session) -> None:
    plan = session.plan(["toy"], ["cats", "dogs"], grid="both", fetch=False)
    assert [cell.task for cell in plan.cells] == ["cats", "dogs"]
    assert len(session.execute(plan).results) == 2
