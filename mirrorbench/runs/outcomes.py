"""What becomes of a plan's cells: those that are stored are taken, the rest is computed somewhere."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass

from mirrorbench.core.progress import Reporter
from mirrorbench.runs.cells import Cell, Failure
from mirrorbench.runs.plan import Plan
from mirrorbench.runs.results import Result, ResultStore

Cells = tuple[Cell, ...]
"""A group: cells that share their weights, for one worker."""


@dataclass(frozen=True)
class Outcome:
    """What a run left: results in the order of the plan, and what failed.

    Attributes:
        results: one for each cell that is done, computed now or before.
        failures: the others.
        computed: how many cells were computed now.
    """

    results: tuple[Result, ...]
    failures: tuple[Failure, ...]
    computed: int


@dataclass(frozen=True, slots=True)
class Done:
    """What became of a cell.

    Attributes:
        cell: the cell.
        outcome: its result, or why there is none.
        computed: whether it was computed here; otherwise another process had stored it meanwhile.
    """

    cell: Cell
    outcome: Result | Failure
    computed: bool = True


def failed(cells: Iterable[Cell], error: BaseException) -> list[Done]:
    """One error as the outcome of some cells."""
    return [Done(cell, Failure.of(error, cell.spec, cell.task, cell.seed)) for cell in cells]


def gather(
    plan: Plan, results: ResultStore, reporter: Reporter, compute: Callable[[list[Cells]], Iterable[Done]]
) -> Outcome:
    """Take what is stored, have the rest computed, and report both.

    Args:
        plan: the cells.
        results: where results are, and will be.
        reporter: whom to tell.
        compute: computes groups of cells in any order.
    """
    done: dict[Cell, Result] = {}  # not by id: two specs may mean the same, and each has a row of its own
    failures = list(plan.failures)
    for failure in failures:
        reporter.failure(failure)
    groups: list[Cells] = []
    for cells in plan.groups.values():
        pending = []
        for cell in cells:
            if stored := results.find(cell):
                results.restore(cell)
                done[cell] = stored
                reporter.cell(cell, stored.main_score, cached=True)
            else:
                pending.append(cell)
        if pending:
            groups.append(tuple(pending))
    computed = 0
    outcomes = iter(compute(groups) if groups else ())
    try:
        for item in outcomes:
            if isinstance(item.outcome, Failure):
                failures.append(item.outcome)
                reporter.failure(item.outcome)
            else:
                done[item.cell] = item.outcome
                computed += item.computed
                reporter.cell(item.cell, item.outcome.main_score, cached=not item.computed)
    finally:
        if isinstance(outcomes, Generator):  # where an executor ends its workers; now, and not when it is collected
            outcomes.close()
    return Outcome(tuple(done[cell] for cell in plan.cells if cell in done), tuple(failures), computed)
