"""Analyses for the papers' tables: one encoder and seed at a time, stored as results beside those of the tasks."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import numpy as np

from mirrorbench.analysis import ANALYSES, STUDY_OPTIONS, analyses
from mirrorbench.analysis.study import Study, described
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
    """Analyse encoders under each seed, untuned ones once; stored results are not computed again."""
    results, failures, computed = [], dict[Failure, None](), 0
    studies = [
        Study(
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
        for spec in specs
        for seed in range(seeds)
    ]
    cells = [
        (study, cell) for study in studies for cell in study.plan.cells if cell.seed == study.seed
    ]
    failures |= dict.fromkeys(failure for study in studies for failure in study.failures)
    reporter.begin(len(cells))
    for study, cell in cells:
        try:
            result, stored = _measured(study, cell, asked)
        except Exception as error:  # of a plugin too; the other encoders go on
            failures[Failure.of(error, cell.spec, asked.task_name, cell.seed)] = None
            reporter.failure(Failure.of(error, cell.spec, asked.task_name, cell.seed))
            continue
        failures |= dict.fromkeys(study.failures)
        if result:
            results.append(result)
            computed += not stored
            reporter.cell(replace(cell, task=asked.task_name), result.main_score, cached=stored)
    return Outcome(tuple(results), tuple(failures), computed)


def _measured(study: Study, cell: Cell, asked: Any) -> tuple[Result | None, bool]:
    """The result of one encoder (``None`` if it failed), and whether it was stored before."""
    options = {**ANALYSES[asked.name], **asked.options}
    given = {name: value for name, value in options.items() if name not in STUDY_OPTIONS}
    cell = replace(cell, task=asked.task_name, data=(*cell.data, *_identity(study, given)))
    store = study.folders.results.analyses
    if stored := store.find(cell):
        return store.restore(cell, stored), True
    started = time.perf_counter()
    for values in analyses.run_analysis(study, asked.name, given).values.values():
        result = _result(cell, values, asked.value, time.perf_counter() - started, study.compute)
        return store.write(cell, result, _NO_ITEMS), False
    return None, False


def _identity(study: Study, given: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """The options, and a checksum of the texts, as part of a result's identity."""
    options = tuple(
        (f"option {name}", str(value)) for name, value in given.items() if name != "texts"
    )
    inputs: Sequence[TextInput] = ()
    if "word" in given:
        inputs = analyses.sense_examples(study, given["word"], given["texts"]).inputs
    elif "texts" in given:
        inputs = study.texts(given["texts"])[0]
    return (*options, ("texts", described("", inputs)["sha256"]))


def _result(
    cell: Cell, values: Mapping[str, float | None], main: str, seconds: float, compute: Compute
) -> Result:
    metrics = {
        name: None if value is None else float(value)
        for name, value in values.items()
        if name != "n"
    }
    pooling = cell.pooling
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
        encoder={"weights": cell.model.weights, "revision": cell.spec.revision}
        | (pooling.to_json() if pooling else {}),
        environment=describe_environment(compute.device),
        created=datetime.now(UTC).isoformat(timespec="seconds"),
    )
