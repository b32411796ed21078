"""Tables with the results of a workspace, and the runs that measure what is missing in one."""

from __future__ import annotations

from mirrorbench.plugin import (
    EncoderSpec,
    Outcome,
    Request,
    UsageError,
    Workspace,
    execute_plan,
    make_plan,
    parse_spec,
    read_results,
)
from mirrorbench_papers.measured import Content, measured_table
from mirrorbench_papers.tables import FactTable, PaperTable, find_table, paper_tables
from mirrorbench_papers.targets import AskedAnalysis


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
    outcomes += [known[analysis.kind].measure(workspace, analysis, specs, seeds, protocol) for analysis, specs in asked]
    return Outcome(
        tuple(result for outcome in outcomes for result in outcome.results),
        tuple(failure for outcome in outcomes for failure in outcome.failures),
        sum(outcome.computed for outcome in outcomes),
    )


def paper_requests(
    table: PaperTable, seeds: int, protocol: str = "paper", backbone: EncoderSpec | None = None
) -> list[Request]:
    """Requests for exactly the measurable cells of tasks; on another ``backbone`` without encoder systems."""
    tasks: dict[EncoderSpec, dict[str, None]] = {}
    for target in table.targets(backbone).values():
        if not target.analysis and (backbone is None or target.spec.method):
            tasks.setdefault(target.spec, {}).update(dict.fromkeys(target.tasks))
    by_tasks: dict[tuple[str, ...], list[EncoderSpec]] = {}
    for spec, names in tasks.items():
        by_tasks.setdefault(tuple(names), []).append(spec)
    return [Request(tuple(specs), names, tuple(range(seeds)), "", protocol) for names, specs in by_tasks.items()]


def paper_analyses(
    table: PaperTable, backbone: EncoderSpec | None = None
) -> list[tuple[AskedAnalysis, list[EncoderSpec]]]:
    """The analyses of a table, each once, and the encoders that they are asked of."""
    analyses: dict[str, tuple[AskedAnalysis, dict[EncoderSpec, None]]] = {}
    for target in table.targets(backbone).values():
        if target.analysis and (backbone is None or target.spec.method):
            _, specs = analyses.setdefault(target.analysis.name, (target.analysis, {}))
            specs[target.spec] = None
    return [(asked, list(specs)) for asked, specs in analyses.values()]


def measured_tables(workspace: Workspace, paper: str, encoder: str, protocol: str) -> dict[str, Content]:
    """All tables and figures by name, or those of one paper, with the results of a workspace."""
    backbone, store = parse_spec(encoder) if encoder else None, workspace.results
    results = [result for root in (store.root, store.analyses.root) if root.is_dir() for result in read_results(root)]
    return {
        name: table if isinstance(table, FactTable) else measured_table(table, results, protocol, backbone)
        for name, table in paper_tables(workspace.plugins).items()
        if paper in ("", name, name.partition("/")[0])
    }
