"""MTEB's STS and pair-classification tasks as mirrorbench tasks: MTEB's data, mirrorbench's encoding and scoring."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from mirrorbench.plugin import (
    DataFormatError,
    DataStore,
    DataUnavailableError,
    Pair,
    PairClassification,
    PairSimilarity,
    Scores,
    Task,
    UsageError,
    Vectors,
    unknown_name,
)
from mirrorbench_mteb.catalogue import Entry, entries


class _FromMteb:
    """A mixin that reads MTEB's data; it precedes the task's class in the list of bases.

    Args:
        entry: the entry of the catalogue.
        source: returns MTEB's task object.
    """

    def __init__(self, entry: Entry, source: Callable[[], Any]) -> None:
        super().__init__(  # type: ignore[call-arg]
            name=entry.name,
            items=self._read,
            title=entry.name.removeprefix("mteb-"),
            languages=entry.languages,
        )
        self.entry = entry
        self._source = source
        self._pairs: list[Pair] | None = None

    def fetch(self, data: DataStore) -> None:
        """Load the data from the cache of the datasets library or, if permitted, from the hub."""
        self._read(data)

    def identity(self, data: DataStore) -> dict[str, str]:
        """Return the dataset and the revision that the installed mteb pins, without reading it."""
        dataset = self._source().metadata.dataset
        parts = [dataset["path"], dataset.get("name"), self.entry.subset, self.entry.split]
        path = "/".join(part for part in parts if part)
        return {f"hf:{path}": str(dataset["revision"])}

    def _read(self, data: DataStore) -> list[Pair]:
        if self._pairs is None:
            task = self._source()
            rows = _rows(task, self.entry, data.offline)
            left, right, labels = self._columns(task, rows)
            self._pairs = list(_pairs(self.entry, left, right, labels))
        return self._pairs

    @abstractmethod
    def _columns(self, task: Any, rows: Any) -> tuple[Sequence[Any], Sequence[Any], Sequence[Any]]:
        """Return the left texts, the right texts and the judgements in a task's rows."""


class MtebSimilarity(_FromMteb, PairSimilarity):
    """An STS task. Metrics: ``spearman`` and ``pearson``, MTEB's ``cosine_spearman`` and ``cosine_pearson``."""

    def _columns(self, task: Any, rows: Any) -> tuple[Sequence[Any], Sequence[Any], Sequence[Any]]:
        left, right = task.column_names
        return rows[left], rows[right], rows["score"]


class MtebClassification(_FromMteb, PairClassification):
    """A pair-classification task. Metrics: ``ap``, MTEB's ``cosine_ap``, and ``auc``, as of mirrorbench's own tasks."""

    def __init__(self, entry: Entry, source: Callable[[], Any]) -> None:
        super().__init__(entry, source)
        self.main_metric = "ap"

    def _columns(self, task: Any, rows: Any) -> tuple[Sequence[Any], Sequence[Any], Sequence[Any]]:
        # An older data set has a single row, with a list in each column.
        table = rows[0] if len(rows) == 1 else rows
        left = table[task.input1_column_name]
        right = table[task.input2_column_name]
        return left, right, table[task.label_column_name]

    def score(self, items: Sequence[Pair], vectors: Vectors, protocol: str = "paper") -> Scores:
        """Compute the metrics of a pair classification, and the average precision."""
        from dataclasses import replace

        from sklearn.metrics import average_precision_score

        scores = super().score(items, vectors, protocol)
        average = float(average_precision_score(scores.gold.astype(np.int64), scores.scores))
        return replace(scores, metrics={"ap": average, **scores.metrics})


_TASK_CLASSES: dict[str, Callable[[Entry, Callable[[], Any]], Task]] = {
    "STS": MtebSimilarity,
    "PairClassification": MtebClassification,
}


def from_entry(entry: Entry) -> Task:
    """Make the task of an entry of the catalogue; mteb is imported when its data are read."""

    def source() -> Any:
        return get_task(entry.task, entry.subset)

    return _TASK_CLASSES[entry.type](entry, source)


