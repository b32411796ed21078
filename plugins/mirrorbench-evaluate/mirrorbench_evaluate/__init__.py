"""Tasks of a user's own data, which are told by the names of files and columns (``mirrorbench_evaluate.layouts``)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mirrorbench.plugin import Register, hookimpl

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from mirrorbench.plugin import Task


@hookimpl
def register_readers(register: Register) -> None:
    """Files and folders of one of the layouts."""
    register("own-data", read_own, "BEIR folders; tables of pairs, triplets, labelled texts, names and mentions")


@hookimpl
def register_metrics(register: Register) -> None:
    """The main scores, under the names that MTEB gives them."""
    from mirrorbench.plugin import spearman

    register("cosine_spearman", spearman, "Spearman's correlation of the cosine")
    register("cosine_ap", average_precision, "average precision of the cosine")
    register("ndcg_at_10", mean, "normalised discounted cumulative gain at 10, mean over queries")


def read_own(name: str, path: Path, options: Mapping[str, Any]) -> Task | None:
    """The task of a path; ``None`` where no layout has its names of files or columns.

    Raises:
        UsageError: an unknown option or kind, or columns that are near a layout and are not of it.
    """
    from mirrorbench_evaluate.tasks import task_of

    return task_of(name, path, options)


def mean(scores: Any, gold: Any) -> float:
    """The mean of the values of items."""
    return float(scores.mean())


def average_precision(scores: Any, gold: Any) -> float | None:
    """Average precision of scores against labels of 1 and 0; ``None`` where only one label occurs."""
    from sklearn.metrics import average_precision_score

    return float(average_precision_score(gold, scores)) if 0 < sum(gold) < len(gold) else None
