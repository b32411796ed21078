"""Results with predictions, made up from known numbers, and stored as a run stores them."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mirrorbench.core.specs import parse_spec
from mirrorbench.reports.selection import Stored
from mirrorbench.runs.results import Result, slug
from mirrorbench.tasks.metrics import spearman

Floats = NDArray[np.float64]


def made(
    spec: str, task: str, score: float | None, seed: int = 0, metric: str = "spearman", protocol: str = "paper",
    files: str = "1", version: int = 1, corpus: str = "",
) -> Result:  # fmt: skip
    """A result without predictions."""
    cell: dict[str, Any] = {
        "spec": spec, "task": task, "seed": seed, "protocol": protocol, "level": "sentence", "method": "",
        "precision": {"encoding": "fp32"}, "corpus": {"name": corpus, "n": 3} if corpus else None,
    }  # fmt: skip
    identity = hashlib.sha256(repr((cell, files, version)).encode()).hexdigest()
    return Result(
        cell, identity, {metric: score}, metric, score, 0, 1.0, {}, {"version": version, "files": {"f": files}},
        {}, {}, "2026-01-01T00:00:00+00:00",
    )  # fmt: skip


def store(folder: Path, result: Result, arrays: dict[str, NDArray[Any]]) -> Stored:
    """Write a result and its predictions."""
    path = folder / slug(parse_spec(result.spec), result.protocol) / result.task / f"seed-{result.seed}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(path.with_suffix(".npz"), **arrays)
    path.write_text(json.dumps(result.to_json()))
    return Stored(result, path)


def correlated(
    folder: Path, spec: str, task: str, gold: Floats, scores: Floats, seed: int = 0,
    overlap: NDArray[np.int8] | None = None, ids: list[str] | None = None, **more: Any,
) -> Stored:  # fmt: skip
    """A stored result whose score is Spearman's correlation."""
    names = ids or [f"i{n}" for n in range(len(gold))]
    arrays: dict[str, NDArray[Any]] = {"ids": np.array(names), "scores": scores, "gold": gold}
    if overlap is not None:
        arrays["overlap"] = overlap
    return store(folder, made(spec, task, spearman(scores, gold), seed, **more), arrays)
