"""Short tunings of the embedded model with a method of the plugin."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch.nn.functional import cosine_similarity, cross_entropy

from mirrorbench.core.plugins import Plugins
from mirrorbench.core.specs import parse_spec
from mirrorbench.models.backbones import locate
from mirrorbench.models.transformer import Transformer
from mirrorbench.runs.encoder_loading import open_for_tuning
from mirrorbench.training.loop import TuningReport, tune_backbone
from mirrorbench.training.losses import TokenizedPairs
from mirrorbench.training.recipes import Recipe, override

WORDS = ["river", "stone", "garden", "music", "winter", "window", "letter", "bridge"]
TEXTS = [
    f"the {first} is near the old {second}"
    for n, first in enumerate(WORDS)
    for second in WORDS[n + 1 :]
]
TEXTS += [f"nobody saw the {word}" for word in WORDS]
TINY = locate(parse_spec("tiny"), "en", offline=True)


def opened(plugins: Plugins, method: str, **changes: Any) -> tuple[Transformer, Recipe]:
    """The embedded model, open for tuning, and the recipe."""
    registered = plugins.augmentations.by_name()
    preset = plugins.methods[method].preset("sentence", "bert", "paper")
    recipe = override(preset, {"train_max_length": 64, **changes}, registered)
    poolings = plugins.poolings.by_name()
    return open_for_tuning(TINY, recipe, registered, torch.device("cpu"), poolings=poolings), recipe


def tuned(
    plugins: Plugins,
    method: str,
    seed: int = 0,
    texts: Sequence[str] = TEXTS,
    options: Mapping[str, Any] | None = None,
    **changes: Any,
) -> tuple[TuningReport, dict[str, torch.Tensor]]:
    """The report of a tuning, and the weights after it; ``options`` are those of the loop."""
    transformer, recipe = opened(plugins, method, **changes)
    report = tune_backbone(
        transformer,
        texts,
        recipe,
        seed,
        plugins.augmentations.by_name(),
        pairs=plugins.methods[method].pairs,
        losses=plugins.losses.by_name(),
        **(options or {}),
    )
    return report, transformer.model.state_dict()


def pairs_of(
    transformer: Transformer, left: list[str], right: list[str], labels: list[int]
) -> TokenizedPairs:
    """A batch of pairs."""
    return TokenizedPairs(transformer.tokenize([*left, *right], 64), None, torch.tensor(labels))


def contrast(left: torch.Tensor, right: torch.Tensor, temperature: float) -> torch.Tensor:
    """The cross-entropy of finding each first view's own second view by its cosine."""
    cosines = cosine_similarity(left[:, None], right, dim=2)
    return cross_entropy(cosines / temperature, torch.arange(len(left)))
