"""Scores of encoders and their differences: the one path of ``run``, ``leaderboard`` and ``compare``.

An encoder's score is the mean over its seeds. Seeds are never pooled as further items, which would be dependent
observations (Dror et al., ACL 2018).
"""

from __future__ import annotations

import statistics
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from math import nan
from typing import TYPE_CHECKING

import numpy as np

from mirrorbench.reports.statistics.dependence import Dependence
from mirrorbench.reports.statistics.estimates import FEW, PointEstimate, Variance
from mirrorbench.reports.statistics.influence import FloatArray, influence
from mirrorbench.reports.statistics.items import ItemScores, common, score_on

if TYPE_CHECKING:
    from mirrorbench.core.plugins import Plugins

RowKey = Hashable
Seeds = Mapping[int, ItemScores]
"""The items of each seed."""


@dataclass(frozen=True, slots=True)
class SeedMean:
    """A score over seeds: mean, sample standard deviation (``None`` for one seed), and number of seeds."""

    mean: float
    sd: float | None
    seeds: int

    @property
    def part(self) -> list[Variance]:
        """The variance of the mean; none for one seed."""
        return [] if self.sd is None else [(self.sd**2 / self.seeds, self.seeds - 1.0)]


@dataclass(frozen=True)
class Comparison:
    """Two encoders on the items of a task that both have, or on average over several tasks.

    Attributes:
        n: number of items.
        left_out: number of items that only one of them has.
        first: score of the first encoder on the n items.
        second: score of the second encoder.
        estimate: the first less the second.
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
        """Its two-sided p-value; ``None`` where undefined."""
        return self.estimate.p


class Comparisons:
    """Rows on tasks, each by the items of its seeds.

    Args:
        seeds: the items by row and task.
        plugins: with the metrics.
    """

    def __init__(self, seeds: Mapping[tuple[RowKey, str], Seeds], plugins: Plugins) -> None:
        self._seeds, self._plugins = seeds, plugins
        self._scored: dict[tuple[RowKey, str, tuple[str, ...]], tuple[dict[int, float], FloatArray]] = {}
        self._dependence: dict[tuple[tuple[str, tuple[str, ...], bool], ...], Dependence] = {}

    def known(self, row: RowKey, tasks: Sequence[str]) -> bool:
        """Whether the row has items on all of the tasks."""
        return all(self._seeds.get((row, task)) for task in tasks)

    def estimate(self, row: RowKey, tasks: Sequence[str]) -> PointEstimate:
        """A row's mean over tasks."""
        own = [common([self._seeds[row, task]])[0] for task in tasks]
        score, influences = self._scores(row, tasks, own)
        variance = self._variance(tasks, [list(seeds.values()) for seeds in own], influences)
        return PointEstimate(score.mean, (variance, *score.part), sum(map(len, influences)))

    def compare(self, row: RowKey, other: RowKey, tasks: Sequence[str]) -> Comparison:
        """Compare the means of two rows over tasks; all is NaN where they have no item of a task in common."""
        pairs = [common([self._seeds[row, task], self._seeds[other, task]]) for task in tasks]
        both = [[items for side in pair for items in side.values()] for pair in pairs]
        n = sum(len(items[0].ids) for items in both)
        seeds = ([*self._seeds[row, task].values(), *self._seeds[other, task].values()] for task in tasks)
        left_out = sum(len({item for items in of for item in items.ids}) for of in seeds) - n
        if not all(items[0].ids for items in both):
            undefined = mean_of_seeds([nan])
            return Comparison(n, left_out, undefined, undefined, PointEstimate(nan, ((nan, 1),), n))
        first, of_first = self._scores(row, tasks, [pair[0] for pair in pairs])
        second, of_second = self._scores(other, tasks, [pair[1] for pair in pairs])
        variance = self._variance(tasks, both, [a - b for a, b in zip(of_first, of_second, strict=True)])
        # Rounding: encoders with the same vectors but for the last bits do not differ.
        difference, parts = round(first.mean - second.mean, 10), (variance, *first.part, *second.part)
        return Comparison(n, left_out, first, second, PointEstimate(difference, parts, n, _discordant(both)))

    def _scores(self, row: RowKey, tasks: Sequence[str], own: Sequence[Seeds]) -> tuple[SeedMean, list[FloatArray]]:
        """A row's mean over tasks, of the seeds that all have if there are any, and each item's influence on it."""
        scored = [self._score(row, task, seeds) for task, seeds in zip(tasks, own, strict=True)]
        shared = sorted(set(scored[0][0]).intersection(*(scores for scores, _ in scored)))
        means = [statistics.fmean(scores[seed] for scores, _ in scored) for seed in shared]
        means = means or [statistics.fmean(statistics.fmean(scores.values()) for scores, _ in scored)]
        return mean_of_seeds(means), [influences / len(tasks) for _, influences in scored]

    def _score(self, row: RowKey, task: str, seeds: Seeds) -> tuple[dict[int, float], FloatArray]:
        """A row's score on a task by seed, and the mean of the items' influences."""
        key = row, task, next(iter(seeds.values())).ids
        if key not in self._scored:
            scores = {seed: score_on(items, self._plugins) for seed, items in seeds.items()}
            influences = [influence(items.kind, items.values, items.gold, self._plugins) for items in seeds.values()]
            self._scored[key] = scores, np.mean(influences, axis=0)
        return self._scored[key]

    def _variance(
        self, tasks: Sequence[str], items: Sequence[Sequence[ItemScores]], influences: Sequence[FloatArray]
    ) -> Variance:
        """The variance over items; what they share is the same for all encoders of which any says it."""
        told = [next((own for own in of if own.shared is not None), of[0]) for of in items]
        key = tuple((task, own.ids, own.shared is None) for task, own in zip(tasks, told, strict=True))
        if key not in self._dependence:
            self._dependence[key] = Dependence(told)
        return self._dependence[key].variance(influences)


def mean_of_seeds(scores: Sequence[float]) -> SeedMean:
    """The mean of the scores of some seeds."""
    return SeedMean(statistics.fmean(scores), statistics.stdev(scores) if len(scores) > 1 else None, len(scores))


def _discordant(items: Sequence[Sequence[ItemScores]]) -> tuple[int, int] | None:
    """How many items of one task either of two encoders with one seed each alone answers, where these are few."""
    if len(items) > 1 or len(items[0]) > 2 or not all(own.hits for own in items[0]):
        return None
    first, second = (own.values for own in items[0])
    counts = int(np.sum(first > second)), int(np.sum(second > first))
    return counts if 0 < sum(counts) < FEW else None
