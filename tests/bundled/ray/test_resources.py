"""Resources that the executor ``ray`` finds missing, after the core planned a device."""

from __future__ import annotations

import pytest
from helpers.executor_bench import Bench

from mirrorbench.core.errors import UsageError
from mirrorbench.runs.compute import Compute


@pytest.mark.full
def test_unavailable_local_resources_are_rejected(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Compute, "planned_device", "cuda")  # as on a machine with some GPUs
    with pytest.raises(UsageError, match="this machine does not have 1 CPUs and 1000 GPUs"):
        bench.run("there", "letters", executor="ray", gpus=1000)
