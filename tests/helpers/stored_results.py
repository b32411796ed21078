"""Results as a run would have stored them, made by hand, with predictions where a test needs them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mirrorbench.core.identity import COMPUTATION
from mirrorbench.core.specs import parse_spec
from mirrorbench.reports.comparable import Stored
from mirrorbench.storage.results import Result
from mirrorbench.tasks.metrics import spearman

Floats = NDArray[np.float64]


def stored(
    spec: str,
    task: str,
    score: float | None,
    seed: int = 0,
    protocol: str = "paper",
    metric: str = "spearman",
    *,
    corpus: str = "",
    corpus_size: int = 10,
    precision: str = "fp32",
    files: str = "",
    version: int = 1,
    computation: int | None = COMPUTATION,
    **more: Any,
) -> Result:
    """A result; ``files`` and ``version`` are those of the data, ``more`` are fields of ``Result``."""
    tuned = parse_spec(spec).method in ("mirror", "mirrorwic")
    cell = {
        "spec": spec,
        "task": task,
        "seed": seed,
        "protocol": protocol,
        "level": "sentence",
        "method": "",
        "recipe": {"lr": 2e-5, "epochs": 1, "augment": {}} if tuned else None,
        "precision": {"encoding": precision},
        "corpus": {"name": corpus, "sha256": f"hash of {corpus}", "n": corpus_size}
        if corpus
        else None,
        "computation": computation,
    }
    fields = {
        "cell_id": f"{spec}/{task}/{seed}/{protocol}{files}",
        "encoder": {"weights": f"weights of {spec}"},
        "data": {"version": version, "files": {"f": files or task}},
        "metrics": {metric: score, "pearson": 0.25},
        "environment": {},
        "created": "2026-01-01T00:00:00+00:00",
    }
    return Result(
        cell,
        main_metric=metric,
        main_score=score,
        n_items=9,
        coverage=1.0,
        seconds={},
        **{**fields, **more},
    )


def write(folder: Path, *results: Result) -> Path:
    """Put results where a run would."""
    for result in results:
        path = path_of(folder, result)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(result.to_json()))
    return folder


def path_of(folder: Path, result: Result) -> Path:
    return (
        folder
        / parse_spec(result.spec).folder_name(result.protocol)
        / result.task
        / f"seed-{result.seed}.json"
    )


def with_predictions(folder: Path, result: Result, **arrays: NDArray[Any]) -> Stored:
    """Write a result and its predictions."""
    path = path_of(write(folder, result), result)
    np.savez_compressed(path.with_suffix(".npz"), **arrays)
    return Stored(result, path)


def correlated(
    folder: Path,
    spec: str,
    task: str,
    gold: Floats,
    scores: Floats,
    seed: int = 0,
    overlap: NDArray[np.int8] | None = None,
    ids: list[str] | None = None,
    **more: Any,
) -> Stored:
    """A stored result whose score is Spearman's correlation."""
    arrays = {
        "ids": np.array(ids or [f"i{n}" for n in range(len(gold))]),
        "scores": scores,
        "gold": gold,
    }
    arrays |= {} if overlap is None else {"overlap": overlap}
    return with_predictions(
        folder, stored(spec, task, spearman(scores, gold), seed, **more), **arrays
    )
