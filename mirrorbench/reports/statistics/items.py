"""Per-item values behind a stored score, from which it is computed again on subsets and resamples of the items."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from mirrorbench.core.errors import DataFormatError
from mirrorbench.data.corpora import NONE
from mirrorbench.reports.comparable import name_of
from mirrorbench.reports.statistics.resampling import (
    FloatArray,
    Statistic,
    weighted_auc,
    weighted_mean,
    weighted_pearson,
    weighted_spearman,
    written_out,
)
from mirrorbench.runs.results import Result

if TYPE_CHECKING:
    from mirrorbench.core.plugins import Plugins

MEAN = "mean"
_STATISTICS: dict[str, Callable[[FloatArray, FloatArray], Statistic]] = {
    "spearman": weighted_spearman,
    "pearson": weighted_pearson,
    "uncentred_pearson": partial(weighted_pearson, centred=False),
    "auc": weighted_auc,
}
_TOLERANCE = 1e-6
"""Allowed difference of a recomputed from the stored score; predictions may be stored as float32."""


@dataclass(frozen=True)
class ItemScores:
    """The n items behind one score.

    Attributes:
        kind: ``mean`` of the values, or the name of a metric of values and gold.
        ids: unique identifiers.
        values: shape (n,).
        gold: shape (n,); zeros for a mean.
        hits: whether values are hits and misses; a miss is 0.
        overlap: overlap of each item with the tuning corpus (``mirrorbench.data.corpora``), shape (n,); ``None``
            where nothing was tuned or it is unknown.
        shared: codes of the texts and words that items share, shape (n, k), -1 for none; ``None`` where unknown.
    """

    kind: str
    ids: tuple[str, ...]
    values: FloatArray
    gold: FloatArray
    hits: bool = False
    overlap: NDArray[np.int8] | None = None
    shared: NDArray[np.int32] | None = None

    def only(self, keep: NDArray[Any] | Sequence[int]) -> ItemScores:
        """Some of the items, by a mask or by row numbers in their order."""
        rows = np.arange(len(self.ids))[np.asarray(keep, dtype=None if len(keep) else np.int64)]
        overlap, shared = (None if of is None else of[rows] for of in (self.overlap, self.shared))
        ids = tuple(self.ids[row] for row in rows)
        values, gold = self.values[rows], self.gold[rows]
        return replace(self, ids=ids, values=values, gold=gold, overlap=overlap, shared=shared)

    @property
    def seen(self) -> frozenset[str]:
        """Items of which any text is in the tuning corpus."""
        if self.overlap is None:
            return frozenset()
        return frozenset(self.ids[row] for row in (self.overlap > NONE).nonzero()[0])


def item_scores(result: Result, arrays: Mapping[str, NDArray[Any]], plugins: Plugins) -> ItemScores | None:
    """The items of a result's main score; ``None`` where predictions do not reproduce it."""
    if result.main_score is None:
        return None
    found = _items(result.main_metric, arrays, plugins)
    if found is None or not found.ids:
        return None
    # A plugin's task may compute a metric of this name differently: accept only what reproduces the stored score.
    return found if abs(scores_on([found], plugins)[0] - result.main_score) < _TOLERANCE else None


def statistic_of(seeds: Sequence[ItemScores], plugins: Plugins) -> Statistic:
    """The metric of several seeds (or encoders) on the same items, as a function of item weights."""
    kind, gold, values = seeds[0].kind, seeds[0].gold, np.stack([items.values for items in seeds])
    if kind == MEAN:
        return weighted_mean(values)
    return _STATISTICS[kind](values, gold) if kind in _STATISTICS else written_out(plugins.metrics[kind], values, gold)


def scores_on(seeds: Sequence[ItemScores], plugins: Plugins) -> list[float]:
    """The metric of each seed on its items; NaN where it is undefined."""
    return [float(value) for value in statistic_of(seeds, plugins)(np.ones((1, len(seeds[0].ids))))[:, 0]]


