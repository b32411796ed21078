"""Readouts described by files of sentence-transformers beside a transformer, as keys of a spec."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from mirrorbench.core.errors import MirrorbenchError, UsageError
from mirrorbench.core.specs import EncoderSpec, Value
from mirrorbench.models.backbones import (
    BACKBONES,
    configuration,
    description_of,
    tokenizer_folder,
)
from mirrorbench.models.families import positions_of, unreadable
from mirrorbench.models.model_files import Module, json_object, modules
from mirrorbench.models.opening import read_tokenizer
from mirrorbench.models.pooling import (
    DEFAULT_MAX_LENGTH,
    MASK,
    SETTINGS,
    STATED,
    TEXT,
    own_prompts,
    template,
)

_POOLINGS = {"cls": "cls", "mean": "mean", "lasttoken": "last", "weightedmean": "weighted-mean"}
_READ = ("Transformer", "Pooling", "Normalize")
_NORMALIZED = ("sentence_embedding", None)
_PLAIN: Mapping[str, Sequence[Any]] = {
    "do_lower_case": (False,),
    "transformer_task": ("feature-extraction",),
    "module_output_name": ("token_embeddings",),
    "modality_config": tuple(
        {"text": {"method": "forward", "method_output_name": name}}
        for name in ("last_hidden_state", "encoder_last_hidden_state")
    ),
    "config_args": ({"output_hidden_states": True},),
}
"""Settings of a ``Transformer`` that sentence-transformers and this package read in the same way."""
IDENTITY = "torch.nn.modules.linear.Identity"
"""Activation of an affine ``Dense``."""
_LONGEST = 100_000
MOST_TOKENS = 512
"""Maximum length, in tokens, of a model of sentence-transformers that names none."""
MOST_STATED = 512
"""Most tokens of a text that are read by what a tokenizer states, or a model's positions."""


_WITH_SETTINGS = ("Pooling", "Dense", "LayerNorm", "WeightedLayerPooling", "CNN", "LSTM")
"""Modules that cannot be made without their ``config.json``."""


def missing_settings(folder: Path, listed: Sequence[Module]) -> Path | None:
    """Return the first file with settings of the listed modules that is missing or empty."""
    with_settings = [module for module in listed if module.class_name in _WITH_SETTINGS]
    files = [folder / module.path / "config.json" for module in with_settings]
    return next((file for file in files if not _settings(file)), None)


def without_settings(spec: EncoderSpec, file: Path, alone: EncoderSpec) -> NoPoolingError:
    """Return the error for a model that lacks such a file; ``alone`` is the spec that names a pooling."""
    lack = "is empty" if file.is_file() else "is missing"
    return NoPoolingError(
        f"{spec}: {file} {lack}, which says how the model makes its vectors",
        f"Copy it from the model's source, or read its transformer alone by a pooling that you name: {alone}",
    )


def length_note(transformer: Path, max_length: int) -> str:
    """Return the note on a stated length beyond the positions, where texts are cut; empty for any other length."""
    stated = stated_length(transformer)
    positions = positions_of(transformer)
    if stated is None or not 0 < positions < stated or max_length != positions:
        return ""
    return f"its files state {stated} tokens, and it has {positions} positions: texts are cut there"


def stated_length(transformer: Path) -> int | None:
    """Return the length that the files of sentence-transformers or of the tokenizer state, ``None`` for none."""
    length = _settings(transformer / "sentence_bert_config.json").get("max_seq_length")
    if length is None:
        length = _settings(transformer / "tokenizer_config.json").get("model_max_length")
    return length if isinstance(length, int) and length <= _LONGEST else None


class NoPoolingError(UsageError):
    """Error for a model of sentence-transformers without an equivalent pooling in this package."""


def keys_of_files(spec: EncoderSpec, folder: Path) -> dict[str, Value]:
    """Return the keys that read a backbone as the modules in its folder do; none for a plain transformer.

    Modules that no keys describe raise a ``NoPoolingError``.
    """
    listed = modules(folder)
    return _keys(spec, folder, listed) if listed else {}


