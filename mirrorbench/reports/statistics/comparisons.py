"""Scores of encoders and their differences, with errors from the items and seeds behind them.

An encoder's score is the mean over its seeds. Seeds are never pooled as further items, which would be dependent
observations (Dror et al., ACL 2018).
"""

from __future__ import annotations

import statistics
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import isnan, nan, sqrt
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from mirrorbench.reports.statistics.estimates import (
    FEW,
    UNDEFINED,
    Answers,
    PointEstimate,
    Scale,
    Variance,
)
from mirrorbench.reports.statistics.items import (
    FloatArray,
    ItemScores,
    common,
    influence,
    named_alike,
    score_on,
)
from mirrorbench.reports.statistics.sharing import SharedTexts, joined, membership, with_loners
from mirrorbench.reports.table import Unseen

if TYPE_CHECKING:
    from scipy.sparse import csr_array

    from mirrorbench.core.plugins import Plugins


class Dependence:
    """The items of several tasks, task by task: which are the same, and which share a text.

    Equal items of all tasks are one unit, whose influences are added.
    """

    def __init__(self, tasks: Sequence[ItemScores]) -> None:
        names, units = np.unique(
            np.concatenate([items.units or items.ids for items in tasks]), return_inverse=True
        )
        self._n_units = len(names)
        self._units = np.split(units, np.cumsum([len(items.ids) for items in tasks])[:-1])
        texts = [
            membership(own, items.shared, self._n_units)
            for own, items in zip(self._units, tasks, strict=True)
        ]
        self._shared = SharedTexts(with_loners(joined(texts), np.arange(self._n_units)))
        self._samples = [sample_of_each_item(items) for items in tasks]
        self._group_corrections = [
            _correction_for_groups(own, of_task)
            for own, of_task in zip(self._units, texts, strict=True)
        ]

    def variance(self, influences: Sequence[FloatArray]) -> float:
        """Return the variance of a score with these influences of each task's items.

        The sum of the products of influences over all pairs of dependent units; never below that of independent ones.
        """
        scaled = [
            own * _correction_for_means(samples)
            for own, samples in zip(influences, self._samples, strict=True)
        ]
        grouped = [
            own * correction
            for own, correction in zip(scaled, self._group_corrections, strict=True)
        ]
        independent = self.by_unit(scaled)
        (dependent,) = self._shared.products(self.by_unit(grouped))
        return max(float(independent @ independent), dependent)

    def degrees_of_freedom(self, influences: Sequence[FloatArray]) -> float:
        """Return those of the variance for independent items (Satterthwaite 1946): G - 1 for G equal groups."""
        expected = self.by_unit(
            [
                _mean_of_sample(own * own, samples)
                for own, samples in zip(influences, self._samples, strict=True)
            ]
        )
        (spread,) = self._shared.products(expected)
        if not spread > 0:
            return 1.0
        return max(1.0, float(expected.sum() ** 2 / spread - 1))

    def by_unit(self, values: Sequence[FloatArray]) -> FloatArray:
        """Return sums over tasks of the values of each unit's items, shape (units,)."""
        sums: FloatArray = np.zeros(self._n_units)
        for units, own in zip(self._units, values, strict=True):
            sums += np.bincount(units, own, self._n_units)
        return sums


def sample_of_each_item(items: ItemScores) -> NDArray[np.intp]:
    """Return the number of the sample that an item is from, shape (n,), from 0.

    An area under the ROC curve has two, of which each has a variance of its own; other scores have one.
    """
    if items.statistic.removeprefix("cosine_") == "auc":
        return np.unique(items.gold, return_inverse=True)[1]
    return np.zeros(len(items.ids), dtype=np.intp)


def _mean_of_sample(values: FloatArray, samples: NDArray[np.intp]) -> FloatArray:
    """For each item the mean over the items of its sample."""
    means: FloatArray = (np.bincount(samples, values) / np.bincount(samples))[samples]
    return means


def _correction_for_means(samples: NDArray[np.intp]) -> FloatArray:
    """The factor of influences, which sum to 0 in a sample of n: that takes an n-th of their variance."""
    sizes = np.bincount(samples)[samples]
    factors = np.full(len(samples), np.nan)
    several = sizes > 1
    factors[several] = np.sqrt(sizes[several] / (sizes[several] - 1))
    return factors


