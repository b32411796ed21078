"""Failures of cells, made from the errors that caused them."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from helpers.small_plans import Make, make

from mirrorbench.core.errors import DataUnavailableError, DeviceError, DeviceMemoryError, Lack
from mirrorbench.core.specs import parse_spec
from mirrorbench.runs.outcomes import Failure, failed

__all__ = ["make"]
SPEC = parse_spec("tiny+mirror")


def test_failure_keeps_message_hint_and_lacks() -> None:
    lacks = (Lack("data", "stsb", ("host.org",)),)
    failure = Failure.of(DataUnavailableError("it is gone", "fetch it", lacks), SPEC, "stsb", 3)
    assert failure == Failure(SPEC, "stsb", "it is gone", "fetch it", 3, lacks)


def test_foreign_errors_are_named_by_their_type() -> None:
    failure = Failure.of(ZeroDivisionError("by zero"), SPEC, "stsb")
    assert failure == Failure(SPEC, "stsb", "ZeroDivisionError: by zero")


@pytest.mark.parametrize("error", [DeviceMemoryError("full"), torch.OutOfMemoryError("full")])
def test_failure_tells_that_a_device_is_full(error: Exception) -> None:
    assert Failure.of(error, SPEC, "stsb").full


def test_lost_device_is_raised_instead() -> None:
    error = torch.AcceleratorError("CUDA error: unspecified launch failure")
    with pytest.raises(DeviceError, match="can no longer use the GPU") as caught:
        Failure.of(error, SPEC, "stsb")
    assert caught.value.__cause__ is error


def test_one_error_fails_every_cell_of_a_group(make: Make) -> None:
    (cell,) = make("toy").cells
    outcomes = failed((cell, replace(cell, task="dogs", seed=1)), ValueError("no"))
    found = [(done.cell.task, done.outcome) for done in outcomes]
    assert found == [
        (task, Failure(cell.spec, task, "ValueError: no", seed=seed))
        for task, seed in (("cats", 0), ("dogs", 1))
    ]
