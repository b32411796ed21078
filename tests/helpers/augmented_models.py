"""Models as they are during a tuning: built with the rates of a recipe, its model augmentations attached."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch

from mirrorbench.models.transformer import Transformer
from mirrorbench.runs.encoder_loading import open_for_tuning
from mirrorbench.runs.registry import load_plugins
from mirrorbench.training.augmentations import functions_and_rates
from mirrorbench.training.loop import _Loop
from mirrorbench.training.losses import LOSSES, TokenizedPairs, objective_of
from mirrorbench.training.microbatch import MicroBatchReader, in_order
from mirrorbench.training.recipes import Recipe, override

AUGMENTATIONS: dict[str, Any] = {
    entry.name: entry.value for entry in load_plugins(discover=False).augmentations
}
WORDS = ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"]
TEXTS = [f"{a} {b} and {a}" for a in WORDS for b in WORDS]
"""A hundred distinct texts of several lengths."""


def recipe(**params: Any) -> Recipe:
    """A short tuning of random models, without augmentation but for what is given."""
    plain = Recipe(
        temperature=0.1, epochs=1, train_max_length=20, pooling="mean", batch_size=25, lr=1e-3
    )
    return override(plain, {"dropout": 0, **params}, AUGMENTATIONS)


def opened(path: Path, changed: Recipe, registered: dict[str, Any] = AUGMENTATIONS) -> Transformer:
    """A model as a tuning opens it, tried already, as those of a run are."""
    transformer = open_for_tuning(path, changed, registered, torch.device("cpu"))
    assert transformer.traits.varies
    return transformer


def tuning_of(
    transformer: Transformer, changed: Recipe, packs: bool = True, precision: str = "fp32"
) -> _Loop:
    """The loop of a tuning, before its first step."""
    objective = objective_of(LOSSES[changed.loss], transformer, changed)
    return _Loop(MicroBatchReader(objective, precision, packs), seed=0)


@contextmanager
def attached(path: Path, changed: Recipe) -> Iterator[Transformer]:
    """The model of a directory in training mode, with everything undone afterwards."""
    transformer = opened(path, changed)
    with ExitStack() as stack:
        for augmentation, rate in functions_and_rates(changed.augment, AUGMENTATIONS, "model"):
            if detach := augmentation.attach(transformer.model, rate):
                stack.callback(detach)
        transformer.model.train()
        yield transformer


def embed(loop: _Loop, pairs: TokenizedPairs) -> tuple[torch.Tensor, torch.Tensor]:
    """Vectors of both views in the order of the pairs, as the next step of a tuning computes them."""
    parts, order = loop.reader.split(
        pairs, loop.most, np.random.default_rng((loop.seed, loop.steps))
    )
    return in_order(loop.reader.read(parts), order)
