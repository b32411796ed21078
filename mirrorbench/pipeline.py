"""One run, from the names that a user typed to the table, in the order of its steps.

``spec -> plan -> train -> encode -> score -> store -> leaderboard``. Each step calls one module. The workers of an
executor train, encode, score and store, one group of cells after the other: ``runs.runner``.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import closing, nullcontext
from typing import TYPE_CHECKING, Any

from mirrorbench.core.errors import MirrorbenchError, PluginError
from mirrorbench.core.foreign_errors import defined_at
from mirrorbench.core.specs import EncoderSpec, as_several, as_spec, as_texts
from mirrorbench.models.encoder_systems import NamedEncoder
from mirrorbench.reports.comparable import stored_results
from mirrorbench.reports.leaderboard import Leaderboard, build_table
from mirrorbench.reports.selection import spec_of_label, with_statistics
from mirrorbench.runs.executors import Job
from mirrorbench.runs.outcomes import CellOutcome, Failure, Outcome, failed
from mirrorbench.runs.plan import merged
from mirrorbench.runs.planning import PlanMaker
from mirrorbench.runs.registry import expand_tasks
from mirrorbench.runs.requests import Request
from mirrorbench.runs.worker_context import WorkerContext

if TYPE_CHECKING:
    from pathlib import Path

    from mirrorbench.core.plugins import Plugins
    from mirrorbench.runs.cells import Cell, CellGroup, CorpusRef
    from mirrorbench.runs.compute import Compute
    from mirrorbench.runs.folders import Folders
    from mirrorbench.runs.outcomes import Reporter
    from mirrorbench.runs.plan import Plan
    from mirrorbench.storage.results import Predictions, Result, ResultStore


def encoders_of(encoders: Any, plugins: Plugins, results: Path) -> dict[EncoderSpec, str]:
    """Return the specs that encoders stand for, each with the text that the user wrote, empty for a spec or an object.

    Names that are not registered are looked up among the labels of the rows stored in ``results``. The spec of an
    object is only its name.
    """
    specs: dict[EncoderSpec, str] = {}
    for encoder in as_several(encoders):
        if isinstance(encoder, EncoderSpec):
            specs.setdefault(encoder, "")
        elif isinstance(encoder, NamedEncoder):
            specs.setdefault(encoder.spec, "")
        else:
            (text,) = as_texts(encoder)
            specs.setdefault(as_spec(spec_of_label(text, results, plugins)), text)
    return specs


def make_request(
    encoders: Any, tasks: Iterable[str], plugins: Plugins, results: Path, **options: Any
) -> Request:
    """Return a request for encoders, by default ``tiny``, on tasks, by default ``quick``.

    ``options`` are further fields of the ``Request``.
    """
    texts_of_specs = encoders_of(encoders, plugins, results)
    if not texts_of_specs:
        texts_of_specs = {EncoderSpec("tiny"): ""}
    columns = expand_tasks(list(tasks) or ["quick"], plugins)
    return Request(tuple(texts_of_specs), columns, names=texts_of_specs, **options)


def make_plan(
    requests: Sequence[Request],
    plugins: Plugins,
    folders: Folders,
    compute: Compute,
    reporter: Reporter,
    fetch: bool = True,
) -> Plan:
    """Plan the cells of all requests; without ``fetch`` missing data are not downloaded."""
    maker = PlanMaker(plugins, folders, compute, reporter, fetch)
    return merged([maker.plan(request) for request in requests])


def run(
    plan: Plan, plugins: Plugins, folders: Folders, compute: Compute, reporter: Reporter
) -> Leaderboard:
    """Compute the cells of a plan that are not stored yet, and build the table."""
    outcome = execute_plan(plan, plugins, folders, compute, reporter)
    return leaderboard_of(plan, outcome, plugins, folders.results)


def execute_plan(
    plan: Plan, plugins: Plugins, folders: Folders, compute: Compute, reporter: Reporter
) -> Outcome:
    """Compute the cells of a plan that are not stored yet, with the executor."""
    reporter.begin(len(plan.cells))
    for failure in plan.failures:
        reporter.failure(failure)
    stored = find_stored(plan, folders.results, reporter)
    groups = groups_without(stored, plan)
    # Outcomes come one by one: each is stored and reported before the next cell begins.
    outcomes = compute_groups(groups, plan, plugins, folders, compute, reporter)
    return collect(plan, stored, outcomes, reporter)


def find_stored(plan: Plan, results: ResultStore, reporter: Reporter) -> dict[Cell, Result]:
    """Return the stored results of a plan's cells; report them, and make each the current result of its path."""
    # By cell, not by id: specs with the same meaning have rows of their own.
    stored: dict[Cell, Result] = {}
    for cells in plan.groups.values():
        for cell in cells:
            result = results.find(cell)
            if result:
                stored[cell] = results.restore(cell, result)
                reporter.cell(cell, stored[cell].main_score, cached=True)
    return stored


