"""Two encoders on all tasks that both have results for."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from mirrorbench.core.errors import UsageError
from mirrorbench.reports.statistics import PairedTest
from mirrorbench.reports.statistics.items import ItemScores
from mirrorbench.reports.statistics.paired import Difference, difference
from mirrorbench.reports.statistics.resampling import RESAMPLES
from mirrorbench.reports.statistics.significance import LEVEL, Interval, bootstrap_p, holm, percentile_interval
from mirrorbench.reports.statistics.stored import Stored
from mirrorbench.runs.results import Result

if TYPE_CHECKING:
    from mirrorbench.core.plugins import Plugins

FIRST, SECOND, NEITHER = "A better", "B better", "not separable"


@dataclass(frozen=True)
class TaskComparison:
    """Two encoders on one task.

    Attributes:
        task: its name.
        metric: the metric that is compared.
        difference: scores, difference, interval, test and p-value.
        corrected: the p-value corrected for the number of tasks (Holm); ``None`` where undefined.
    """

    task: str
    metric: str
    difference: Difference
    corrected: float | None = None

    @property
    def verdict(self) -> str:
        """Which encoder is better at the level of the tests, if they can be told apart."""
        if self.corrected is None or self.corrected >= 1 - LEVEL:
            return NEITHER
        return FIRST if self.difference.value > 0 else SECOND


@dataclass(frozen=True)
class Average:
    """The mean difference over tasks, each resampled independently.

    Attributes:
        first: the first encoder's mean over tasks.
        second: the second's.
        interval: bootstrap interval of the difference.
        p: of a paired bootstrap; one test, so it is not corrected.
    """

    first: float
    second: float
    interval: Interval | None
    p: float | None


@dataclass(frozen=True)
class EncoderComparison:
    """Two encoders.

    Attributes:
        tasks: one for each task that could be compared.
        average: over them, where there are several.
        notes: what was left out, and why.
    """

    tasks: tuple[TaskComparison, ...]
    average: Average | None
    notes: tuple[str, ...]


def compare_encoders(
    first: Sequence[Stored],
    second: Sequence[Stored],
    tasks: Sequence[str],
    plugins: Plugins,
    test: PairedTest = PairedTest.auto,
    resamples: int = RESAMPLES,
    seed: int = 0,
    allow_mixed: bool = False,
    advance: Callable[[str], None] = lambda task: None,
) -> EncoderComparison:
    """Compare two encoders task by task.

    Args:
        first: results of one encoder, any number of seeds a task.
        second: of another.
        tasks: which tasks, in the order of the answer; those that one of them lacks are noted.
        plugins: whose metrics may be the scores.
        test: which paired test.
        resamples: of bootstraps and permutation tests.
        seed: of both; each task has another, so that tasks are resampled independently.
        allow_mixed: compare also what was computed from other data or under another protocol.
        advance: told the name of each task before it is compared.

    Raises:
        UsageError: there is nothing to compare, the results do not belong together, or the test does not suit them.
    """
    pairs = {task: ([x for x in first if x.result.task == task], [x for x in second if x.result.task == task])
             for task in tasks}  # fmt: skip
    shared = [task for task, (a, b) in pairs.items() if a and b]
    mixed = [reason for task in shared for reason in incomparable([x.result for side in pairs[task] for x in side])]
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
        advance(task)
        a, b = (_behind(side, plugins) for side in pairs[task])
        if a is None or b is None:
            notes.append(f"{task}: not compared, since a score is undefined or cannot be computed from its predictions")
            continue
        found = difference(a, b, plugins, test, resamples, seed + index)
        compared.append(TaskComparison(task, pairs[task][0][0].result.main_metric, found))
        if found.left_out:
            notes.append(f"{task}: {found.left_out} items that only one of them has are left out")
    if not compared:
        raise UsageError("there is no task on which both can be compared" + "".join(f"\n  {n}" for n in notes))
    return EncoderComparison(_corrected(compared), _average(compared), tuple(notes))


def incomparable(results: Sequence[Result]) -> list[str]:
    """Why results on one task cannot be compared: other data or another reading of the experiment."""
    task = results[0].task
    several = (
        (lambda r: json.dumps(r.data.get("files"), sort_keys=True), "different data (checksums)"),
        (lambda r: str(r.data.get("version")), "different versions of the task"),
        (lambda r: r.protocol, f"protocols {' and '.join(sorted({r.protocol for r in results}))}"),
        (lambda r: r.main_metric, f"metrics {' and '.join(sorted({r.main_metric for r in results}))}"),
    )
    return [f"{task}: {what}" for key, what in several if len({key(result) for result in results}) > 1]


def _behind(stored: Sequence[Stored], plugins: Plugins) -> list[ItemScores] | None:
    seeds = [entry.items(plugins) for entry in stored]
    known = [items for items in seeds if items is not None]
    return known if len(known) == len(seeds) else None


def _corrected(compared: Sequence[TaskComparison]) -> tuple[TaskComparison, ...]:
    p_values = {entry.task: p for entry in compared if (p := entry.difference.p) is not None}
    corrected = dict(zip(p_values, holm(list(p_values.values())), strict=True))
    return tuple(replace(entry, corrected=corrected.get(entry.task)) for entry in compared)


def _average(compared: Sequence[TaskComparison]) -> Average | None:
    if len(compared) < 2:
        return None
    drawn = np.mean([entry.difference.drawn for entry in compared], axis=0)
    first, second = (
        float(np.mean([getattr(entry.difference, side).mean for entry in compared])) for side in ("first", "second")
    )
    return Average(first, second, percentile_interval(drawn), bootstrap_p(drawn))
