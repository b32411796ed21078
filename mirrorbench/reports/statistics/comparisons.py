"""Scores of encoders and their differences, with standard errors from the items and seeds behind them.

An encoder's score is the mean over its seeds. Seeds are never pooled as further items, which would be dependent
observations (Dror et al., ACL 2018).
"""

from __future__ import annotations

import statistics
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf, isnan, nan, sqrt
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from mirrorbench.reports.statistics.dependence import Dependence
from mirrorbench.reports.statistics.equality import SIMULATED_SCORES, Basis
from mirrorbench.reports.statistics.estimates import (
    UNDEFINED,
    Answers,
    Labels,
    PointEstimate,
    Scale,
    Variance,
)
from mirrorbench.reports.statistics.influence import influence
from mirrorbench.reports.statistics.items import (
    MEAN,
    FloatArray,
    ItemScores,
    common_items,
    score_on,
    variance_over_clusterings,
    with_same_ids,
)
from mirrorbench.reports.table import Unseen

if TYPE_CHECKING:
    from mirrorbench.core.plugins import Plugins

RowKey = Hashable
Seeds = Mapping[int, ItemScores]
"""The items of each seed of an encoder on a task."""
_DIGITS = 9
"""Digits to which differences of items are rounded; smaller differences are due to rounding."""
_FEWEST_GROUPS = 2
"""The least number of groups of items from which a variance can be estimated."""


@dataclass(frozen=True, slots=True)
class SeedMean:
    """A score over seeds.

    Attributes:
        mean: mean over seeds, and over tasks if there are several.
        sd: sample standard deviation over seeds; ``None`` for one seed, and if the seeds of several tasks differ.
        seeds: number of seeds, the smallest of several tasks.
    """

    mean: float
    sd: float | None
    seeds: int


@dataclass(frozen=True)
class Comparison:
    """The difference of two encoders on the items of a task that both have, or on average over several tasks.

    Attributes:
        n: number of the items that both encoders have, over all tasks.
        left_out: number of items that only one of the encoders has.
        first: the first encoder's score on the common items.
        second: the second encoder's score on these items.
        estimate: estimate of the difference, first minus second.
    """

    n: int
    left_out: int
    first: SeedMean
    second: SeedMean
    estimate: PointEstimate

    @property
    def difference(self) -> float:
        """The first score minus the second."""
        return self.estimate.value

    @property
    def p(self) -> float | None:
        """The two-sided p-value of the difference; ``None`` where undefined."""
        return self.estimate.p


class _Aligned(NamedTuple):
    """The items that two rows have in common, in one order and under the same ids."""

    first: Sequence[Seeds]
    """The items of the first row, for each task."""
    second: Sequence[Seeds]
    """The items of the second row, for each task."""
    n: int
    """Number of these items, over all tasks."""
    left_out: int
    """Number of the items that only one of the rows has."""

    @property
    def items(self) -> list[list[ItemScores]]:
        """The items of all seeds of both rows, for each task."""
        pairs = zip(self.first, self.second, strict=True)
        return [_items_of(pair) for pair in pairs]


class _TaskScore(NamedTuple):
    """A row's score on one task."""

    by_seed: dict[int, float]
    """The score of each seed."""
    influences: FloatArray
    """The influence of each item on the score, averaged over seeds; NaN if a score is undefined."""


class _Mean(NamedTuple):
    """A row's mean over tasks; the score on each task is a mean over seeds."""

    score: SeedMean
    influences: list[FloatArray]
    """The influence of each item on the mean, an array for each task."""
    seed_variances: list[Variance]
    """The parts of the mean's variance that are due to seeds and to random clusterings; empty without either."""


class _UnseenComparisons(NamedTuple):
    """Comparisons of rows without the items that were seen in tuning."""

    seeds: dict[tuple[RowKey, str], Seeds]
    """The remaining items of each seed, by row and task; ``comparisons`` reads them. Rows are added when needed."""
    comparisons: Comparisons


