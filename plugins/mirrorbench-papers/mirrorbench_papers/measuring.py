"""Runs what a table of the papers still lacks: scores of tasks, and analyses where a plugin brings them."""

from __future__ import annotations

from mirrorbench.plugin import (
    Outcome,
    UsageError,
    Workspace,
    execute_plan,
    make_plan,
    parse_spec,
)
from mirrorbench_papers.measured import paper_analyses, paper_requests
from mirrorbench_papers.tables import FactTable, find_table


def measure_table(
    workspace: Workspace, name: str, encoder: str, seeds: int, protocol: str
) -> Outcome:  # fmt: skip
    """Measure the cells of a table of the papers that are not stored yet, scores of tasks and analyses."""
    table, backbone = find_table(name, workspace.plugins), parse_spec(encoder) if encoder else None
    if isinstance(table, FactTable):
        raise UsageError(f"{name} has no cell that a run could measure", f"mirrorbench paper {name} shows it.")
    wanted, asked = paper_requests(table, seeds, protocol, backbone), paper_analyses(table, backbone)
    if not wanted and not asked:
        raise UsageError(f"{name} has no cell that a run could measure", f"mirrorbench paper {name} says why.")
    outcomes = [execute_plan(workspace, make_plan(workspace, *wanted))] if wanted else []
    known = workspace.plugins.analyses
    outcomes += [known[one.kind].measure(workspace, one, specs, seeds, protocol) for one, specs in asked]
    return Outcome(
        tuple(result for one in outcomes for result in one.results),
        tuple(failure for one in outcomes for failure in one.failures),
        sum(one.computed for one in outcomes),
    )
