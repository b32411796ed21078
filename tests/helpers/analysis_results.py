"""Made-up results in the form that a run stores."""

from __future__ import annotations

from typing import Any

from mirrorbench.core.specs import parse_spec
from mirrorbench.storage.results import Result


def result(
    spec: str, score: float | None, task: str = "cats", seed: int = 0, **recipe: Any
) -> Result:
    """A result of a spec; ``n``, ``corpus``, ``protocol`` and ``augment`` are as in a cell, the rest is the recipe."""
    n, corpus, protocol = (
        recipe.pop("n", 1000),
        recipe.pop("corpus", "words-en"),
        recipe.pop("protocol", "paper"),
    )
    tuned = parse_spec(spec).method not in ("", "base")
    cell = {
        "spec": spec,
        "task": task,
        "seed": seed,
        "protocol": protocol,
        "recipe": {"augment": recipe.pop("augment", {}), "lr": 2e-5, **recipe} if tuned else None,
        "corpus": {"name": corpus, "sha256": "0", "n": n} if tuned else None,
    }
    return Result(
        cell,
        f"{spec} {task} {seed}",
        {"spearman": score},
        "spearman",
        score,
        4,
        1.0,
        {},
        {},
        {},
        {},
        "",
    )