class Comparisons:
    """Estimates for rows on tasks, from the items of each seed by row and task."""

    def __init__(self, seeds: Mapping[tuple[RowKey, str], Seeds], plugins: Plugins) -> None:
        self._seeds = seeds
        self._plugins = plugins
        # Caches of what several estimates need.
        self._scores: dict[tuple[RowKey, str, tuple[str, ...]], _TaskScore] = {}
        self._compared: dict[tuple[RowKey, RowKey, tuple[str, ...]], Comparison] = {}
        self._dependence: dict[tuple[tuple[Hashable, ...], ...], Dependence] = {}
        self._unseen: dict[tuple[tuple[str, frozenset[str]], ...], _UnseenComparisons] = {}

    def known(self, row: RowKey, tasks: Sequence[str]) -> bool:
        """Test whether the row has items on all of the tasks."""
        return all(self._seeds.get((row, task)) for task in tasks)

    def items(self, row: RowKey, task: str) -> Iterable[ItemScores]:
        """Return the items of each seed of a row on a task; none if the row has none."""
        return self._seeds.get((row, task), {}).values()

    def estimate(self, row: RowKey, tasks: Sequence[str]) -> PointEstimate:
        """Estimate a row's mean over tasks and its standard error.

        The error is computed from the influences of the items (``Dependence.variance``), and from the variance over
        seeds if there are several. The interval of shares and areas stays between 0 and 1. The estimate is
        ``UNDEFINED`` if the mean or its interval is.
        """
        # For each task, the items that all seeds of the row have.
        seeds_by_task: list[Seeds] = []
        for task in tasks:
            (seeds,) = common_items([self._seeds[row, task]])
            seeds_by_task.append(seeds)
        mean = self._mean(row, tasks, seeds_by_task)
        if isnan(mean.score.mean):
            return UNDEFINED
        items_by_task = [list(seeds.values()) for seeds in seeds_by_task]
        dependence = self._dependence_of_tasks(tasks, items_by_task)
        # The interval of a single area needs the numbers of items of either label.
        labels = None
        items_of_first_seed = items_by_task[0][0]
        if len(tasks) == 1 and items_of_first_seed.measure == "auc":
            design_effect = dependence.design_effect(mean.influences)
            labels = _effective_labels(items_of_first_seed, design_effect)
        # The variance over items comes first.
        parts = (dependence.variance_with_df(mean.influences), *mean.seed_variances)
        # The task with the fewest groups counts.
        groups = min(_groups_behind(items[0], dependence.groups) for items in items_by_task)
        scale = _scale_of_mean(items_by_task)
        estimate = PointEstimate(mean.score.mean, parts, groups, scale=scale, labels=labels)
        return estimate if estimate.interval() else UNDEFINED

    def compare(self, row: RowKey, over: RowKey, tasks: Sequence[str]) -> Comparison:
        """Estimate the difference of the means of two rows over tasks, on the items that both rows have.

        The error of the difference is that of a paired test: it is computed from the differences of the influences of
        each item, and from the variances over seeds of either row. Differences of right answers are tested by the score
        test (``paired_answers``), others by a t test. The estimate is undefined if the rows share no item of a task.
        """
        key = row, over, tuple(tasks)
        if key not in self._compared:
            self._compared[key] = self._compare(row, over, tasks)
        return self._compared[key]

    def _compare(self, row: RowKey, over: RowKey, tasks: Sequence[str]) -> Comparison:
        """Compute what ``compare`` returns."""
        aligned = self._align(row, over, tasks)
        first = self._mean(row, tasks, aligned.first)
        second = self._mean(over, tasks, aligned.second)
        # Rounded, so that vectors that differ only in their last bits have a difference of 0.
        difference = round(first.score.mean - second.score.mean, 10)
        if isnan(difference):
            return Comparison(aligned.n, aligned.left_out, first.score, second.score, UNDEFINED)
        dependence = self._dependence_of_tasks(tasks, aligned.items)
        variance = dependence.variance_with_df(_subtracted(first.influences, second.influences))
        # The variance over items comes first.
        parts = (variance, *first.seed_variances, *second.seed_variances)
        estimate = PointEstimate(difference, parts, dependence.groups)
        # Right and wrong answers have the score test; without an error, only if the number of groups can stand for it.
        are_answers = all(items.hits for items_of_task in aligned.items for items in items_of_task)
        can_be_tested = estimate.error > 0 or dependence.groups >= _FEWEST_GROUPS
        if are_answers and can_be_tested:
            disagreements = map(_disagreement, aligned.first, aligned.second)
            answers = _equivalent_answers(estimate, statistics.fmean(disagreements))
            estimate = replace(estimate, answers=answers)
        return Comparison(aligned.n, aligned.left_out, first.score, second.score, estimate)

    def _align(self, row: RowKey, over: RowKey, tasks: Sequence[str]) -> _Aligned:
        """Return the items that all seeds of two rows have in common on each task, and count the others."""
        first: list[Seeds] = []
        second: list[Seeds] = []
        n = 0
        n_of_either = 0
        for task in tasks:
            pair = with_same_ids([self._seeds[row, task], self._seeds[over, task]])
            first_seeds, second_seeds = common_items(pair)
            first.append(first_seeds)
            second.append(second_seeds)
            n += len(next(iter(first_seeds.values())).ids)
            ids_of_either: set[str] = set()
            ids_of_either.update(*(items.ids for items in _items_of(pair)))
            n_of_either += len(ids_of_either)
        return _Aligned(first, second, n, n_of_either - n)

    def basis(self, row: RowKey, over: RowKey, tasks: Sequence[str]) -> Basis:
        """Return what a test of the equality of two rows needs to know of the items behind their difference.

        The rows must have items in common. For a score whose test does not hold its level, only ``groups`` and ``simulated``
        have a meaning.
        """
        aligned = self._align(row, over, tasks)
        dependence = self._dependence_of_tasks(tasks, aligned.items)
        # The items of each row, task and seed.
        item_sets = [items for items_of_task in aligned.items for items in items_of_task]
        # Of encoders that differ by the margin in answers by fitted thresholds, more than 5 % were called equal.
        is_tested = all(
            items.measure in SIMULATED_SCORES and not items.has_fitted_thresholds
            for items in item_sets
        )
        if not is_tested:
            return Basis(
                groups=dependence.groups,
                differing=1.0,
                effective_items=0.0,
                independent_answers=False,
                effect=inf,
                simulated=False,
            )
        # For each task: 1 for each item on which the rows differ, 0 for the others, as absolute differences have no
        # negative sign.
        differs = []
        for first_seeds, second_seeds in zip(aligned.first, aligned.second, strict=True):
            distance = _absolute_differences(_with_ranks(first_seeds), _with_ranks(second_seeds))
            differs.append(np.sign(distance.round(_DIGITS)))
        # Equal items of several tasks are one unit, which differs if they differ on any task.
        differing = float(np.mean(dependence.by_unit(differs) > 0))
        # One task, one seed of each row, and no weights of items.
        single_unweighted_pair = len(item_sets) == 2 and all(
            items.weights is None for items in item_sets
        )
        are_answers = all(items.hits for items in item_sets)
        independent_answers = single_unweighted_pair and dependence.are_independent and are_answers
        first = self._mean(row, tasks, aligned.first)
        second = self._mean(over, tasks, aligned.second)
        influences = _subtracted(first.influences, second.influences)
        return Basis(
            groups=dependence.groups,
            differing=differing,
            effective_items=dependence.effective_items(influences),
            independent_answers=independent_answers,
            effect=_largest_effect(item_sets) if single_unweighted_pair else inf,
            simulated=True,
        )

    def covariance(self, rows: Sequence[RowKey], tasks: Sequence[str]) -> FloatArray:
        """Estimate the covariance of the means of rows over tasks, shape (rows, rows).

        The covariance of two rows is the sum over items of the products of their influences. Equal items of several
        tasks count as one; items that share texts are treated as independent. A row with other items than the first row
        is treated as independent of all others.
        """
        # Rows with other items than the first row keep their own variance only.
        covariance = np.diag([self.estimate(row, tasks).error ** 2 for row in rows])
        indices = [
            index for index, row in enumerate(rows) if self._has_same_items(row, rows[0], tasks)
        ]
        rows_with_same_items = [rows[index] for index in indices]
        block = self._covariance_on_same_items(rows_with_same_items, tasks)
        covariance[np.ix_(indices, indices)] = block
        return np.nan_to_num(covariance)

    def _has_same_items(self, row: RowKey, other: RowKey, tasks: Sequence[str]) -> bool:
        for task in tasks:
            items_of_both = [*self.items(row, task), *self.items(other, task)]
            if len({frozenset(items.ids) for items in items_of_both}) != 1:
                return False
        return True

    def _covariance_on_same_items(self, rows: Sequence[RowKey], tasks: Sequence[str]) -> FloatArray:
        aligned: list[list[dict[int, ItemScores]]] = []
        for task in tasks:
            seeds_of_rows = [self._seeds[row, task] for row in rows]
            aligned.append(common_items(with_same_ids(seeds_of_rows)))
        items_by_task = [_items_of(rows_on_task) for rows_on_task in aligned]
        dependence = self._dependence_of_tasks(tasks, items_by_task)
        influences_by_unit: list[FloatArray] = []
        seed_variances: list[float] = []
        for index, row in enumerate(rows):
            mean = self._mean(row, tasks, [rows_on_task[index] for rows_on_task in aligned])
            influences_by_unit.append(dependence.by_unit(mean.influences))
            seed_variances.append(sum(variance for variance, _ in mean.seed_variances))
        influences = np.array(influences_by_unit)
        covariance: FloatArray = influences @ influences.T + np.diag(seed_variances)
        return covariance

    def compare_unseen(self, row: RowKey, over: RowKey, tasks: Sequence[str]) -> Unseen | None:
        """Compare two rows on the items that have no text of either row's tuning corpus.

        Returns:
            The comparison, without numbers if it is undefined; ``None`` if no item was seen.
        """
        # Ids of the items that were seen, by task.
        seen: dict[str, set[str]] = {}
        # The items of both rows, under the same ids.
        seeds: dict[tuple[RowKey, str], Seeds] = {}
        # Numbers of the items that both rows have, and of the seen ones among them.
        n = 0
        n_seen = 0
        for task in tasks:
            pair = with_same_ids([self._seeds[row, task], self._seeds[over, task]])
            seeds[row, task], seeds[over, task] = pair
            all_items = _items_of(pair)
            seen[task] = set().union(*(items.seen for items in all_items))
            common_ids = set(all_items[0].ids)
            common_ids.intersection_update(*(items.ids for items in all_items[1:]))
            n += len(common_ids)
            n_seen += len(common_ids & seen[task])
        if n_seen == 0:
            return None
        share = n_seen / n
        comparisons = self._comparisons_without(seen, seeds)
        # Where no unseen item is left, only the share of seen items is known.
        for side in (row, over):
            for task in tasks:
                if not all(items.ids for items in comparisons.items(side, task)):
                    return Unseen(share)
        estimate = comparisons.compare(row, over, tasks).estimate
        if estimate.p is None:
            return Unseen(share)
        return Unseen(share, estimate.value, estimate.interval(), estimate.p)

    def _comparisons_without(
        self, seen: Mapping[str, set[str]], seeds: Mapping[tuple[RowKey, str], Seeds]
    ) -> Comparisons:
        """Return comparisons of rows without the items that were seen on each task.

        Pairs of rows with the same seen items share one object, so that each row is scored once.
        """
        key = tuple((task, frozenset(ids)) for task, ids in seen.items())
        if key not in self._unseen:
            unseen_seeds: dict[tuple[RowKey, str], Seeds] = {}
            self._unseen[key] = _UnseenComparisons(
                unseen_seeds, Comparisons(unseen_seeds, self._plugins)
            )
        unseen = self._unseen[key]
        for (row, task), row_seeds in seeds.items():
            if (row, task) not in unseen.seeds:
                unseen.seeds[row, task] = {
                    seed: items.without(seen[task]) for seed, items in row_seeds.items()
                }
        return unseen.comparisons

    def _mean(self, row: RowKey, tasks: Sequence[str], seeds_by_task: Sequence[Seeds]) -> _Mean:
        """Average a row's scores over seeds and tasks, and estimate how the mean varies with the seeds.

        With one set of n seeds on all tasks, the variance of the mean over seeds is the sample variance of the seeds'
        averages over tasks, divided by n. Tasks with seeds of their own add separate variances.

        Args:
            row: the row.
            tasks: names of the tasks.
            seeds_by_task: the row's items on each task, possibly not all that are stored.
        """
        scores = [
            self._score(row, task, seeds) for task, seeds in zip(tasks, seeds_by_task, strict=True)
        ]
        seed_counts = [len(score.by_seed) for score in scores]
        # The deviation of each seed from the mean of a task, scaled so that the squares sum to the variance of the
        # mean. A seed shifts its scores on all tasks together: its deviations are added before they are squared.
        shifts: dict[int, float] = {}
        for score in scores:
            n_seeds = len(score.by_seed)
            if n_seeds == 1:
                continue
            task_mean = statistics.fmean(score.by_seed.values())
            scale = 1 / sqrt(n_seeds * (n_seeds - 1)) / len(tasks)
            for seed, value in score.by_seed.items():
                shifts[seed] = shifts.get(seed, 0) + scale * (value - task_mean)
        variance = sum(shift**2 for shift in shifts.values())

        seed_variances: list[Variance] = []
        if shifts:
            fewest_seeds = min(n for n in seed_counts if n > 1)
            seed_variances.append((variance, fewest_seeds - 1.0))
        seed_variances += _variances_over_clusterings(seeds_by_task)

        # There is a standard deviation over seeds if all tasks have the same n seeds, and n is more than one. The
        # variance of the mean is that of one seed divided by n.
        sd = None
        same_seeds = all(score.by_seed.keys() == scores[0].by_seed.keys() for score in scores)
        n_same_seeds = seed_counts[0]
        if same_seeds and n_same_seeds > 1:
            sd = sqrt(variance * n_same_seeds)
        mean = statistics.fmean(statistics.fmean(score.by_seed.values()) for score in scores)
        influences = [score.influences / len(tasks) for score in scores]
        return _Mean(SeedMean(mean, sd, min(seed_counts)), influences, seed_variances)

    def _score(self, row: RowKey, task: str, seeds: Seeds) -> _TaskScore:
        """Return the row's score on the given items of a task; it is computed once for the same items."""
        ids = next(iter(seeds.values())).ids
        key = row, task, ids
        if key not in self._scores:
            by_seed = {seed: score_on(items, self._plugins) for seed, items in seeds.items()}
            influences = [np.full(len(ids), nan)]
            if not any(isnan(score) for score in by_seed.values()):
                influences = [influence(items, self._plugins) for items in seeds.values()]
            self._scores[key] = _TaskScore(by_seed, np.mean(influences, axis=0))
        return self._scores[key]

    def _dependence_of_tasks(
        self, tasks: Sequence[str], items_by_task: Sequence[Sequence[ItemScores]]
    ) -> Dependence:
        """Return the dependence between the items of tasks, which is the same for all encoders."""
        representatives = [_most_complete(items) for items in items_by_task]
        key = tuple(
            (task, items.ids, items.shared is None, items.content is None)
            for task, items in zip(tasks, representatives, strict=True)
        )
        if key not in self._dependence:
            self._dependence[key] = Dependence(representatives)
        return self._dependence[key]