def groups_without(stored: Mapping[Cell, Result], plan: Plan) -> list[CellGroup]:
    """Return the cells of a plan that are not stored, in groups that share their model."""
    groups = []
    for cells in plan.groups.values():
        pending = tuple(cell for cell in cells if cell not in stored)
        if pending:
            groups.append(pending)
    return groups


def compute_groups(
    groups: Sequence[CellGroup],
    plan: Plan,
    plugins: Plugins,
    folders: Folders,
    compute: Compute,
    reporter: Reporter,
) -> Generator[CellOutcome, None, None]:
    """Hand groups to the executor, whose workers train, encode, score and store; yield outcomes as they come."""
    if not groups:
        return
    # Workers get only the corpora of these groups, not all of the plan's.
    refs: set[CorpusRef] = set()
    for cells in groups:
        for cell in cells:
            refs.update(cell.model.corpora)
    corpora = {ref: corpus for ref, corpus in plan.corpora.items() if ref in refs}
    job = Job(
        tuple(groups),
        corpora,
        WorkerContext.of(plugins, folders, compute),
        compute.options,
        reporter,
        plugins,
        folders,
        compute,
        plan.systems,
    )
    execute = plugins.executors[compute.executor].execute
    name = f"the executor {compute.executor!r}{defined_at(execute)}"
    waiting = dict.fromkeys(cell for cells in groups for cell in cells)
    try:
        cell_outcomes = execute(job)
        # Closing a generator ends its workers when the caller stops early.
        is_generator = isinstance(cell_outcomes, Generator)
        with closing(cell_outcomes) if is_generator else nullcontext():
            for cell_outcome in cell_outcomes:
                waiting.pop(cell_outcome.cell, None)
                yield cell_outcome
    except MirrorbenchError:
        raise
    except Exception as error:  # an executor of a plugin may raise anything
        yield from failed(waiting, error)
        return
    # An executor that stops early leaves cells without outcome.
    hint = "It must yield a CellOutcome for every cell of its job."
    yield from failed(waiting, PluginError(f"{name} returned no outcome", hint))


def collect(
    plan: Plan,
    stored: Mapping[Cell, Result],
    outcomes: Generator[CellOutcome, None, None],
    reporter: Reporter,
) -> Outcome:
    """Report the outcomes of cells as they are computed; return all results in the plan's order, and the failures."""
    results_by_cell = dict(stored)
    failures = list(plan.failures)
    predictions: dict[str, Predictions] = {}
    n_computed = 0
    # Closing ends the executor's workers now, not at garbage collection.
    with closing(outcomes):
        for cell_outcome in outcomes:
            cell = cell_outcome.cell
            result = cell_outcome.outcome
            if isinstance(result, Failure):
                failures.append(result)
                reporter.failure(result)
                continue
            results_by_cell[cell] = result
            # An outcome that was not computed is a result that another run stored meanwhile.
            if cell_outcome.computed:
                n_computed += 1
            if cell_outcome.predictions is not None:
                predictions[cell.id] = cell_outcome.predictions
            reporter.cell(cell, result.main_score, cached=not cell_outcome.computed)
    results = tuple(results_by_cell[cell] for cell in plan.cells if cell in results_by_cell)
    return Outcome(results, tuple(failures), n_computed, predictions)


def leaderboard_of(
    plan: Plan, outcome: Outcome, plugins: Plugins, results: ResultStore
) -> Leaderboard:
    """Build the table of a run, with a verdict on each step of its ladders."""
    table = build_table(
        outcome.results,
        plugins,
        plan.tasks,
        plan.rows,
        outcome.failures,
        plan.title,
        plan.names,
    )
    if len(plan.rows) > 1:
        table = with_statistics(table, stored_results(outcome, plan, results), plugins)
    return Leaderboard(table, outcome.results, outcome.failures, plugins)
