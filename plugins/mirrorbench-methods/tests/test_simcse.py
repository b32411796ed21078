"""SimCSE: the recipe, and the head in training."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from mirrorbench_methods import simcse
from tuned import TEXTS, opened, tuned

from mirrorbench.core.errors import TuningError
from mirrorbench.core.plugins import Plugins
from mirrorbench.models.pooling import Pooling


@pytest.mark.parametrize(
    ("architecture", "batch_size", "lr"),
    [("bert", 64, 3e-5), ("roberta", 512, 1e-5), ("electra", 64, 3e-5)],
)
def test_preset_equals_the_papers_values(
    plugins: Plugins, architecture: str, batch_size: int, lr: float
) -> None:
    for level in ("word", "phrase", "sentence", "wic"):
        recipe = plugins.methods["simcse"].preset(level, architecture, "paper")
        assert (recipe.temperature, recipe.epochs, recipe.train_max_length) == (0.05, 1, 32)
        assert (recipe.batch_size, recipe.lr, recipe.weight_decay) == (batch_size, lr, 0.0)
        assert (recipe.loss, recipe.pooling, recipe.layers) == ("in-batch", "cls", "-1:")
        assert dict(recipe.augment) == {"dropout": 0.1, "simcse_head": 1.0}
        assert recipe.clean_corpus
        assert not plugins.methods["simcse"].preset(level, architecture, "released").clean_corpus


def test_head_applies_dense_layer_and_tanh(plugins: Plugins) -> None:
    transformer, _ = opened(plugins, "simcse")
    ids, pooling = transformer.tokenize(TEXTS[:3], 32), [Pooling("cls", "-1:", 32)]
    with torch.no_grad():
        (before,) = transformer.forward(ids, pooling)
        detach = simcse.Head().attach(transformer.model, 1.0)
        weights = dict(transformer.model.named_parameters())
        dense, bias = weights["simcse_head.0.weight"], weights["simcse_head.0.bias"]
        (within,) = transformer.forward(ids, pooling)
        assert detach is not None
        detach()
        (after,) = transformer.forward(ids, pooling)
    torch.testing.assert_close(within, torch.tanh(before @ dense.T + bias))
    torch.testing.assert_close(after, before, rtol=0, atol=0)
    assert "simcse_head.0.weight" not in transformer.model.state_dict()


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
    with pytest.raises(TuningError, match="simcse_head is on the last layer") as caught:
        tuned(plugins, "simcse", layers="-2:")
    assert "simcse_head=0" in caught.value.hint
