"""MTEB's STS and pair-classification tasks as mirrorbench tasks: MTEB's data, mirrorbench's encoding and scoring."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from mirrorbench.core.errors import DataFormatError, DataUnavailableError, UsageError, unknown_name
from mirrorbench.data.items import Pair
from mirrorbench.tasks import PairClassification, PairSimilarity, Scores, Task, Vectors
from mirrorbench_mteb.catalogue import Entry, entries

if TYPE_CHECKING:
    from mirrorbench.data.store import DataStore


class _FromMteb:
    """Gives a task the data of a task of MTEB; stands before the task's class in the list of bases.

    Args:
        entry: which task, subset and split.
        source: gives MTEB's task object when data or revision are asked for.
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
        self._found: list[Pair] | None = None

    def fetch(self, data: DataStore) -> None:
        """Load the data, from the hub where it is not kept by the datasets library and that is permitted."""
        self._read(data)

    def identity(self, data: DataStore) -> dict[str, str]:
        """The dataset and the revision that the installed mteb pins, without reading it."""
        dataset = self._source().metadata.dataset
        where = "/".join(filter(None, [dataset["path"], dataset.get("name"), self.entry.subset, self.entry.split]))
        return {f"hf:{where}": str(dataset["revision"])}

    def _read(self, data: DataStore) -> list[Pair]:
        if self._found is None:
            task = self._source()
            rows = _rows(task, self.entry, data.offline)
            self._found = list(_pairs(self.entry, *self._columns(task, rows)))
        return self._found

    @abstractmethod
    def _columns(self, task: Any, rows: Any) -> tuple[Sequence[Any], Sequence[Any], Sequence[Any]]:
        """Left texts, right texts and labels of a task's rows."""


class MtebSimilarity(_FromMteb, PairSimilarity):
    """An STS task: ``spearman`` and ``pearson`` of the cosines, MTEB's ``cosine_spearman`` and ``cosine_pearson``."""

    def _columns(self, task: Any, rows: Any) -> tuple[Sequence[Any], Sequence[Any], Sequence[Any]]:
        left, right = task.column_names
        return rows[left], rows[right], rows["score"]


class MtebClassification(_FromMteb, PairClassification):
    """A pair-classification task. Metrics: ``ap``, MTEB's ``cosine_ap``, and ``auc``, that of mirrorbench's own."""

    def __init__(self, entry: Entry, source: Callable[[], Any]) -> None:
        super().__init__(entry, source)
        self.main_metric = "ap"

    def _columns(self, task: Any, rows: Any) -> tuple[Sequence[Any], Sequence[Any], Sequence[Any]]:
        names = (task.input1_column_name, task.input2_column_name, task.label_column_name)
        whole = rows[0] if len(rows) == 1 else rows  # older sets: one row with a list in each column
        left, right, labels = (whole[name] for name in names)
        return left, right, labels

    def score(self, items: Sequence[Pair], vectors: Vectors, protocol: str = "paper") -> Scores:
        """Compute the scores of every pair classification, and the average precision."""
        from dataclasses import replace

        from sklearn.metrics import average_precision_score

        scores = super().score(items, vectors, protocol)
        average = float(average_precision_score(scores.gold.astype(np.int64), scores.scores))
        return replace(scores, metrics={"ap": average, **scores.metrics})


_KINDS: dict[str, Callable[[Entry, Callable[[], Any]], Task]] = {
    "STS": MtebSimilarity,
    "PairClassification": MtebClassification,
}


def from_entry(entry: Entry) -> Task:
    """The mirrorbench task of an entry of the catalogue; mteb is imported when it is read."""

    def source() -> Any:
        return get_task(entry.task, entry.subset)

    return _KINDS[entry.type](entry, source)


def from_mteb(task: Any) -> list[Task]:
    """Mirrorbench tasks from a task of MTEB that is not in the catalogue, one for each of its subsets.

    Args:
        task: an object of a class derived from MTEB's ``AbsTaskSTS`` or ``AbsTaskPairClassification``; register what
            you get in ``register_tasks``.

    Raises:
        UsageError: it is of another type.
    """
    if task.metadata.type not in _KINDS:
        raise UsageError(
            f"MTEB's {task.metadata.name} is of the type {task.metadata.type}, which mirrorbench has no task for",
            f"Types: {', '.join(_KINDS)}. MTEB itself evaluates all: mirrorbench mteb run ENCODER --tasks NAME",
        )
    return [_KINDS[entry.type](entry, lambda: task) for entry in entries(task)]


def get_task(name: str, subset: str = "", split: str = "") -> Any:
    """A task object of MTEB.

    Args:
        name: MTEB's name.
        subset: only this one of its ``hf_subsets``; empty for all.
        split: only this one of its splits; empty for all.

    Raises:
        UnknownNameError: the installed mteb has no such task.
    """
    import mteb

    try:
        return mteb.get_task(name, hf_subsets=[subset] if subset else None, eval_splits=[split] if split else None)
    except KeyError:
        known = [t.metadata.name for t in mteb.get_tasks(exclude_superseded=False)]
        raise unknown_name("task of the installed mteb", name, known) from None


def _rows(task: Any, entry: Entry, offline: bool) -> Any:
    """The rows of the entry's split, loaded by mteb.

    Raises:
        DataUnavailableError: they are neither here nor to be had.
    """
    loading(task, offline)
    dataset = task.dataset
    of_subset = dataset.get(entry.subset, dataset)
    if entry.split not in of_subset:
        raise DataFormatError(f"task {entry.name}: the data have no split {entry.split!r}, but {list(of_subset)}")
    return of_subset[entry.split]


def loading(task: Any, offline: bool) -> None:
    """Have mteb load the data of a task.

    Raises:
        DataUnavailableError: they are neither here nor to be had.
    """
    metadata = task.metadata
    try:
        with _hub(offline):
            task.load_data()
    except Exception as error:  # mteb, datasets and the hub's client raise what they like
        reason = f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
        path, revision = metadata.dataset["path"], metadata.dataset["revision"]
        raise DataUnavailableError(
            f"the data of MTEB's {metadata.name} ({path} at {revision[:12]}) are not available: {reason}",
            "Load them once where the hub can be reached, without --offline; the datasets library keeps them below "
            f"HF_HOME,\nwhich may be copied to this machine: "
            f"python -c \"import mteb; mteb.get_task('{metadata.name}').load_data()\"",
        ) from error


@contextmanager
def _hub(offline: bool) -> Iterator[None]:
    """Open no socket to the hub where that is asked for; the libraries have no argument that mteb would pass on."""
    import datasets  # type: ignore[import-untyped]
    import huggingface_hub.constants as hub

    before = datasets.config.HF_HUB_OFFLINE, hub.HF_HUB_OFFLINE
    if offline:
        datasets.config.HF_HUB_OFFLINE = hub.HF_HUB_OFFLINE = True
    try:
        yield
    finally:
        datasets.config.HF_HUB_OFFLINE, hub.HF_HUB_OFFLINE = before


def _pairs(entry: Entry, left: Sequence[Any], right: Sequence[Any], gold: Sequence[Any]) -> Iterator[Pair]:
    """Pairs in the order of the rows.

    Raises:
        DataFormatError: a text or a judgement is missing.
    """
    for n, (first, second, value) in enumerate(zip(left, right, gold, strict=True)):
        if not isinstance(first, str) or not isinstance(second, str) or value is None:
            raise DataFormatError(f"task {entry.name}: row {n} of {entry.split} is no pair of texts with a judgement")
        yield Pair(f"{entry.split}/{n}", first, second, float(value))