def max_length(keys: Mapping[str, Value], folder: Path, of_task: int) -> int:
    """Return the tokens kept of each text: the spec's, the task's within the model's limits, or the default.

    Without a number in the spec, ``STATED`` takes those that the files state.
    """
    value = keys.get("max_length")
    if value is None and of_task == STATED:
        return window(folder)
    if value is None:
        stated = _settings(folder / "sentence_bert_config.json").get("max_seq_length")
        longest = (
            stated if isinstance(stated, int) else None,
            positions_of(folder),
        )
        return min(of_task, *filter(None, longest), of_task) or DEFAULT_MAX_LENGTH
    if type(value) is not int:
        raise UsageError(f"max_length={value} is not a whole number")
    return value


def window(folder: Path) -> int:
    """Return the tokens of a text that the files of a transformer state, within its positions.

    These are the ``max_seq_length`` of sentence-transformers, else the tokenizer's ``model_max_length`` or the positions
    in ``config.json``, whichever is less, at most ``MOST_STATED``.
    """
    stated = _settings(folder / "sentence_bert_config.json").get("max_seq_length")
    if not isinstance(stated, int):
        of_tokenizer = _settings(tokenizer_folder(folder) / "tokenizer_config.json")
        lengths = [of_tokenizer.get("model_max_length"), _stated_positions(folder) or None]
        stated = min([MOST_STATED, *(length for length in lengths if isinstance(length, int))])
    return min(stated, positions_of(folder) or stated)


def own_readout(spec: EncoderSpec) -> dict[str, Value]:
    """Return the readout that ``mirrorbench tune`` wrote into a backbone's directory, if the modules there agree."""
    folder = Path(spec.backbone).expanduser()
    readout = {} if spec.backbone in BACKBONES else description_of(folder).readout
    try:
        return readout if readout and _agrees(readout, spec, folder) else {}
    except (
        MirrorbenchError
    ):  # no keys describe the modules, or files are damaged, which is reported later
        return {}


def _agrees(readout: Mapping[str, Value], spec: EncoderSpec, folder: Path) -> bool:
    if not (listed := modules(folder)):
        return True
    stated = {key: value for key, value in readout.items() if key not in ("layers", "post")}
    of_target = str(stated.get("pooling")).startswith("target")
    expected = {
        "Transformer": True,
        "WeightedLayerPooling": readout.get("layers", "-1:") != "-1:",
        "WordWeights": of_target,
        "Pooling": True,
        "Normalize": bool(stated.get("normalize")),
        "Dense": "post" in readout,
    }
    if [module.class_name for module in listed] != [
        name for name, holds in expected.items() if holds
    ]:
        return False
    dense = (
        _settings(folder / listed[-1].path / "config.json") if "post" in readout else {}
    )  # absent: reported later
    if dense and (dense.get("activation_function") != IDENTITY or dense.get("use_residual")):
        return False
    plain = replace(spec, params=())
    keys = _keys(plain, folder, [module for module in listed if module.class_name in _READ])
    return keys == stated | ({"pooling": "mean"} if of_target else {})


def _keys(spec: EncoderSpec, folder: Path, listed: Sequence[Module]) -> dict[str, Value]:
    classes = [module.class_name for module in listed]
    if tuple(classes) not in (_READ, _READ[:2]):
        raise _no_pooling(spec, f"consists of {', '.join(classes)}", classes[0] == "Transformer")
    if file := missing_settings(folder, listed):
        raise without_settings(spec, file, spec.with_params(pooling="mean"))
    _, pools, *normalizes = (_settings(folder / module.path / "config.json") for module in listed)
    mode, transformer = _mode(pools), folder / listed[0].path
    if mode not in _POOLINGS or pools.get("include_prompt") is False:
        raise _no_pooling(
            spec,
            f"pools by {mode}" if mode not in _POOLINGS else "leaves its prompt out of the mean",
        )
    if any(value not in _NORMALIZED for settings in normalizes for value in settings.values()):
        raise _no_pooling(spec, "normalises something else than its vectors")
    reads: dict[str, Any] = {}
    for file in transformer.glob("sentence_*_config.json"):
        reads |= {
            key: value
            for key, value in _settings(file).items()
            if value not in (None, {}, *_PLAIN.get(key, ()))
        }
    length = reads.pop("max_seq_length", None)
    if reads:
        raise _no_pooling(spec, f"sets {', '.join(sorted(reads))}")
    settings, prompts = _settings(folder / SETTINGS), own_prompts(folder)
    if (dims := settings.get("truncate_dim")) is not None:
        raise _no_pooling(spec, f"keeps the first {dims} dimensions of its vectors")
    name = settings.get("default_prompt_name")
    if name is not None and name not in list(prompts):
        raise _no_pooling(spec, "names a default prompt that it does not have")
    prompt = prompts[name] if name is not None else ""
    if (
        TEXT in prompt or MASK in prompt
    ):  # placeholders in prompts of this package, plain text there
        raise _no_pooling(spec, f"puts the prompt {prompt!r} before texts as it stands")
    asked = spec.get("prompt")
    read = prompt + TEXT if asked is None else template(str(asked), folder)
    tokenizer: Any = _tokenizer(transformer) if length is None or prompt or _adds(read) else None
    if prompt and tokenizer.truncation_side == "left":
        raise _no_pooling(spec, f"cuts the prompt {prompt!r} off long texts, at their left")
    if not (length := _text_length(transformer, length, read, tokenizer)):
        raise _no_pooling(spec, "sets no maximum length that its transformer can read")
    keys: dict[str, Value] = {"pooling": _POOLINGS[mode], "max_length": length}
    return (
        keys
        | ({"prompt": prompt + TEXT} if prompt else {})
        | ({"normalize": True} if normalizes else {})
    )


