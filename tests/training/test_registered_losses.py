"""Losses that plugins register: functions with arguments of their own, and objectives with models and modules."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any, ClassVar

import pytest
import torch
from helpers.augmented_models import AUGMENTATIONS, TEXTS, opened, recipe
from helpers.random_models import Models
from torch import Tensor

from mirrorbench.core.errors import PluginError, TuningError, UnknownNameError
from mirrorbench.core.hooks import Register, hookimpl
from mirrorbench.core.specs import parse_spec
from mirrorbench.models.pooling import Pooling
from mirrorbench.models.transformer import Transformer
from mirrorbench.runs.recipe_resolution import check_spec
from mirrorbench.runs.registry import load_plugins
from mirrorbench.training.loop import _Loop, tune_backbone
from mirrorbench.training.losses import LOSSES, Objective, TokenizedPairs
from mirrorbench.training.microbatch import MicroBatchReader
from mirrorbench.training.recipes import Recipe


class Twins(Objective):
    """A copy reads the first views; both learn, and a layer with them that maps the ones to the others."""

    last: ClassVar[Twins]

    def __init__(self, transformer: Transformer, recipe: Recipe) -> None:
        super().__init__(transformer, recipe)
        self.readers = (replace(transformer, model=copy.deepcopy(transformer.model)), transformer)
        width = transformer.model.config.hidden_size
        self.layer = torch.nn.Linear(width, width)
        self.modules.append(self.layer)
        self.steps: list[int] = []
        Twins.last = self

    def loss(self, left: Tensor, right: Tensor, batch: TokenizedPairs, most: int) -> Tensor:
        return (torch.tanh(self.layer(left)) * right).sum(1).mean()

    def stepped(self, optimizer: torch.optim.Optimizer, steps: int) -> None:
        self.steps.append(steps)


class Plugin:
    @hookimpl
    def register_losses(self, register: Register) -> None:
        register("mine", LOSSES["infonce"], "a function")
        register("twins", Twins)


def test_registered_losses_are_accepted_in_specs() -> None:
    plugins = load_plugins(discover=False)
    assert set(plugins.losses.names()) == set(LOSSES)
    with pytest.raises(UnknownNameError, match="infonse") as caught:
        check_spec(parse_spec("tiny+mirror:loss=infonse"), "paper", plugins)
    assert "infonce" in caught.value.hint
    with pytest.raises(UnknownNameError):
        check_spec(parse_spec("tiny+mirror:loss=twins"), "paper", plugins)
    plugins.add(Plugin(), "of a test")
    for loss in ("mine", "twins"):
        check_spec(parse_spec(f"tiny+mirror:loss={loss}"), "paper", plugins)
    with pytest.raises(PluginError, match="the loss 'none' of this process is a int"):
        plugins.extended("register_losses", "none", 3)


@pytest.mark.parametrize("most", [1 << 20, 40], ids=["at once", "in parts that are computed twice"])
def test_objective_with_two_models_matches_plain_autograd(random_model: Models, most: int) -> None:
    transformer = opened(random_model("bert"), recipe())
    objective = Twins(transformer, recipe())
    loop = _Loop(MicroBatchReader(objective, "fp32", packs=True), seed=0)
    loop.most = loop.most_kept = most
    pairs = TokenizedPairs(transformer.tokenize(TEXTS[:12], 20), None, torch.arange(6))
    loss = loop.within_memory(pairs)
    actual = [
        weight.grad.to_dense().clone() if weight.grad is not None else None
        for weight in objective.weights
    ]
    loop.optimizer.zero_grad()
    twin = objective.readers[0]
    assert twin is not None
    left, right = (
        torch.cat([reader.forward(pairs.ids.take([row]), [Pooling("mean")])[0] for row in rows])
        for reader, rows in ((twin, range(6)), (transformer, range(6, 12)))
    )
    expected = objective.loss(left, right, pairs, most)
    expected.backward()  # type: ignore[no-untyped-call]
    torch.testing.assert_close(loss, expected, rtol=1e-4, atol=1e-5)
    models = (
        [*transformer.model.parameters()],
        [*twin.model.parameters()],
        [*objective.layer.parameters()],
    )
    assert len(objective.weights) == sum(map(len, models))
    for gradient, weight in zip(actual, objective.weights, strict=True):
        if gradient is None or weight.grad is None:
            assert gradient is weight.grad  # the unused pooler
        else:
            torch.testing.assert_close(gradient, weight.grad, rtol=1e-3, atol=1e-5)


def test_objective_is_notified_of_each_step(random_model: Models) -> None:
    def tune(**changes: Any) -> None:
        changed = recipe(loss="twins", **changes)
        transformer = opened(random_model("bert"), changed)
        tune_backbone(transformer, TEXTS[:50], changed, 0, AUGMENTATIONS, losses={"twins": Twins})

    tune(dropout=0.1)
    assert Twins.last.steps == [1, 2]
    with pytest.raises(TuningError, match="loss=twins does not read both views by one model"):
        tune(controlled_dropout=0.1)
