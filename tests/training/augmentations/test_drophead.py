from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from augmented import TEXTS, attached, recipe
from random_models import ARCHITECTURES

from mirrorbench.core.errors import TuningError, UsageError
from mirrorbench.models.pooling import Pooling
from mirrorbench.training.augmentations.model import Drophead, drop_heads

N_HEADS, N_LAYERS = 4, 3


def projections(model: Any) -> list[Any]:
    """The output projection of each layer's attention, found by its place in the layer and not by its name."""
    layers = model.layers if hasattr(model, "layers") else model.encoder.layer
    return [layer.attn.Wo if hasattr(layer, "attn") else layer.attention.output.dense for layer in layers]


def attention_outputs(model: Any, transformer: Any, ids: list[list[int]]) -> list[torch.Tensor]:
    """What goes into each output projection in one pass: (batch, tokens, heads, dimensions of a head) each."""
    seen: list[torch.Tensor] = []
    # Hooks run in the order in which they were put there, so these see what drophead made.
    handles = [p.register_forward_pre_hook(lambda m, x: seen.append(x[0].detach())) for p in projections(model)]
    transformer.forward(ids, [Pooling("mean")])
    for handle in handles:
        handle.remove()
    return [x.view(*x.shape[:2], N_HEADS, -1) for x in seen]


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_heads_dropped_and_rescaled_in_the_real_attention(
    architecture: str, random_model: Callable[[str], Path]
) -> None:
    with attached(random_model(architecture), recipe(drophead=0.3)) as transformer:
        # Many copies of one text: without dropout the first layer's heads differ by drophead alone.
        ids = transformer.tokenize([TEXTS[0]] * 1500, 40)
        torch.manual_seed(0)
        dropped = attention_outputs(transformer.model, transformer, ids)
        transformer.model.eval()
        whole = attention_outputs(transformer.model, transformer, ids)
    assert len(dropped) == len(whole) == N_LAYERS
    for layer in dropped:
        zero = (layer == 0).all(dim=3)
        assert (zero.all(dim=1) == zero.any(dim=1)).all()  # a head goes at all tokens of an example, or at none
        assert zero[:, 0].float().mean().item() == pytest.approx(0.3, abs=0.03)
    first, reference = dropped[0], whole[0]
    for example in range(50):
        kept = [head for head in range(N_HEADS) if first[example, :, head].abs().sum() > 0]
        for head in kept:
            expected = reference[example, :, head] * (N_HEADS / len(kept))
            torch.testing.assert_close(first[example, :, head], expected, rtol=1e-5, atol=1e-6)


def test_no_head_kept_adds_nothing() -> None:
    heads = torch.ones(2000, 3, 2, 5)
    torch.manual_seed(0)
    result = drop_heads(heads, 0.5)
    assert result.isfinite().all()
    values = {tuple(row) for row in result[:, 0, :, 0].tolist()}
    assert values == {(0.0, 0.0), (2.0, 0.0), (0.0, 2.0), (1.0, 1.0)}


@pytest.mark.parametrize("architecture", ["bert", "modernbert"])
def test_evaluation_and_the_time_after_are_untouched(architecture: str, random_model: Callable[[str], Path]) -> None:
    with attached(random_model(architecture), recipe()) as transformer:
        ids = transformer.tokenize(TEXTS[:5], 40)
        plain = transformer.forward(ids, [Pooling("mean")])[0]
    with attached(random_model(architecture), recipe(drophead=0.5)) as transformer:
        assert not torch.equal(transformer.forward(ids, [Pooling("mean")])[0], plain)
        transformer.model.eval()
        assert torch.equal(transformer.forward(ids, [Pooling("mean")])[0], plain)
    transformer.model.train()
    assert torch.equal(transformer.forward(ids, [Pooling("mean")])[0], plain)
    assert not any(module._forward_pre_hooks for module in transformer.model.modules())


def test_an_unknown_attention_is_an_error() -> None:
    with pytest.raises(TuningError, match="Linear has no self-attention that drophead knows"):
        Drophead().attach(torch.nn.Linear(2, 2), 0.1)
    assert Drophead().attach(torch.nn.Linear(2, 2), 0.0) is None


def test_the_rate_is_a_probability() -> None:
    with pytest.raises(UsageError, match="drophead=1 is out of range"):
        recipe(drophead=1)
