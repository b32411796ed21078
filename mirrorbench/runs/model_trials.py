"""Trials of models before a run is planned: properties of a backbone that a few short passes show."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mirrorbench.core.errors import MirrorbenchError, ModelUnavailableError
from mirrorbench.models.backbones import base_folder
from mirrorbench.models.fingerprints import fingerprint, unchanged_backbone
from mirrorbench.models.traits import ModelTraits, drops, traits_of
from mirrorbench.storage.cache import Cache

if TYPE_CHECKING:
    from mirrorbench.models.transformer import Transformer

_LAYERS = 2
"""Number of layers with which a model is tried."""
_RATE = 0.1
"""Dropout rate with which a model is tried."""


def planned_traits(path: Path, cache: Cache) -> ModelTraits:
    """Return the traits in fp32 of the backbone in a folder, measured with its first layers if it can be shortened.

    It is configured with dropout, to see whether that changes anything.
    """
    weights = fingerprint(path)

    def look() -> ModelTraits:
        with unchanged_backbone(path, weights):
            return _by_first_layers(path)

    return cache.traits({"fingerprint": weights, "layers": _LAYERS}, look, ModelTraits)


def _by_first_layers(path: Path) -> ModelTraits:
    import torch

    from mirrorbench.models.families import set_rates
    from mirrorbench.models.transformer import load_transformer

    def with_dropout(config: Any) -> None:
        _shorten(config)
        set_rates(config, _RATE)

    def opened(configure: Callable[[Any], None] | None) -> Transformer:
        return load_transformer(base_folder(path), torch.device("cpu"), configure)

    with suppress(MirrorbenchError):  # some models take no dropout, or cannot have fewer layers
        return _in_training(opened(with_dropout))
    with suppress(MirrorbenchError):
        return replace(_in_training(opened(_shorten)), drops=False)
    return _in_training(opened(None))


def _in_training(transformer: Transformer) -> ModelTraits:
    """Return the traits of a model, including those that show in training mode."""
    traits = traits_of(transformer)
    try:
        return replace(traits, drops=drops(transformer))
    except ModelUnavailableError:
        return replace(traits, trains=False)


def _shorten(config: Any) -> None:
    """Reduce a configuration to a few layers."""
    from mirrorbench.models.families import parts

    for part in parts(config):
        layers = getattr(part, "num_hidden_layers", None)
        if not isinstance(layers, int) or layers <= _LAYERS:
            continue
        for key, value in vars(part).items():
            if isinstance(value, list) and len(value) == layers:
                setattr(part, key, value[:_LAYERS])
        part.num_hidden_layers = _LAYERS
