"""The items behind a stored score: their values, and their influences on it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from mirrorbench.core.errors import DataFormatError
from mirrorbench.core.identity import checksum
from mirrorbench.data.corpora import NONE
from mirrorbench.reports.comparable import Stored
from mirrorbench.storage.results import Result, hidden_id
from mirrorbench.tasks.metrics import mean
from mirrorbench.tasks.v_measure import of_each_clustering, without_groups

if TYPE_CHECKING:
    from mirrorbench.core.plugins import Plugins

FloatArray = NDArray[np.float64]


def influence(items: ItemScores, plugins: Plugins) -> FloatArray:
    """Return the influence of each item on their score; NaN where it is undefined without some of them."""
    if items.statistic == MEAN:
        return (items.values - items.mean) * items.shares
    if known := _INFLUENCES.get(items.measure):
        return known(items.values, items.gold)
    if items.statistic == "cosine_ap" and items.groups.max() + 1 == len(items.ids):
        return _on_average_precision(items.values, items.gold)
    if items.statistic == CLUSTERS:
        without = without_groups(items.values, items.gold, items.groups)
        return _of_losses(without, items.groups)
    return influence_of_leaving_out(
        plugins.metrics[items.statistic], items.values, items.gold, items.groups
    )


def _on_pearson(values: FloatArray, gold: FloatArray, centred: bool = True) -> FloatArray:
    """Influences on Pearson's correlation; without ``centred`` on the cosine of the two vectors."""
    x, y = (v - v.mean() if centred else v for v in (values, gold))
    return _on_correlation(x, y, x * y, x * x, y * y)


def _on_spearman(values: FloatArray, gold: FloatArray) -> FloatArray:
    """Influences on Spearman's correlation: of each item itself, and of its effect on the ranks of all others."""
    from scipy.stats import rankdata

    x, y = (rankdata(v) - (len(v) + 1) / 2 for v in (values, gold))
    crossed = x * y + (_above_less_below(values, y) + _above_less_below(gold, x)) / 2
    return _on_correlation(
        x, y, crossed, x * x + _above_less_below(values, x), y * y + _above_less_below(gold, y)
    )


def _on_auc(values: FloatArray, gold: FloatArray) -> FloatArray:
    """Influences on the area under the ROC curve, from each item's rank among items of the other label."""
    positive, negative = gold, 1 - gold
    n, m = np.sum(positive), np.sum(negative)
    below = (1 - _above_less_below(values, negative) / m) / 2
    above = (1 + _above_less_below(values, positive) / n) / 2
    area = float(below @ positive) / n
    return (below - area) * positive / n + (above - area) * negative / m


def _samples(items: ItemScores) -> NDArray[np.intp]:
    """The number of the sample that an item is from, shape (n,), from 0: an area under the ROC curve has two."""
    if items.measure == "auc":
        return np.unique(items.gold, return_inverse=True)[1]
    return np.zeros(len(items.ids), dtype=np.intp)


def as_of_sample(items: ItemScores, influences: FloatArray) -> FloatArray:
    """Return influences whose squares sum to the variance of independent items: n in place of n - 1 is corrected.

    Influences sum to 0 in a sample of n, which takes an n-th of their variance. NaN for the only item of a sample.
    """
    samples = _samples(items)
    sizes = np.bincount(samples)[samples]
    factors = np.full(len(samples), np.nan)
    several = sizes > 1
    factors[several] = np.sqrt(sizes[several] / (sizes[several] - 1))
    scaled: FloatArray = influences * factors
    return scaled


def expected_squares(items: ItemScores, influences: FloatArray) -> FloatArray:
    """Return the mean of the squared influences of each item's sample, shape (n,)."""
    samples = _samples(items)
    means: FloatArray = (np.bincount(samples, influences**2) / np.bincount(samples))[samples]
    return means


_INFLUENCES: dict[str, Callable[[FloatArray, FloatArray], FloatArray]] = {
    "spearman": _on_spearman,
    "pearson": _on_pearson,
    "uncentred_pearson": partial(_on_pearson, centred=False),
    "auc": _on_auc,
}


