"""Tasks of a user's own data, recognised by the names of files and columns (``mirrorbench.own_data.layouts``)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mirrorbench.core.hooks import Register, hookimpl

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from mirrorbench.tasks.base import Task


@hookimpl
def register_readers(register: Register) -> None:
    """Register the reader of files and folders in one of the layouts."""
    register(
        "own-data",
        read_own,
        "BEIR folders; tables of pairs, triplets, labelled texts, names and mentions",
    )


@hookimpl
def register_metrics(register: Register) -> None:
    """Register the measures of own data."""
    from mirrorbench.own_data.measures import RETRIEVAL_MEASURES, average_precision, macro_f1
    from mirrorbench.tasks.metrics import mean, spearman
    from mirrorbench.tasks.v_measure import v_measure

    register("cosine_spearman", spearman, "Spearman's correlation of the cosine")
    register("cosine_ap", average_precision, "average precision of the cosine")
    register("macro_f1", macro_f1, "mean over labels of F1")
    register("v_measure", v_measure, "V-measure of clusters, mean over clusterings")
    for name in RETRIEVAL_MEASURES:
        register(name, mean, f"{name.replace('_', ' ')}, mean over queries")


def read_own(name: str, path: Path, options: Mapping[str, Any]) -> Task | None:
    """Return the task of a path; ``None`` if it holds no tables.

    Raises:
        UsageError: an unknown option or kind, or columns that match no layout.
    """
    from mirrorbench.own_data.task_files import make_task

    return make_task(name, path, options)
