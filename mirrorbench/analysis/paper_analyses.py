"""Analyses for the papers' tables: one encoder and seed at a time, stored as results beside those of the tasks."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import numpy as np

from mirrorbench.analysis import ANALYSES, STUDY_OPTIONS, analyses
from mirrorbench.analysis.study import Study, describe_inputs
from mirrorbench.core.encoder_protocol import TextInput
from mirrorbench.core.plugins import Plugins
from mirrorbench.core.specs import EncoderSpec
from mirrorbench.runs.cells import Cell
from mirrorbench.runs.compute import Compute
from mirrorbench.runs.environment import describe_environment
from mirrorbench.runs.folders import Folders
from mirrorbench.runs.outcomes import Failure, Outcome, Reporter
from mirrorbench.storage.results import Predictions, Result

_NO_ITEMS: Predictions = {name: np.empty(0) for name in ("ids", "scores", "gold")}
"""The predictions of an analysis, which scores no items."""


def measure(
    asked: Any,
    specs: Sequence[EncoderSpec],
    seeds: int,
    protocol: str,
    plugins: Plugins,
    folders: Folders,
    compute: Compute,
    reporter: Reporter,
) -> Outcome:
    """Analyse encoders under each seed (untuned ones once), and return all results and failures.

    Stored results are not computed again. ``asked`` is a ``papers.targets.AskedAnalysis``.
    """
    # A study with several cells reports its failures after each: a dictionary keeps each failure once.
    failures: dict[Failure, None] = {}
    cells = []
    for spec in specs:
        for seed in range(seeds):
            study = Study(
                plugins,
                folders,
                compute,
                reporter,
                (spec,),
                asked.task,
                asked.corpus,
                seed,
                protocol,
            )
            # An untuned encoder has seed 0 in every study, so only the first study measures it.
            cells += [(study, cell) for cell in study.plan.cells if cell.seed == seed]
            # The failures of planning, which is done; the analysis below adds others.
            failures |= dict.fromkeys(study.failures)
    reporter.begin(len(cells))
    results = []
    computed = 0
    for study, cell in cells:
        try:
            result, was_stored = _measure_cell(study, cell, asked)
        # A plugin may raise anything; the other encoders are still analysed.
        except Exception as error:
            failure = Failure.of(error, cell.spec, asked.task_name, cell.seed)
            failures[failure] = None
            reporter.failure(failure)
            continue
        failures |= dict.fromkeys(study.failures)
        # The encoder failed; the reason is among the failures of the study.
        if result is None:
            continue
        results.append(result)
        if not was_stored:
            computed += 1
        reporter.cell(replace(cell, task=asked.task_name), result.main_score, cached=was_stored)
    return Outcome(tuple(results), tuple(failures), computed)


def _measure_cell(study: Study, cell: Cell, asked: Any) -> tuple[Result | None, bool]:
    """Return the result of one encoder (``None`` if the encoder failed), and whether it was stored before."""
    all_options = {**ANALYSES[asked.name], **asked.options}
    # The study was made with the options in ``STUDY_OPTIONS``; the analysis gets the others.
    options = {name: value for name, value in all_options.items() if name not in STUDY_OPTIONS}
    # The result is stored under the name of the analysis instead of a task's. Its options and texts belong to its data,
    # so a result of other ones is not taken for it.
    identity = _identity(study, options)
    cell = replace(cell, task=asked.task_name, data=(*cell.data, *identity))
    store = study.folders.results.analyses
    stored = store.find(cell)
    if stored:
        return store.restore(cell, stored), True
    started = time.perf_counter()
    analysis = analyses.run_analysis(study, asked.name, options)
    seconds = time.perf_counter() - started
    if not analysis.values:
        return None, False
    # The study has a single encoder, so these are its values.
    values = next(iter(analysis.values.values()))
    result = _result(cell, values, asked.value, seconds, study.compute)
    return store.write(cell, result, _NO_ITEMS), False


def _identity(study: Study, options: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """Return the options, with a checksum in place of the texts, as part of a result's identity."""
    identity = [
        (f"option {name}", str(value)) for name, value in options.items() if name != "texts"
    ]
    inputs: Sequence[TextInput] = ()
    if "word" in options:
        inputs = analyses.sense_examples(study, options["word"], options["texts"]).inputs
    elif "texts" in options:
        inputs, _ = study.texts(options["texts"])
    checksum = describe_inputs("", inputs)["sha256"]
    return (*identity, ("texts", checksum))


def _result(
    cell: Cell, values: Mapping[str, float | None], main: str, seconds: float, compute: Compute
) -> Result:
    """Make the result of an analysis, with the value named ``main`` as its main score, and ``n`` as number of items."""
    metrics: dict[str, float | None] = {}
    for name, value in values.items():
        if name != "n":
            metrics[name] = None if value is None else float(value)
    encoder: dict[str, Any] = {
        "weights": cell.model.weights_fingerprint,
        "revision": cell.spec.revision,
    }
    if cell.pooling:
        encoder |= cell.pooling.to_json()
    return Result(
        cell=cell.to_json(),
        cell_id=cell.id,
        metrics=metrics,
        main_metric=main,
        main_score=metrics[main],
        n_items=int(values["n"] or 0),
        coverage=1.0,
        seconds={"analyse": round(seconds, 4)},
        data={"version": cell.task_version, "files": dict(cell.data)},
        encoder=encoder,
        environment=describe_environment(compute.device),
        created=datetime.now(UTC).isoformat(timespec="seconds"),
    )
