"""The steps of a run, one by one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from helpers.recording_reporter import Log
from helpers.runner_bench import Bench
from helpers.toy_plugin import ToyEncoder, ToyPlugin
from helpers.workspace_parts import parts

from mirrorbench import hookimpl, pipeline
from mirrorbench.core.hooks import Register
from mirrorbench.core.plugins import Plugins
from mirrorbench.core.specs import EncoderSpec
from mirrorbench.models.encoder_systems import NamedEncoder
from mirrorbench.runs.compute import Compute
from mirrorbench.runs.executors import Job
from mirrorbench.runs.outcomes import CellOutcome, failed
from mirrorbench.runs.settings import Settings


@pytest.fixture
def bench(plugins: Plugins, toy: ToyEncoder, tmp_path: Path) -> Bench:
    """The toy tasks and encoders; nothing is stored yet."""
    plugins.add(ToyPlugin({"other": ToyEncoder("letters-2")}), "other")
    return Bench(tmp_path, plugins)


def test_names_of_specs_objects_and_rows_become_encoders(bench: Bench) -> None:
    named = NamedEncoder("mine", ToyEncoder())
    found = pipeline.encoders_of(
        ["tiny", EncoderSpec("toy"), named], bench.plugins, bench.results.root
    )
    assert {str(spec): text for spec, text in found.items()} == {
        "tiny": "tiny",
        "toy": "",
        "mine": "",
    }
    request = pipeline.make_request([], [], bench.plugins, bench.results.root, limit=3)
    assert (list(map(str, request.encoders)), request.limit) == (["tiny"], 3)
    assert "quick-sts" in request.tasks


def test_stored_cells_are_left_out_of_the_groups(bench: Bench) -> None:
    bench.run("toy", tasks=("cats",))
    plan = bench.plan("toy", "other", tasks=("cats", "dogs"))
    log = Log()
    plugins, folders, compute, reporter = parts(bench.workspace(log))
    stored = pipeline.find_stored(plan, folders.results, reporter)
    assert [(str(cell.spec), cell.task) for cell in stored] == [("toy", "cats")]
    groups = pipeline.groups_without(stored, plan)
    assert [[(str(cell.spec), cell.task) for cell in cells] for cells in groups] == [
        [("toy", "dogs")],
        [("other", "cats"), ("other", "dogs")],
    ]
    computed = pipeline.compute_groups(groups, plan, plugins, folders, compute, reporter)
    outcome = pipeline.collect(plan, stored, computed, reporter)
    assert [(result.spec, result.task) for result in outcome.results] == [
        (str(cell.spec), cell.task) for cell in plan.cells
    ]
    assert outcome.computed == len(outcome.predictions) == 3
    board = pipeline.leaderboard_of(plan, outcome, plugins, folders.results)
    assert [row.label for row in board.table.rows] == ["toy", "other"]
    assert (
        pipeline.groups_without(pipeline.find_stored(plan, folders.results, reporter), plan) == []
    )


def test_an_executor_ends_when_its_caller_stops(bench: Bench) -> None:
    """At once, not when nothing refers to it any more."""
    held: list[Iterator[CellOutcome]] = []
    ended: list[bool] = []

    def outcomes(job: Job) -> Iterator[CellOutcome]:
        try:
            yield from failed(job.groups[0], ValueError("first"))
            yield from failed(job.groups[1], ValueError("second"))
        finally:
            ended.append(True)

    def execute(job: Job) -> Iterator[CellOutcome]:
        held.append(outcomes(job))
        return held[0]

    class Plugin:
        @hookimpl
        def register_executors(self, register: Register) -> None:
            register("stopping", execute)

    bench.plugins.add(Plugin(), "stopping")
    plan = bench.plan("toy", "other", tasks=("cats",))
    plugins, folders, _, reporter = parts(bench.workspace(Log()))
    compute = Compute(Settings(executor="stopping"), plugins)
    groups = pipeline.groups_without({}, plan)
    computed = pipeline.compute_groups(groups, plan, plugins, folders, compute, reporter)
    next(computed)
    computed.close()
    assert ended == [True]