def from_mteb(task: Any) -> list[Task]:
    """Convert a task of MTEB, which need not be in the catalogue, to tasks of mirrorbench, one for each subset.

    Args:
        task: an object of a class derived from MTEB's ``AbsTaskSTS`` or ``AbsTaskPairClassification``.

    Returns:
        The tasks, for ``register_tasks``.

    Raises:
        UsageError: the task is of another type.
    """
    if task.metadata.type not in _TASK_CLASSES:
        raise UsageError(
            f"MTEB's {task.metadata.name} is of the type {task.metadata.type}, for which mirrorbench has no task",
            f"Types: {', '.join(_TASK_CLASSES)}. MTEB itself evaluates all: mirrorbench mteb run ENCODER --tasks NAME",
        )
    return [_TASK_CLASSES[entry.type](entry, lambda: task) for entry in entries(task)]


def get_task(name: str, subset: str = "", split: str = "") -> Any:
    """Return a task object of MTEB.

    Args:
        name: MTEB's name.
        subset: one of its ``hf_subsets``; empty for all.
        split: one of its splits; empty for all.

    Raises:
        UnknownNameError: the installed mteb has no such task.
    """
    import mteb

    subsets = [subset] if subset else None
    splits = [split] if split else None
    try:
        return mteb.get_task(name, hf_subsets=subsets, eval_splits=splits)
    except KeyError:
        names = [task.metadata.name for task in mteb.get_tasks(exclude_superseded=False)]
        raise unknown_name("task of the installed mteb", name, names) from None


def _rows(task: Any, entry: Entry, offline: bool) -> Any:
    """Return the rows of the entry's split, loaded by mteb."""
    load_data(task, offline)
    dataset = task.dataset
    # A data set with one subset has its splits at the top.
    splits = dataset.get(entry.subset, dataset)
    if entry.split not in splits:
        raise DataFormatError(
            f"task {entry.name}: the data have no split {entry.split!r}, but {list(splits)}"
        )
    return splits[entry.split]


def load_data(task: Any, offline: bool) -> None:
    """Load the data of a task by mteb.

    Raises:
        DataUnavailableError: the data are neither on this machine nor available from the hub.
    """
    metadata = task.metadata
    try:
        with _hub_access(offline):
            task.load_data()
    except Exception as error:  # mteb, datasets and the hub's client raise exceptions of any type
        reason = f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
        path = metadata.dataset["path"]
        revision = metadata.dataset["revision"]
        raise DataUnavailableError(
            f"the data of MTEB's {metadata.name} ({path} at {revision[:12]}) are not available: {reason}",
            "Load them once where the hub can be reached, without --offline; the datasets library keeps them below "
            f"HF_HOME,\nwhich may be copied to this machine: "
            f"python -c \"import mteb; mteb.get_task('{metadata.name}').load_data()\"",
        ) from error


@contextmanager
def _hub_access(offline: bool) -> Iterator[None]:
    """Keep the libraries inside from connecting to the hub if ``offline``, which mteb cannot tell them."""
    import datasets  # type: ignore[import-untyped]
    import huggingface_hub.constants as hub

    datasets_before = datasets.config.HF_HUB_OFFLINE
    hub_before = hub.HF_HUB_OFFLINE
    if offline:
        datasets.config.HF_HUB_OFFLINE = True
        hub.HF_HUB_OFFLINE = True
    try:
        yield
    finally:
        datasets.config.HF_HUB_OFFLINE = datasets_before
        hub.HF_HUB_OFFLINE = hub_before


def _pairs(
    entry: Entry, left: Sequence[Any], right: Sequence[Any], gold: Sequence[Any]
) -> Iterator[Pair]:
    """Yield pairs in the order of the rows.

    Raises:
        DataFormatError: a text or judgement is missing.
    """
    for row, (first, second, value) in enumerate(zip(left, right, gold, strict=True)):
        if not isinstance(first, str) or not isinstance(second, str) or value is None:
            raise DataFormatError(
                f"task {entry.name}: row {row} of {entry.split} is not a pair of texts with a judgement"
            )
        yield Pair(f"{entry.split}/{row}", first, second, float(value))