def _variances_over_clusterings(seeds_by_task: Sequence[Seeds]) -> list[Variance]:
    """Return the variances of a mean over tasks that are due to random clusterings.

    Only tasks with a single seed have one: the variance over several seeds includes that over clusterings.
    """
    variances: list[Variance] = []
    for seeds in seeds_by_task:
        if len(seeds) > 1:
            continue
        for items in seeds.values():
            variance_with_df = variance_over_clusterings(items)
            if variance_with_df:
                variance, df = variance_with_df
                variances.append((variance / len(seeds_by_task) ** 2, df))
    return variances


def _effective_labels(items: ItemScores, design_effect: float) -> Labels:
    """Return how many independent items of either label the items behind an area under the ROC curve are worth."""
    positive = float(np.sum(items.gold == 1))
    negative = len(items.ids) - positive
    return Labels(positive / design_effect, negative / design_effect)


def _scale_of_mean(items_by_task: Sequence[Sequence[ItemScores]]) -> Scale:
    """Return the scale of a mean over tasks, from the items of all seeds on each task.

    Return ``share`` if all scores are shares of right answers, ``area`` if all are such shares or areas.
    """
    are_shares = True
    for items in items_by_task:
        is_share = all(seed_items.hits for seed_items in items)
        is_area = items[0].measure in ("auc", "ap")
        if not (is_share or is_area):
            return "plain"
        are_shares = are_shares and is_share
    return "share" if are_shares else "area"


