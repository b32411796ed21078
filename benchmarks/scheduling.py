"""Cost of scheduling per cell: 2,000 trivial cells (400 groups of 5) under each installed executor.

    python benchmarks/scheduling.py [--cells 2000] [--executors local,local:workers=2,ray:workers=2,...]

Each executor computes them into an empty folder; the second number is a run that finds them all stored. A run includes
starting workers and importing torch there, so a run of one group is measured as well.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

from tabulate import tabulate
from trivial_cells import TASKS

from mirrorbench.core.specs import parse_spec
from mirrorbench.runs.plan import Plan
from mirrorbench.runs.registry import plugins
from mirrorbench.runs.requests import Request
from mirrorbench.runs.settings import Settings
from mirrorbench.runs.workspace import Workspace
from mirrorbench.workspace_functions import execute_plan, make_plan

EXECUTORS = "local,local:workers=2,ray:workers=2,slurm:cluster=debug,slurm:cluster=local;workers=2;groups=100"


def workspace(text: str, folder: Path) -> Workspace:
    """Return a workspace of an executor in a folder of its own."""
    folders = (folder / "results", folder / "data", folder / "cache")
    return Workspace(Settings(*folders, "cpu", offline=True, executor=text))


def plan_of(cells: int, folder: Path) -> Plan:
    """Plan groups of ``TASKS`` cells each."""
    specs = tuple(parse_spec(f"trivial:n={number}") for number in range(cells // TASKS))
    return make_plan(
        workspace("local", folder),
        Request(specs, tuple(f"trivial-{number}" for number in range(TASKS))),
    )


def seconds(plan: Plan, text: str, folder: Path) -> float:
    """Measure the seconds of an executor for a plan."""
    space = workspace(text, folder)
    started = time.perf_counter()
    outcome = execute_plan(space, plan)
    assert (len(outcome.results), outcome.failures) == (len(plan.cells), ())
    return time.perf_counter() - started


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--cells", type=int, default=2000)
    parser.add_argument(
        "--executors", default=EXECUTORS, help="comma-separated; ';' stands for ',' within one"
    )
    arguments = parser.parse_args()
    plugins().add_file(Path(__file__).with_name("trivial_cells.py"))
    rows = []
    for text in (part.replace(";", ",") for part in arguments.executors.split(",")):
        if text.partition(":")[0] not in plugins().executors:
            print(f"{text}: not installed")
            continue
        with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as many:
            start = seconds(plan_of(TASKS, Path(one)), text, Path(one))
            plan = plan_of(arguments.cells, Path(many))
            whole = seconds(plan, text, Path(many))
            again = seconds(plan, text, Path(many))
        per_cell = 1000 * (whole - start) / (len(plan.cells) - TASKS)
        rows.append(
            (
                text,
                len(plan.cells),
                len(plan.groups),
                start,
                whole,
                per_cell,
                1000 * again / len(plan.cells),
            )
        )
    heads = (
        "executor",
        "cells",
        "groups",
        "one group, s",
        "all, s",
        "ms per cell",
        "stored: ms per cell",
    )
    print(tabulate(rows, headers=heads, tablefmt="github", floatfmt=".2f"))


if __name__ == "__main__":
    main()
