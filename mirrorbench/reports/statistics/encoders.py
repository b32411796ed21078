"""Compares two encoders in full: every task that both have, and their average."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mirrorbench.core.errors import UsageError
from mirrorbench.reports.comparable import incomparable, of_one_computation, of_one_seed
from mirrorbench.reports.statistics import LEVEL
from mirrorbench.reports.statistics.comparisons import Comparison, Comparisons, RowKey, Seeds
from mirrorbench.reports.statistics.estimates import holm
from mirrorbench.reports.statistics.items import items_of

if TYPE_CHECKING:
    from mirrorbench.core.plugins import Plugins
    from mirrorbench.reports.comparable import Stored


@dataclass(frozen=True)
class TaskComparison(Comparison):
    """Two encoders on one task.

    Attributes:
        task: the name.
        metric: the metric that is compared.
        corrected: the p-value corrected for the number of tasks (Holm).
        this_model: whether an encoder was tuned with one seed, so that the verdict is about that model.
    """

    task: str
    metric: str
    corrected: float | None
    this_model: bool

    @property
    def verdict(self) -> str:
        """The better encoder, if the corrected p-value is significant."""
        if self.corrected is None or self.corrected >= 1 - LEVEL:
            return "not separable"
        return f"{'A' if self.difference > 0 else 'B'} better{' (this model)' if self.this_model else ''}"


@dataclass(frozen=True)
class EncoderComparison:
    """Two encoders: each task that could be compared, the average over several, and notes on what was left out."""

    tasks: tuple[TaskComparison, ...]
    average: Comparison | None
    notes: tuple[str, ...]


def compare_encoders(
    first: Sequence[Stored], second: Sequence[Stored], tasks: Sequence[str], plugins: Plugins,
    allow_mixed: bool = False,
) -> EncoderComparison:  # fmt: skip
    """Compare two encoders on those of the ``tasks`` that both have; ``UsageError`` where results are not comparable.

    ``allow_mixed`` also compares results of different data or protocols.
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
    notes = [*left_out, *(f"not comparable: {reason}" for reason in mixed)]
    for name, side in (("A", 0), ("B", 1)):
        if only := [task for task, both in pairs.items() if both[side] and not both[1 - side]]:
            notes.append(f"only {name} has: {', '.join(only)}")
    items: dict[tuple[RowKey, str], Seeds] = {}
    for task in shared:
        read = [{entry.result.seed: items_of(entry, plugins) for entry in side} for side in pairs[task]]
        if any(found is None for side in read for found in side.values()):
            notes.append(f"{task}: not compared, since a score is undefined or cannot be computed from its predictions")
            continue
        for name, found in zip("AB", read, strict=True):
            items[name, task] = {seed: own for seed, own in found.items() if own}
    compared = Comparisons(items, plugins)
    known = [task for task in shared if ("A", task) in items]
    if not known:
        raise UsageError("there is no task on which both can be compared" + "".join(f"\n  {n}" for n in notes))
    each = {task: compared.compare("A", "B", [task]) for task in known}
    notes += [
        f"{t}: {one.left_out} items that only one of them has are left out" for t, one in each.items() if one.left_out
    ]
    made = []
    for task, p in zip(known, holm([one.p for one in each.values()]), strict=True):
        results = [[entry.result for entry in side] for side in pairs[task]]
        this_model, metric = any(map(of_one_seed, results)), results[0][0].main_metric
        made.append(TaskComparison(**vars(each[task]), task=task, metric=metric, corrected=p, this_model=this_model))
    average = compared.compare("A", "B", known) if len(known) > 1 else None
    return EncoderComparison(tuple(made), average, tuple(notes))
