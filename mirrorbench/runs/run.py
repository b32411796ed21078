"""What a run does: make a plan, and execute it; and its parts alone: load an encoder, compare a corpus with tasks."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import closing
from pathlib import Path

from mirrorbench.core.encoder_protocol import Encoder
from mirrorbench.core.errors import MirrorbenchError, unknown_name
from mirrorbench.core.plugins import Plugins
from mirrorbench.core.specs import LEVELS, EncoderSpec
from mirrorbench.data.corpora import (
    Contamination,
    GeneratedCorpus,
    check_corpus,
    find_contamination,
    read_corpus,
)
from mirrorbench.data.store import DataStore
from mirrorbench.runs.cells import Cell, CellGroup
from mirrorbench.runs.compute import Compute
from mirrorbench.runs.encoder_loading import EncoderLoader, opening_notes
from mirrorbench.runs.executors import Job
from mirrorbench.runs.folders import Folders
from mirrorbench.runs.ladder import expand_ladder
from mirrorbench.runs.outcomes import CellOutcome, Failure, Outcome, Reporter
from mirrorbench.runs.plan import Plan, merged
from mirrorbench.runs.planning import PlanMaker
from mirrorbench.runs.registry import expand_tasks
from mirrorbench.runs.requests import Purpose, Request
from mirrorbench.runs.worker_context import WorkerContext
from mirrorbench.storage.results import Predictions, Result


def make_plan(
    requests: Sequence[Request],
    plugins: Plugins,
    folders: Folders,
    compute: Compute,
    reporter: Reporter,
    fetch: bool = True,
) -> Plan:
    """Make one plan for all requests; without ``fetch`` missing data are not downloaded."""
    maker = PlanMaker(plugins, folders, compute, reporter, fetch)
    return merged([maker.plan(request) for request in requests])


def load_encoder(
    spec: EncoderSpec,
    level: str,
    plugins: Plugins,
    folders: Folders,
    compute: Compute,
    reporter: Reporter,
) -> tuple[Encoder, EncoderSpec]:
    """Load an encoder; return it and the spec of its row. A tuned one comes from the cache, or is tuned with seed 0.

    A bare backbone is read by mean pooling, at level ``wic`` at the target word, a directory of ``mirrorbench
    tune`` as its files say.
    """
    if level not in LEVELS:
        raise unknown_name("level", level, list(LEVELS))
    maker = PlanMaker(plugins, folders, compute, reporter)
    # This also checks the keys.
    ladder = expand_ladder(spec, level, plugins, files=maker.examiner.files)
    spec = ladder[0] if len(ladder) == 1 or level == "wic" else spec.with_method("base")
    request = Request((spec,), ())
    model, pooling = maker.models(request, spec, Purpose(level))[0]
    loader = EncoderLoader(plugins, folders, compute, reporter, maker.examiner.systems)
    encoder, _ = loader.load_transformed(
        model, pooling, compute.precisions["encoding"], maker.corpora.strings
    )
    tuned_now = model.corpus is not None and model.key not in loader.from_cache
    of_encoder = () if tuned_now else getattr(encoder, "notes", ())  # its tuning said them
    for note in (*opening_notes(model, pooling), *(f"{spec}: {note}" for note in of_encoder)):
        reporter.note(note)
    return encoder, spec


def corpus_overlap(
    corpus: str | Path | GeneratedCorpus,
    tasks: Sequence[str],
    plugins: Plugins,
    store: DataStore,
    reporter: Reporter,
) -> dict[str, Contamination | MirrorbenchError | None]:
    """Count test items with texts that occur in a corpus or a text file, by task.

    A task that names no texts has ``None``, a task that cannot be read its error.
    """
    if isinstance(corpus, str):
        check_corpus(corpus, plugins.corpora)
    cards = plugins.corpora.by_name()
    strings = read_corpus(corpus, store, cards, note=reporter.note).texts
    overlaps: dict[str, Contamination | MirrorbenchError | None] = {}
    for name in expand_tasks(tasks, plugins):
        task = plugins.tasks[name]
        try:
            task.fetch(store)
            overlaps[name] = find_contamination(task.texts(task.load(store)), strings)
        except MirrorbenchError as error:
            overlaps[name] = error
    return overlaps


def execute_plan(
    plan: Plan, plugins: Plugins, folders: Folders, compute: Compute, reporter: Reporter
) -> Outcome:
    """Compute the cells of a plan that are not stored yet, with the executor."""
    done: dict[Cell, Result] = {}  # not by id: specs with the same meaning have rows of their own
    failures = list(plan.failures)
    predictions: dict[str, Predictions] = {}
    computed = 0
    reporter.begin(len(plan.cells))
    for failure in failures:
        reporter.failure(failure)
    # Closing ends the executor's workers now, not at garbage collection.
    with closing(_outcomes(plan, plugins, folders, compute, reporter)) as outcomes:
        for item in outcomes:
            if isinstance(item.outcome, Failure):
                failures.append(item.outcome)
                reporter.failure(item.outcome)
            else:
                done[item.cell] = item.outcome
                computed += item.computed
                if item.predictions is not None:
                    predictions[item.cell.id] = item.predictions
                reporter.cell(item.cell, item.outcome.main_score, cached=not item.computed)
    results = tuple(done[cell] for cell in plan.cells if cell in done)
    return Outcome(results, tuple(failures), computed, predictions)


def _outcomes(
    plan: Plan, plugins: Plugins, folders: Folders, compute: Compute, reporter: Reporter
) -> Generator[CellOutcome, None, None]:
    """Outcomes of stored cells, then those that the executor yields."""
    groups: list[CellGroup] = []
    for cells in plan.groups.values():
        pending = []
        for cell in cells:
            if stored := folders.results.find(cell):
                yield CellOutcome(cell, folders.results.restore(cell, stored), computed=False)
            else:
                pending.append(cell)
        if pending:
            groups.append(tuple(pending))
    if groups:
        wanted = {ref for cells in groups for cell in cells for ref in cell.model.corpora}
        corpora = {ref: corpus for ref, corpus in plan.corpora.items() if ref in wanted}
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
        yield from plugins.executors[compute.executor].execute(job)