def influence_of_leaving_out(
    metric: Callable[[FloatArray, FloatArray], float | None],
    values: FloatArray,
    gold: FloatArray,
    groups: NDArray[np.intp],
) -> FloatArray:
    """Return influences on any metric: its loss without a group of items, in equal parts for the group's items.

    This is the delete-a-group jackknife (Efron and Tibshirani 1993, chapter 11). ``groups``: the number of each item's
    group, from 0, shape (n,).
    """
    sizes = np.bincount(groups)
    without = (
        metric(values[kept], gold[kept])
        for kept in (groups != group for group in range(len(sizes)))
    )
    return _of_losses(np.array([np.nan if value is None else value for value in without]), groups)


def _of_losses(without: FloatArray, groups: NDArray[np.intp]) -> FloatArray:
    """Influences of items from the scores without each of their groups."""
    sizes = np.bincount(groups)
    lost: FloatArray = ((without.mean() - without) * (1 - 1 / len(sizes)) / sizes)[groups]
    return lost


def variance_over_runs(items: ItemScores) -> tuple[float, float] | None:
    """Return the variance of a mean over random clusterings, and its degrees of freedom; ``None`` for other scores."""
    if items.statistic != CLUSTERS:
        return None
    scores = of_each_clustering(items.values, items.gold)
    return float(scores.var(ddof=1)) / len(scores), len(scores) - 1.0


def _on_average_precision(values: FloatArray, gold: FloatArray) -> FloatArray:
    """``influence_of_leaving_out`` on average precision for single items, in time that grows with their number."""
    level = np.unique(-values, return_inverse=True)[
        1
    ]  # items of one value are one level, the highest first
    right = (gold == 1).astype(np.float64)
    found = np.bincount(level, right)
    found_above, n_above = np.cumsum(found), np.cumsum(np.bincount(level))
    n_right = found.sum()
    rest = np.maximum(1, n_above - 1)

    def from_level(terms: FloatArray) -> FloatArray:
        """For each item the sum over its level and all lower ones."""
        sums: FloatArray = np.cumsum(terms[::-1])[::-1][level]
        return sums

    precision = found * found_above / n_above
    kept = precision.sum() - from_level(precision)
    without_wrong = (kept + from_level(found * found_above / rest)) / n_right
    # Without a right item one less is found at its own level and at all lower ones.
    lower = from_level(found * (found_above - 1) / rest) - ((found_above - 1) / rest)[level]
    without_right = (kept + lower) / max(1.0, n_right - 1)
    left = np.where(right == 1, without_right, without_wrong)
    n = len(values)
    if n_right in (1, n - 1):  # without the only item of a label the score is undefined
        left[right == (n_right == 1)] = np.nan
    lost: FloatArray = (left.mean() - left) * (1 - 1 / n)
    return lost


def _on_correlation(
    x: FloatArray, y: FloatArray, xy: FloatArray, xx: FloatArray, yy: FloatArray
) -> FloatArray:
    """Derivatives of a correlation, from those of its three sums of products."""
    a, b = x @ x, y @ y
    scale = np.sqrt(a * b)
    derivative: FloatArray = xy / scale - (x @ y) / scale / 2 * (xx / a + yy / b)
    return derivative


def _above_less_below(values: FloatArray, amounts: FloatArray) -> FloatArray:
    """Return, for each item, the sum of amounts of items of higher value less that of items of lower value."""
    _, group = np.unique(values, return_inverse=True)
    sums = np.bincount(group, amounts)
    up_to = np.cumsum(sums)
    differences: FloatArray = (up_to[-1] - 2 * up_to + sums)[group]
    return differences


MEAN = "mean"
CLUSTERS = "v_measure"
"""The statistic of clusters, of which each item has one for each clustering."""
_TOLERANCE = 1e-6
"""Allowed difference of a recomputed from the stored score; predictions may be stored as float32."""


