"""What rate do a model's dropouts really have? Measured while it computes, since a module's attribute may be unused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from random_models import ARCHITECTURES
from torch.overrides import TorchFunctionMode

from mirrorbench.core.errors import TuningError
from mirrorbench.models.pooling import Pooling
from mirrorbench.models.transformer import Transformer
from mirrorbench.runs.builtin import load_plugins
from mirrorbench.runs.runner import open_for_tuning
from mirrorbench.training.augmentations import in_use
from mirrorbench.training.augmentations.model import Dropout
from mirrorbench.training.recipes import Recipe

architectures = pytest.mark.parametrize("architecture", ARCHITECTURES)


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


def model(path: Path, rate: float) -> Transformer:
    recipe = Recipe(1.0, 1, 50, "cls", augment=(("dropout", rate),))
    registered = {entry.name: entry.value for entry in load_plugins(discover=False).augmentations}
    transformer = open_for_tuning(path, recipe, registered, torch.device("cpu"))
    for augmentation, value in in_use(recipe, registered, "model"):
        augmentation.attach(transformer.model, value)
    return transformer


def rates_used(transformer: Transformer, training: bool) -> tuple[DropoutRates, list[torch.Tensor]]:
    transformer.model.train(training)
    ids = transformer.tokenize(["a few words", "and some more of them"], 50)
    with DropoutRates() as rates:
        passes = [transformer.forward(ids, [Pooling("cls")])[0] for _ in range(2)]
    return rates, passes


@architectures
@pytest.mark.parametrize("rate", [0.1, 0.37])
def test_every_dropout_of_the_model_has_the_rate(
    random_model: Callable[[str], Path], architecture: str, rate: float
) -> None:
    rates, passes = rates_used(model(random_model(architecture), rate), training=True)
    assert set(rates.hidden) == {rate}
    assert set(rates.attention) <= {rate}
    # Per pass and layer: attention, its output, the feed-forward's output; and once the embeddings. Where attention is
    # computed step by step (DeBERTa), its dropout is among the hidden ones.
    assert len(rates.hidden) + len(rates.attention) >= 2 * (3 * 3 + 1)
    assert not torch.equal(*passes)


@architectures
def test_rate_zero_makes_two_passes_alike(random_model: Callable[[str], Path], architecture: str) -> None:
    rates, passes = rates_used(model(random_model(architecture), 0.0), training=True)
    assert set(rates.hidden) | set(rates.attention) <= {0.0}
    assert torch.equal(*passes)


@architectures
def test_reading_out_drops_nothing(random_model: Callable[[str], Path], architecture: str) -> None:
    rates, passes = rates_used(model(random_model(architecture), 0.37), training=False)
    assert set(rates.hidden) | set(rates.attention) <= {0.0}
    assert torch.equal(*passes)


def test_a_model_without_dropout_is_an_error() -> None:
    with pytest.raises(TuningError, match="Linear has no dropout layers"):
        Dropout().attach(torch.nn.Linear(2, 2), 0.1)
    Dropout().attach(torch.nn.Linear(2, 2), 0.0)


def test_a_dropout_of_its_own_kind_is_an_error() -> None:
    class StableDropout(torch.nn.Module):
        p = 0.1

    with pytest.raises(TuningError, match=r"a dropout of its own kind at 1 \(StableDropout\)"):
        Dropout().attach(torch.nn.Sequential(torch.nn.Dropout(), StableDropout()), 0.2)
