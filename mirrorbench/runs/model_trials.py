"""Trials of models before a run is planned: properties of a backbone that a few short passes show."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mirrorbench.core.errors import MirrorbenchError, ModelUnavailableError
from mirrorbench.models.backbones import backbone_folder
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
    """Return the traits in fp32 of the backbone in a folder, from the cache or measured now.

    They are measured with the first layers if the model can be shortened, and with dropout if it can be configured, to
    see whether that changes anything.
    """
    backbone_fingerprint = fingerprint(path)

    def measure() -> ModelTraits:
        with unchanged_backbone(path, backbone_fingerprint):
            return _measured_traits(path)

    identity = {"fingerprint": backbone_fingerprint, "layers": _LAYERS}
    return cache.traits(identity, measure, ModelTraits)


def _measured_traits(path: Path) -> ModelTraits:
    """Measure the traits of a backbone, opened with few layers and with dropout.

    If that fails, open it only with few layers, and if that fails as well, as it is.
    """
    import torch

    from mirrorbench.models.families import set_dropout_rates
    from mirrorbench.models.transformer import load_transformer

    def shorten_and_set_dropout(config: Any) -> None:
        _shorten(config)
        set_dropout_rates(config, _RATE)

    def opened(configure: Callable[[Any], None] | None) -> Transformer:
        return load_transformer(backbone_folder(path), torch.device("cpu"), configure)

    with suppress(MirrorbenchError):
        return _with_training_traits(opened(shorten_and_set_dropout))
    # It takes no dropout, or cannot have fewer layers.
    with suppress(MirrorbenchError):
        return replace(_with_training_traits(opened(_shorten)), drops=False)
    return _with_training_traits(opened(None))


def _with_training_traits(transformer: Transformer) -> ModelTraits:
    """Return the traits of a model, including those that show in training mode."""
    traits = traits_of(transformer)
    try:
        return replace(traits, drops=drops(transformer))
    except ModelUnavailableError:
        return replace(traits, trains=False)


def _shorten(config: Any) -> None:
    """Reduce a configuration to a few layers."""
    from mirrorbench.models.families import nested_configs

    for part in nested_configs(config):
        layers = getattr(part, "num_hidden_layers", None)
        if not isinstance(layers, int) or layers <= _LAYERS:
            continue
        # Lists with an element for each layer, such as types of attention.
        for key, value in vars(part).items():
            if isinstance(value, list) and len(value) == layers:
                setattr(part, key, value[:_LAYERS])
        part.num_hidden_layers = _LAYERS