@dataclass(frozen=True)
class ItemScores:
    """The n items behind one score.

    Attributes:
        statistic: (weighted) ``mean`` of the values, or the name of a metric of values and gold.
        ids: unique identifiers.
        values: shape (n,); of ``v_measure`` the clusters of several clusterings, shape (n, clusterings).
        gold: shape (n,); zeros for a mean.
        overlap: overlap of each item with the tuning corpus (``mirrorbench.data.corpora``), shape (n,); ``None``
            without a corpus or where unknown.
        shared: codes of the texts and words that items share, shape (n, k), -1 for none; ``None`` where unknown.
        units: names under which several tasks have the same items; empty: the ids.
        rows: names by file and row, which results without ``content`` have instead.
        content: numbers of the contents of the items, shape (n,); ``None`` where unknown.
        weights: of the items in the mean, shape (n,); ``None`` for equal ones.
        score: of all items, where it was computed already.
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

    @property
    def measure(self) -> str:
        """The statistic without the prefix that MTEB gives it where it is of cosines."""
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
        """The mean of the values, exactly 1 where all are."""
        return float(np.average(self.values, weights=self.weights))

    @property
    def shares(self) -> FloatArray:
        """The share of each item in the mean, shape (n,); they sum to 1."""
        n = len(self.ids)
        shares: FloatArray = (
            np.full(n, 1 / n) if self.weights is None else self.weights / self.weights.sum()
        )
        return shares

    @property
    def seen(self) -> set[str]:
        """Ids of the items with a text of the tuning corpus; empty where unknown."""
        return (
            set()
            if self.overlap is None
            else {self.ids[row] for row in (self.overlap > NONE).nonzero()[0]}
        )

    @property
    def groups(self) -> NDArray[np.intp]:
        """The number of each item's group, from 0; items that share one thing at most are grouped by it."""
        own = -1 - np.arange(len(self.ids))
        if self.shared is not None and self.shared.shape[1] == 1:
            own = np.where(self.shared[:, 0] < 0, own, self.shared[:, 0])
        return np.unique(own, return_inverse=True)[1]

    def only(self, keep: NDArray[Any] | Sequence[int]) -> ItemScores:
        """Return some of the items, by a mask or by row numbers in their order; their score is not computed."""
        rows = np.arange(len(self.ids))[np.asarray(keep, dtype=None if len(keep) else np.int64)]
        overlap, shared, content, weights = (
            None if array is None else array[rows]
            for array in (self.overlap, self.shared, self.content, self.weights)
        )
        ids, units, by_row = (
            tuple(names[row] for row in rows)
            for names in (self.ids, self.units or self.ids, self.rows or self.ids)
        )
        values, gold = self.values[rows], self.gold[rows]
        return replace(
            self,
            ids=ids,
            values=values,
            gold=gold,
            overlap=overlap,
            shared=shared,
            units=units,
            rows=by_row if self.rows else (),
            score=None,
            content=content,
            weights=weights,
        )

    def without(self, ids: Collection[str]) -> ItemScores:
        """Return the items whose ids are not among ``ids``."""
        return self.only([row for row, item in enumerate(self.ids) if item not in ids])


def item_scores(
    result: Result, arrays: Mapping[str, NDArray[Any]], plugins: Plugins
) -> ItemScores | None:
    """Return the items of a result's main score; ``None`` where predictions do not reproduce it."""
    if result.main_score is None:
        return None
    items = _items(result.main_metric, arrays, plugins)
    if items is None or not items.ids:
        return None
    # A plugin's task may compute a metric of this name differently: accept only what reproduces the stored score.
    score = score_on(items, plugins)
    if not abs(score - result.main_score) < _TOLERANCE:
        return None
    identifies = plugins.tasks[result.task].identifies if result.task in plugins.tasks else ""
    return replace(_named(items, result, identifies), score=score)


def _named(items: ItemScores, result: Result, identifies: str) -> ItemScores:
    """The items with the names under which those of other tasks are the same ones.

    Without a name for the ids of several tasks, items are the same if their contents are. Results of before that was
    stored have items that are the same in the same row of the same files.
    """
    if identifies:  # 203/12 and 203/21 are two parts of 203
        units = tuple(f"{identifies} {item.partition('/')[0]}" for item in items.ids)
        return replace(items, units=units)
    files = result.data.get("files")
    source = checksum(json.dumps(files, sort_keys=True)) if files else result.task
    rows = tuple(f"{source} {item}" for item in items.ids)
    if items.content is None:
        return replace(items, units=rows, rows=rows)
    return replace(items, units=tuple(map(str, items.content.tolist())), rows=rows)


def items_of(entry: Stored, plugins: Plugins) -> ItemScores | None:
    """Return the items of a stored main score; ``None`` where predictions do not reproduce it."""
    return item_scores(entry.result, entry.predictions(), plugins)