def _correction_for_groups(units: NDArray[np.intp], texts: csr_array) -> float:
    """The further factor of influences of items that share texts: G equal groups take a G-th of the variance."""
    distinct = np.unique(units)
    n = len(distinct)
    pairs = SharedTexts(with_loners(texts, distinct)).n_neighbours
    return sqrt((n - 1) * n / (n**2 - pairs)) if pairs < n**2 else 1.0


RowKey = Hashable
Seeds = Mapping[int, ItemScores]
"""The items of each seed."""


@dataclass(frozen=True, slots=True)
class SeedMean:
    """A score over seeds: mean, sample standard deviation (``None`` for one seed), and number of seeds.

    An average over tasks has no deviation where their seeds differ, and the fewest seeds of any.
    """

    mean: float
    sd: float | None
    seeds: int


@dataclass(frozen=True)
class Comparison:
    """Two encoders on the n items of a task that both have, or on average over several tasks.

    ``left_out`` is the number of items that only one of them has, ``estimate`` the first less the second.
    """

    n: int
    left_out: int
    first: SeedMean
    second: SeedMean
    estimate: PointEstimate

    @property
    def difference(self) -> float:
        """First minus second."""
        return self.estimate.value

    @property
    def p(self) -> float | None:
        """The two-sided p-value of the difference; ``None`` where undefined."""
        return self.estimate.p


