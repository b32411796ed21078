"""SimCSE: the recipe, and the head in training."""

from __future__ import annotations

import pytest
import torch
from mirrorbench_methods import simcse
from sample_texts import CORPUS, TEXTS

import mirrorbench
from mirrorbench.plugin import Plugins, Transformer, TuningError


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


def test_head_applies_dense_layer_and_tanh(transformer: Transformer) -> None:
    recipe = simcse.preset("sentence", "bert", "paper")
    ids, pooling = transformer.tokenize(TEXTS[:3], 32), [recipe.readout(32)]
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


def test_head_on_other_layers_is_rejected(plugins: Plugins) -> None:
    with pytest.raises(TuningError, match="simcse_head is on the last layer") as caught:
        mirrorbench.load(f"tiny+simcse:layers=-2:,{CORPUS}", offline=True)
    assert "simcse_head=0" in caught.value.hint
