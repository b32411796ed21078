"""Losses that plugins register: functions with arguments of their own, and objectives with models and modules."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any, ClassVar

import pytest
import torch
from augmented import AUGMENTATIONS, TEXTS, opened, recipe
from random_models import Models
from suites import few
from torch import Tensor

from mirrorbench.core.errors import PluginError, TuningError, UnknownNameError
from mirrorbench.core.hooks import Register, hookimpl
from mirrorbench.core.specs import parse_spec
from mirrorbench.models.pooling import Pooling
from mirrorbench.models.transformer import Transformer
from mirrorbench.runs.builtin import load_plugins
from mirrorbench.runs.rows import check_spec
from mirrorbench.training.loop import _Loop, tune_backbone
from mirrorbench.training.losses import LOSSES
from mirrorbench.training.microbatch import MicroBatchReader, TokenizedPairs
from mirrorbench.training.objective import Objective, OfVectors
from mirrorbench.training.recipes import Recipe


def distance(left: Tensor, right: Tensor, temperature: float, labels: Tensor | None, batch_size: int) -> Tensor:
    return ((left - right) ** 2).sum() / batch_size


class Twins(Objective):
    """A copy reads the first views; both learn, and a layer with them that maps the ones to the others."""

    made: ClassVar[list[Twins]] = []

    def __init__(self, transformer: Transformer, recipe: Recipe) -> None:
        super().__init__(transformer, recipe)
        self.readers = (replace(transformer, model=copy.deepcopy(transformer.model)), transformer)
        width = transformer.model.config.hidden_size
        self.layer = torch.nn.Linear(width, width)
        self.modules.append(self.layer)
        self.steps: list[int] = []
        self.made.append(self)

    def loss(self, left: Tensor, right: Tensor, batch: TokenizedPairs, most: int) -> Tensor:
        return (torch.tanh(self.layer(left)) * right).sum(1).mean()

    def stepped(self, optimizer: torch.optim.Optimizer, steps: int) -> None:
        self.steps.append(steps)


class Plugin:
    """A plugin with a loss of each sort."""

    @hookimpl
    def register_losses(self, register: Register) -> None:
        """Register them."""
        register("distance", distance, "squared Euclidean distance")
        register("twins", Twins)


def test_a_registered_loss_is_a_value_of_the_spec() -> None:
    plugins = load_plugins(discover=False)
    assert set(plugins.losses.names()) == set(LOSSES)
    with pytest.raises(UnknownNameError, match="infonse") as caught:
        check_spec(parse_spec("tiny+mirror:loss=infonse"), "paper", plugins)
    assert "infonce" in caught.value.hint
    with pytest.raises(UnknownNameError):
        check_spec(parse_spec("tiny+mirror:loss=twins"), "paper", plugins)
    plugins.add(Plugin(), "mine")
    for loss in ("distance", "twins"):
        check_spec(parse_spec(f"tiny+mirror:loss={loss}"), "paper", plugins)
    with pytest.raises(PluginError, match="the loss 'none' of this process is a int"):
        plugins.extended("register_losses", "none", 3)


def test_further_arguments_are_values_of_the_recipe(random_model: Models) -> None:
    changed = recipe(batch_size=7)
    objective = OfVectors(opened(random_model("bert"), changed), changed, distance)
    left, right = torch.ones(2, 3), torch.zeros(2, 3)
    assert objective.loss(left, right, TokenizedPairs(None, None, torch.arange(2)), 1).item() == pytest.approx(6 / 7)  # type: ignore[arg-type]


def pairs_of(transformer: Transformer, n: int) -> TokenizedPairs:
    return TokenizedPairs(transformer.tokenize([*TEXTS[:n], *TEXTS[n : 2 * n]], 20), None, torch.arange(n))


@pytest.mark.parametrize("most", [1 << 20, 40], ids=["at once", "in parts that are computed twice"])
@pytest.mark.parametrize("architecture", few(["bert", "deberta-v2"]))
def test_two_models_and_a_layer_learn_as_by_plain_autograd(random_model: Models, architecture: str, most: int) -> None:
    transformer = opened(random_model(architecture), recipe())
    objective = Twins(transformer, recipe())
    loop = _Loop(MicroBatchReader(objective, "fp32", packs=True), seed=0)
    loop.most = loop.held = most
    pairs = pairs_of(transformer, 6)
    loss = loop.within_memory(pairs)
    found = [weight.grad.to_dense().clone() if weight.grad is not None else None for weight in objective.weights]
    loop.optimizer.zero_grad()
    twin = objective.readers[0]
    assert twin is not None
    pooling = [Pooling("mean")]
    left = torch.cat([twin.forward(pairs.take([row]).ids.take([0]), pooling)[0] for row in range(6)])
    right = torch.cat([transformer.forward(pairs.take([row]).ids.take([1]), pooling)[0] for row in range(6)])
    expected = objective.loss(left, right, pairs, most)
    expected.backward()  # type: ignore[no-untyped-call]
    torch.testing.assert_close(loss, expected, rtol=1e-4, atol=1e-5)
    models = [*transformer.model.parameters()], [*twin.model.parameters()], [*objective.layer.parameters()]
    assert len(objective.weights) == sum(map(len, models))
    for gradient, weight in zip(found, objective.weights, strict=True):
        if gradient is None or weight.grad is None:
            assert gradient is weight.grad  # the unused pooler
        else:
            torch.testing.assert_close(gradient, weight.grad, rtol=1e-3, atol=1e-5)


def test_a_tuning_repeats_and_tells_the_objective_of_its_steps(random_model: Models) -> None:
    def tuned(**changes: Any) -> tuple[Twins, list[Tensor]]:
        changed = recipe(loss="twins", **changes)
        transformer = opened(random_model("bert"), changed)
        before = [weight.detach().clone() for weight in transformer.model.parameters()]
        tune_backbone(transformer, TEXTS[:50], changed, 0, AUGMENTATIONS, losses={"twins": Twins})
        after = list(transformer.model.parameters())
        assert not all(torch.equal(*both) for both in zip(before, after, strict=True))
        return Twins.made[-1], after

    (first, one), (second, other) = tuned(dropout=0.1), tuned(dropout=0.1)
    assert all(torch.equal(*both) for both in zip(one, other, strict=True))
    assert first.steps == [1, 2]
    assert torch.equal(first.layer.weight, second.layer.weight)
    with pytest.raises(TuningError, match="loss=twins does not read both views by one model"):
        tuned(controlled_dropout=0.1)
