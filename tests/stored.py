"""Results as a run would have stored them, made by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from mirrorbench.runs.results import Result


def stored(
    spec: str,
    task: str,
    score: float | None,
    seed: int = 0,
    protocol: str = "paper",
    metric: str = "spearman",
    **more: Any,
) -> Result:
    """A result; ``more`` are fields of ``Result``."""
    cell = {
        "spec": spec,
        "task": task,
        "seed": seed,
        "protocol": protocol,
        "precision": {"encoding": "fp32"},
        "corpus": None,
    }
    fields = {
        "cell_id": f"{spec}/{task}/{seed}/{protocol}", "data": {"version": 1, "files": {"file": task}},
        "encoder": {"weights": f"weights of {spec}"}, "environment": {}, "created": "2026-01-01",
        "metrics": {metric: score, "pearson": 0.25},
    }  # fmt: skip
    return Result(cell, main_metric=metric, main_score=score, n_items=9, coverage=1.0, seconds={}, **{**fields, **more})


def write(folder: Path, *results: Result) -> Path:
    """Puts results where a run would."""
    for result in results:
        path = folder / result.spec.replace(":", "_") / result.task / f"seed-{result.seed}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(result.to_json()))
    return folder
