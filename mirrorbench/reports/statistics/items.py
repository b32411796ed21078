"""What a stored score is made of, item by item, so that it can be computed anew on other items."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from mirrorbench.core.errors import DataFormatError
from mirrorbench.data.contamination import NONE
from mirrorbench.reports.statistics.resampling import Auc, Each, Floats, Mean, Pearson, Spearman, Statistic, estimate
from mirrorbench.runs.results import Result

if TYPE_CHECKING:
    from mirrorbench.core.plugins import Plugins

MEAN = "mean"
_STATISTICS: dict[str, Callable[[Floats, Floats], Statistic]] = {
    "spearman": Spearman,
    "pearson": Pearson,
    "uncentred_pearson": partial(Pearson, centred=False),
    "auc": Auc,
}
_TOLERANCE = 1e-6
"""How near a score computed anew must come to the stored one; predictions may be stored as float32."""


@dataclass(frozen=True)
class ItemScores:
    """The n items behind one score.

    Attributes:
        kind: how the score follows from them: ``mean`` of the values, or a correlation or other metric with the gold.
        ids: identifiers, n of them, all different.
        values: shape (n,).
        gold: shape (n,); empty for a mean.
        hits: whether each item is right or wrong and nothing between: value 0 is wrong.
        overlap: how much of each item is in the tuning corpus (``mirrorbench.data.contamination``), shape (n,);
            ``None`` where nothing was tuned or nobody knows.
    """

    kind: str
    ids: tuple[str, ...]
    values: Floats
    gold: Floats
    hits: bool = False
    overlap: NDArray[np.int8] | None = None

    def only(self, keep: NDArray[np.bool_]) -> ItemScores:
        """Some of the items, ``keep`` of shape (n,)."""
        ids = tuple(item for item, kept in zip(self.ids, keep, strict=True) if kept)
        gold = self.gold[keep] if len(self.gold) else self.gold
        overlap = None if self.overlap is None else self.overlap[keep]
        return replace(self, ids=ids, values=self.values[keep], gold=gold, overlap=overlap)

    def without(self, items: frozenset[str]) -> ItemScores:
        """Those that are not among ``items``."""
        return self.only(np.array([item not in items for item in self.ids], dtype=bool))

    @property
    def seen(self) -> frozenset[str]:
        """Items of which any text is in the tuning corpus."""
        if self.overlap is None:
            return frozenset()
        return frozenset(item for item, found in zip(self.ids, self.overlap.tolist(), strict=True) if found > NONE)


def read_predictions(path: Path) -> dict[str, NDArray[Any]]:
    """The arrays stored beside a result.

    Args:
        path: of the result file.

    Raises:
        DataFormatError: there are none, or they cannot be read.
    """
    file = path.with_suffix(".npz")
    try:
        with np.load(file, allow_pickle=False) as arrays:
            return {name: arrays[name] for name in arrays.files}
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
        raise DataFormatError(
            f"the predictions of {path} cannot be read: {error}", f"Move {path} away and run again."
        ) from error


def item_scores(result: Result, arrays: Mapping[str, NDArray[Any]], plugins: Plugins) -> ItemScores | None:
    """The items behind a result's main score.

    Args:
        result: with its ``main_metric`` and ``main_score``.
        arrays: its predictions.
        plugins: whose metrics may be the main one.

    Returns:
        The items; ``None`` where the score cannot be computed anew from what is stored: an undefined score, or a
        metric whose parts are not stored.
    """
    if result.main_score is None:
        return None
    found = _items(result.main_metric, arrays, plugins)
    if found is None or not found.ids:
        return None
    again = estimate(statistic(found.kind, found.values, found.gold, plugins))[0]
    # A task may mean something else by a metric's name: what does not give the stored score is not what it was.
    return found if abs(again - result.main_score) < _TOLERANCE else None


def statistic(kind: str, values: Floats, gold: Floats, plugins: Plugins) -> Statistic:
    """The metric ``kind`` as a function of weights.

    Args:
        kind: of ``ItemScores``.
        values: shape (n,) or (e, n).
        gold: shape (n,).
        plugins: whose metrics may be meant.
    """
    if kind == MEAN:
        return Mean(values)
    return _STATISTICS[kind](values, gold) if kind in _STATISTICS else Each(plugins.metrics[kind], values, gold)


def _items(metric: str, arrays: Mapping[str, NDArray[Any]], plugins: Plugins) -> ItemScores | None:
    split, _, rest = metric.rpartition("_")
    if split in ("train", "dev", "test") and "splits" in arrays:
        within = _of_split(rest, arrays)
        return within.only(arrays["splits"] == split) if within else None
    if match := re.fullmatch(r"(nn_)?(?:accuracy@(\d+)|mrr)", metric):
        name = f"{match[1] or ''}rank"
        if name not in arrays:
            return None
        ranks = arrays[name].astype(np.float64)
        return _mean(arrays, ranks <= int(match[2]), True) if match[2] else _mean(arrays, 1 / ranks, False)
    if metric == "accuracy":
        return _mean(arrays, arrays["scores"], bool(np.isin(arrays["scores"], (0, 1)).all()))
    kind = metric.removeprefix("subtask1_")
    if kind in _STATISTICS or kind in plugins.metrics:
        return _with(arrays, kind, arrays["scores"], arrays["gold"])
    return None


def _of_split(metric: str, arrays: Mapping[str, NDArray[Any]]) -> ItemScores | None:
    """All splits of a task that chooses a threshold on one of them; its decisions stand as they were made."""
    if metric == "accuracy":
        return _with(arrays, MEAN, arrays["predictions"] == arrays["gold"], np.empty(0), True)
    return _with(arrays, metric, arrays["scores"], arrays["gold"]) if metric in _STATISTICS else None


def _mean(arrays: Mapping[str, NDArray[Any]], values: NDArray[Any], hits: bool) -> ItemScores:
    """Values whose mean is the score; where it is a mean over folds, they are scaled so that each counts the same."""
    values = values.astype(np.float64)
    if "fold" in arrays:
        _, fold, sizes = np.unique(arrays["fold"], return_inverse=True, return_counts=True)
        values = values * len(values) / (len(sizes) * sizes[fold])
    return _with(arrays, MEAN, values, np.empty(0), hits)


def _with(
    arrays: Mapping[str, NDArray[Any]], kind: str, values: NDArray[Any], gold: NDArray[Any], hits: bool = False
) -> ItemScores:
    ids = tuple(map(str, arrays["ids"].tolist()))
    overlap: NDArray[np.int8] | None = arrays.get("overlap")
    return ItemScores(kind, ids, values.astype(np.float64), gold.astype(np.float64), hits, overlap)


def common(encoders: Sequence[Sequence[ItemScores]]) -> list[list[ItemScores]]:
    """The items that all have, in one order: for each encoder one entry a seed.

    Raises:
        DataFormatError: scores of different kinds, or items whose gold differs.
    """
    every = [items for seeds in encoders for items in seeds]
    first = every[0]
    if all(items.ids == first.ids for items in every):
        aligned = [list(seeds) for seeds in encoders]
    else:
        shared = frozenset(first.ids).intersection(*(items.ids for items in every))
        aligned = [[_ordered(items, [i for i in first.ids if i in shared]) for items in seeds] for seeds in encoders]
    gold = aligned[0][0].gold
    for items in (items for seeds in aligned for items in seeds):
        if items.kind != first.kind or not np.array_equal(items.gold, gold, equal_nan=True):
            raise DataFormatError("items with the same ids have different gold, or are scored by different metrics")
    return aligned


def _ordered(items: ItemScores, ids: Sequence[str]) -> ItemScores:
    row = {item: index for index, item in enumerate(items.ids)}
    order = [row[item] for item in ids]
    overlap = None if items.overlap is None else items.overlap[order]
    gold = items.gold[order] if len(items.gold) else items.gold
    return replace(items, ids=tuple(ids), values=items.values[order], gold=gold, overlap=overlap)
