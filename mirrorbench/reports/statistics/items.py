"""The items behind a stored score, read from its predictions."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from mirrorbench.core.errors import DataFormatError
from mirrorbench.core.identity import checksum
from mirrorbench.data.corpora import NONE
from mirrorbench.reports.comparable import Stored
from mirrorbench.storage.results import Result, hidden_id
from mirrorbench.tasks.metrics import mean
from mirrorbench.tasks.v_measure import v_measure_of_each_clustering

if TYPE_CHECKING:
    from mirrorbench.core.plugins import Plugins

FloatArray = NDArray[np.float64]

MEAN = "mean"
"""The statistic of scores that are a mean of the items' values."""
CLUSTERS = "v_measure"
"""The statistic of clusterings; each item has a cluster in each of them."""
_TOLERANCE = 1e-6
"""Allowed difference of a recomputed score from the stored one; predictions may be stored as float32."""
_Scalar = TypeVar("_Scalar", bound=np.generic)


@dataclass(frozen=True)
class ItemScores:
    """The n items behind one score.

    Attributes:
        statistic: (weighted) ``mean`` of the values, or the name of a metric of values and gold.
        ids: unique identifiers of the items.
        values: shape (n,); for ``v_measure`` the cluster of each item in each clustering, shape (n, clusterings).
        gold: shape (n,); zeros for a mean.
        overlap: overlap of each item with the tuning corpus (``mirrorbench.data.corpora``), shape (n,); ``None``
            without a corpus or if unknown.
        shared: codes of the texts and words that items share, shape (n, k), -1 for none; ``None`` if unknown.
        units: names of the items that are the same for equal items of all tasks; empty if they are the ids.
        rows: names of the items by file and row, by which items without ``content`` are found to be equal.
        content: numbers of the contents of the items, shape (n,); ``None`` if unknown.
        weights: weights of the items in the mean, shape (n,); ``None`` if they are equal.
        score: the score of all items, if it was computed already.
        has_fitted_thresholds: whether the values are right and wrong labels by thresholds that are fitted in folds.
    """

    statistic: str
    ids: tuple[str, ...]
    values: FloatArray
    gold: FloatArray
    overlap: NDArray[np.int8] | None = None
    shared: NDArray[np.int32] | None = None
    units: tuple[str, ...] = ()
    rows: tuple[str, ...] = ()
    score: float | None = None
    content: NDArray[np.uint64] | None = None
    weights: FloatArray | None = None
    has_fitted_thresholds: bool = False

    @property
    def measure(self) -> str:
        """The statistic, without the prefix ``cosine_`` of names in MTEB."""
        return self.statistic.removeprefix("cosine_")

    @property
    def hits(self) -> bool:
        """Whether the values are right (1) and wrong (0) answers."""
        return self.statistic == MEAN and bool(np.isin(self.values, (0, 1)).all())

    @property
    def bounded(self) -> bool:
        """Whether the score is the plain mean of values between 0 and 1."""
        if self.statistic != MEAN or self.weights is not None:
            return False
        return bool(np.all((self.values >= 0) & (self.values <= 1)))

    @property
    def mean(self) -> float:
        """The weighted mean of the values; exactly 1 if all values are 1."""
        return float(np.average(self.values, weights=self.weights))

    @property
    def shares(self) -> FloatArray:
        """The share of each item in the mean, shape (n,); they sum to 1."""
        if self.weights is None:
            n = len(self.ids)
            return np.full(n, 1 / n)
        shares: FloatArray = self.weights / self.weights.sum()
        return shares

    @property
    def seen(self) -> set[str]:
        """Ids of the items with a text of the tuning corpus; empty if unknown."""
        if self.overlap is None:
            return set()
        seen_rows = (self.overlap > NONE).nonzero()[0]
        return {self.ids[row] for row in seen_rows}

    @property
    def groups(self) -> NDArray[np.intp]:
        """The number of each item's group, from 0, shape (n,).

        Items with the same shared text are a group, if no item shares more than one; otherwise each item is one.
        """
        # An item without a shared text has a negative code of its own.
        codes = -1 - np.arange(len(self.ids))
        if self.shared is not None and self.shared.shape[1] == 1:
            shared = self.shared[:, 0]
            codes = np.where(shared < 0, codes, shared)
        return np.unique(codes, return_inverse=True)[1]

    def only(self, keep: NDArray[Any] | Sequence[int]) -> ItemScores:
        """Return some of the items, without their score.

        Args:
            keep: a mask of the items, or the numbers of some items, in the order of the result.
        """
        # An empty sequence would become an array of floats, which cannot index.
        dtype = None if len(keep) else np.int64
        numbers = np.arange(len(self.ids))[np.asarray(keep, dtype=dtype)]
        ids = _selected_names(numbers, self.ids)
        units = _selected_names(numbers, self.units or self.ids)
        rows: tuple[str, ...] = ()
        if self.rows:
            rows = _selected_names(numbers, self.rows)
        overlap = _selected_values(numbers, self.overlap)
        shared = _selected_values(numbers, self.shared)
        content = _selected_values(numbers, self.content)
        weights = _selected_values(numbers, self.weights)
        return replace(
            self,
            ids=ids,
            values=self.values[numbers],
            gold=self.gold[numbers],
            overlap=overlap,
            shared=shared,
            units=units,
            rows=rows,
            score=None,
            content=content,
            weights=weights,
        )

    def without(self, ids: Collection[str]) -> ItemScores:
        """Return the items whose ids are not among ``ids``."""
        return self.only([number for number, id_ in enumerate(self.ids) if id_ not in ids])


