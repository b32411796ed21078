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
"""Pooling of this package by mode of a ``Pooling``."""
_MODULES = ("Transformer", "Pooling", "Normalize")
"""Modules that keys of a spec describe; ``Normalize`` may be missing."""
_NORMALIZED = ("sentence_embedding", None)
"""Values in the settings of a ``Normalize`` that normalises vectors."""
_DEFAULT_MODALITIES = (
    {"text": {"method": "forward", "method_output_name": "last_hidden_state"}},
    {"text": {"method": "forward", "method_output_name": "encoder_last_hidden_state"}},
)
_DEFAULTS: Mapping[str, Sequence[Any]] = {
    "do_lower_case": (False,),
    "transformer_task": ("feature-extraction",),
    "module_output_name": ("token_embeddings",),
    "modality_config": _DEFAULT_MODALITIES,
    "config_args": ({"output_hidden_states": True},),
}
"""Settings of a ``Transformer`` that sentence-transformers and this package read in the same way."""
IDENTITY = "torch.nn.modules.linear.Identity"
"""Activation of an affine ``Dense``."""
_LONGEST = 100_000
"""Longest length that counts as stated: tokenizers without a limit state a larger number."""
MOST_TOKENS = 512
"""Maximum length, in tokens, of a model of sentence-transformers that names none."""
MOST_STATED = 512
"""Most tokens of a text that are read by what a tokenizer states, or a model's positions."""

_WITH_SETTINGS = ("Pooling", "Dense", "LayerNorm", "WeightedLayerPooling", "CNN", "LSTM")
"""Modules that cannot be made without their ``config.json``."""


def missing_settings(folder: Path, listed: Sequence[Module]) -> Path | None:
    """Return the first file with settings of the listed modules that is missing or empty."""
    for module in listed:
        file = folder / module.path / "config.json"
        if module.class_name in _WITH_SETTINGS and not _settings(file):
            return file
    return None


