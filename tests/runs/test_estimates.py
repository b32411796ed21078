from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from bench import Bench
from random_models import Models

from mirrorbench.runs.estimates import Estimate, estimate
from mirrorbench.runs.plan import Plan
from mirrorbench.runs.results import Result


@pytest.fixture
def plan(bench: Bench, toy: object, random_model: Models) -> Callable[..., Plan]:
    """Of the toy tasks; encoders are what stands behind that of a backbone."""
    return lambda *encoders, **options: bench.plan(*(f"{random_model('bert')}{text}" for text in encoders), **options)


def results_of(plan: Plan, train: float, encode: float, score: float) -> list[Result]:
    return [
        Result(
            cell=cell.to_json(), cell_id=cell.id, metrics={}, main_metric="", main_score=None, n_items=0, coverage=1.0,
            seconds={"train": train, "encode": encode, "score": score}, data={},
            encoder={"weights": cell.model.fingerprint, "fingerprint": cell.model.key}, environment={},
            created=f"2021-11-07T12:00:0{number}+00:00",
        )
        for number, cell in enumerate(plan.cells)  # scored one after the other
    ]  # fmt: skip


def test_like_cells_give_the_time_of_the_rest(plan: Callable[..., Plan]) -> None:
    done = results_of(plan("+mirror:epochs=1"), train=10.0, encode=4.0, score=0.5)
    rest = plan("+mirror:epochs=3", seeds=2)
    # Each of two seeds: three epochs as long as one, and for each task half of the encoding and its scoring.
    assert estimate(rest.groups.values(), done) == Estimate(2 * (30 + 2 * (2 + 0.5)), 4, 0)


def test_others_count_as_unknown(plan: Callable[..., Plan]) -> None:
    done = results_of(plan("+base"), train=0.0, encode=4.0, score=0.5)
    assert estimate(plan("+mirror").groups.values(), done) == Estimate(0.0, 0, 2)
    assert estimate(plan("+base").groups.values(), []) == Estimate(0.0, 0, 2)
    one = [replace(result, cell=result.cell | {"task": "cats"}) for result in done[:1]]
    assert estimate(plan("+base").groups.values(), one) == Estimate(4.5, 1, 1)