def _selected_names(numbers: NDArray[np.intp], names: Sequence[str]) -> tuple[str, ...]:
    return tuple(names[number] for number in numbers)


def _selected_values(
    numbers: NDArray[np.intp], values: NDArray[_Scalar] | None
) -> NDArray[_Scalar] | None:
    return None if values is None else values[numbers]


def item_scores(
    result: Result, arrays: Mapping[str, NDArray[Any]], plugins: Plugins
) -> ItemScores | None:
    """Return the items of a result's main score; ``None`` if its predictions do not reproduce the score.

    Args:
        result: the result.
        arrays: its predictions.
        plugins: plugins with the metrics and tasks.
    """
    if result.main_score is None:
        return None
    items = _items_of_metric(result.main_metric, arrays, plugins)
    if items is None or not items.ids:
        return None
    # A plugin's task may compute a metric of this name differently: accept only what reproduces the stored score.
    score = score_on(items, plugins)
    if not abs(score - result.main_score) < _TOLERANCE:
        return None
    identifies = ""
    if result.task in plugins.tasks:
        identifies = plugins.tasks[result.task].identifies
    items = _with_units(items, result, identifies)
    # Own labelled pairs; the threshold of words in context is fitted once, on other data.
    has_fitted_thresholds = result.main_metric == "accuracy" and "threshold" in result.metrics
    return replace(items, score=score, has_fitted_thresholds=has_fitted_thresholds)


def items_of(entry: Stored, plugins: Plugins) -> ItemScores | None:
    """Return the items of a stored main score; ``None`` if its predictions do not reproduce the score.

    Raises:
        DataFormatError: the predictions cannot be read.
    """
    return item_scores(entry.result, entry.predictions(), plugins)


def _with_units(items: ItemScores, result: Result, identifies: str) -> ItemScores:
    """Return the items with names that equal items of other tasks have too.

    Args:
        items: the items.
        result: their result.
        identifies: what the ids identify across tasks, as in the task's card. If it is empty, items are equal if their
            contents are equal. Results of earlier versions have no contents: their items are equal if they are in the
            same row of the same files.
    """
    if identifies:
        # 203/12 and 203/21 are two parts of 203.
        units = tuple(f"{identifies} {id_.partition('/')[0]}" for id_ in items.ids)
        return replace(items, units=units)
    files = result.data.get("files")
    source = checksum(json.dumps(files, sort_keys=True)) if files else result.task
    rows = tuple(f"{source} {id_}" for id_ in items.ids)
    if items.content is None:
        return replace(items, units=rows, rows=rows)
    contents = tuple(str(content) for content in items.content.tolist())
    return replace(items, units=contents, rows=rows)


def score_on(items: ItemScores, plugins: Plugins) -> float:
    """Return the score of the items; NaN if it is undefined."""
    if items.score is not None:
        return items.score
    if not items.ids:
        return np.nan
    if items.statistic == MEAN:
        return items.mean
    value = plugins.metrics[items.statistic](items.values, items.gold)
    return np.nan if value is None else float(value)


def _items_of_metric(
    metric: str, arrays: Mapping[str, NDArray[Any]], plugins: Plugins
) -> ItemScores | None:
    """Return the items of a metric; ``None`` for an unknown metric, or if the predictions lack what it needs."""
    # A metric on one split, such as test_accuracy.
    split, _, metric_of_split = metric.rpartition("_")
    if split in ("train", "dev", "test") and "splits" in arrays:
        in_split = arrays["splits"] == split
        if metric_of_split == "accuracy":
            # The threshold was chosen on another split, so the stored decisions are used.
            answers = arrays["predictions"] == arrays["gold"]
            return _items_with_values(arrays, MEAN, answers).only(in_split)
        if metric_of_split in plugins.metrics:
            return _items_with_values(arrays, metric_of_split, arrays["scores"]).only(in_split)
        return None
    # A mean over ranks: accuracy@5 or mrr, or with the prefix nn_ over the ranks in another array.
    rank_metric = re.fullmatch(r"(?P<nn>nn_)?(?:accuracy@(?P<k>\d+)|mrr)", metric)
    if rank_metric:
        ranks = arrays.get("nn_rank" if rank_metric["nn"] else "rank")
        if ranks is None:
            return None
        if rank_metric["k"]:
            return _items_of_mean(arrays, ranks <= int(rank_metric["k"]))
        return _items_of_mean(arrays, 1 / ranks.astype(np.float64))
    # The scores are 1 for right answers and 0 for wrong ones.
    if metric == "accuracy":
        return _items_of_mean(arrays, arrays["scores"])
    if metric == CLUSTERS:
        if "clusters" not in arrays:
            return None
        return _items_with_values(arrays, CLUSTERS, arrays["clusters"])
    # Any other metric is a registered function of scores and gold; a prefix names the part of the task.
    statistic = metric.removeprefix("subtask1_")
    if statistic not in plugins.metrics:
        return None
    if plugins.metrics[statistic] is mean:
        return _items_of_mean(arrays, arrays["scores"])
    return _items_with_values(arrays, statistic, arrays["scores"])