def as_system(spec: EncoderSpec) -> EncoderSpec:
    """Return the spec that lets sentence-transformers itself read a directory or a model of the hub."""
    key = "path" if os.path.isdir(os.path.expanduser(spec.backbone)) else "model"
    return replace(spec, backbone="sbert", method="").with_params(**{key: spec.backbone})


def _no_pooling(spec: EncoderSpec, does: str, transformer: bool = True) -> NoPoolingError:
    alone = (
        f"\nIts transformer alone, by a pooling that you name: {spec.with_params(pooling='mean')}"
    )
    return NoPoolingError(
        f"{spec}: {spec.backbone} is a model of sentence-transformers that {does}; it is read as that, and not tuned",
        f"Write {as_system(replace(spec, params=()))}{alone if transformer else ''}",
    )


def _settings(file: Path) -> dict[str, Any]:
    return json_object(file) if file.is_file() else {}


def _mode(settings: Mapping[str, Any]) -> str:
    """Return the modes of a ``Pooling``, joined by ``+``; files from before version 6 have a flag for each."""
    modes = settings.get("pooling_mode")
    if modes is None:
        flags = (
            key.removeprefix("pooling_mode_") for key, value in settings.items() if value is True
        )
        modes = [
            flag.removesuffix("_tokens").removesuffix("_token")
            for flag in flags
            if flag != "include_prompt"
        ]
    return modes if isinstance(modes, str) else "+".join(map(str, modes)) or "mean"


def _adds(prompt: str) -> bool:
    """Whether a template adds something to a text."""
    return prompt not in ("", TEXT)


def _text_length(transformer: Path, length: object, prompt: str, tokenizer: Any) -> int:
    """Return the tokens kept of a text beside a template's, within the positions; 0 if the files set no limit.

    ``tokenizer``: needed for a template, and without a stated ``length``.
    """
    positions = positions_of(transformer)
    if length is None:
        length = tokenizer.model_max_length
        if isinstance(length, int):
            length = min(length, _stated_positions(transformer) or length)
    if not isinstance(length, int):
        return 0
    length = min(length, positions or length)
    if length > (positions or _LONGEST):
        return 0
    if _adds(prompt):
        length -= prompt_tokens(tokenizer, prompt)
    return length if length >= 3 else 0


def _tokenizer(transformer: Path) -> Any:
    try:
        return read_tokenizer(transformer)
    except Exception as error:  # damaged files may raise any exception in transformers
        raise unreadable(transformer, error) from error


def _stated_positions(folder: Path) -> int:
    """Return the positions that ``config.json`` states, 0 for none; relative ones need no embeddings."""
    positions = configuration(folder).get("max_position_embeddings")
    return positions if isinstance(positions, int) else 0


def prompt_tokens(tokenizer: Any, prompt: str) -> int:
    """Count the tokens of a template around a word; alone, a space at its end may be a token of its own."""
    whole = (prompt if TEXT in prompt else prompt + TEXT).replace(MASK, tokenizer.mask_token or "")
    bare, prompted = (len(tokenizer(text)["input_ids"]) for text in ("a", whole.replace(TEXT, "a")))
    return prompted - bare