def score_on(items: ItemScores, plugins: Plugins) -> float:
    """Return the score of some items; NaN where it is undefined."""
    if items.score is not None:
        return items.score
    if not items.ids:
        return np.nan
    if items.statistic == MEAN:
        return items.mean
    value = plugins.metrics[items.statistic](items.values, items.gold)
    return np.nan if value is None else float(value)


def _items(metric: str, arrays: Mapping[str, NDArray[Any]], plugins: Plugins) -> ItemScores | None:
    split, _, rest = metric.rpartition("_")
    if split in ("train", "dev", "test") and "splits" in arrays:
        # The threshold was chosen on one of the splits, so the stored decisions are used.
        inside = arrays["splits"] == split
        if rest == "accuracy":
            return _make(arrays, MEAN, arrays["predictions"] == arrays["gold"]).only(inside)
        return (
            _make(arrays, rest, arrays["scores"]).only(inside) if rest in plugins.metrics else None
        )
    if match := re.fullmatch(r"(nn_)?(?:accuracy@(\d+)|mrr)", metric):
        ranks = arrays.get(f"{match[1] or ''}rank")
        if ranks is None:
            return None
        return _mean(arrays, ranks <= int(match[2]) if match[2] else 1 / ranks.astype(np.float64))
    if metric == "accuracy":
        return _mean(arrays, arrays["scores"])
    if metric == CLUSTERS:
        return _make(arrays, CLUSTERS, arrays["clusters"]) if "clusters" in arrays else None
    statistic = metric.removeprefix("subtask1_")
    if statistic not in plugins.metrics:
        return None
    if plugins.metrics[statistic] is mean:
        return _mean(arrays, arrays["scores"])
    return _make(arrays, statistic, arrays["scores"])


def _mean(arrays: Mapping[str, NDArray[Any]], values: NDArray[Any]) -> ItemScores:
    """Items whose mean is the score; each fold has equal weight."""
    items = _make(arrays, MEAN, values)
    if "fold" not in arrays:
        return items
    _, fold, sizes = np.unique(arrays["fold"], return_inverse=True, return_counts=True)
    return replace(items, weights=1 / sizes[fold])


def _make(arrays: Mapping[str, NDArray[Any]], statistic: str, values: NDArray[Any]) -> ItemScores:
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


def common(encoders: Sequence[Mapping[int, ItemScores]]) -> list[dict[int, ItemScores]]:
    """Return the items that all seeds of all encoders have, in one order.

    Raises:
        DataFormatError: statistics or gold differ.
    """
    aligned = [dict(seeds) for seeds in encoders]
    first, *rest = (items for seeds in aligned for items in seeds.values())
    if any(items.ids != first.ids for items in rest):
        shared = frozenset(first.ids).intersection(*(items.ids for items in rest))
        order = [item for item in first.ids if item in shared]
        aligned = [
            {seed: _ordered(items, order) for seed, items in seeds.items()} for seeds in aligned
        ]
    first, *rest = (items for seeds in aligned for items in seeds.values())
    for items in rest:
        if items.statistic != first.statistic or not np.array_equal(
            items.gold, first.gold, equal_nan=True
        ):
            raise DataFormatError(
                "items with the same ids have different gold, or are scored by different metrics"
            )
    return aligned


def named_alike(
    encoders: Sequence[Mapping[int, ItemScores]],
) -> Sequence[Mapping[int, ItemScores]]:
    """Hide the ids of items that others have hidden: results may be stored with and without MIRRORBENCH_NO_TEXTS."""
    distinct = {items.ids for seeds in encoders for items in seeds.values()}
    if len(distinct) == 1:
        return encoders
    names = {item for ids in distinct for item in ids}
    hidden = {item: name for item in names if (name := hidden_id(item)) in names}
    if not hidden:
        return encoders
    return [
        {
            seed: replace(items, ids=tuple(hidden.get(item, item) for item in items.ids))
            for seed, items in seeds.items()
        }
        for seeds in encoders
    ]


def _ordered(items: ItemScores, ids: Sequence[str]) -> ItemScores:
    row = {item: index for index, item in enumerate(items.ids)}
    return items.only([row[item] for item in ids])
