"""Scores of encoders and their differences, with errors from the items and seeds behind them.

An encoder's score is the mean over its seeds. Seeds are never pooled as further items, which would be dependent
observations (Dror et al., ACL 2018).
"""

from __future__ import annotations

import statistics
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import inf, isnan, nan, sqrt
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mirrorbench.reports.statistics.equality import SCORES, Basis
from mirrorbench.reports.statistics.estimates import (
    UNDEFINED,
    Answers,
    Labels,
    PointEstimate,
    Scale,
    Variance,
)
from mirrorbench.reports.statistics.items import (
    MEAN,
    FloatArray,
    ItemScores,
    as_of_sample,
    common,
    expected_squares,
    influence,
    named_alike,
    score_on,
    variance_over_runs,
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
        units = units_of(tasks)
        self._n_units = 1 + int(max(own.max(initial=-1) for own in units))
        self._units = units
        texts = [
            membership(own, items.shared, self._n_units)
            for own, items in zip(self._units, tasks, strict=True)
        ]
        self._shared = SharedTexts(with_loners(joined(texts), np.arange(self._n_units)))
        self._tasks = tasks
        self._group_corrections = [
            _correction_for_groups(own, of_task)
            for own, of_task in zip(self._units, texts, strict=True)
        ]

    def variance(self, influences: Sequence[FloatArray]) -> float:
        """Return the variance of a score with these influences of each task's items.

        The sum of the products of influences over all pairs of dependent units; never below that of independent ones.
        """
        independent, dependent = self._both_variances(influences)
        return max(independent, dependent)

    def design_effect(self, influences: Sequence[FloatArray]) -> float:
        """Return how many times the variance of independent items the variance is; 1 where neither is known."""
        independent, dependent = self._both_variances(influences)
        return max(1.0, dependent / independent) if independent > 0 else 1.0

    def _both_variances(self, influences: Sequence[FloatArray]) -> tuple[float, float]:
        """The variance of independent units, and that of dependent ones."""
        scaled = list(map(as_of_sample, self._tasks, influences))
        grouped = [
            own * correction
            for own, correction in zip(scaled, self._group_corrections, strict=True)
        ]
        independent = self.by_unit(scaled)
        (dependent,) = self._shared.products(self.by_unit(grouped))
        return float(independent @ independent), dependent

    def degrees_of_freedom(self, influences: Sequence[FloatArray]) -> float:
        """Return those of the variance for independent items (Satterthwaite 1946): G - 1 for G equal groups."""
        expected = list(map(expected_squares, self._tasks, influences))
        return max(1.0, self._count_groups(expected) - 1)

    def estimated(self, influences: Sequence[FloatArray]) -> Variance:
        """Return the variance and its degrees of freedom."""
        return self.variance(influences), self.degrees_of_freedom(influences)

    @cached_property
    def groups(self) -> float:
        """Number of independent groups, of equal weight in effect; 1 where all items depend on each other."""
        return self._count_groups([items.shares**2 for items in self._tasks])

    def _count_groups(self, variances: Sequence[FloatArray]) -> float:
        """The number of equal groups that would have such variances, item by item."""
        by_unit = self.by_unit(variances)
        (spread,) = self._shared.products(by_unit)
        return float(by_unit.sum() ** 2 / spread) if spread > 0 else 1.0

    def carrying(self, influences: Sequence[FloatArray]) -> float:
        """Return how many independent items of equal influence would vary as these do: (Σ d²)² / Σ d⁴.

        Of single items, divided by what their dependence adds to the variance, and of the sums over those that share a
        text the fewer; of several tasks the fewest.
        """
        counts = []
        alone = [np.zeros(len(own)) for own in influences]
        for task, own in enumerate(influences):
            of_task = [*alone[:task], own, *alone[task + 1 :]]
            by_unit = self.by_unit(of_task)
            counts.append(_effective_number(by_unit) / self.design_effect(of_task))
            counts.append(_effective_number(self._shared.sums(by_unit)))
        return min(counts)

    @property
    def are_independent(self) -> bool:
        """Whether no items depend on each other."""
        return self._shared.n_neighbours == self._n_units == sum(map(len, self._units))

    def by_unit(self, values: Sequence[FloatArray]) -> FloatArray:
        """Return sums over tasks of the values of each unit's items, shape (units,)."""
        sums: FloatArray = np.zeros(self._n_units)
        for units, own in zip(self._units, values, strict=True):
            sums += np.bincount(units, own, self._n_units)
        return sums


def _effective_number(values: FloatArray) -> float:
    """The number of values of equal size with the same second and fourth moment; 0 without any but 0."""
    squares = values**2
    fourth = float(squares @ squares)
    return float(squares.sum() ** 2 / fourth) if fourth > 0 else 0.0


def units_of(tasks: Sequence[ItemScores]) -> list[NDArray[np.intp]]:
    """Return the number of each item's unit, task by task, from 0: equal items have the same.

    Items of a task that does not know their contents are equal to those in equal rows of equal files.
    """
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    ends = np.cumsum([len(items.ids) for items in tasks])[:-1]
    _, units = np.unique(
        np.concatenate([items.units or items.ids for items in tasks]), return_inverse=True
    )
    unknown = {name for items in tasks if items.units == items.rows for name in items.rows}
    if unknown:
        names = np.concatenate([items.rows or items.units or items.ids for items in tasks])
        _, rows = np.unique(names, return_inverse=True)
        linked = np.isin(names, list(unknown))
        n = int(units.max()) + 1
        links = (units[linked], n + rows[linked])
        graph = coo_array((np.ones(linked.sum()), links), (n + len(rows),) * 2)
        _, joined_to = connected_components(graph, directed=False)
        _, units = np.unique(joined_to[units], return_inverse=True)
    return np.split(units, ends)


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


class _Aligned(NamedTuple):
    """The items of two rows, by task and seed, in one order and under the same names.

    ``n`` is their number over all tasks, ``left_out`` that of the items that only one row has.
    """

    first: Sequence[Seeds]
    second: Sequence[Seeds]
    n: int
    left_out: int

    @property
    def items(self) -> list[list[ItemScores]]:
        """The items of all seeds of both rows, by task."""
        pairs = zip(self.first, self.second, strict=True)
        return [[*first.values(), *second.values()] for first, second in pairs]


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
        """Estimate a row's mean over tasks; the interval of shares and areas stays between 0 and 1."""
        own = [common([self._seeds[row, task]])[0] for task in tasks]
        score, influences, over_seeds = self._scores(row, tasks, own)
        if isnan(score.mean):
            return UNDEFINED
        items = [list(seeds.values()) for seeds in own]
        dependence = self._dependence_on(tasks, items)
        first = items[0][0]
        labels = None
        if len(tasks) == 1 and first.measure == "auc":
            positive, n = float(np.sum(first.gold == 1)), len(first.ids)
            effect = dependence.design_effect(influences)
            labels = Labels(positive / effect, (n - positive) / effect)
        estimate = PointEstimate(
            score.mean,
            (dependence.estimated(influences), *over_seeds),
            groups=min(_groups_behind(of_task[0], dependence.groups) for of_task in items),
            scale=_scale(items),
            labels=labels,
        )
        return estimate if estimate.interval() else UNDEFINED

    def compare(self, row: RowKey, over: RowKey, tasks: Sequence[str]) -> Comparison:
        """Compare the means of two rows over tasks; the estimate is undefined where they share no item of a task."""
        key = row, over, tuple(tasks)
        if key not in self._compared:
            self._compared[key] = self._compare(row, over, tasks)
        return self._compared[key]

    def _compare(self, row: RowKey, over: RowKey, tasks: Sequence[str]) -> Comparison:
        aligned = self._align(row, over, tasks)
        first, of_first, over_seeds = self._scores(row, tasks, aligned.first)
        second, of_second, over_others = self._scores(over, tasks, aligned.second)
        difference = first.mean - second.mean
        # The same vectors but for the last bits do not differ.
        difference = round(difference, 10)
        n, left_out = aligned.n, aligned.left_out
        if isnan(difference):
            return Comparison(n, left_out, first, second, UNDEFINED)
        dependence = self._dependence_on(tasks, aligned.items)
        variance = dependence.estimated(differences(of_first, of_second))
        parts = (variance, *over_seeds, *over_others)
        estimate = PointEstimate(difference, parts, dependence.groups)
        hits = all(own.hits for items in aligned.items for own in items)
        if hits and (estimate.error > 0 or dependence.groups >= _FEWEST):
            by_task = map(disagreement_of, aligned.first, aligned.second)
            answers = answers_of(estimate, statistics.fmean(by_task))
            estimate = replace(estimate, answers=answers)
        return Comparison(n, left_out, first, second, estimate)

    def _align(self, row: RowKey, over: RowKey, tasks: Sequence[str]) -> _Aligned:
        """The items that two rows have in common, task by task."""
        sides = [named_alike([self._seeds[row, task], self._seeds[over, task]]) for task in tasks]
        first, second = zip(*map(common, sides), strict=True)
        n = sum(len(items.ids) for seeds in first for items in list(seeds.values())[:1])
        every = [
            {name for seeds in side for items in seeds.values() for name in items.ids}
            for side in sides
        ]
        return _Aligned(first, second, n, sum(map(len, every)) - n)

    def basis(self, row: RowKey, over: RowKey, tasks: Sequence[str]) -> Basis:
        """Return what the difference of two rows, which have items in common, rests on."""
        aligned = self._align(row, over, tasks)
        _, of_first, _ = self._scores(row, tasks, aligned.first)
        _, of_second, _ = self._scores(over, tasks, aligned.second)
        dependence = self._dependence_on(tasks, aligned.items)
        if not all(items.measure in SCORES for of_task in aligned.items for items in of_task):
            return Basis(dependence.groups, 1.0, 0.0, False, inf, simulated=False)
        differ = [
            np.sign(difference_of(_ranked(first), _ranked(second)).round(_DIGITS))
            for first, second in zip(aligned.first, aligned.second, strict=True)
        ]
        every = [items for of_task in aligned.items for items in of_task]
        # One seed of each on one task, whose items count alike.
        plain = len(every) == 1 + 1 and all(own.weights is None for own in every)
        return Basis(
            items=dependence.groups,
            differing=float(np.mean(dependence.by_unit(differ) > 0)),
            carrying=dependence.carrying(differences(of_first, of_second)),
            counted=plain and dependence.are_independent and all(own.hits for own in every),
            effect=largest_effect(every) if plain else inf,
            simulated=True,
        )

    def covariance(self, rows: Sequence[RowKey], tasks: Sequence[str]) -> FloatArray:
        """Estimate the covariance of the means of rows over tasks, shape (rows, rows).

        Equal items of several tasks count as one; other items are independent here, also those that share texts, and
        so are rows with other items than the first row.
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
        named: dict[tuple[RowKey, str], Seeds] = {}
        n = 0
        n_seen = 0
        for task in tasks:
            sides = named_alike([self._seeds[row, task], self._seeds[over, task]])
            named[row, task], named[over, task] = sides
            both = [items for seeds in sides for items in seeds.values()]
            seen[task] = set().union(*(items.seen for items in both))
            shared = set(both[0].ids).intersection(*(items.ids for items in both[1:]))
            n += len(shared)
            n_seen += len(shared & seen[task])
        if not n_seen:
            return None
        share = n_seen / n
        rest = self._without(seen, named)
        if not all(
            items.ids for side in (row, over) for t in tasks for items in rest.items(side, t)
        ):
            return Unseen(share)
        estimate = rest.compare(row, over, tasks).estimate
        if estimate.p is None:
            return Unseen(share)
        return Unseen(share, estimate.value, estimate.interval(), estimate.p)

    def _without(
        self, seen: Mapping[str, set[str]], named: Mapping[tuple[RowKey, str], Seeds]
    ) -> Comparisons:
        """Comparisons of rows without some items of each task; those without the same items share their work."""
        key = tuple((task, frozenset(ids)) for task, ids in seen.items())
        if key not in self._rest:
            kept: dict[tuple[RowKey, str], Seeds] = {}
            self._rest[key] = kept, Comparisons(kept, self._plugins)
        kept, comparisons = self._rest[key]
        for (row, task), seeds in named.items():
            if (row, task) not in kept:
                kept[row, task] = {seed: own.without(seen[task]) for seed, own in seeds.items()}
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
        over_seeds += _over_runs(own)
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

    def _dependence_on(
        self, tasks: Sequence[str], items: Sequence[Sequence[ItemScores]]
    ) -> Dependence:
        """What the items of tasks share, which is known from any encoder."""
        return self._dependence_of(tasks, [_representative(of_task) for of_task in items])

    def _dependence_of(self, tasks: Sequence[str], items: Sequence[ItemScores]) -> Dependence:
        key = tuple(
            (task, own.ids, own.shared is None, own.content is None)
            for task, own in zip(tasks, items, strict=True)
        )
        if key not in self._dependence:
            self._dependence[key] = Dependence(items)
        return self._dependence[key]


def _over_runs(tasks: Sequence[Seeds]) -> list[Variance]:
    """The variances of a mean over tasks from random clusterings, of tasks with one seed: several seeds vary by them too."""
    found = [
        variance_over_runs(items) for seeds in tasks if len(seeds) == 1 for items in seeds.values()
    ]
    return [(variance / len(tasks) ** 2, df) for variance, df in filter(None, found)]


def _scale(tasks: Sequence[Sequence[ItemScores]]) -> Scale:
    """The scale of a mean over tasks, from the items of each seed."""
    shares = [all(items.hits for items in seeds) for seeds in tasks]
    areas = [seeds[0].measure in ("auc", "ap") for seeds in tasks]
    if all(shares):
        return "share"
    return "area" if all(np.logical_or(shares, areas)) else "plain"


def _groups_behind(items: ItemScores, groups: float) -> float:
    """Number of the groups of items that a score of 0 or 1 rests on: of an area those of the rarer label."""
    positive = float(np.mean(items.gold == 1))
    if items.measure == "auc":
        return groups * min(positive, 1 - positive)
    return groups * positive if items.measure == "ap" else groups


def largest_effect(items: Sequence[ItemScores]) -> float:
    """Return how often the share of items that differ a difference of scores can be; infinite where unknown.

    Of means of values between 0 and 1 it is that share at most. An item has at most six times its share of Spearman's
    correlation, and its share among the items of its label of an area under the ROC curve.
    """
    first = items[0]
    if all(own.bounded for own in items):
        return 1.0
    if first.statistic == "spearman":
        return 6.0
    if first.measure == "auc":
        positive = float(np.mean(first.gold == 1))
        return 1 / min(positive, 1 - positive)
    return inf


def _ranked(seeds: Seeds) -> Seeds:
    """The items with ranks for values, on which alone all scores but means depend."""
    from scipy.stats import rankdata

    return {
        seed: items if items.statistic == MEAN else replace(items, values=rankdata(items.values))
        for seed, items in seeds.items()
    }


def differences(first: Sequence[FloatArray], second: Sequence[FloatArray]) -> list[FloatArray]:
    """Return the first arrays less the second ones."""
    return [a - b for a, b in zip(first, second, strict=True)]


def difference_of(first: Seeds, second: Seeds) -> FloatArray:
    """Return how far the values of two encoders differ, each the mean over its seeds, shape (items,)."""
    one, other = (
        np.mean([items.values for items in seeds.values()], axis=0) for seeds in (first, second)
    )
    difference: FloatArray = np.abs(one - other)
    return difference


def disagreement_of(first: Seeds, second: Seeds) -> float:
    """Return the mean over items of how far the answers of two encoders differ, each the mean over its seeds."""
    (items, *_) = first.values()
    return float(difference_of(first, second) @ items.shares)


def answers_of(difference: PointEstimate, disagreement: float) -> Answers:
    """Return answers to independent questions that have the same difference, error and disagreement.

    Independent items of one seed are such questions themselves. n questions of which a share q is answered by one
    encoder alone, with a difference d, have the error sqrt((q - d²) / n). Without an error, which identical answers do
    not have, n is the number of groups of items.

    Args:
        difference: of two shares of right answers.
        disagreement: the share of items that one of the encoders alone answers.
    """
    d = difference.value
    spread = disagreement - d**2
    n = difference.groups
    if difference.error > 0 and spread > 0:
        # The error of G groups was estimated with G - 1 in place of G.
        groups = max(_FEWEST, difference.groups)
        n = spread / difference.error**2 * groups / (groups - 1)
    wins, losses = (max(0.0, n * (disagreement + sign * d) / 2) for sign in (1, -1))
    return Answers(wins, losses, n)


_DIGITS = 9
"""Digits of values of items; the others are errors of rounding."""
_FEWEST = 2
"""The least number of groups of items that say something about their variance."""


def _representative(encoders: Sequence[ItemScores]) -> ItemScores:
    """The items of an encoder that knows most of them: their contents, and what they share."""
    return max(encoders, key=lambda own: (own.content is not None, own.shared is not None))


def _items_of(encoders: Sequence[Seeds]) -> list[ItemScores]:
    return [items for seeds in encoders for items in seeds.values()]
