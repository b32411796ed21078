"""SimCSE in the loop of the core: the head in training."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from helpers.method_tunings import TEXTS, tuned
from mirrorbench_methods import simcse

from mirrorbench.core.plugins import Plugins


def test_head_is_trained_and_affects_the_weights(
    plugins: Plugins, monkeypatch: pytest.MonkeyPatch
) -> None:
    heads: list[torch.Tensor] = []
    attach = simcse.Head.attach

    def watched(self: simcse.Head, model: Any, rate: float) -> Any:
        detach = attach(self, model, rate)
        heads.extend(
            [model.simcse_head[0].weight, model.simcse_head[0].weight.detach().clone()]
            if detach
            else []
        )
        return detach

    monkeypatch.setattr(simcse.Head, "attach", watched)
    report, after = tuned(plugins, "simcse", texts=TEXTS[:18], batch_size=18)
    assert 0 < report.losses[0] < math.log(18) + 1
    assert not any("simcse_head" in name for name in after)
    assert not torch.equal(*heads)
    _, without = tuned(plugins, "simcse", texts=TEXTS[:18], batch_size=18, simcse_head=0)
    assert len(heads) == 2
    assert not all(torch.equal(value, without[name]) for name, value in after.items())
