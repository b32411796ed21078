"""Tables with stored results, and the runs that measure their missing cells."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mirrorbench.core.errors import UsageError
from mirrorbench.core.plugins import Plugins
from mirrorbench.core.specs import EncoderSpec, parse_spec
from mirrorbench.papers.measured_tables import Content, measured_table
from mirrorbench.papers.table_files import FactTable, PaperTable, find_table, paper_tables
from mirrorbench.papers.targets import AskedAnalysis
from mirrorbench.pipeline import execute_plan, make_plan
from mirrorbench.runs.compute import Compute
from mirrorbench.runs.folders import Folders
from mirrorbench.runs.outcomes import Outcome, Reporter
from mirrorbench.runs.requests import Request
from mirrorbench.storage.results import ResultStore, read_results


def measure_table(
    name: str,
    encoder: str,
    seeds: int,
    protocol: str,
    analyse: Callable[[AskedAnalysis, Sequence[EncoderSpec]], Outcome],
    plugins: Plugins,
    folders: Folders,
    compute: Compute,
    reporter: Reporter,
) -> Outcome:
    """Measure the cells of a table, scores and analyses, that are not stored yet.

    ``analyse`` makes an analysis of some encoders, and stores it.
    """
    table = find_table(name, plugins)
    backbone = parse_spec(encoder) if encoder else None
    if isinstance(table, FactTable):
        raise UsageError(
            f"{name} has no cell that a run could measure", f"mirrorbench paper {name} shows it."
        )
    requests = paper_requests(table, seeds, protocol, backbone)
    analyses = paper_analyses(table, backbone)
    if not requests and not analyses:
        raise UsageError(
            f"{name} has no cell that a run could measure", f"mirrorbench paper {name} says why."
        )
    outcomes = []
    if requests:
        plan = make_plan(requests, plugins, folders, compute, reporter)
        outcomes.append(execute_plan(plan, plugins, folders, compute, reporter))
    outcomes += [analyse(analysis, specs) for analysis, specs in analyses]
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
    paper: str, encoder: str, protocol: str, plugins: Plugins, store: ResultStore
) -> dict[str, Content]:
    """Return all tables and figures by name, or those of one paper, with stored results."""
    backbone = parse_spec(encoder) if encoder else None
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
        for name, table in paper_tables(plugins).items()
        if paper in ("", name, name.partition("/")[0])
    }
