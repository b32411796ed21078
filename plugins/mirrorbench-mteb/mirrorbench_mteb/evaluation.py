"""Evaluation of a task by MTEB itself, into its result file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mirrorbench.plugin import DataUnavailableError
from mirrorbench_mteb.model import MirrorbenchModel
from mirrorbench_mteb.tasks import load_data


@dataclass(frozen=True)
class Evaluated:
    """The outcome of MTEB's evaluation of a task.

    Attributes:
        scores: split, subset and main score of each subset.
        failure: why there are no scores; empty if there are.
    """

    scores: tuple[tuple[str, str, float], ...] = ()
    failure: str = ""


def evaluate(model: MirrorbenchModel, task: Any, folder: Path, offline: bool = False) -> Evaluated:
    """Run MTEB's own evaluation of a task, and store its result file; an error is returned as ``failure``.

    Args:
        model: the encoder.
        task: a task object of MTEB; aggregates of other tasks load their own data.
        folder: the folder of ``results/``; results of the same weights in it are not computed again.
        offline: open no socket for the data.
    """
    import mteb
    from mteb.cache import ResultCache

    cache = ResultCache(folder)
    # Load the data first, unless a stored result or the parts of an aggregate make that needless: data that cannot be
    # loaded are the failure of this task only.
    stored = cache.load_task_result(task.metadata.name, model.mteb_model_meta)
    if stored is None and not task.is_aggregate:
        try:
            load_data(task, offline)
        except DataUnavailableError as error:
            return Evaluated(failure=str(error))
    evaluation = mteb.evaluate(
        model,
        task,
        cache=cache,
        raise_error=False,
        show_progress_bar=False,
        co2_tracker=False,
        num_proc=None,
    )
    if evaluation.exceptions:
        return Evaluated(failure="; ".join(error.exception for error in evaluation.exceptions))
    scores = []
    for result in evaluation.task_results:
        for split, rows in result.scores.items():
            for row in rows:
                scores.append((split, row["hf_subset"], float(row["main_score"])))
    return Evaluated(tuple(scores))
