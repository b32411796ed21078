"""Result files as a run would leave them, with scores that a test chooses."""

from __future__ import annotations

import json
from pathlib import Path

from mirrorbench.core.specs import parse_spec
from mirrorbench.runs.results import Result, slug


def result(
    spec: str, task: str, score: float | None, seed: int = 0, *, metric: str = "spearman", protocol: str = "paper",
    corpus: str = "abc", created: str = "2021-11-07T00:00:00+00:00",
) -> Result:  # fmt: skip
    tuned = parse_spec(spec).method in ("mirror", "mirrorwic")
    cell = {
        "spec": spec, "task": task, "seed": seed, "protocol": protocol, "level": "sentence",
        "recipe": {"lr": 2e-5} if tuned else None,
        "corpus": {"name": "words", "sha256": corpus, "n": 10} if tuned else None,
        "precision": {"tuning": "fp32" if tuned else None, "encoding": "fp32"},
    }  # fmt: skip
    data = {"version": 1, "files": {"a": "b"}}
    return Result(
        cell, f"{spec} {task} {seed} {protocol}", {metric: score}, metric, score, 10, 1.0, {}, data, {}, {}, created
    )


def store(folder: Path, *results: Result) -> None:
    for one in results:
        path = folder / slug(parse_spec(one.spec), one.protocol) / one.task / f"seed-{one.seed}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(one.to_json()))
