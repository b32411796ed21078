"""Compares encoders on the same items: the one path of ``run``, ``leaderboard`` and ``compare``.

An encoder's score is the mean over its seeds; a resample or permutation of items applies to all seeds at once. So tests
are about items, given the seeds; the standard deviation is about seeds (Reimers and Gurevych, EMNLP 2017). Seeds are
never pooled as further items, which would be dependent observations (Dror et al., ACL 2018).
"""

from __future__ import annotations

import statistics
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from mirrorbench.core.errors import UsageError
from mirrorbench.reports.statistics import PairedTest
from mirrorbench.reports.statistics.dependence import (
    Influence,
    influence_of_leaving_out,
    influence_on_auc,
    influence_on_mean,
    influence_on_pearson,
    influence_on_spearman,
    shares,
    spread,
)
from mirrorbench.reports.statistics.items import MEAN, ItemScores, common, scores_on, statistic_of
from mirrorbench.reports.statistics.resampling import (
    RESAMPLES,
    FloatArray,
    Interval,
    PValue,
    Seed,
    bootstrap,
    bootstrap_p,
    correlation_swaps,
    mcnemar,
    mean_swaps,
    p_of_swaps,
    percentile_interval,
)

if TYPE_CHECKING:
    from mirrorbench.core.plugins import Plugins

CORRELATIONS = ("spearman", "pearson", "uncentred_pearson")
_INFLUENCES: dict[str, Influence] = {
    MEAN: influence_on_mean, "spearman": influence_on_spearman, "pearson": influence_on_pearson,
    "uncentred_pearson": partial(influence_on_pearson, centred=False), "auc": influence_on_auc,
}  # fmt: skip
_FEWEST = 200
"""Resamples of an interval, and of each task of an average, at least."""
_WEIGHTS = 10**8
"""Of the resamples of a bootstrap test, at most (10,000 of 10,000 items): more items need fewer for the same time."""

INDEPENDENT = "Items are taken as independent where results do not say which of them share texts"

RowKey = Hashable


@dataclass(frozen=True, slots=True)
class SeedMean:
    """A score over seeds: mean, sample standard deviation (``None`` for one seed), and number of seeds."""

    mean: float
    sd: float | None
    seeds: int


@dataclass(frozen=True)
class Comparison:
    """Two encoders on the items of a task that both have, or on average over several tasks.

    Attributes:
        n: number of items.
        left_out: number of items that only one of them has.
        first: score of the first encoder on the n items.
        second: score of the second encoder.
        interval: bootstrap interval of the difference over items; ``None`` where undefined.
        test: the test that was used.
        p: its two-sided p-value; ``None`` where the difference is undefined.
        bound: whether p is at most this, no resample being as extreme as the items themselves.
    """

    n: int
    left_out: int
    first: SeedMean
    second: SeedMean
    interval: Interval | None
    test: PairedTest
    p: float | None
    bound: bool

    @property
    def difference(self) -> float:
        """First minus second."""
        return self.first.mean - self.second.mean


@dataclass(frozen=True)
class _Pair:
    """Two rows on their common items of a task."""

    task: str
    first: list[ItemScores]
    second: list[ItemScores]
    scores: tuple[SeedMean, SeedMean]
    left_out: int
    widening: float
    """Of intervals and of the distribution without a difference, since items share texts."""
    dependent: bool
    """Whether any do."""