def without_settings(spec: EncoderSpec, file: Path, transformer: EncoderSpec) -> NoPoolingError:
    """Return the error for a model without the settings of a module.

    ``transformer``: the spec that reads the transformer of the model alone, by a pooling that it names.
    """
    lack = "is empty" if file.is_file() else "is missing"
    return NoPoolingError(
        f"{spec}: {file} {lack}, which says how the model makes its vectors",
        f"Copy it from the model's source, or read its transformer alone by a pooling that you name: {transformer}",
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
    if value is not None:
        if type(value) is not int:
            raise UsageError(f"max_length={value} is not a whole number")
        return value
    if of_task == STATED:
        return window(folder)
    length = of_task
    stated = _settings(folder / "sentence_bert_config.json").get("max_seq_length")
    if isinstance(stated, int) and stated:
        length = min(length, stated)
    positions = positions_of(folder)
    if positions:
        length = min(length, positions)
    return length or DEFAULT_MAX_LENGTH


def window(folder: Path) -> int:
    """Return the tokens of a text that the files of a transformer state, within its positions.

    These are the ``max_seq_length`` of sentence-transformers, else the tokenizer's ``model_max_length`` or the positions
    in ``config.json``, whichever is less, at most ``MOST_STATED``.
    """
    length = _settings(folder / "sentence_bert_config.json").get("max_seq_length")
    if not isinstance(length, int):
        length = MOST_STATED
        tokenizer_settings = _settings(tokenizer_folder(folder) / "tokenizer_config.json")
        length_of_tokenizer = tokenizer_settings.get("model_max_length")
        if isinstance(length_of_tokenizer, int):
            length = min(length, length_of_tokenizer)
        stated_positions = _stated_positions(folder)
        if stated_positions:
            length = min(length, stated_positions)
    positions = positions_of(folder)
    if positions:
        length = min(length, positions)
    return length


def own_readout(spec: EncoderSpec) -> dict[str, Value]:
    """Return the readout that ``mirrorbench tune`` wrote into a backbone's directory, if the modules there agree."""
    if spec.backbone in BACKBONES:
        return {}
    folder = Path(spec.backbone).expanduser()
    readout = description_of(folder).readout
    if not readout:
        return {}
    try:
        agrees = _agrees(readout, spec, folder)
    except MirrorbenchError:
        # No keys describe the modules, or files are damaged, which is reported later.
        return {}
    return readout if agrees else {}


def _agrees(readout: Mapping[str, Value], spec: EncoderSpec, folder: Path) -> bool:
    """Return whether the modules in a folder, if there are any, make the vectors of a readout."""
    listed = modules(folder)
    if not listed:
        return True
    of_target = str(readout.get("pooling")).startswith("target")
    expected = {
        "Transformer": True,
        "WeightedLayerPooling": readout.get("layers", "-1:") != "-1:",
        "WordWeights": of_target,
        "Pooling": True,
        "Normalize": bool(readout.get("normalize")),
        "Dense": "post" in readout,
    }
    expected_classes = [name for name, is_expected in expected.items() if is_expected]
    if [module.class_name for module in listed] != expected_classes:
        return False

    if "post" in readout:
        # Settings that are missing are reported later.
        dense = _settings(folder / listed[-1].path / "config.json")
        if dense and (dense.get("activation_function") != IDENTITY or dense.get("use_residual")):
            return False

    # Compare the keys of the other modules; a target's pooling is stored as word weights and a mean.
    described = [module for module in listed if module.class_name in _MODULES]
    expected_keys = {key: value for key, value in readout.items() if key not in ("layers", "post")}
    if of_target:
        expected_keys["pooling"] = "mean"
    return _keys(replace(spec, params=()), folder, described) == expected_keys


def _keys(spec: EncoderSpec, folder: Path, listed: Sequence[Module]) -> dict[str, Value]:
    """Return the keys that describe the listed modules; raise a ``NoPoolingError`` for settings without a key."""
    _check_modules(spec, folder, listed)
    _, pooling_settings, *normalize_settings = [
        _settings(folder / module.path / "config.json") for module in listed
    ]
    pooling = _pooling(spec, pooling_settings)
    for settings in normalize_settings:
        if any(value not in _NORMALIZED for value in settings.values()):
            raise _no_pooling(spec, "normalises something else than its vectors")

    transformer = folder / listed[0].path
    transformer_settings = _other_than_default(transformer)
    stated_length = transformer_settings.pop("max_seq_length", None)
    if transformer_settings:
        raise _no_pooling(spec, f"sets {', '.join(sorted(transformer_settings))}")

    settings = _settings(folder / SETTINGS)
    dimensions = settings.get("truncate_dim")
    if dimensions is not None:
        raise _no_pooling(spec, f"keeps the first {dimensions} dimensions of its vectors")
    default_prompt = _default_prompt(spec, folder, settings)

    # The length of a text is what remains beside the prompt of the spec, or else the default prompt.
    prompt_of_spec = spec.get("prompt")
    if prompt_of_spec is None:
        text_template = default_prompt + TEXT
    else:
        text_template = template(str(prompt_of_spec), folder)
    tokenizer: Any = None
    if stated_length is None or default_prompt or _adds(text_template):
        tokenizer = _tokenizer(transformer)
    if default_prompt and tokenizer.truncation_side == "left":
        raise _no_pooling(spec, f"cuts the prompt {default_prompt!r} off long texts, at their left")
    length = _text_length(transformer, stated_length, text_template, tokenizer)
    if not length:
        raise _no_pooling(spec, "sets no maximum length that its transformer can read")

    keys: dict[str, Value] = {"pooling": pooling, "max_length": length}
    if default_prompt:
        keys["prompt"] = default_prompt + TEXT
    if normalize_settings:
        keys["normalize"] = True
    return keys


def _check_modules(spec: EncoderSpec, folder: Path, listed: Sequence[Module]) -> None:
    """Raise a ``NoPoolingError`` for modules that no keys describe, or without settings."""
    classes = tuple(module.class_name for module in listed)
    if classes not in (_MODULES, _MODULES[:2]):
        raise _no_pooling(spec, f"consists of {', '.join(classes)}", classes[0] == "Transformer")
    file = missing_settings(folder, listed)
    if file is not None:
        raise without_settings(spec, file, spec.with_params(pooling="mean"))


def _pooling(spec: EncoderSpec, settings: Mapping[str, Any]) -> str:
    """Return this package's name of the pooling of a ``Pooling``; raise a ``NoPoolingError`` for any other."""
    mode = _mode(settings)
    if mode not in _POOLINGS:
        raise _no_pooling(spec, f"pools by {mode}")
    if settings.get("include_prompt") is False:
        raise _no_pooling(spec, "leaves its prompt out of the mean")
    return _POOLINGS[mode]


def _other_than_default(transformer: Path) -> dict[str, Any]:
    """Return the settings of a ``Transformer`` that differ from the defaults, among them its maximum length."""
    settings: dict[str, Any] = {}
    for file in transformer.glob("sentence_*_config.json"):
        for key, value in _settings(file).items():
            if value not in (None, {}, *_DEFAULTS.get(key, ())):
                settings[key] = value
    return settings


def _default_prompt(spec: EncoderSpec, folder: Path, settings: Mapping[str, Any]) -> str:
    """Return the default prompt of a model, empty for none; raise a ``NoPoolingError`` for one without a template."""
    prompts = own_prompts(folder)
    name = settings.get("default_prompt_name")
    if name is None:
        return ""
    if name not in list(prompts):
        raise _no_pooling(spec, "names a default prompt that it does not have")
    prompt = prompts[name]
    # sentence-transformers takes the placeholders of templates as plain text.
    if TEXT in prompt or MASK in prompt:
        raise _no_pooling(spec, f"puts the prompt {prompt!r} before texts as it stands")
    return prompt


def as_system(spec: EncoderSpec) -> EncoderSpec:
    """Return the spec that lets sentence-transformers itself read a directory or a model of the hub."""
    key = "path" if os.path.isdir(os.path.expanduser(spec.backbone)) else "model"
    return replace(spec, backbone="sbert", method="").with_params(**{key: spec.backbone})


def _no_pooling(spec: EncoderSpec, does: str, has_transformer: bool = True) -> NoPoolingError:
    """Return the error for a model that ``does`` what no keys describe."""
    hint = f"Write {as_system(replace(spec, params=()))}"
    if has_transformer:
        transformer_spec = spec.with_params(pooling="mean")
        hint += f"\nIts transformer alone, by a pooling that you name: {transformer_spec}"
    return NoPoolingError(
        f"{spec}: {spec.backbone} is a model of sentence-transformers that {does}; it is read as that, and not tuned",
        hint,
    )


def _settings(file: Path) -> dict[str, Any]:
    return json_object(file) if file.is_file() else {}


def _mode(settings: Mapping[str, Any]) -> str:
    """Return the modes of a ``Pooling``, joined by ``+``; files from before version 6 have a flag for each."""
    modes = settings.get("pooling_mode")
    if modes is None:
        modes = []
        for key, value in settings.items():
            flag = key.removeprefix("pooling_mode_")
            if value is True and flag != "include_prompt":
                modes.append(flag.removesuffix("_tokens").removesuffix("_token"))
    if isinstance(modes, str):
        return modes
    return "+".join(map(str, modes)) or "mean"


def _adds(prompt: str) -> bool:
    """Whether a template adds something to a text."""
    return prompt not in ("", TEXT)


def _text_length(transformer: Path, length: object, prompt: str, tokenizer: Any) -> int:
    """Return the maximum length of a text beside a template, within the positions; 0 if the files set no limit.

    ``tokenizer``: needed for a template, and without a stated ``length``.
    """
    positions = positions_of(transformer)
    if length is None:
        length = tokenizer.model_max_length
        stated_positions = _stated_positions(transformer)
        if isinstance(length, int) and stated_positions:
            length = min(length, stated_positions)
    if not isinstance(length, int):
        return 0
    if positions:
        length = min(length, positions)
    elif length > _LONGEST:
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
    """Return the number of tokens that a template, or a prompt before the text, adds to a text."""
    whole = prompt if TEXT in prompt else prompt + TEXT
    whole = whole.replace(MASK, tokenizer.mask_token or "")
    # Around a word, since a space at the end of a prompt alone may be a token of its own.
    n_tokens_of_word = len(tokenizer("a")["input_ids"])
    n_tokens_of_prompted = len(tokenizer(whole.replace(TEXT, "a"))["input_ids"])
    return n_tokens_of_prompted - n_tokens_of_word
