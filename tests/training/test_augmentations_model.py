"""Augmentations inside the model, measured while it computes."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import pytest
import torch
from augmented import TEXTS, attached, embed, recipe, tuning_of
from random_models import ARCHITECTURES, Models
from suites import few
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

from mirrorbench.core.errors import TuningError
from mirrorbench.models.batching import Ragged
from mirrorbench.models.pooling import Pooling
from mirrorbench.models.transformer import Transformer
from mirrorbench.training.augmentations import ControlledDropout, Drophead, Dropout, drop_heads
from mirrorbench.training.objective import TokenizedPairs

architectures = pytest.mark.parametrize("architecture", few(ARCHITECTURES, "bert", "deberta", "modernbert"))


class DropoutRates(TorchFunctionMode):
    """Notes the rate of every dropout that torch is asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.rates: list[float] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = getattr(func, "__name__", "")
        if name == "scaled_dot_product_attention":
            self.rates.append(float(kwargs.get("dropout_p", args[4] if len(args) > 4 else 0.0)))
        elif "dropout" in name:
            rate = kwargs.get("p", args[1] if len(args) > 1 else 0.5)
            training = kwargs.get("training", args[2] if len(args) > 2 else True)
            self.rates.append(float(rate) if training else 0.0)
        return func(*args, **kwargs)


def rates_used(path: Path, rate: float, training: bool = True) -> tuple[list[float], list[torch.Tensor]]:
    with attached(path, recipe(dropout=rate)) as transformer:
        transformer.model.train(training)
    ids = transformer.tokenize(["a few words", "and some more of them"], 50)
    with DropoutRates() as seen:
        passes = [transformer.forward(ids, [Pooling("cls")])[0] for _ in range(2)]
    return seen.rates, passes


@architectures
def test_every_dropout_that_is_computed_has_the_rate(random_model: Models, architecture: str) -> None:
    path = random_model(architecture)
    rates, passes = rates_used(path, 0.37)
    assert set(rates) == {0.37}
    # Per pass and layer: attention, its output, the feed-forward's output; and once the embeddings.
    assert len(rates) >= 2 * (3 * 3 + 1)
    assert not torch.equal(*passes)
    for rate, training in ((0.0, True), (0.37, False)):
        rates, passes = rates_used(path, rate, training)
        assert set(rates) <= {0.0}
        assert torch.equal(*passes)


def test_a_model_that_it_does_not_know_is_an_error() -> None:
    class StableDropout(torch.nn.Module):
        p = 0.1

    linear = torch.nn.Linear(2, 2)
    with pytest.raises(TuningError, match="Linear has no dropout"):
        Dropout().attach(linear, 0.1)
    with pytest.raises(TuningError, match=r"a dropout of its own kind at 1 \(StableDropout\)"):
        Dropout().attach(torch.nn.Sequential(torch.nn.Dropout(), StableDropout()), 0.2)
    with pytest.raises(TuningError, match="Linear has no self-attention that drophead knows"):
        Drophead().attach(linear, 0.1)
    assert Dropout().attach(linear, 0.0) is None is Drophead().attach(linear, 0.0)


@pytest.mark.parametrize(
    ("architecture", "precision"),
    few([("bert", "fp32"), ("deberta-v2", "bf16"), ("bert", "bf16"), *product(ARCHITECTURES, ["fp32"])], 0, 1),
)
def test_identical_strings_have_identical_vectors_in_training_mode(
    architecture: str, precision: str, random_model: Models
) -> None:
    changed = recipe(controlled_dropout=0.25)
    with attached(random_model(architecture), changed) as transformer:
        assert {m.p for m in transformer.model.modules() if isinstance(m, torch.nn.Dropout)} == {0.25}
        loop = tuning_of(transformer, changed, False, precision)
        texts = [*TEXTS[:12], *TEXTS[:6]]
        pairs = TokenizedPairs(transformer.tokenize([*texts, *texts], 40), None, torch.arange(len(texts)))
        left, right = embed(loop, pairs)
        assert transformer.model.training
        assert torch.equal(left, right)
        # The masks are drawn anew for each pair and each step; only the two views of a pair share them.
        assert (left[:6] - left[12:]).abs().amax(1).min() > 1e-3
        loop.steps += 1
        again, _ = embed(loop, pairs)
        assert (again - left).abs().amax(1).min() > 1e-3
    left, right = embed(loop, pairs)
    assert (left - right).abs().amax(1).min() > 1e-3


def test_the_rate_of_attention_and_of_layers_is_measured() -> None:
    detach = ControlledDropout().attach(torch.nn.Dropout(), 0.3)
    assert detach is not None
    torch.manual_seed(0)
    dropped = F.dropout(torch.ones(40, 30, 50), 0.3)
    unit = torch.eye(64).expand(40, 2, 64, 64)
    # All scores are equal and the values are unit vectors, so the output is the dropped attention matrix itself.
    attention = F.scaled_dot_product_attention(torch.zeros(40, 2, 64, 64), unit, unit, dropout_p=0.3) * 64
    shared = F.dropout(torch.ones(200, 50), 0.3)
    detach()
    for result in (dropped, attention, shared):
        assert (result == 0).float().mean().item() == pytest.approx(0.3, abs=0.02)
        torch.testing.assert_close(result[result != 0], torch.full_like(result[result != 0], 1 / 0.7))
    for result in (dropped, attention):
        assert torch.equal(result[:20], result[20:])
        assert not torch.equal(result[0], result[1])
    assert not torch.equal(shared[:100], shared[100:])  # no batch axis: nothing to mirror


def attention_outputs(transformer: Transformer, ids: Ragged) -> list[torch.Tensor]:
    """What goes into each output projection in one pass: (batch, tokens, heads, dimensions of a head) each."""
    seen: list[torch.Tensor] = []
    model = transformer.model
    for layer in model.layers if hasattr(model, "layers") else model.encoder.layer:  # found by its place, not its name
        projection = layer.attn.Wo if hasattr(layer, "attn") else layer.attention.output.dense
        # Hooks run in the order in which they were put there, so these see what drophead made.
        projection.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0].detach()))
    transformer.forward(ids, [Pooling("mean")])
    return [states.view(*states.shape[:2], model.config.num_attention_heads, -1) for states in seen]


@architectures
def test_heads_dropped_and_rescaled_in_the_real_attention(architecture: str, random_model: Models) -> None:
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
        assert (zero.all(dim=1) == zero.any(dim=1)).all()  # a head goes at all tokens of an example, or at none
        assert zero[:, 0].float().mean().item() == pytest.approx(0.3, abs=0.03)
    kept = (dropped[0] != 0).any(dim=3, keepdim=True).any(dim=1, keepdim=True)
    expected = whole * kept * (kept.shape[2] / kept.sum(dim=2, keepdim=True).clamp(min=1))
    torch.testing.assert_close(dropped[0], expected, rtol=1e-5, atol=1e-6)


def test_no_head_kept_adds_nothing() -> None:
    heads = torch.ones(2000, 3, 2, 5)
    torch.manual_seed(0)
    result = drop_heads(heads, 0.5)
    assert result.isfinite().all()
    values = {tuple(row) for row in result[:, 0, :, 0].tolist()}
    assert values == {(0.0, 0.0), (2.0, 0.0), (0.0, 2.0), (1.0, 1.0)}