class Comparisons:
    """Rows on tasks, each by the items of its seeds.

    The resamples of a task depend on its name, its items and ``seed`` alone: a comparison has one answer, whatever else
    is compared.
    """

    def __init__(
        self, seeds: Mapping[tuple[RowKey, str], Sequence[ItemScores]], plugins: Plugins, resamples: int = RESAMPLES,
        seed: int = 0,
    ) -> None:  # fmt: skip
        self._seeds, self._plugins, self._resamples, self._seed = seeds, plugins, resamples, seed
        self._drawn: dict[tuple[RowKey, str, int], FloatArray] = {}

    def known(self, row: RowKey, tasks: Sequence[str]) -> bool:
        """Whether the row has items on all of the tasks."""
        return all(self._seeds.get((row, task)) for task in tasks)

    def independent(self, rows: Sequence[RowKey], task: str) -> bool:
        """Whether no result says what the items share, so that they are taken as independent."""
        return all(items.shared is None for row in rows for items in self._seeds.get((row, task), ()))

    def interval(self, row: RowKey, tasks: Sequence[str]) -> Interval | None:
        """The interval of a row's mean over tasks, each resampled independently."""
        drawn = []
        for task in tasks:
            (seeds,) = common([self._seeds[row, task]])
            mean = mean_of_seeds(seeds, self._plugins).mean
            values = self._draw(row, task, max(_FEWEST, self._resamples // 5))
            drawn.append(mean + self._widening(seeds) * (values - mean))
        return percentile_interval(np.mean(drawn, axis=0))

    def compare(
        self, row: RowKey, other: RowKey, tasks: Sequence[str], test: PairedTest = PairedTest.auto, resamples: int = 0
    ) -> Comparison:
        """Compare the means of two rows over tasks, each of which is resampled and permuted independently.

        ``resamples`` are those of the test; an interval has a fifth of those of ``Comparisons``.

        Raises:
            UsageError: they have no item in common on a task, or the test does not suit a metric.
        """
        pairs, resamples = [self._pair(row, other, task) for task in tasks], resamples or self._resamples
        tests = {suited(test, pair.first, pair.second, pair.dependent) for pair in pairs}
        made = max(tests, key=[PairedTest.mcnemar, PairedTest.permutation, PairedTest.bootstrap].index)
        made = PairedTest.permutation if made is PairedTest.mcnemar and len(tasks) > 1 else made
        # An average over k tasks varies by 1/sqrt(k) as much, so that a k-th of the resamples fix its interval as well.
        count = max(_FEWEST, self._resamples // 5 // len(tasks))
        if made is PairedTest.bootstrap:
            count = min(min(resamples, max(count, _WEIGHTS // len(pair.first[0].ids))) for pair in pairs)
        drawn = np.mean([self._difference(row, other, pair, count) for pair in pairs], axis=0)
        p = bootstrap_p(drawn) if made is PairedTest.bootstrap else self._paired_p(pairs, made, resamples)
        first, second = (_average([pair.scores[side] for pair in pairs]) for side in (0, 1))
        return Comparison(
            sum(len(pair.first[0].ids) for pair in pairs), sum(pair.left_out for pair in pairs),
            first, second, percentile_interval(drawn), made, p and p.value, p is not None and p.bound,
        )  # fmt: skip

    def _pair(self, row: RowKey, other: RowKey, task: str) -> _Pair:
        mine, theirs = self._seeds[row, task], self._seeds[other, task]
        first, second = common([mine, theirs])
        if not first[0].ids:
            raise UsageError("the two encoders have no item in common")
        left_out = len(frozenset[str]().union(*(items.ids for items in (*mine, *theirs)))) - len(first[0].ids)
        scores = mean_of_seeds(first, self._plugins), mean_of_seeds(second, self._plugins)
        dependent = _dependent([*first, *second])
        return _Pair(task, first, second, scores, left_out, self._widening(first, second), dependent)

    def _widening(self, first: Sequence[ItemScores], second: Sequence[ItemScores] = ()) -> float:
        """By how much shared texts widen the distribution of a score, or of the difference of two."""
        if not _dependent([*first, *second]):
            return 1.0
        influence = self._influence(first) - (self._influence(second) if second else 0)
        return spread(influence, _shared([*first, *second]))

    def _influence(self, seeds: Sequence[ItemScores]) -> FloatArray:
        kind, gold = seeds[0].kind, seeds[0].gold
        if kind not in _INFLUENCES:
            return influence_of_leaving_out(statistic_of(seeds, self._plugins), len(gold))
        found: FloatArray = np.mean([_INFLUENCES[kind](items.values, gold) for items in seeds], axis=0)
        return found

    def _draw(self, row: RowKey, task: str, count: int) -> FloatArray:
        """A row's resampled means: rows with the same items share resamples."""
        if (row, task, count) not in self._drawn:
            behind = {r: seeds for (r, t), seeds in self._seeds.items() if t == task and seeds}
            items = {r: {(i.ids, i.kind, i.gold.tobytes()) for i in seeds} for r, seeds in behind.items()}
            # Rows with the same items at once: drawing and ranking the gold is most of the work.
            rows = [r for r in behind if items[r] == items[row]] if len(items[row]) == 1 else [row]
            (aligned,) = common([[i for r in rows for i in behind[r]]])
            values = self._bootstrap(aligned, task, count)
            ends = np.cumsum([len(behind[r]) for r in rows])[:-1]
            for r, own in zip(rows, np.split(values, ends), strict=True):
                self._drawn[r, task, count] = own.mean(axis=0)
        return self._drawn[row, task, count]

    def _bootstrap(self, seeds: Sequence[ItemScores], task: str, count: int) -> FloatArray:
        return bootstrap(statistic_of(seeds, self._plugins), len(seeds[0].ids), count, self._seed_of(task))

    def _seed_of(self, task: str) -> Seed:
        return self._seed, crc32(task.encode())

    def _difference(self, row: RowKey, other: RowKey, pair: _Pair, count: int) -> FloatArray:
        """The difference of two rows on the same resamples of their common items, as wide as these allow."""
        if len({items.ids for side in (row, other) for items in self._seeds[side, pair.task]}) == 1:
            drawn = self._draw(row, pair.task, count) - self._draw(other, pair.task, count)
        else:
            a, b = (self._bootstrap(side, pair.task, count).mean(axis=0) for side in (pair.first, pair.second))
            drawn = a - b
        observed = pair.scores[0].mean - pair.scores[1].mean
        widened: FloatArray = observed + pair.widening * (drawn - observed)
        return widened

    def _paired_p(self, pairs: Sequence[_Pair], test: PairedTest, resamples: int) -> PValue | None:
        """The p-value of McNemar's or a permutation test."""
        if test is PairedTest.mcnemar:
            ((a,), (b,)) = pairs[0].first, pairs[0].second
            return PValue(mcnemar(a.values > 0, b.values > 0))
        values = []
        for pair in pairs:
            if (swapped := self._swapped(pair, resamples)) is None:
                return None
            values.append(np.append(swapped[0], pair.widening * swapped[1:]))
        return p_of_swaps(np.mean(values, axis=0))

    def _swapped(self, pair: _Pair, resamples: int) -> FloatArray | None:
        """The difference of two means or correlations, observed and after random swaps of items."""
        a, b = (np.stack([items.values for items in seeds]) for seeds in (pair.first, pair.second))
        kind, gold, seed = pair.first[0].kind, pair.first[0].gold, self._seed_of(pair.task)
        if kind == MEAN:
            return mean_swaps(a, b, resamples, seed)
        return correlation_swaps(a, b, gold, kind, resamples, seed)


def suited(
    test: PairedTest, first: Sequence[ItemScores], second: Sequence[ItemScores], dependent: bool = False
) -> PairedTest:
    """The test that ``auto`` stands for, or the given test; ``UsageError`` where it does not suit the metric.

    McNemar's test needs right and wrong answers of one seed each on items that share nothing, a permutation test a mean
    or a correlation.
    """
    kind, hits = first[0].kind, first[0].hits and second[0].hits
    single, permutable = hits and len(first) == len(second) == 1, kind == MEAN or kind in CORRELATIONS
    if test is PairedTest.auto:
        exact = single and not dependent
        return PairedTest.mcnemar if exact else PairedTest.permutation if permutable else PairedTest.bootstrap
    if test is PairedTest.mcnemar and not single:
        what = "several seeds" if hits else f"a score that is no accuracy ({kind})"
        raise UsageError(f"McNemar's test compares right and wrong answers of one seed each, not {what}")
    if test is PairedTest.mcnemar and dependent:
        raise UsageError("McNemar's test is for independent items, and these share texts", "Use --test permutation")
    if test is PairedTest.permutation and not permutable:
        raise UsageError(f"there is no permutation test for {kind}; the bootstrap suits every metric")
    return test


def mean_of_seeds(seeds: Sequence[ItemScores], plugins: Plugins) -> SeedMean:
    """The score of an encoder on the items that its seeds share."""
    values = scores_on(common([seeds])[0], plugins)
    return SeedMean(statistics.fmean(values), statistics.stdev(values) if len(values) > 1 else None, len(values))


def _average(scores: Sequence[SeedMean]) -> SeedMean:
    if len(scores) == 1:
        return scores[0]
    return SeedMean(statistics.fmean(score.mean for score in scores), None, min(score.seeds for score in scores))


def _shared(seeds: Sequence[ItemScores]) -> NDArray[np.int32] | None:
    """What the items share, as any of the results says: it is the same for all."""
    return next((items.shared for items in seeds if items.shared is not None), None)


def _dependent(seeds: Sequence[ItemScores]) -> bool:
    return shares(_shared(seeds))
