"""Tables with stored results, and the runs that measure their missing cells."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mirrorbench.core.errors import UsageError
from mirrorbench.core.plugins import Plugins
from mirrorbench.core.specs import EncoderSpec, parse_spec
from mirrorbench.papers.measured_tables import Content, measured_table
from mirrorbench.papers.table_files import FactTable, PaperTable, find_table, paper_tables
from mirrorbench.papers.targets import AskedAnalysis, Target
from mirrorbench.pipeline import execute_plan, make_plan
from mirrorbench.runs.compute import Compute
from mirrorbench.runs.folders import Folders
from mirrorbench.runs.outcomes import Failure, Outcome, Reporter
from mirrorbench.runs.requests import Request
from mirrorbench.storage.results import Result, ResultStore, read_results


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
    """Measure the cells of a table, scores and analyses, that are not stored yet; return all its results and failures.

    ``analyse`` is called with each analysis and its encoders; it analyses them and stores the results.

    Raises:
        UsageError: no cell of the table can be measured.
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
    for analysis, specs in analyses:
        outcomes.append(analyse(analysis, specs))
    # Join the outcomes.
    results: list[Result] = []
    failures: list[Failure] = []
    computed = 0
    for outcome in outcomes:
        results += outcome.results
        failures += outcome.failures
        computed += outcome.computed
    return Outcome(tuple(results), tuple(failures), computed)


def paper_requests(
    table: PaperTable, seeds: int, protocol: str = "paper", backbone: EncoderSpec | None = None
) -> list[Request]:
    """Return requests for exactly those cells of a table that are scores on tasks and can be measured.

    On another ``backbone``, encoder systems are left out.
    """
    # A dictionary with values of None is an ordered set.
    tasks_by_spec: dict[EncoderSpec, dict[str, None]] = {}
    for target in table.targets(backbone).values():
        if not target.analysis and _should_measure(target, backbone):
            tasks = tasks_by_spec.setdefault(target.spec, {})
            tasks.update(dict.fromkeys(target.tasks))
    # Encoders with the same tasks share a request.
    specs_by_tasks: dict[tuple[str, ...], list[EncoderSpec]] = {}
    for spec, tasks in tasks_by_spec.items():
        specs_by_tasks.setdefault(tuple(tasks), []).append(spec)
    return [
        Request(tuple(specs), task_names, tuple(range(seeds)), "", protocol)
        for task_names, specs in specs_by_tasks.items()
    ]


def _should_measure(target: Target, backbone: EncoderSpec | None) -> bool:
    """Test whether to measure a target; on another ``backbone``, encoder systems are not measured."""
    return backbone is None or bool(target.spec.method)


def paper_analyses(
    table: PaperTable, backbone: EncoderSpec | None = None
) -> list[tuple[AskedAnalysis, list[EncoderSpec]]]:
    """Return the analyses of a table, each once, with the encoders to analyse."""
    analyses: dict[str, tuple[AskedAnalysis, dict[EncoderSpec, None]]] = {}
    for target in table.targets(backbone).values():
        if target.analysis and _should_measure(target, backbone):
            _, specs = analyses.setdefault(target.analysis.task_name, (target.analysis, {}))
            specs[target.spec] = None
    return [(analysis, list(specs)) for analysis, specs in analyses.values()]


def measured_tables(
    paper: str, encoder: str, protocol: str, plugins: Plugins, store: ResultStore
) -> dict[str, Content]:
    """Return tables and figures with stored results, by name: all, those of one paper, or one by its name."""
    backbone = parse_spec(encoder) if encoder else None
    results: list[Result] = []
    for root in (store.root, store.analyses.root):
        if root.is_dir():
            results += read_results(root)
    contents: dict[str, Content] = {}
    for name, table in paper_tables(plugins).items():
        paper_of_table = name.partition("/")[0]
        if paper not in ("", name, paper_of_table):
            continue
        if isinstance(table, FactTable):
            contents[name] = table
        else:
            contents[name] = measured_table(table, results, protocol, backbone)
    return contents
