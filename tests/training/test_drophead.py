"""Dropped attention heads: their rate, and what stays."""

from __future__ import annotations

import pytest
import torch
from helpers.augmented_models import attached, recipe
from helpers.random_models import ARCHITECTURES, Models
from helpers.suite_marks import few

from mirrorbench.core.errors import TuningError
from mirrorbench.models.pooling import Pooling
from mirrorbench.models.ragged import Ragged
from mirrorbench.models.transformer import Transformer
from mirrorbench.training.drophead import Drophead, drop_heads

architectures = pytest.mark.parametrize(
    "architecture", few(ARCHITECTURES, "bert", "deberta", "modernbert")
)


def attention_outputs(transformer: Transformer, ids: Ragged) -> list[torch.Tensor]:
    """The input of each output projection in one pass, of shape (batch, tokens, heads, dimensions of a head)."""
    seen: list[torch.Tensor] = []
    model = transformer.model
    for layer in (
        model.layers if hasattr(model, "layers") else model.encoder.layer
    ):  # found by its place, not its name
        projection = layer.attn.Wo if hasattr(layer, "attn") else layer.attention.output.dense
        # Hooks run in the order in which they were put there, so these see what drophead made.
        projection.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0].detach()))
    transformer.forward(ids, [Pooling("mean")])
    return [states.view(*states.shape[:2], model.config.num_attention_heads, -1) for states in seen]


@architectures
def test_attention_heads_are_dropped_and_rescaled(architecture: str, random_model: Models) -> None:
    with attached(random_model(architecture), recipe(drophead=0.3)) as transformer:
        # Many copies of one text: without dropout the first layer's heads differ by drophead alone.
        ids = transformer.tokenize(["a text"] * 600, 40)
        torch.manual_seed(0)
        dropped = attention_outputs(transformer, ids)
        transformer.model.eval()
        untouched = [attention_outputs(transformer, ids)[0]]
    transformer.model.train()
    untouched.append(attention_outputs(transformer, ids)[0])
    with attached(random_model(architecture), recipe()) as transformer:
        whole = attention_outputs(transformer, ids)[0]
    assert all(torch.equal(states, whole) for states in untouched)
    assert len(dropped) == 3
    for layer in dropped:
        zero = (layer == 0).all(dim=3)
        assert (
            zero.all(dim=1) == zero.any(dim=1)
        ).all()  # a head goes at all tokens of an example, or at none
        assert zero[:, 0].float().mean().item() == pytest.approx(0.3, abs=0.03)
    kept = (dropped[0] != 0).any(dim=3, keepdim=True).any(dim=1, keepdim=True)
    expected = whole * kept * (kept.shape[2] / kept.sum(dim=2, keepdim=True).clamp(min=1))
    torch.testing.assert_close(dropped[0], expected, rtol=1e-5, atol=1e-6)


def test_dropping_all_heads_gives_zeros() -> None:
    heads = torch.ones(2000, 3, 2, 5)
    torch.manual_seed(0)
    result = drop_heads(heads, 0.5)
    assert result.isfinite().all()
    values = {tuple(row) for row in result[:, 0, :, 0].tolist()}
    assert values == {(0.0, 0.0), (2.0, 0.0), (0.0, 2.0), (1.0, 1.0)}


def test_drophead_rejects_model_without_known_attention() -> None:
    linear = torch.nn.Linear(2, 2)
    with pytest.raises(TuningError, match="Linear has no self-attention that drophead knows"):
        Drophead().attach(linear, 0.1)
    assert Drophead().attach(linear, 0.0) is None
