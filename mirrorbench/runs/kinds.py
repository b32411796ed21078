"""Remembers what was seen of models that were tried (``mirrorbench.models.kinds``), in a folder of the cache.

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
from mirrorbench.models.kinds import ModelKind, drops, kind_of

if TYPE_CHECKING:
    from mirrorbench.models.transformer import Transformer
    from mirrorbench.runs.cells import ModelRef

KINDS_FOLDER = "kinds"
_TRIAL = 4
"""Version of the passes; raised when they change."""
_LAYERS = 2
"""With so many layers a model is tried when it is planned."""
_RATE = 0.1


def remembered(cache: Path, identity: dict[str, Any], look: Callable[[], ModelKind]) -> ModelKind:
    """The kind of what ``identity`` names, from a cache's folder; else what ``look`` returns, which is stored there."""
    libraries = {name: version(name) for name in ("torch", "transformers")}
    path = cache / KINDS_FOLDER / f"{digest({**identity, **libraries, 'trial': _TRIAL})}.json"
    if stored := stored_kind(path):
        return stored
    kind = look()
    as_json = msgspec.to_builtins(asdict(kind))
    with suppress(StorageError), writing(path, cache, flush=False) as sink:  # a cache that cannot be written to
        sink.write(json.dumps({"kind": as_json, "checksum": digest({path.stem: as_json})}).encode())
    return kind


def stored_kind(path: Path) -> ModelKind | None:
    """The kind in a file; ``None`` where there is none, or it is damaged."""
    with suppress(OSError, ValueError, KeyError, TypeError, RecursionError):  # msgspec's errors are ValueErrors
        stored = json.loads(path.read_bytes())
        if stored["checksum"] == digest({path.stem: stored["kind"]}):
            return msgspec.convert(stored["kind"], ModelKind)
    return None


def planned_kind(path: Path, cache: Path) -> ModelKind:
    """The kind of the backbone in a folder by its first layers, or by all where it has no fewer; not in half precision.

    It is configured with dropout, to see whether that changes anything.
    """
    weights = fingerprint(path)

    def look() -> ModelKind:
        with unchanged_backbone(path, weights):
            return _by_first_layers(path)

    return remembered(cache, {"fingerprint": weights, "layers": _LAYERS}, look)


def _by_first_layers(path: Path) -> ModelKind:
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
            kind = _in_training(opened(configure))
            return kind if configure is with_dropout else replace(kind, drops=False)
    return _in_training(opened(None))


def _in_training(transformer: Transformer) -> ModelKind:
    kind = kind_of(transformer)
    try:
        return replace(kind, drops=drops(transformer))
    except ModelUnavailableError:
        return replace(kind, trains=False)


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
    kind = transformer.kind = remembered(cache, identity, lambda: kind_of(transformer))
    name = f"the {transformer.model.config.model_type} model in {transformer.path}"
    if not kind.varies and model.recipe and key == model.key:
        raise TuningError(
            f"{model.spec} does not tell texts apart after its tuning: vectors do not depend on what they are of",
            f"Try a lower lr than {model.recipe.lr:g}.",
        )
    if not kind.varies:
        raise not_telling_apart(name, "its weights and tokenizer")
    if kind.typed:
        raise ModelUnavailableError(
            f"the tokenizer in {transformer.path} gives token types, which change the vectors of {name}: it is the "
            "tokenizer of another model",
            "Use the model's own, or take token_type_ids out of the model_input_names in tokenizer_config.json.",
        )
    if attention and kind.causal:
        raise ModelUnavailableError(
            f"attention={attention} changes nothing in {transformer.path.name}: its first tokens do not see those that "
            "follow",
            "Leave it out of the encoder spec; pooling=mean and pooling=last read a causal model.",
        )
    if precision not in ("fp32", *kind.halves):
        raise UsageError(
            f"{model.spec}: in {precision} the numbers of {name} are not finite, or far from those in fp32",
            "Compute in another precision: --precision fp32 for tuning, --eval-precision fp32 for evaluation.",
        )
