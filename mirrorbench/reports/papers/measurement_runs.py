"""Tables with the results of a workspace, and the runs that measure their missing cells."""

from __future__ import annotations

from mirrorbench.core.errors import UsageError
from mirrorbench.core.specs import EncoderSpec, parse_spec
from mirrorbench.reports.papers.measured_tables import Content, measured_table
from mirrorbench.reports.papers.table_files import FactTable, PaperTable, find_table, paper_tables
from mirrorbench.reports.papers.targets import AskedAnalysis
from mirrorbench.runs.outcomes import Outcome
from mirrorbench.runs.plan import Request
from mirrorbench.runs.results import read_results
from mirrorbench.runs.run import execute_plan, make_plan
from mirrorbench.runs.workspace import Workspace


def measure_table(
    workspace: Workspace, name: str, encoder: str, seeds: int, protocol: str
) -> Outcome:
    """Measure the cells of a table, scores and analyses, that are not stored yet."""
    table, backbone = find_table(name, workspace.plugins), parse_spec(encoder) if encoder else None
    if isinstance(table, FactTable):
        raise UsageError(
            f"{name} has no cell that a run could measure", f"mirrorbench paper {name} shows it."
        )
    requests, analyses = (
        paper_requests(table, seeds, protocol, backbone),
        paper_analyses(table, backbone),
    )
    if not requests and not analyses:
        raise UsageError(
            f"{name} has no cell that a run could measure", f"mirrorbench paper {name} says why."
        )
    outcomes = [execute_plan(workspace, make_plan(workspace, *requests))] if requests else []
    for analysis, specs in analyses:
        registered = workspace.plugins.analyses[analysis.name]
        outcomes.append(registered.measure(workspace, analysis, specs, seeds, protocol))
    return Outcome(
        tuple(result for outcome in outcomes for result in outcome.results),
        tuple(failure for outcome in outcomes for failure in outcome.failures),
        sum(outcome.computed for outcome in outcomes),
    )


def paper_requests(
    table: PaperTable, seeds: int, protocol: str = "paper", backbone: EncoderSpec | None = None
) -> list[Request]:
    """Return requests for exactly the measurable cells of tasks; another ``backbone`` leaves encoder systems out."""
    tasks: dict[EncoderSpec, dict[str, None]] = {}
    for target in table.targets(backbone).values():
        if not target.analysis and (backbone is None or target.spec.method):
            tasks.setdefault(target.spec, {}).update(dict.fromkeys(target.tasks))
    by_tasks: dict[tuple[str, ...], list[EncoderSpec]] = {}
    for spec, names in tasks.items():
        by_tasks.setdefault(tuple(names), []).append(spec)
    return [
        Request(tuple(specs), names, tuple(range(seeds)), "", protocol)
        for names, specs in by_tasks.items()
    ]


def paper_analyses(
    table: PaperTable, backbone: EncoderSpec | None = None
) -> list[tuple[AskedAnalysis, list[EncoderSpec]]]:
    """Return the analyses of a table, each once, with the encoders to analyse."""
    analyses: dict[str, tuple[AskedAnalysis, dict[EncoderSpec, None]]] = {}
    for target in table.targets(backbone).values():
        if target.analysis and (backbone is None or target.spec.method):
            _, specs = analyses.setdefault(target.analysis.task_name, (target.analysis, {}))
            specs[target.spec] = None
    return [(analysis, list(specs)) for analysis, specs in analyses.values()]


def measured_tables(
    workspace: Workspace, paper: str, encoder: str, protocol: str
) -> dict[str, Content]:
    """Return all tables and figures by name, or those of one paper, with the results of a workspace."""
    backbone, store = parse_spec(encoder) if encoder else None, workspace.results
    results = [
        result
        for root in (store.root, store.analyses.root)
        if root.is_dir()
        for result in read_results(root)
    ]
    return {
        name: table
        if isinstance(table, FactTable)
        else measured_table(table, results, protocol, backbone)
        for name, table in paper_tables(workspace.plugins).items()
        if paper in ("", name, name.partition("/")[0])
    }
