"""Remembers what was seen of models that were tried (``mirrorbench.models.traits``), in a folder of the cache.

An entry holds its checksum, and its name the model's fingerprint and the versions that it was tried with. What does not
match is tried again.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, replace
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from mirrorbench.core.errors import MirrorbenchError, ModelUnavailableError, StorageError, TuningError, UsageError
from mirrorbench.core.files import writing
from mirrorbench.core.identity import digest
from mirrorbench.models.backbones import base_folder, fingerprint, unchanged_backbone
from mirrorbench.models.families import not_telling_apart
from mirrorbench.models.traits import ModelTraits, drops, traits_of

if TYPE_CHECKING:
    from mirrorbench.models.transformer import Transformer
    from mirrorbench.runs.cells import ModelRef

TRAITS_FOLDER = "traits"
_TRIAL = 4
"""Version of the passes; raised when they change."""
_LAYERS = 2
"""With so many layers a model is tried when it is planned."""
_RATE = 0.1


def remembered(cache: Path, identity: dict[str, Any], look: Callable[[], ModelTraits]) -> ModelTraits:
    """The traits of what ``identity`` names, from a cache's folder; else those that ``look`` returns, stored there."""
    libraries = {name: version(name) for name in ("torch", "transformers")}
    path = cache / TRAITS_FOLDER / f"{digest({**identity, **libraries, 'trial': _TRIAL})}.json"
    if stored := stored_traits(path):
        return stored
    traits = look()
    as_json = msgspec.to_builtins(asdict(traits))
    with suppress(StorageError), writing(path, cache, flush=False) as sink:  # a cache that cannot be written to
        sink.write(json.dumps({"traits": as_json, "checksum": digest({path.stem: as_json})}).encode())
    return traits


def stored_traits(path: Path) -> ModelTraits | None:
    """The traits in a file; ``None`` where there is none, or it is damaged."""
    with suppress(OSError, ValueError, KeyError, TypeError, RecursionError):  # msgspec's errors are ValueErrors
        stored = json.loads(path.read_bytes())
        if stored["checksum"] == digest({path.stem: stored["traits"]}):
            return msgspec.convert(stored["traits"], ModelTraits)
    return None


def planned_traits(path: Path, cache: Path) -> ModelTraits:
    """The traits of the backbone in a folder by its first layers, or by all where it has no fewer; in fp32 alone.

    It is configured with dropout, to see whether that changes anything.
    """
    weights = fingerprint(path)

    def look() -> ModelTraits:
        with unchanged_backbone(path, weights):
            return _by_first_layers(path)

    return remembered(cache, {"fingerprint": weights, "layers": _LAYERS}, look)


def _by_first_layers(path: Path) -> ModelTraits:
    import torch

    from mirrorbench.models.families import set_rates
    from mirrorbench.models.transformer import load_transformer

    def with_dropout(config: Any) -> None:
        _shorten(config)
        set_rates(config, _RATE)

    def opened(configure: Callable[[Any], None] | None) -> Transformer:
        return load_transformer(base_folder(path), torch.device("cpu"), configure)

    for configure in (with_dropout, _shorten):
        with suppress(MirrorbenchError):  # some have no fewer layers, or take no dropout
            traits = _in_training(opened(configure))
            return traits if configure is with_dropout else replace(traits, drops=False)
    return _in_training(opened(None))


def _in_training(transformer: Transformer) -> ModelTraits:
    traits = traits_of(transformer)
    try:
        return replace(traits, drops=drops(transformer))
    except ModelUnavailableError:
        return replace(traits, trains=False)


def _shorten(config: Any) -> None:
    """Leave a configuration few layers."""
    from mirrorbench.models.families import parts

    for part in parts(config):
        layers = getattr(part, "num_hidden_layers", None)
        if not isinstance(layers, int) or layers <= _LAYERS:
            continue
        for key, value in vars(part).items():
            if isinstance(value, list) and len(value) == layers:
                setattr(part, key, value[:_LAYERS])
        part.num_hidden_layers = _LAYERS


def try_opened(transformer: Transformer, model: ModelRef, key: str, precision: str, cache: Path) -> None:
    """Try an opened model, or remember what was seen of it, and raise where it cannot be read as asked.

    ``key`` names its weights; ``precision`` is that of what is computed next.
    """
    attention, device = model.attention, transformer.device.type
    identity = {"weights": key, "attention": attention, "device": device, "kept": transformer.kept}
    traits = transformer.traits = remembered(cache, identity, lambda: traits_of(transformer))
    name = f"the {transformer.model.config.model_type} model in {transformer.path}"
    if not traits.varies and model.recipe and key == model.key:
        raise TuningError(
            f"{model.spec} does not tell texts apart after its tuning: vectors do not depend on what they are of",
            f"Try a lower lr than {model.recipe.lr:g}.",
        )
    if not traits.varies:
        raise not_telling_apart(name, "its weights and tokenizer")
    if traits.typed:
        raise ModelUnavailableError(
            f"the tokenizer in {transformer.path} gives token types, which change the vectors of {name}: it is the "
            "tokenizer of another model",
            "Use the model's own, or take token_type_ids out of the model_input_names in tokenizer_config.json.",
        )
    if attention and traits.causal:
        raise ModelUnavailableError(
            f"attention={attention} changes nothing in {transformer.path.name}: its first tokens do not see those that "
            "follow",
            "Leave it out of the encoder spec; pooling=mean and pooling=last read a causal model.",
        )
    if precision not in ("fp32", *traits.halves):
        raise UsageError(
            f"{model.spec}: in {precision} the numbers of {name} are not finite, or far from those in fp32",
            "Compute in another precision: --precision fp32 for tuning, --eval-precision fp32 for evaluation.",
        )
