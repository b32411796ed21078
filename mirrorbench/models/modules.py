"""What the files of sentence-transformers beside a transformer say of its readout, as keys of a spec."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from mirrorbench.core.errors import UsageError
from mirrorbench.core.specs import EncoderSpec, Value
from mirrorbench.models.backbones import configuration, max_positions
from mirrorbench.models.directories import json_object, modules
from mirrorbench.models.families import unreadable
from mirrorbench.models.opening import read_tokenizer
from mirrorbench.models.prompts import SETTINGS, TEXT, own_prompts

_POOLINGS = {"cls": "cls", "mean": "mean", "lasttoken": "last", "weightedmean": "weighted-mean"}
_NORMALIZED = ("sentence_embedding", None)
_PLAIN: Mapping[str, Any] = {
    "do_lower_case": False, "transformer_task": "feature-extraction", "module_output_name": "token_embeddings",
    "modality_config": {"text": {"method": "forward", "method_output_name": "last_hidden_state"}},
}  # fmt: skip
"""Settings of a ``Transformer`` under which sentence-transformers reads texts as this package does."""
_LONGEST = 100_000


class NoPoolingError(UsageError):
    """A model of sentence-transformers does what no pooling of this package does."""


def keys_of_files(spec: EncoderSpec, folder: Path) -> dict[str, Value]:
    """The keys under which a backbone is read as the modules in its folder say; none for a plain transformer.

    Raises:
        NoPoolingError: no keys say that.
    """
    if not (listed := modules(folder)):
        return {}
    kinds = [module.kind for module in listed]
    if kinds[:2] != ["Transformer", "Pooling"] or kinds[2:] not in ([], ["Normalize"]):
        raise _no_pooling(spec, f"consists of {', '.join(kinds)}", kinds[0] == "Transformer")
    _, pools, *normalizes = (_settings(folder / module.path / "config.json") for module in listed)
    mode, transformer = _mode(pools), folder / listed[0].path
    if mode not in _POOLINGS or pools.get("include_prompt") is False:
        raise _no_pooling(spec, f"pools by {mode}" if mode not in _POOLINGS else "leaves its prompt out of the mean")
    if any(value not in _NORMALIZED for settings in normalizes for value in settings.values()):
        raise _no_pooling(spec, "normalises something else than its vectors")
    reads: dict[str, Any] = {}
    for file in transformer.glob("sentence_*_config.json"):
        reads |= {key: value for key, value in _settings(file).items() if value not in (None, {}, _PLAIN.get(key))}
    length = reads.pop("max_seq_length", None)
    if reads:
        raise _no_pooling(spec, f"sets {', '.join(sorted(reads))}")
    name = _settings(folder / SETTINGS).get("default_prompt_name")
    prompts = own_prompts(folder)
    if name is not None and name not in list(prompts):
        raise _no_pooling(spec, "has no prompt of its default's name")
    prompt = prompts[name] if name is not None else ""
    if not (length := _text_length(transformer, length, prompt)):
        raise _no_pooling(spec, "names no number of tokens that its transformer can take")
    keys: dict[str, Value] = {"pooling": _POOLINGS[mode], "max_length": length}
    return keys | ({"prompt": prompt + TEXT} if prompt else {}) | ({"normalize": True} if normalizes else {})


def as_system(spec: EncoderSpec) -> EncoderSpec:
    """The spec under which sentence-transformers itself reads a directory or a model of the hub."""
    key = "path" if os.path.isdir(os.path.expanduser(spec.backbone)) else "model"
    return replace(spec, backbone="sbert", method="").with_params(**{key: spec.backbone})


def _no_pooling(spec: EncoderSpec, does: str, transformer: bool = True) -> NoPoolingError:
    alone = f"\nIts transformer alone, by a pooling that you name: {spec.with_params(pooling='mean')}"
    return NoPoolingError(
        f"{spec}: {spec.backbone} is a model of sentence-transformers that {does}; it is read as that, and not tuned",
        f"Write {as_system(replace(spec, params=()))}{alone if transformer else ''}",
    )


def _settings(file: Path) -> dict[str, Any]:
    return json_object(file) if file.is_file() else {}


def _mode(settings: Mapping[str, Any]) -> str:
    """The mode of a ``Pooling``, several joined by ``+``; files of before version 6 hold a flag for each."""
    modes = settings.get("pooling_mode")
    if modes is None:
        flags = (key.removeprefix("pooling_mode_") for key, value in settings.items() if value is True)
        modes = [flag.removesuffix("_tokens").removesuffix("_token") for flag in flags if flag != "include_prompt"]
    return modes if isinstance(modes, str) else "+".join(map(str, modes)) or "mean"


def _text_length(transformer: Path, length: object, prompt: str) -> int:
    """Tokens that are kept of a text beside its prompt; 0 if the files set no limit, or one that cannot be kept."""
    positions = max_positions(configuration(transformer).get)
    try:
        tokenizer: Any = read_tokenizer(transformer) if length is None or prompt else None
    except Exception as error:  # damaged files may raise any exception in transformers
        raise unreadable(transformer, error) from error
    if length is None:
        length = min(tokenizer.model_max_length, positions or tokenizer.model_max_length)
    if not isinstance(length, int) or length > (positions or _LONGEST):
        return 0
    if prompt:  # counted before a word: a space at its end may be a token of its own otherwise
        bare, prompted = (len(tokenizer(text)["input_ids"]) for text in ("a", f"{prompt}a"))
        length += bare - prompted
    return length if length >= 3 else 0