def _items(metric: str, arrays: Mapping[str, NDArray[Any]], plugins: Plugins) -> ItemScores | None:
    split, _, rest = metric.rpartition("_")
    if split in ("train", "dev", "test") and "splits" in arrays:
        # The threshold was chosen on one of the splits, so the stored decisions are used.
        if rest == "accuracy":
            return _make(arrays, MEAN, arrays["predictions"] == arrays["gold"], hits=True).only(
                arrays["splits"] == split
            )
        return _make(arrays, rest, arrays["scores"]).only(arrays["splits"] == split) if rest in _STATISTICS else None
    if match := re.fullmatch(r"(nn_)?(?:accuracy@(\d+)|mrr)", metric):
        name = f"{match[1] or ''}rank"
        if name not in arrays:
            return None
        ranks = arrays[name].astype(np.float64)
        return _mean(arrays, ranks <= int(match[2]), True) if match[2] else _mean(arrays, 1 / ranks, False)
    if metric == "accuracy":
        return _mean(arrays, arrays["scores"], bool(np.isin(arrays["scores"], (0, 1)).all()))
    kind = metric.removeprefix("subtask1_")
    return _make(arrays, kind, arrays["scores"]) if kind in _STATISTICS or kind in plugins.metrics else None


def _mean(arrays: Mapping[str, NDArray[Any]], values: NDArray[Any], hits: bool) -> ItemScores:
    """Values whose mean is the score; for a mean over folds they are scaled so that each fold has equal weight."""
    values = values.astype(np.float64)
    if "fold" in arrays:
        _, fold, sizes = np.unique(arrays["fold"], return_inverse=True, return_counts=True)
        values = values * len(values) / (len(sizes) * sizes[fold])
    return _make(arrays, MEAN, values, hits)


def _make(arrays: Mapping[str, NDArray[Any]], kind: str, values: NDArray[Any], hits: bool = False) -> ItemScores:
    ids = tuple(map(str, arrays["ids"].tolist()))
    gold = np.zeros(len(ids)) if kind == MEAN else arrays["gold"].astype(np.float64)
    return ItemScores(kind, ids, values.astype(np.float64), gold, hits, arrays.get("overlap"), arrays.get("shared"))


def common(encoders: Sequence[Sequence[ItemScores]]) -> list[list[ItemScores]]:
    """The items that all seeds of all encoders have, in one order; ``DataFormatError`` where kind or gold differ."""
    every = [items for seeds in encoders for items in seeds]
    first, aligned = every[0], [list(seeds) for seeds in encoders]
    if any(items.ids != first.ids for items in every):
        shared = frozenset(first.ids).intersection(*(items.ids for items in every))
        order = [item for item in first.ids if item in shared]
        aligned = [[_ordered(items, order) for items in seeds] for seeds in encoders]
    gold = aligned[0][0].gold
    for items in (items for seeds in aligned for items in seeds):
        if items.kind != first.kind or not np.array_equal(items.gold, gold, equal_nan=True):
            raise DataFormatError("items with the same ids have different gold, or are scored by different metrics")
    return aligned


def _ordered(items: ItemScores, ids: Sequence[str]) -> ItemScores:
    row = {item: index for index, item in enumerate(items.ids)}
    return items.only([row[item] for item in ids])


def without_overlap(
    results: Sequence[Result], items: Mapping[str, ItemScores], plugins: Plugins
) -> tuple[list[Result], dict[str, ItemScores], list[str]]:
    """Results scored again on the items with no text that any of the encoders was tuned on.

    Returns the results with new main scores, their items by ``cell_id``, and notes on the items that count and on
    results that are left out since they cannot be scored again.
    """
    seen: dict[str, set[str]] = {}
    lines: dict[str, None] = {}
    lost = set()  # scores of which a seed cannot be scored again: a mean over the others would pass for one over all
    for result in results:
        found = items.get(result.cell_id)
        if found is None or (result.cell.get("corpus") and found.overlap is None):
            reason = "its items are not stored" if found is None else "its overlap is unknown"
            lines[f"missing: {result.spec} on {result.task}, seed {result.seed}: {reason} (run it again)."] = None
            lost.add(name_of(result)[:-1])
        if found is not None:
            seen.setdefault(result.task, set()).update(found.seen)
    kept: list[Result] = []
    behind: dict[str, ItemScores] = {}
    for result in (result for result in results if name_of(result)[:-1] not in lost):
        found = items[result.cell_id]
        left = found.only([row for row, item in enumerate(found.ids) if item not in seen[result.task]])
        value = scores_on([left], plugins)[0] if left.ids else None
        value = None if value is None or np.isnan(value) else value
        metrics = {result.main_metric: value}
        kept.append(replace(result, main_score=value, metrics=metrics, n_items=len(left.ids), overlap=None))
        behind[result.cell_id] = left
        lines[f"{result.task}: {len(left.ids):,} of {len(found.ids):,} items, of which no text was tuned on."] = None
    return kept, behind, list(lines)
