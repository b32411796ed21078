"""Executor, device and precisions of a run."""

from __future__ import annotations

import pytest

from mirrorbench.core.errors import UnknownNameError, UsageError
from mirrorbench.core.plugins import Plugins
from mirrorbench.runs.compute import Compute
from mirrorbench.runs.settings import Settings


def test_executor_options_come_from_the_settings(plugins: Plugins) -> None:
    settings = Settings(executor="pool:groups=3", workers=2, address="there")
    compute = Compute(settings, plugins)
    assert (compute.executor, compute.options) == (
        "pool",
        {"groups": 3, "workers": 2, "address": "there"},
    )
    with pytest.raises(UsageError, match="is not KEY=VALUE"):
        Compute(Settings(executor="local:workers"), plugins)


def test_unknown_executor_is_rejected(plugins: Plugins) -> None:
    with pytest.raises(UnknownNameError, match="unknown executor 'slum'") as caught:
        Compute(Settings(executor="slum"), plugins)
    assert "pip install mirrorbench-EXECUTOR" in caught.value.hint


def test_precisions_are_full_on_a_cpu_unless_asked(plugins: Plugins) -> None:
    assert Compute(Settings(device="cpu"), plugins).precisions == {
        "tuning": "fp32",
        "encoding": "fp32",
    }
    asked = Settings(device="cpu", precision="bf16", eval_precision="bf16")
    assert Compute(asked, plugins).precisions == {"tuning": "bf16", "encoding": "bf16"}