def _groups_behind(items: ItemScores, groups: float) -> float:
    """Return the number of item groups that decide whether a score is 0 or 1.

    For the area under the ROC curve, these are the groups of the rarer label; for average precision, the positive ones.
    """
    positive_share = float(np.mean(items.gold == 1))
    if items.measure == "auc":
        return groups * min(positive_share, 1 - positive_share)
    if items.measure == "ap":
        return groups * positive_share
    return groups


def _largest_effect(items: Sequence[ItemScores]) -> float:
    """Return the largest difference of two scores, divided by the share of items that differ; infinite if unknown.

    It is 1 for means of values between 0 and 1. Spearman's correlation changes by at most six times the share of items.
    An area under the ROC curve changes by at most the share of the items among those of their label.
    """
    first = items[0]
    if all(seed_items.bounded for seed_items in items):
        return 1.0
    if first.statistic == "spearman":
        return 6.0
    if first.measure == "auc":
        positive_share = float(np.mean(first.gold == 1))
        return 1 / min(positive_share, 1 - positive_share)
    return inf


def _with_ranks(seeds: Seeds) -> Seeds:
    """Replace the values of items by their ranks, as all scores but means depend on ranks alone."""
    from scipy.stats import rankdata

    ranked: dict[int, ItemScores] = {}
    for seed, items in seeds.items():
        if items.statistic != MEAN:
            items = replace(items, values=rankdata(items.values))
        ranked[seed] = items
    return ranked