class Comparisons:
    """Estimates for rows on tasks, from the items of each seed by row and task."""

    def __init__(self, seeds: Mapping[tuple[RowKey, str], Seeds], plugins: Plugins) -> None:
        self._seeds, self._plugins = seeds, plugins
        self._scored: dict[
            tuple[RowKey, str, tuple[str, ...]], tuple[dict[int, float], FloatArray]
        ] = {}
        self._compared: dict[tuple[RowKey, RowKey, tuple[str, ...]], Comparison] = {}
        self._dependence: dict[tuple[tuple[Hashable, ...], ...], Dependence] = {}
        self._rest: dict[
            tuple[tuple[str, frozenset[str]], ...],
            tuple[dict[tuple[RowKey, str], Seeds], Comparisons],
        ] = {}

    def known(self, row: RowKey, tasks: Sequence[str]) -> bool:
        """Test whether the row has items on all of the tasks."""
        return all(self._seeds.get((row, task)) for task in tasks)

    def items(self, row: RowKey, task: str) -> Iterable[ItemScores]:
        """Return the items of each seed of a row on a task."""
        return self._seeds.get((row, task), {}).values()

    def estimate(self, row: RowKey, tasks: Sequence[str]) -> PointEstimate:
        """Estimate a row's mean over tasks; the interval of a share or an area of one task stays between 0 and 1."""
        own = [common([self._seeds[row, task]])[0] for task in tasks]
        score, influences, over_seeds = self._scores(row, tasks, own)
        variance = self._variance(tasks, [list(seeds.values()) for seeds in own], influences)
        parts = (variance, *over_seeds)
        if len(tasks) == 1:
            items = list(own[0].values())
            dependence = self._dependence_of(tasks, [_representative(items)])
            groups = 1 + int(dependence.degrees_of_freedom([np.ones(len(items[0].ids))]))
            scale, groups = scale_of(items, groups)
            if scale != "plain" and (score.mean not in (0, 1) or groups > 1):
                return PointEstimate(score.mean, parts, scale=scale, groups=groups)
        estimate = PointEstimate(score.mean, parts)
        return estimate if estimate.error > 0 else UNDEFINED

    def compare(self, row: RowKey, over: RowKey, tasks: Sequence[str]) -> Comparison:
        """Compare the means of two rows over tasks; the estimate is undefined where they share no item of a task."""
        key = row, over, tuple(tasks)
        if key not in self._compared:
            self._compared[key] = self._compare(row, over, tasks)
        return self._compared[key]

    def _compare(self, row: RowKey, over: RowKey, tasks: Sequence[str]) -> Comparison:
        sides = [named_alike([self._seeds[row, task], self._seeds[over, task]]) for task in tasks]
        pairs = [common(side) for side in sides]
        both = [[*first.values(), *second.values()] for first, second in pairs]
        n = sum(len(items[0].ids) for items in both)
        every = [
            {name for seeds in side for items in seeds.values() for name in items.ids}
            for side in sides
        ]
        left_out = sum(map(len, every)) - n
        first, of_first, over_seeds = self._scores(row, tasks, [pair[0] for pair in pairs])
        second, of_second, over_others = self._scores(over, tasks, [pair[1] for pair in pairs])
        difference = round(
            first.mean - second.mean, 10
        )  # the same vectors but for the last bits do not differ
        if isnan(difference):
            return Comparison(n, left_out, first, second, UNDEFINED)
        variance = self._variance(
            tasks, both, [a - b for a, b in zip(of_first, of_second, strict=True)]
        )
        parts = (variance, *over_seeds, *over_others)
        counts = _answers(both)
        if counts and _are_independent(both):
            estimate = PointEstimate(difference, parts, answers=counts)
        else:
            estimate = PointEstimate(difference, parts, discordant=_few_discordant(counts))
        return Comparison(n, left_out, first, second, estimate)

    def covariance(self, rows: Sequence[RowKey], tasks: Sequence[str]) -> FloatArray:
        """Estimate the covariance of the means of rows over tasks, shape (rows, rows).

        Equal items of several tasks count as one; other items are independent here, and so are rows with other items
        than the first row.
        """
        covariance = np.diag([self.estimate(row, tasks).error ** 2 for row in rows])
        alike = [i for i, row in enumerate(rows) if self._has_same_items(row, rows[0], tasks)]
        covariance[np.ix_(alike, alike)] = self._covariance([rows[i] for i in alike], tasks)
        return np.nan_to_num(covariance)

    def _has_same_items(self, row: RowKey, other: RowKey, tasks: Sequence[str]) -> bool:
        return all(
            len({frozenset(items.ids) for of in (row, other) for items in self.items(of, task)})
            == 1
            for task in tasks
        )

    def _covariance(self, rows: Sequence[RowKey], tasks: Sequence[str]) -> FloatArray:
        aligned = [common(named_alike([self._seeds[row, task] for row in rows])) for task in tasks]
        representatives = [_representative(_items_of(of_task)) for of_task in aligned]
        dependence = self._dependence_of(tasks, representatives)
        by_unit: list[FloatArray] = []
        over_seeds: list[float] = []
        for index, row in enumerate(rows):
            own = [of_task[index] for of_task in aligned]
            _, influences, variances = self._scores(row, tasks, own)
            by_unit.append(dependence.by_unit(influences))
            over_seeds.append(sum(variance for variance, _ in variances))
        effects = np.array(by_unit)
        covariance: FloatArray = effects @ effects.T + np.diag(over_seeds)
        return covariance

    def compare_unseen(self, row: RowKey, over: RowKey, tasks: Sequence[str]) -> Unseen | None:
        """Compare two rows on the items without a text of either's tuning corpus; ``None`` where those are all."""
        seen: dict[str, set[str]] = {}
        n = 0
        n_seen = 0
        for task in tasks:
            both = [*self.items(row, task), *self.items(over, task)]
            seen[task] = set().union(*(items.seen for items in both))
            shared = set(both[0].ids).intersection(*(items.ids for items in both[1:]))
            n += len(shared)
            n_seen += len(shared & seen[task])
        if not n_seen:
            return None
        share = n_seen / n
        rest = self._without(seen, (row, over))
        if not all(
            items.ids for side in (row, over) for t in tasks for items in rest.items(side, t)
        ):
            return Unseen(share)
        estimate = rest.compare(row, over, tasks).estimate
        if estimate.p is None:
            return Unseen(share)
        return Unseen(share, estimate.value, estimate.interval(), estimate.p)

    def _without(self, seen: Mapping[str, set[str]], rows: Sequence[RowKey]) -> Comparisons:
        """Comparisons of rows without some items of each task; those without the same items share their work."""
        key = tuple((task, frozenset(ids)) for task, ids in seen.items())
        if key not in self._rest:
            kept: dict[tuple[RowKey, str], Seeds] = {}
            self._rest[key] = kept, Comparisons(kept, self._plugins)
        kept, comparisons = self._rest[key]
        for row in rows:
            for task, ids in seen.items():
                if (row, task) not in kept:
                    seeds = self._seeds[row, task]
                    kept[row, task] = {seed: items.without(ids) for seed, items in seeds.items()}
        return comparisons

    def _scores(
        self, row: RowKey, tasks: Sequence[str], own: Sequence[Seeds]
    ) -> tuple[SeedMean, list[FloatArray], list[Variance]]:
        """A row's mean over tasks, each item's influence on it, and the variance over seeds where there are several."""
        scored = [self._score(row, task, seeds) for task, seeds in zip(tasks, own, strict=True)]
        counts = [len(scores) for scores, _ in scored]
        shifts: dict[int, float] = {}  # of the mean, by each seed
        for scores, n in ((scores, len(scores)) for scores, _ in scored if len(scores) > 1):
            mean, scale = statistics.fmean(scores.values()), 1 / sqrt(n * (n - 1)) / len(tasks)
            for seed, score in scores.items():
                shifts[seed] = shifts.get(seed, 0) + scale * (score - mean)
        variance = sum(shift**2 for shift in shifts.values())
        alike = min(counts) > 1 and all(
            scores.keys() == scored[0][0].keys() for scores, _ in scored
        )
        mean = statistics.fmean(statistics.fmean(scores.values()) for scores, _ in scored)
        over_seeds = [(variance, min(n for n in counts if n > 1) - 1.0)] if shifts else []
        seed_mean = SeedMean(mean, sqrt(variance * counts[0]) if alike else None, min(counts))
        return seed_mean, [influences / len(tasks) for _, influences in scored], over_seeds

    def _score(self, row: RowKey, task: str, seeds: Seeds) -> tuple[dict[int, float], FloatArray]:
        """A row's score on a task by seed, and the mean of the items' influences."""
        key = row, task, next(iter(seeds.values())).ids
        if key not in self._scored:
            scores = {seed: score_on(items, self._plugins) for seed, items in seeds.items()}
            influences = [np.full(len(key[2]), nan)]
            if not any(map(isnan, scores.values())):
                influences = [influence(items, self._plugins) for items in seeds.values()]
            self._scored[key] = scores, np.mean(influences, axis=0)
        return self._scored[key]

    def _variance(
        self,
        tasks: Sequence[str],
        items: Sequence[Sequence[ItemScores]],
        influences: Sequence[FloatArray],
    ) -> Variance:
        """The variance over items and its degrees of freedom; what items share is known from any encoder."""
        representatives = [_representative(of_task) for of_task in items]
        dependence = self._dependence_of(tasks, representatives)
        return dependence.variance(influences), dependence.degrees_of_freedom(influences)

    def _dependence_of(self, tasks: Sequence[str], items: Sequence[ItemScores]) -> Dependence:
        key = tuple(
            (task, own.ids, own.shared is None, own.content is None)
            for task, own in zip(tasks, items, strict=True)
        )
        if key not in self._dependence:
            self._dependence[key] = Dependence(items)
        return self._dependence[key]


