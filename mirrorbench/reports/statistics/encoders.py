"""Compares encoders on the same items: two in full, or all cells of a table with the best of their column.

An encoder's score is the mean over its seeds; a resample or permutation of items applies to all seeds at once. So tests
are about items, given the seeds; the standard deviation is about seeds (Reimers and Gurevych, EMNLP 2017). Seeds are
never pooled as further items, which would be dependent observations (Dror et al., ACL 2018).

In a table, an encoder is tied where a paired test against the best one of the column, Holm-corrected, is not
significant. The best is chosen on the same items, so the test separates slightly too often (multiple comparisons with
the best: Hsu 1984).
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from mirrorbench.core.errors import UsageError
from mirrorbench.reports.comparable import of_one_computation
from mirrorbench.reports.statistics import PairedTest
from mirrorbench.reports.statistics.items import MEAN, ItemScores, common, scores_on, statistic_of
from mirrorbench.reports.statistics.resampling import (
    LEVEL,
    RESAMPLES,
    FloatArray,
    Interval,
    bootstrap,
    bootstrap_p,
    correlation_swaps,
    holm,
    mcnemar,
    mean_swaps,
    p_of_swaps,
    percentile_interval,
)
from mirrorbench.reports.table import Table, Verdict
from mirrorbench.runs.results import Result

if TYPE_CHECKING:
    from mirrorbench.core.plugins import Plugins
    from mirrorbench.reports.selection import Stored

CORRELATIONS = ("spearman", "pearson", "uncentred_pearson")
TABLE_RESAMPLES = 2_000
"""Resamples for a cell: fewer than in a comparison, since a table has many cells and prints three digits."""
_FEWEST = 200
"""Of the resamples in each task of an average that a verdict is on."""

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
    (first, second), left_out = of_one_computation([first, second])
    pairs = {task: [[x for x in side if x.result.task == task] for side in (first, second)] for task in tasks}
    shared = [task for task, (a, b) in pairs.items() if a and b]
    mixed = [f"{t}: {why}" for t in shared for why in incomparable([x.result for side in pairs[t] for x in side])]
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
    notes = [*left_out, *(f"mixed: {reason}" for reason in mixed)]
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


def incomparable(results: Sequence[Result]) -> list[str]:
    """Why results on one task cannot be compared: different data, task versions, protocols, precisions or metrics."""
    several = (
        (lambda r: json.dumps(r.data.get("files"), sort_keys=True), "different data (checksums)"),
        (lambda r: str(r.data.get("version")), "different versions of the task"),
        (lambda r: str(r.computation), "different computations"),
        (lambda r: r.protocol, f"protocols {' and '.join(sorted({r.protocol for r in results}))}"),
        (lambda r: r.evaluated_in, f"evaluated in {' and '.join(sorted({r.evaluated_in for r in results}))}"),
        (lambda r: r.main_metric, f"metrics {' and '.join(sorted({r.main_metric for r in results}))}"),
    )
    return [what for key, what in several if len({key(result) for result in results}) > 1]


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
    values = _swapped(first, second, resamples, seed)
    return None if values is None else p_of_swaps(values)


def _swapped(first: Sequence[ItemScores], second: Sequence[ItemScores], resamples: int, seed: int) -> FloatArray | None:
    """The difference of two means or correlations, observed and after random swaps of items."""
    a, b = (np.stack([items.values for items in seeds]) for seeds in (first, second))
    if first[0].kind == MEAN:
        return mean_swaps(a, b, resamples, seed)
    return correlation_swaps(a, b, first[0].gold, first[0].kind, resamples, seed)


class Marker:
    """Marks cells from the items of their results (by ``cell_id``); cells without items stay unmarked."""

    def __init__(
        self, table: Table, items: Mapping[str, ItemScores], plugins: Plugins, resamples: int = TABLE_RESAMPLES
    ) -> None:
        self._table, self._plugins, self._resamples = table, plugins, resamples
        names = [column.name for column in table.columns]
        self._parts = [[names.index(n) for n in c.average_of] or [i] for i, c in enumerate(table.columns)]
        self._seeds = {  # the items of each seed, by row and task
            (r, c): [items[cell] for cell in score.cell_ids]
            for r, row in enumerate(table.rows)
            for c, score in enumerate(row.scores)
            if score is not None and all(cell in items for cell in score.cell_ids)
        }
        self._drawn: dict[tuple[int, int, int], FloatArray] = {}

    def mark(self, intervals: bool = False, ties: bool = False) -> Table:
        """The table with the requested intervals and ties, and notes that explain them."""
        table = self._table
        tied = [self._tied(column) if ties else set() for column in range(len(table.columns))]
        rows = []
        for r, row in enumerate(table.rows):
            scores = [
                s and replace(s, interval=self._interval(r, c) if intervals else None, tied=r in tied[c])
                for c, s in enumerate(row.scores)
            ]
            rows.append(replace(row, scores=tuple(scores)))
        notes = []
        if intervals:
            notes.append(
                f"[low, high]: {LEVEL:.0%} percentile bootstrap over items ({self._resamples:,} resamples), given the "
                "seeds; not the deviation over seeds; of averages, tasks are resampled independently."
            )
        if ties:
            notes.append(
                "Tied: not separable from the best of its column by a paired test over items (McNemar for right and "
                "wrong answers of one seed each, permutation for other means, correlations and averages of these, "
                f"bootstrap for AUC), Holm-corrected within the column, level {1 - LEVEL:.2f}."
            )
        unknown = {
            column.title: None
            for c, column in enumerate(table.columns)
            if any(row.spec and row.scores[c] and not self._known(r, c) for r, row in enumerate(table.rows))
        }
        if (intervals or ties) and unknown:
            notes.append(
                f"Not marked, since their metric cannot be computed anew from predictions: {', '.join(unknown)}."
            )
        return replace(table, rows=tuple(rows), notes=(*table.notes, *notes))

    def _known(self, row: int, column: int) -> bool:
        return self._table.rows[row].scores[column] is not None and all(
            self._seeds.get((row, task)) for task in self._parts[column]
        )

    def _draw(self, row: int, task: int, resamples: int) -> FloatArray:
        """A cell's resampled means: rows with the same items share resamples, tasks are resampled independently."""
        if (row, task, resamples) not in self._drawn:
            behind = {r: seeds for (r, t), seeds in self._seeds.items() if t == task}
            items = {r: {(i.ids, i.kind, i.gold.tobytes()) for i in seeds} for r, seeds in behind.items()}
            # Rows with the same items at once: drawing and ranking the gold is most of the work.
            rows = [r for r in behind if items[r] == items[row]] if len(items[row]) == 1 else [row]
            (aligned,) = common([[i for r in rows for i in behind[r]]])
            values = bootstrap(statistic_of(aligned, self._plugins), len(aligned[0].ids), resamples, task)
            ends = np.cumsum([len(behind[r]) for r in rows])[:-1]
            for r, own in zip(rows, np.split(values, ends), strict=True):
                self._drawn[r, task, resamples] = own.mean(axis=0)
        return self._drawn[row, task, resamples]

    def _interval(self, row: int, column: int) -> tuple[float, float] | None:
        if not self._known(row, column):
            return None
        drawn = [self._draw(row, task, self._resamples) for task in self._parts[column]]
        interval = percentile_interval(np.mean(drawn, axis=0))
        return (interval.low, interval.high) if interval else None

    def verdict(self, row: int, over: int, column: int, why_not: str = "") -> Verdict:
        """What a row gained over another on the items that both have; not yet corrected for other verdicts."""
        table, tasks = self._table, self._parts[column]
        one, other = table.rows[row], table.rows[over]
        made = Verdict(one.spec, other.spec, one.protocol, table.columns[column].name, why_not=why_not)
        if not why_not and not (self._known(row, column) and self._known(over, column)):
            made = replace(made, why_not="no predictions that give the score")
        if made.why_not:
            return made
        sides = [common([self._seeds[row, task], self._seeds[over, task]]) for task in tasks]
        if not all(a[0].ids for a, _ in sides):
            return replace(made, why_not="no item in common")
        gains = [mean_of_seeds(a, self._plugins).mean - mean_of_seeds(b, self._plugins).mean for a, b in sides]
        # An average over k tasks varies by 1/sqrt(k) as much, so that a k-th of the resamples fix its interval as well.
        resamples = max(_FEWEST, self._resamples // len(tasks))
        drawn = np.mean([self._difference(row, over, task, resamples) for task in tasks], axis=0)
        interval, (test, p) = percentile_interval(drawn), self._tested(row, over, column, RESAMPLES)
        return replace(
            made, difference=statistics.fmean(gains), interval=(interval.low, interval.high) if interval else None,
            test=test.value, p=p, why_not="the difference is undefined" if p is None else "",
        )  # fmt: skip

    def _tied(self, column: int) -> set[int]:
        """Rows that are not separable from the best of the column, without the best."""
        scores = enumerate(row.scores[column] for row in self._table.rows)
        means = {row: score.mean for row, score in scores if score is not None and self._known(row, column)}
        if len(means) < 2:
            return set()
        best = max(means, key=means.__getitem__)
        tested = {row: self._tested(best, row, column, self._resamples)[1] for row in means if row != best}
        p = {row: value for row, value in tested.items() if value is not None}
        return {row for row, corrected in zip(p, holm(list(p.values())), strict=True) if corrected >= 1 - LEVEL}

    def _tested(self, row: int, other: int, column: int, permutations: int) -> tuple[PairedTest, float | None]:
        """The paired test of two rows, and its p-value; of an average, all of its tasks are permuted or resampled."""
        tasks = self._parts[column]
        sides = [common([self._seeds[row, task], self._seeds[other, task]]) for task in tasks]
        tests = [suited(PairedTest.auto, a, b) for a, b in sides]
        if not all(a[0].ids for a, _ in sides):
            return tests[0], None
        if PairedTest.bootstrap in tests:
            drawn = np.mean([self._difference(row, other, task, self._resamples) for task in tasks], axis=0)
            return PairedTest.bootstrap, bootstrap_p(drawn)
        if tests == [PairedTest.mcnemar]:
            ((a, b),) = sides
            return tests[0], paired_p(a, b, tests[0], permutations, column)
        values = [_swapped(a, b, permutations, task) for (a, b), task in zip(sides, tasks, strict=True)]
        known = [value for value in values if value is not None]
        return PairedTest.permutation, p_of_swaps(np.mean(known, axis=0)) if len(known) == len(values) else None

    def _difference(self, row: int, other: int, task: int, resamples: int) -> FloatArray:
        """The difference of two rows on the same resamples of their common items."""
        mine, theirs = self._seeds[row, task], self._seeds[other, task]
        if len({items.ids for items in (*mine, *theirs)}) == 1:
            return self._draw(row, task, resamples) - self._draw(other, task, resamples)
        a, b = (drawn_means(s, self._plugins, resamples, task) for s in common([mine, theirs]))
        return a - b