def _items_of_mean(arrays: Mapping[str, NDArray[Any]], values: NDArray[Any]) -> ItemScores:
    """Return items whose mean is the score; if there are folds, each of them has the same weight."""
    items = _items_with_values(arrays, MEAN, values)
    if "fold" not in arrays:
        return items
    _, fold, sizes = np.unique(arrays["fold"], return_inverse=True, return_counts=True)
    return replace(items, weights=1 / sizes[fold])


def _items_with_values(
    arrays: Mapping[str, NDArray[Any]], statistic: str, values: NDArray[Any]
) -> ItemScores:
    ids = tuple(map(str, arrays["ids"].tolist()))
    gold = np.zeros(len(ids)) if statistic == MEAN else arrays["gold"].astype(np.float64)
    return ItemScores(
        statistic,
        ids,
        values.astype(np.float64),
        gold,
        arrays.get("overlap"),
        arrays.get("shared"),
        content=arrays.get("content"),
    )


def variance_over_clusterings(items: ItemScores) -> tuple[float, float] | None:
    """Estimate the variance of a mean V-measure that is due to random clusterings.

    It is the sample variance of the scores of n clusterings, divided by n.

    Returns:
        The variance and its degrees of freedom, n - 1; ``None`` for other scores.
    """
    if items.statistic != CLUSTERS:
        return None
    scores = v_measure_of_each_clustering(items.values, items.gold)
    return float(scores.var(ddof=1)) / len(scores), len(scores) - 1.0


def common_items(encoders: Sequence[Mapping[int, ItemScores]]) -> list[dict[int, ItemScores]]:
    """Return the items that all seeds of all encoders have, in the same order for all.

    Args:
        encoders: the items of each seed, for each encoder.

    Raises:
        DataFormatError: the statistics or the gold of the items differ.
    """
    aligned = [dict(seeds) for seeds in encoders]
    all_items = [items for seeds in aligned for items in seeds.values()]
    ids = all_items[0].ids
    if any(items.ids != ids for items in all_items):
        common_ids = set(ids).intersection(*(items.ids for items in all_items))
        order = [id_ for id_ in ids if id_ in common_ids]
        for aligned_seeds in aligned:
            for seed, items in aligned_seeds.items():
                aligned_seeds[seed] = _in_order(items, order)
    first, *others = [items for seeds in aligned for items in seeds.values()]
    for items in others:
        same_gold = np.array_equal(items.gold, first.gold, equal_nan=True)
        if items.statistic != first.statistic or not same_gold:
            raise DataFormatError(
                "items with the same ids have different gold, or are scored by different metrics"
            )
    return aligned


def _in_order(items: ItemScores, ids: Sequence[str]) -> ItemScores:
    numbers = {id_: number for number, id_ in enumerate(items.ids)}
    return items.only([numbers[id_] for id_ in ids])


def with_same_ids(
    encoders: Sequence[Mapping[int, ItemScores]],
) -> Sequence[Mapping[int, ItemScores]]:
    """Return the items of encoders with the same ids for the same items, even if some results have hidden ids.

    Results that were stored with MIRRORBENCH_NO_TEXTS have digests instead of ids (``hidden_id``). If any result has
    the digest of an id, the id is replaced by the digest in all results.

    Args:
        encoders: the items of each seed, for each encoder.
    """
    distinct = {items.ids for seeds in encoders for items in seeds.values()}
    if len(distinct) == 1:
        return encoders
    all_ids = set().union(*distinct)
    digests: dict[str, str] = {}
    for id_ in all_ids:
        digest = hidden_id(id_)
        if digest in all_ids:
            digests[id_] = digest
    if not digests:
        return encoders
    renamed: list[dict[int, ItemScores]] = []
    for seeds in encoders:
        renamed_seeds: dict[int, ItemScores] = {}
        for seed, items in seeds.items():
            ids = tuple(digests.get(id_, id_) for id_ in items.ids)
            renamed_seeds[seed] = replace(items, ids=ids)
        renamed.append(renamed_seeds)
    return renamed
