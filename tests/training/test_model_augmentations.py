"""Augmentations inside the model, measured while it computes."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import pytest
import torch
from helpers.augmented_models import TEXTS, attached, embed, recipe, tuning_of
from helpers.random_models import ARCHITECTURES, Models
from helpers.suite_marks import few
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

from mirrorbench.core.errors import TuningError
from mirrorbench.models.pooling import Pooling
from mirrorbench.training.augmentations import ControlledDropout, Dropout
from mirrorbench.training.losses import TokenizedPairs

architectures = pytest.mark.parametrize(
    "architecture", few(ARCHITECTURES, "bert", "deberta", "modernbert")
)


class DropoutRates(TorchFunctionMode):
    """A recorder of the rate of every dropout."""

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


def rates_used(
    path: Path, rate: float, training: bool = True
) -> tuple[list[float], list[torch.Tensor]]:
    with attached(path, recipe(dropout=rate)) as transformer:
        transformer.model.train(training)
    ids = transformer.tokenize(["a few words", "and some more of them"], 50)
    with DropoutRates() as seen:
        passes = [transformer.forward(ids, [Pooling("cls")])[0] for _ in range(2)]
    return seen.rates, passes


@architectures
def test_every_executed_dropout_has_the_rate(random_model: Models, architecture: str) -> None:
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


def test_dropout_rejects_unsupported_models() -> None:
    class StableDropout(torch.nn.Module):
        p = 0.1

    linear = torch.nn.Linear(2, 2)
    with pytest.raises(TuningError, match="Linear has no dropout"):
        Dropout().attach(linear, 0.1)
    with pytest.raises(TuningError, match=r"a dropout of its own kind at 1 \(StableDropout\)"):
        Dropout().attach(torch.nn.Sequential(torch.nn.Dropout(), StableDropout()), 0.2)
    assert Dropout().attach(linear, 0.0) is None


@pytest.mark.parametrize(
    ("architecture", "precision"),
    few(
        [
            ("bert", "fp32"),
            ("deberta-v2", "bf16"),
            ("bert", "bf16"),
            *product(ARCHITECTURES, ["fp32"]),
        ],
        0,
        1,
    ),
)
def test_controlled_dropout_gives_both_views_the_same_vector(
    architecture: str, precision: str, random_model: Models
) -> None:
    changed = recipe(controlled_dropout=0.25)
    with attached(random_model(architecture), changed) as transformer:
        assert {m.p for m in transformer.model.modules() if isinstance(m, torch.nn.Dropout)} == {
            0.25
        }
        loop = tuning_of(transformer, changed, False, precision)
        texts = [*TEXTS[:12], *TEXTS[:6]]
        pairs = TokenizedPairs(
            transformer.tokenize([*texts, *texts], 40), None, torch.arange(len(texts))
        )
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


def test_controlled_dropout_has_its_rate_and_shares_masks() -> None:
    detach = ControlledDropout().attach(torch.nn.Dropout(), 0.3)
    assert detach is not None
    torch.manual_seed(0)
    dropped = F.dropout(torch.ones(40, 30, 50), 0.3)
    unit = torch.eye(64).expand(40, 2, 64, 64)
    # All scores are equal and the values are unit vectors, so the output is the dropped attention matrix itself.
    attention = (
        F.scaled_dot_product_attention(torch.zeros(40, 2, 64, 64), unit, unit, dropout_p=0.3) * 64
    )
    shared = F.dropout(torch.ones(200, 50), 0.3)
    detach()
    for result in (dropped, attention, shared):
        assert (result == 0).float().mean().item() == pytest.approx(0.3, abs=0.02)
        torch.testing.assert_close(
            result[result != 0], torch.full_like(result[result != 0], 1 / 0.7)
        )
    for result in (dropped, attention):
        assert torch.equal(result[:20], result[20:])
        assert not torch.equal(result[0], result[1])
    assert not torch.equal(shared[:100], shared[100:])  # no batch axis: nothing to mirror
