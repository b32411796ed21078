"""Compares two encoders in full: every task that both have, and their average."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mirrorbench.core.errors import UsageError
from mirrorbench.reports.comparable import of_one_computation
from mirrorbench.reports.statistics import PairedTest
from mirrorbench.reports.statistics.comparisons import Comparison, Comparisons, RowKey
from mirrorbench.reports.statistics.items import ItemScores
from mirrorbench.reports.statistics.resampling import LEVEL, RESAMPLES, corrected, enough
from mirrorbench.runs.results import Result

if TYPE_CHECKING:
    from mirrorbench.core.plugins import Plugins
    from mirrorbench.reports.selection import Stored

FIRST, SECOND, NEITHER = "A better", "B better", "not separable"


@dataclass(frozen=True)
class TaskComparison(Comparison):
    """Two encoders on one task.

    Attributes:
        task: the name.
        metric: the metric that is compared.
        corrected: the p-value corrected for the number of tasks (Holm).
        independent: whether it is unknown what the items share, so that they are taken as independent.
    """

    task: str
    metric: str
    corrected: float | None
    independent: bool

    @property
    def verdict(self) -> str:
        """The better encoder, if the corrected p-value is significant."""
        if self.corrected is None or self.corrected >= 1 - LEVEL:
            return NEITHER
        return FIRST if self.difference > 0 else SECOND


@dataclass(frozen=True)
class EncoderComparison:
    """Two encoders: each task that could be compared, the average over several, and notes on what was left out."""

    tasks: tuple[TaskComparison, ...]
    average: Comparison | None
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
    items: dict[tuple[RowKey, str], list[ItemScores]] = {}
    for task in shared:
        read = [[entry.items(plugins) for entry in side] for side in pairs[task]]
        if any(found is None for side in read for found in side):
            notes.append(f"{task}: not compared, since a score is undefined or cannot be computed from its predictions")
            continue
        for name, found in zip("AB", read, strict=True):
            items[name, task] = [one for one in found if one]
    compared = Comparisons(items, plugins, resamples, seed)
    known = [task for task in shared if ("A", task) in items]
    if not known:
        raise UsageError("there is no task on which both can be compared" + "".join(f"\n  {n}" for n in notes))
    resamples = enough(len(known), resamples)
    each = [compared.compare("A", "B", [task], test, resamples) for task in known]
    notes += [
        f"{task}: {one.left_out} items that only one of them has are left out"
        for task, one in zip(known, each, strict=True)
        if one.left_out
    ]
    metrics = {task: pairs[task][0][0].result.main_metric for task in known}
    compared_tasks = tuple(
        TaskComparison(**vars(one), task=t, metric=metrics[t], corrected=p, independent=compared.independent("AB", t))
        for t, one, p in zip(known, each, corrected([one.p for one in each]), strict=True)
    )
    average = compared.compare("A", "B", known, test, resamples) if len(known) > 1 else None
    return EncoderComparison(compared_tasks, average, tuple(notes))


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
