"""Scoring a task whose main metric may be a registered one, of which the task itself knows nothing."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from mirrorbench.core.registry import Registry
from mirrorbench.tasks import Scores, Task, Vectors


def score(task: Task, items: Any, vectors: Vectors, protocol: str, metrics: Registry[Any]) -> Scores:
    """What a task makes of the vectors; its main metric is there for certain.

    Args:
        task: the task.
        items: what ``task.load`` returned.
        vectors: of everything in ``task.inputs(items)``.
        protocol: ``paper`` or ``released``.
        metrics: the registered ones (hook ``register_metrics``). A main metric that the task does not compute is the
            one of its name, of all the items' scores and references.

    Raises:
        UnknownNameError: neither the task nor a plugin has that metric.
    """
    scores = task.score(items, vectors, protocol)
    name = task.main_metric
    if name in scores.metrics:
        return scores
    return replace(scores, metrics={**scores.metrics, name: metrics[name](scores.scores, scores.gold)})
