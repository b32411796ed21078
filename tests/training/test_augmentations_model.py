"""Augmentations inside the model, measured while it computes."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import pytest
import torch
from augmented import AUGMENTATIONS, TEXTS, attached, embed, recipe, tuning_of
from random_models import ARCHITECTURES, Models
from suites import few
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

from mirrorbench.core.errors import TuningError, UsageError
from mirrorbench.models.pooling import Pooling
from mirrorbench.training.augmentations.model import ControlledDropout, Drophead, Dropout, drop_heads
from mirrorbench.training.methods import mirror_preset
from mirrorbench.training.microbatch import TokenizedPairs
from mirrorbench.training.recipes import override

architectures = pytest.mark.parametrize("architecture", few(ARCHITECTURES, "bert", "deberta", "modernbert"))


class DropoutRates(TorchFunctionMode):
    """Notes the rate of every dropout that torch is asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.hidden: list[float] = []
        self.attention: list[float] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = getattr(func, "__name__", "")
        if name == "scaled_dot_product_attention":
            self.attention.append(float(kwargs.get("dropout_p", args[4] if len(args) > 4 else 0.0)))
        elif "dropout" in name:
            rate = kwargs.get("p", args[1] if len(args) > 1 else 0.5)
            training = kwargs.get("training", args[2] if len(args) > 2 else True)
            self.hidden.append(float(rate) if training else 0.0)
        return func(*args, **kwargs)


def rates_used(path: Path, rate: float, training: bool = True) -> tuple[DropoutRates, list[torch.Tensor]]:
    with attached(path, recipe(dropout=rate)) as transformer:
        transformer.model.train(training)
    ids = transformer.tokenize(["a few words", "and some more of them"], 50)
    with DropoutRates() as rates:
        passes = [transformer.forward(ids, [Pooling("cls")])[0] for _ in range(2)]
    return rates, passes


@architectures
def test_every_dropout_that_is_computed_has_the_rate(random_model: Models, architecture: str) -> None:
    path = random_model(architecture)
    rates, passes = rates_used(path, 0.37)
    assert set(rates.hidden) == {0.37}
    assert set(rates.attention) <= {0.37}
    # Per pass and layer: attention, its output, the feed-forward's output; and once the embeddings. Where attention is
    # computed step by step (DeBERTa), its dropout is among the hidden ones.
    assert len(rates.hidden) + len(rates.attention) >= 2 * (3 * 3 + 1)
    assert not torch.equal(*passes)
    for rate, training in ((0.0, True), (0.37, False)):
        rates, passes = rates_used(path, rate, training)
        assert set(rates.hidden) | set(rates.attention) <= {0.0}
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


def test_it_takes_the_place_of_dropout() -> None:
    preset = mirror_preset("sentence", "bert", "paper")
    assert preset.rate("dropout") == 0.1
    assert override(preset, {"controlled_dropout": 0.1}, AUGMENTATIONS).rate("dropout") == 0
    assert override(preset, {"controlled_dropout": 0}, AUGMENTATIONS).rate("dropout") == 0.1
    with pytest.raises(UsageError, match="dropout and controlled_dropout set the same layers"):
        override(preset, {"controlled_dropout": 0.1, "dropout": 0.1}, AUGMENTATIONS)


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


@architectures
def test_heads_dropped_and_rescaled_in_the_real_attention(architecture: str, random_model: Models) -> None:
    with attached(random_model(architecture), recipe(drophead=0.3)) as transformer:
        # Many copies of one text: without dropout the first layer's heads differ by drophead alone.
        ids = transformer.tokenize(["a text"] * 600, 40)
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
    for example in range(20):
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


@pytest.mark.parametrize("architecture", few(["bert", "modernbert"]))
def test_evaluation_and_the_time_after_are_untouched(architecture: str, random_model: Models) -> None:
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
