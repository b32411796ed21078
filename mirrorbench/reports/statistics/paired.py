"""Two encoders on the same items: the difference of their scores, its interval, and a paired test.

Several seeds: the score of an encoder is the mean of its seeds' scores, as in a table, and every resample or
permutation of items is applied to all seeds at once. So intervals and tests say what other *items* would have done,
given these seeds; what other *seeds* would do is the standard deviation's business (Reimers and Gurevych, EMNLP 2017).
The two are never pooled: three seeds on one test set are not three times as many items, and tests that take them for
that find differences where there are none (Dror et al., ACL 2018, on dependent observations).
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from mirrorbench.core.errors import UsageError
from mirrorbench.reports.statistics import PairedTest
from mirrorbench.reports.statistics.items import MEAN, ItemScores, common, statistic
from mirrorbench.reports.statistics.resampling import RESAMPLES, Floats, Statistic, bootstrap, estimate
from mirrorbench.reports.statistics.significance import (
    Interval,
    bootstrap_p,
    correlation_permutation,
    mcnemar,
    mean_permutation,
    percentile_interval,
)

if TYPE_CHECKING:
    from mirrorbench.core.plugins import Plugins

CORRELATIONS = ("spearman", "pearson", "uncentred_pearson")


@dataclass(frozen=True, slots=True)
class SeedMean:
    """A score over seeds: mean, sample standard deviation (``None`` for one seed), and number of seeds."""

    mean: float
    sd: float | None
    seeds: int


@dataclass(frozen=True, slots=True)
class Difference:
    """The first encoder less the second, on one task.

    Attributes:
        n: items that both have.
        left_out: items that only some have.
        first: score of the first encoder on these items.
        second: score of the second.
        value: first less second; ``None`` where one is undefined.
        interval: bootstrap interval of the difference over items; ``None`` where undefined.
        test: which test was made.
        p: its two-sided p-value, not corrected; ``None`` where undefined.
        drawn: the difference on the resamples.
    """

    n: int
    left_out: int
    first: SeedMean
    second: SeedMean
    value: float
    interval: Interval | None
    test: PairedTest
    p: float | None
    drawn: Floats


def mean_of_seeds(seeds: Sequence[ItemScores], plugins: Plugins) -> SeedMean:
    """The score of an encoder on the items that its seeds share."""
    values = [float(value) for value in estimate(_statistic(seeds, plugins))]
    return SeedMean(statistics.fmean(values), statistics.stdev(values) if len(values) > 1 else None, len(values))


def drawn_means(seeds: Sequence[ItemScores], plugins: Plugins, resamples: int = RESAMPLES, seed: int = 0) -> Floats:
    """The score of an encoder (mean over seeds) on bootstrap resamples of its items, shape (resamples,).

    Equal ids and ``seed`` give equal resamples: the difference of two encoders' values is a paired bootstrap.
    """
    means: Floats = bootstrap(_statistic(seeds, plugins), resamples, seed).mean(axis=0)
    return means


def difference(
    first: Sequence[ItemScores],
    second: Sequence[ItemScores],
    plugins: Plugins,
    test: PairedTest = PairedTest.auto,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> Difference:
    """Compare two encoders on the items that both have.

    Args:
        first: one encoder, one entry a seed, at least one.
        second: another.
        plugins: whose metrics may be the score.
        test: which paired test.
        resamples: of the bootstrap and of a permutation test.
        seed: of both.

    Raises:
        UsageError: the test does not suit the score.
        DataFormatError: the items are not the same, though their ids are.
    """
    a, b = common([first, second])
    if not a[0].ids:
        raise UsageError("the two encoders have no item in common")
    everything = frozenset[str]().union(*(items.ids for items in (*first, *second)))
    # One after the other, on the same resamples: what is in memory at once stays small.
    drawn = drawn_means(a, plugins, resamples, seed) - drawn_means(b, plugins, resamples, seed)
    made = suited(test, a, b)
    one, other = mean_of_seeds(a, plugins), mean_of_seeds(b, plugins)
    return Difference(
        n=len(a[0].ids),
        left_out=len(everything) - len(a[0].ids),
        first=one,
        second=other,
        value=one.mean - other.mean,
        interval=percentile_interval(drawn),
        test=made,
        p=bootstrap_p(drawn) if made is PairedTest.bootstrap else paired_p(a, b, made, resamples, seed),
        drawn=drawn,
    )


def suited(test: PairedTest, first: Sequence[ItemScores], second: Sequence[ItemScores]) -> PairedTest:
    """The test that is meant by ``auto``, or the one asked for, if it suits.

    Raises:
        UsageError: McNemar's test for anything but right or wrong of one seed each, or a permutation test for a
            metric that is neither a mean nor a correlation.
    """
    kind = first[0].kind
    exact = first[0].hits and second[0].hits and len(first) == len(second) == 1
    permutable = kind == MEAN or kind in CORRELATIONS
    if test is PairedTest.auto:
        return PairedTest.mcnemar if exact else PairedTest.permutation if permutable else PairedTest.bootstrap
    if test is PairedTest.mcnemar and not exact:
        what = "several seeds" if first[0].hits and second[0].hits else f"a score that is no accuracy ({kind})"
        raise UsageError(f"McNemar's test compares right and wrong answers of one seed each, not {what}")
    if test is PairedTest.permutation and not permutable:
        raise UsageError(f"there is no permutation test for {kind}; the bootstrap suits every metric")
    return test


def paired_p(
    first: Sequence[ItemScores],
    second: Sequence[ItemScores],
    test: PairedTest,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> float | None:
    """The p-value of McNemar's or a permutation test on the same items in the same order (``common``)."""
    if test is PairedTest.mcnemar:
        return mcnemar(first[0].values > 0, second[0].values > 0)
    a, b = (np.stack([items.values for items in seeds]) for seeds in (first, second))
    if first[0].kind == MEAN:
        return mean_permutation(a, b, resamples, seed)
    return correlation_permutation(a, b, first[0].gold, first[0].kind, resamples, seed)


def _statistic(seeds: Sequence[ItemScores], plugins: Plugins) -> Statistic:
    (aligned,) = common([seeds])
    return statistic(aligned[0].kind, np.stack([items.values for items in aligned]), aligned[0].gold, plugins)