def _subtracted(first: Sequence[FloatArray], second: Sequence[FloatArray]) -> list[FloatArray]:
    """Subtract the second array of each pair from the first."""
    return [a - b for a, b in zip(first, second, strict=True)]


def _absolute_differences(first: Seeds, second: Seeds) -> FloatArray:
    """Return the absolute differences of two encoders' values, each averaged over its seeds, shape (items,)."""
    first_values = np.mean([items.values for items in first.values()], axis=0)
    second_values = np.mean([items.values for items in second.values()], axis=0)
    difference: FloatArray = np.abs(first_values - second_values)
    return difference


def _disagreement(first: Seeds, second: Seeds) -> float:
    """Return the share of items that only one of two encoders answers: the weighted mean of absolute differences."""
    items = next(iter(first.values()))
    return float(_absolute_differences(first, second) @ items.shares)


def _equivalent_answers(difference: PointEstimate, disagreement: float) -> Answers:
    """Return answers to independent questions that have the same difference, error and disagreement.

    If a share q of n independent questions is answered by only one of two encoders, and the difference of their shares
    of right answers is d, then its standard error is sqrt((q - d²) / n). This is solved for n. Independent items of one
    seed are themselves such questions. Without an error, as for identical answers, n is the number of groups of items.

    Args:
        difference: the difference of two shares of right answers.
        disagreement: the share of items that only one of the encoders answers.
    """
    d = difference.value
    variance_of_answer = disagreement - d**2
    n = difference.groups
    if difference.error > 0 and variance_of_answer > 0:
        # The error of G groups was estimated with G - 1 in place of G.
        groups = max(_FEWEST_GROUPS, difference.groups)
        n = variance_of_answer / difference.error**2 * groups / (groups - 1)
    wins = max(0.0, n * (disagreement + d) / 2)
    losses = max(0.0, n * (disagreement - d) / 2)
    return Answers(wins, losses, n)


def _most_complete(items: Sequence[ItemScores]) -> ItemScores:
    """Return the items of the seed for which most is stored: their contents first, then what they share."""
    return max(
        items,
        key=lambda seed_items: (seed_items.content is not None, seed_items.shared is not None),
    )


def _items_of(encoders: Iterable[Seeds]) -> list[ItemScores]:
    """Return the items of all seeds of all encoders."""
    return [items for seeds in encoders for items in seeds.values()]
