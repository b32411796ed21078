"""Compares two encoders on the same items: difference of scores, confidence interval and paired test for each task.

An encoder's score is the mean over its seeds; a resample or permutation of items applies to all seeds at once. So tests
are about items, given the seeds; the standard deviation is about seeds (Reimers and Gurevych, EMNLP 2017). Seeds are
never pooled as further items, which would be dependent observations (Dror et al., ACL 2018).
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from mirrorbench.core.errors import UsageError
from mirrorbench.reports.statistics import PairedTest
from mirrorbench.reports.statistics.items import MEAN, ItemScores, common, scores_on, statistic_of
from mirrorbench.reports.statistics.resampling import RESAMPLES, FloatArray, bootstrap
from mirrorbench.reports.statistics.significance import (
    LEVEL,
    Interval,
    bootstrap_p,
    correlation_permutation,
    holm,
    mcnemar,
    mean_permutation,
    percentile_interval,
)
from mirrorbench.runs.results import Result

if TYPE_CHECKING:
    from mirrorbench.core.plugins import Plugins
    from mirrorbench.reports.selection import Stored

CORRELATIONS = ("spearman", "pearson", "uncentred_pearson")
FIRST, SECOND, NEITHER = "A better", "B better", "not separable"


@dataclass(frozen=True, slots=True)
class SeedMean:
    """A score over seeds: mean, sample standard deviation (``None`` for one seed), and number of seeds."""

    mean: float
    sd: float | None
    seeds: int


@dataclass(frozen=True)
class TaskComparison:
    """Two encoders on one task.

    Attributes:
        task: the name.
        metric: the metric that is compared.
        n: number of items that both encoders have.
        left_out: number of items that only one of them has.
        first: score of the first encoder on the n items.
        second: score of the second encoder.
        interval: bootstrap interval of the difference over items; ``None`` where undefined.
        test: the test that was used.
        p: its two-sided p-value.
        drawn: the difference on each resample.
        corrected: the p-value corrected for the number of tasks (Holm).
    """

    task: str
    metric: str
    n: int
    left_out: int
    first: SeedMean
    second: SeedMean
    interval: Interval | None
    test: PairedTest
    p: float | None
    drawn: FloatArray
    corrected: float | None = None

    @property
    def difference(self) -> float:
        """First minus second."""
        return self.first.mean - self.second.mean

    @property
    def verdict(self) -> str:
        """The better encoder, if the corrected p-value is significant."""
        if self.corrected is None or self.corrected >= 1 - LEVEL:
            return NEITHER
        return FIRST if self.difference > 0 else SECOND


@dataclass(frozen=True)
class AverageComparison:
    """Mean scores over tasks, and a paired bootstrap of their difference, each task resampled independently."""

    first: float
    second: float
    interval: Interval | None
    p: float | None


@dataclass(frozen=True)
class EncoderComparison:
    """Two encoders: each task that could be compared, the average over several, and notes on what was left out."""

    tasks: tuple[TaskComparison, ...]
    average: AverageComparison | None
    notes: tuple[str, ...]


def compare_encoders(
    first: Sequence[Stored], second: Sequence[Stored], tasks: Sequence[str], plugins: Plugins,
    test: PairedTest = PairedTest.auto, resamples: int = RESAMPLES, seed: int = 0, allow_mixed: bool = False,
) -> EncoderComparison:  # fmt: skip
    """Compare two encoders on those of the ``tasks`` that both have; ``UsageError`` where results are not comparable.

    Tasks are resampled independently. ``allow_mixed`` also compares results of different data or protocols.
    """
    pairs = {task: [[x for x in side if x.result.task == task] for side in (first, second)] for task in tasks}
    shared = [task for task, (a, b) in pairs.items() if a and b]
    mixed = [reason for task in shared for reason in _incomparable([x.result for side in pairs[task] for x in side])]
    mixed += [
        f"{task}: the seeds of {name} differ in recipe, corpus or precision"
        for task in shared
        for name, side in zip("AB", pairs[task], strict=True)
        if len({x.result.experiment for x in side}) > 1
    ]
    if mixed and not allow_mixed:
        raise UsageError(
            "these results do not belong together:\n  " + "\n  ".join(mixed),
            "Run one of them again, choose with --protocol or --tasks, or compare them all the same: --allow-mixed",
        )
    notes = [f"mixed: {reason}" for reason in mixed]
    for name, side in (("A", 0), ("B", 1)):
        if only := [task for task, both in pairs.items() if both[side] and not both[1 - side]]:
            notes.append(f"only {name} has: {', '.join(only)}")
    compared: list[TaskComparison] = []
    for index, task in enumerate(shared):
        a, b = ([entry.items(plugins) for entry in side] for side in pairs[task])
        if any(items is None for items in (*a, *b)):
            notes.append(f"{task}: not compared, since a score is undefined or cannot be computed from its predictions")
            continue
        metric = pairs[task][0][0].result.main_metric
        found = compare_items(
            [x for x in a if x], [x for x in b if x], plugins, test, resamples, seed + index, task, metric
        )
        compared.append(found)
        if found.left_out:
            notes.append(f"{task}: {found.left_out} items that only one of them has are left out")
    if not compared:
        raise UsageError("there is no task on which both can be compared" + "".join(f"\n  {n}" for n in notes))
    p_values = {entry.task: entry.p for entry in compared if entry.p is not None}
    corrected = dict(zip(p_values, holm(list(p_values.values())), strict=True))
    compared = [replace(entry, corrected=corrected.get(entry.task)) for entry in compared]
    return EncoderComparison(tuple(compared), _average(compared) if len(compared) > 1 else None, tuple(notes))


def _incomparable(results: Sequence[Result]) -> list[str]:
    """Why results on one task cannot be compared: different data, task versions, protocols or metrics."""
    several = (
        (lambda r: json.dumps(r.data.get("files"), sort_keys=True), "different data (checksums)"),
        (lambda r: str(r.data.get("version")), "different versions of the task"),
        (lambda r: r.protocol, f"protocols {' and '.join(sorted({r.protocol for r in results}))}"),
        (lambda r: r.main_metric, f"metrics {' and '.join(sorted({r.main_metric for r in results}))}"),
    )
    return [f"{results[0].task}: {what}" for key, what in several if len({key(result) for result in results}) > 1]


def _average(compared: Sequence[TaskComparison]) -> AverageComparison:
    drawn = np.mean([entry.drawn for entry in compared], axis=0)
    first = float(np.mean([entry.first.mean for entry in compared]))
    second = float(np.mean([entry.second.mean for entry in compared]))
    return AverageComparison(first, second, percentile_interval(drawn), bootstrap_p(drawn))


def compare_items(
    first: Sequence[ItemScores], second: Sequence[ItemScores], plugins: Plugins, test: PairedTest = PairedTest.auto,
    resamples: int = RESAMPLES, seed: int = 0, task: str = "", metric: str = "",
) -> TaskComparison:  # fmt: skip
    """Compare two encoders, one entry for each seed, on the items that both have."""
    a, b = common([first, second])
    n = len(a[0].ids)
    if not n:
        raise UsageError("the two encoders have no item in common")
    everything = frozenset[str]().union(*(items.ids for items in (*first, *second)))
    # One after the other, on the same resamples, to limit memory.
    drawn = drawn_means(a, plugins, resamples, seed) - drawn_means(b, plugins, resamples, seed)
    made = suited(test, a, b)
    p = bootstrap_p(drawn) if made is PairedTest.bootstrap else paired_p(a, b, made, resamples, seed)
    return TaskComparison(
        task, metric, n, len(everything) - n, mean_of_seeds(a, plugins), mean_of_seeds(b, plugins),
        percentile_interval(drawn), made, p, drawn,
    )  # fmt: skip


def mean_of_seeds(seeds: Sequence[ItemScores], plugins: Plugins) -> SeedMean:
    """The score of an encoder on the items that its seeds share."""
    values = scores_on(common([seeds])[0], plugins)
    return SeedMean(statistics.fmean(values), statistics.stdev(values) if len(values) > 1 else None, len(values))


def drawn_means(seeds: Sequence[ItemScores], plugins: Plugins, resamples: int = RESAMPLES, seed: int = 0) -> FloatArray:
    """An encoder's mean over seeds on bootstrap resamples of its items, shape (resamples,).

    Equal ids and ``seed`` give equal resamples, so the difference of two encoders is a paired bootstrap.
    """
    (aligned,) = common([seeds])
    means: FloatArray = bootstrap(statistic_of(aligned, plugins), len(aligned[0].ids), resamples, seed).mean(axis=0)
    return means


def suited(test: PairedTest, first: Sequence[ItemScores], second: Sequence[ItemScores]) -> PairedTest:
    """The test that ``auto`` stands for, or the given test; ``UsageError`` where it does not suit the metric.

    McNemar's test needs right and wrong answers of one seed each, a permutation test a mean or a correlation.
    """
    kind, hits = first[0].kind, first[0].hits and second[0].hits
    exact, permutable = hits and len(first) == len(second) == 1, kind == MEAN or kind in CORRELATIONS
    if test is PairedTest.auto:
        return PairedTest.mcnemar if exact else PairedTest.permutation if permutable else PairedTest.bootstrap
    if test is PairedTest.mcnemar and not exact:
        what = "several seeds" if hits else f"a score that is no accuracy ({kind})"
        raise UsageError(f"McNemar's test compares right and wrong answers of one seed each, not {what}")
    if test is PairedTest.permutation and not permutable:
        raise UsageError(f"there is no permutation test for {kind}; the bootstrap suits every metric")
    return test


def paired_p(
    first: Sequence[ItemScores], second: Sequence[ItemScores], test: PairedTest, resamples: int, seed: int
) -> float | None:
    """The p-value of McNemar's or a permutation test on the same items in the same order (``common``)."""
    if test is PairedTest.mcnemar:
        return mcnemar(first[0].values > 0, second[0].values > 0)
    a, b = (np.stack([items.values for items in seeds]) for seeds in (first, second))
    if first[0].kind == MEAN:
        return mean_permutation(a, b, resamples, seed)
    return correlation_permutation(a, b, first[0].gold, first[0].kind, resamples, seed)
