"""From a plan's weights to a tuned model in the cache."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path

import torch

from mirrorbench.core.errors import TuningError
from mirrorbench.core.plugins import Plugins
from mirrorbench.models.transformer import Transformer, load_transformer, quiet_transformers
from mirrorbench.runs.cache import Cache
from mirrorbench.runs.cells import Weights
from mirrorbench.training.augmentations import Augmentation
from mirrorbench.training.loop import model_augmentations, tune_backbone
from mirrorbench.training.recipes import Recipe


def tune_weights(
    weights: Weights,
    texts: Sequence[str],
    plugins: Plugins,
    device: torch.device,
    cache: Cache,
    advance: Callable[[int], None] = lambda n: None,
) -> tuple[Path, float]:
    """Tune and store a model.

    Args:
        weights: what to tune and how; its ``key`` is the model's name in the cache.
        texts: the strings.
        plugins: for the method and the augmentations.
        device: where to compute.
        cache: where the model goes.
        advance: called with the number of strings done after each step.

    Returns:
        The model's directory, and the seconds that the tuning loop took.

    Raises:
        TuningError: the corpus is too small, an augmentation cannot be applied, or the loss is not finite.
    """
    if weights.recipe is None or weights.path is None:
        raise TuningError(f"{weights.spec} is nothing to tune")
    registered: dict[str, Augmentation] = {entry.name: entry.value for entry in plugins.augmentations}
    transformer = prepare(weights.path, weights.recipe, registered, device)
    report = tune_backbone(
        transformer,
        texts,
        weights.recipe,
        weights.seed,
        registered,
        weights.protocol,
        weights.precision,
        advance,
        plugins.methods[weights.method].pairs,
    )
    corpus = weights.corpus
    description = {
        "spec": str(weights.spec),
        "seed": weights.seed,
        "recipe": weights.recipe.to_json(),
        "corpus": asdict(corpus) if corpus else None,
        "identity": weights.identity(),
        "cost": report.cost,
        "tuning": asdict(report) | {"device": str(device), "torch": torch.__version__},
    }
    with quiet_transformers():
        return cache.save_model(weights.key, transformer, description), report.seconds


def prepare(path: Path, recipe: Recipe, registered: dict[str, Augmentation], device: torch.device) -> Transformer:
    """A backbone built with the rates of the recipe's model augmentations."""

    def configure(config: object) -> None:
        for augmentation, rate in model_augmentations(recipe, registered):
            augmentation.configure(config, rate)

    return load_transformer(path, device, configure)