def scale_of(seeds: Sequence[ItemScores], groups: int) -> tuple[Scale, int]:
    """Return the scale of a score, and the number of independent groups of items behind a score of 0 or 1.

    Args:
        seeds: the items of each seed.
        groups: number of groups of all items.
    """
    first = seeds[0]
    if all(items.hits for items in seeds):
        return "share", groups
    if first.statistic.removeprefix("cosine_") in ("auc", "ap"):
        positive = int(np.sum(first.gold == 1))
        smaller = (
            positive
            if first.statistic.endswith("ap")
            else min(positive, len(first.gold) - positive)
        )
        return "area", min(smaller, groups)
    return "plain", 0


def _representative(encoders: Sequence[ItemScores]) -> ItemScores:
    """The items of an encoder that knows most of them: their contents, and what they share."""
    return max(encoders, key=lambda own: (own.content is not None, own.shared is not None))


def _items_of(encoders: Sequence[Seeds]) -> list[ItemScores]:
    return [items for seeds in encoders for items in seeds.values()]


def _answers(tasks: Sequence[Sequence[ItemScores]]) -> Answers | None:
    """Count the items that one of two encoders alone answers, for one seed of each, and one task or copies of it."""
    if any(len(items) > 2 or not all(own.hits for own in items) for items in tasks):
        return None
    differences = [first.values - second.values for first, second in tasks]
    if any(first.units != tasks[0][0].units for first, _ in tasks):
        return None
    if np.ptp(differences, axis=0).any():
        return None
    wins, losses = int(np.sum(differences[0] > 0)), int(np.sum(differences[0] < 0))
    return wins, losses, len(differences[0])


def _are_independent(tasks: Sequence[Sequence[ItemScores]]) -> bool:
    """Test whether no two items of a task are the same or share a text."""
    for items in tasks:
        for own in items:
            if own.shared is not None:
                codes = own.shared[own.shared >= 0]
                if len(np.unique(codes)) < len(codes):
                    return False
            if len(set(own.units or own.ids)) < len(own.ids):
                return False
    return True


def _few_discordant(answers: Answers | None) -> Answers | None:
    """The field of ``PointEstimate`` for dependent items."""
    if answers is None:
        return None
    wins, losses, n = answers
    return answers if 0 < wins + losses < FEW or wins + losses == n else None
