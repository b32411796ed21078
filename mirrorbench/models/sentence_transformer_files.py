"""Readouts that the files of a sentence-transformers model describe, as keys of a spec."""

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
    stored_prompts,
    template,
)

_POOLINGS = {"cls": "cls", "mean": "mean", "lasttoken": "last", "weightedmean": "weighted-mean"}
"""Name of a pooling in this package, by mode of sentence-transformers' ``Pooling``."""
_MODULES = ("Transformer", "Pooling", "Normalize")
"""Modules that keys of a spec can describe, in this order; ``Normalize`` may be missing."""
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
"""Greatest number that counts as a stated length: tokenizers without a limit state a larger one."""
UNSTATED_MAX_LENGTH = 512
"""Maximum length, in tokens, of a model of sentence-transformers that states none."""
MAX_STATED_LENGTH = 512
"""Most tokens of a text that are read if only its tokenizer or its positions state a maximum."""

_MODULES_WITH_SETTINGS = ("Pooling", "Dense", "LayerNorm", "WeightedLayerPooling", "CNN", "LSTM")
"""Modules that cannot be made without their ``config.json``."""


def missing_settings_file(folder: Path, listed: Sequence[Module]) -> Path | None:
    """Return the first file of settings that a listed module needs, but that is missing or empty; ``None`` for none."""
    for module in listed:
        file = folder / module.path / "config.json"
        if module.class_name in _MODULES_WITH_SETTINGS and not _settings(file):
            return file
    return None


def missing_settings_error(
    spec: EncoderSpec, file: Path, suggestion: EncoderSpec
) -> NoPoolingError:
    """Return the error for a model without the settings of a module, which are missing from ``file``.

    ``suggestion``: a spec that reads only the transformer of the model, by a pooling that it names.
    """
    lack = "is empty" if file.is_file() else "is missing"
    return NoPoolingError(
        f"{spec}: {file} {lack}, which says how the model makes its vectors",
        f"Copy it from the model's source, or read its transformer alone by a pooling that you name: {suggestion}",
    )


def length_note(folder: Path, max_length: int) -> str:
    """Return the note that texts are cut at the positions of a transformer, although its files state a greater length.

    It is empty if the files do not, or if ``max_length`` is another number.
    """
    stated = _stated_length(folder)
    positions = positions_of(folder)
    if stated is None or not 0 < positions < stated or max_length != positions:
        return ""
    return f"its files state {stated} tokens, and it has {positions} positions: texts are cut there"


def _stated_length(folder: Path) -> int | None:
    """Return the length that the files of sentence-transformers or of the tokenizer state; ``None`` for none."""
    length = _settings(folder / "sentence_bert_config.json").get("max_seq_length")
    if length is None:
        length = _settings(folder / "tokenizer_config.json").get("model_max_length")
    return length if isinstance(length, int) and length <= _LONGEST else None


class NoPoolingError(UsageError):
    """Error for a model of sentence-transformers without an equivalent pooling in this package."""


def keys_of_files(spec: EncoderSpec, folder: Path) -> dict[str, Value]:
    """Return the keys that make the vectors of the modules in a backbone's folder; empty for a plain transformer.

    Modules that no keys can describe raise a ``NoPoolingError``.
    """
    listed = modules(folder)
    return _keys_of_modules(spec, folder, listed) if listed else {}


def max_length(keys: Mapping[str, Value], folder: Path, task_length: int) -> int:
    """Return how many tokens of each text are kept.

    The number is the spec's if ``keys`` has one, unchecked. Otherwise it is that of the task, within the limits of the
    model, or for ``STATED`` the one that the files state.
    """
    value = keys.get("max_length")
    if value is not None:
        if type(value) is not int:
            raise UsageError(f"max_length={value} is not a whole number")
        return value
    if task_length == STATED:
        return window(folder)
    length = task_length  # 0 for the default
    stated = _settings(folder / "sentence_bert_config.json").get("max_seq_length")
    if isinstance(stated, int) and stated:
        length = min(length, stated)
    positions = positions_of(folder)
    if positions:
        length = min(length, positions)
    return length or DEFAULT_MAX_LENGTH


def window(folder: Path) -> int:
    """Return how many tokens of a text a transformer reads according to its files, within its positions.

    This is the ``max_seq_length`` of sentence-transformers; without it, the least of the tokenizer's
    ``model_max_length``, the positions in ``config.json`` and ``MAX_STATED_LENGTH``.
    """
    length = _settings(folder / "sentence_bert_config.json").get("max_seq_length")
    if not isinstance(length, int):
        length = MAX_STATED_LENGTH
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


def stored_readout(spec: EncoderSpec) -> dict[str, Value]:
    """Return the readout that ``mirrorbench tune`` wrote into a backbone's directory, if the modules there agree.

    It is empty if they do not, and for other backbones.
    """
    if spec.backbone in BACKBONES:
        return {}
    folder = Path(spec.backbone).expanduser()
    readout = description_of(folder).readout
    if not readout:
        return {}
    try:
        agree = _modules_agree(readout, spec, folder)
    except MirrorbenchError:
        # No keys describe the modules, or files are damaged, which is reported later.
        return {}
    return readout if agree else {}


def _modules_agree(readout: Mapping[str, Value], spec: EncoderSpec, folder: Path) -> bool:
    """Return whether the modules in a folder make the vectors of a readout; true if none are listed."""
    listed = modules(folder)
    if not listed:
        return True
    of_target = str(readout.get("pooling")).startswith("target")
    # The modules as which this package stores a readout, in their order.
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
        # The last module must be affine. Settings that are missing are reported later.
        dense = _settings(folder / listed[-1].path / "config.json")
        if dense and (dense.get("activation_function") != IDENTITY or dense.get("use_residual")):
            return False

    # Compare the keys of the modules that keys can describe. A target's pooling is stored as word weights and a mean.
    described_modules = [module for module in listed if module.class_name in _MODULES]
    expected_keys = {key: value for key, value in readout.items() if key not in ("layers", "post")}
    if of_target:
        expected_keys["pooling"] = "mean"
    # A prompt in the spec would change the maximum length.
    spec_without_keys = replace(spec, params=())
    return _keys_of_modules(spec_without_keys, folder, described_modules) == expected_keys


def _keys_of_modules(spec: EncoderSpec, folder: Path, listed: Sequence[Module]) -> dict[str, Value]:
    """Return the keys of a spec that describe the listed modules; raise a ``NoPoolingError`` if no keys can.

    They are ``pooling`` and ``max_length``, and ``prompt`` and ``normalize`` if the model has these.
    """
    _check_modules(spec, folder, listed)
    # Settings of the transformer (read below), of the pooling, and of the normalisation if there is one.
    _, pooling_settings, *normalize_settings = [
        _settings(folder / module.path / "config.json") for module in listed
    ]
    pooling = _pooling(spec, pooling_settings)
    for settings in normalize_settings:
        if any(value not in _NORMALIZED for value in settings.values()):
            raise _no_pooling(spec, "normalises something else than its vectors")

    transformer = folder / listed[0].path
    transformer_settings = _other_than_default(transformer)
    length_setting = transformer_settings.pop("max_seq_length", None)
    if transformer_settings:
        raise _no_pooling(spec, f"sets {', '.join(sorted(transformer_settings))}")

    model_settings = _settings(folder / SETTINGS)
    dimensions = model_settings.get("truncate_dim")
    if dimensions is not None:
        raise _no_pooling(spec, f"keeps the first {dimensions} dimensions of its vectors")
    default_prompt = _default_prompt(spec, folder, model_settings)
    length = _length_beside_prompt(spec, folder, transformer, length_setting, default_prompt)

    keys: dict[str, Value] = {"pooling": pooling, "max_length": length}
    if default_prompt:
        keys["prompt"] = default_prompt + TEXT
    if normalize_settings:
        keys["normalize"] = True
    return keys


def _length_beside_prompt(
    spec: EncoderSpec,
    folder: Path,
    transformer: Path,
    length_setting: object,
    default_prompt: str,
) -> int:
    """Return the maximum length of a text, from which the prompt of the spec, or else the default one, takes tokens.

    Args:
        spec: the spec, with or without a prompt.
        folder: directory of the model.
        transformer: directory of its transformer.
        length_setting: ``max_seq_length`` in the files, or ``None``.
        default_prompt: prompt that the model puts before each text; empty for none.

    Raises:
        NoPoolingError: there is no such length, or the tokenizer cuts the default prompt off long texts.
    """
    prompt_of_spec = spec.get("prompt")
    if prompt_of_spec is None:
        text_template = default_prompt + TEXT
    else:
        text_template = template(str(prompt_of_spec), folder)
    # The tokenizer is slow to open, and needed only for a length or a prompt.
    tokenizer: Any = None
    if length_setting is None or default_prompt or _adds_text(text_template):
        tokenizer = _tokenizer(transformer)
    if default_prompt and tokenizer.truncation_side == "left":
        raise _no_pooling(spec, f"cuts the prompt {default_prompt!r} off long texts, at their left")
    length = _text_length(transformer, length_setting, text_template, tokenizer)
    if not length:
        raise _no_pooling(spec, "sets no maximum length that its transformer can read")
    return length


def _check_modules(spec: EncoderSpec, folder: Path, listed: Sequence[Module]) -> None:
    """Raise a ``NoPoolingError`` for modules that no keys can describe, or that lack their settings."""
    classes = tuple(module.class_name for module in listed)
    if classes not in (_MODULES, _MODULES[:2]):
        raise _no_pooling(spec, f"consists of {', '.join(classes)}", classes[0] == "Transformer")
    file = missing_settings_file(folder, listed)
    if file is not None:
        raise missing_settings_error(spec, file, spec.with_params(pooling="mean"))


def _pooling(spec: EncoderSpec, settings: Mapping[str, Any]) -> str:
    """Return this package's name for the pooling in the settings of a ``Pooling``; ``NoPoolingError`` for any other."""
    mode = _mode(settings)
    if mode not in _POOLINGS:
        raise _no_pooling(spec, f"pools by {mode}")
    if settings.get("include_prompt") is False:
        raise _no_pooling(spec, "leaves its prompt out of the mean")
    return _POOLINGS[mode]


def _other_than_default(transformer: Path) -> dict[str, Any]:
    """Return the settings of a ``Transformer`` that are not defaults, and its maximum length."""
    settings: dict[str, Any] = {}
    for file in transformer.glob("sentence_*_config.json"):
        for key, value in _settings(file).items():
            if value not in (None, {}, *_DEFAULTS.get(key, ())):
                settings[key] = value
    return settings


def _default_prompt(spec: EncoderSpec, folder: Path, settings: Mapping[str, Any]) -> str:
    """Return the default prompt of a model, empty for none; ``NoPoolingError`` for one that no template can express."""
    prompts = stored_prompts(folder)
    name = settings.get("default_prompt_name")
    if name is None:
        return ""
    # The file may hold any JSON value, which a list can compare and a dictionary cannot.
    if name not in list(prompts):
        raise _no_pooling(spec, "names a default prompt that it does not have")
    prompt = prompts[name]
    # sentence-transformers takes the placeholders of templates as plain text.
    if TEXT in prompt or MASK in prompt:
        raise _no_pooling(spec, f"puts the prompt {prompt!r} before texts as it stands")
    return prompt


def as_sbert_spec(spec: EncoderSpec) -> EncoderSpec:
    """Return the spec that lets sentence-transformers itself read a directory or a model of the hub."""
    key = "path" if os.path.isdir(os.path.expanduser(spec.backbone)) else "model"
    return replace(spec, backbone="sbert", method="").with_params(**{key: spec.backbone})


def _no_pooling(spec: EncoderSpec, reason: str, has_transformer: bool = True) -> NoPoolingError:
    """Return the error for a model that no keys can describe; ``reason``: a verb with its object (``pools by max``)."""
    hint = f"Write {as_sbert_spec(replace(spec, params=()))}"
    if has_transformer:
        transformer_spec = spec.with_params(pooling="mean")
        hint += f"\nIts transformer alone, by a pooling that you name: {transformer_spec}"
    return NoPoolingError(
        f"{spec}: {spec.backbone} is a model of sentence-transformers that {reason}; it is read as that, and not tuned",
        hint,
    )


def _settings(file: Path) -> dict[str, Any]:
    """Read the object in a JSON file; empty if the file is missing."""
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


def _adds_text(prompt: str) -> bool:
    """Return whether a template adds something to a text."""
    return prompt not in ("", TEXT)


def _text_length(transformer: Path, length: object, prompt: str, tokenizer: Any) -> int:
    """Return how many tokens remain for a text beside a template, within the positions of the transformer.

    Return 0 if fewer than 3 remain, or if the files set no limit. ``length``: ``max_seq_length`` in the files, or
    ``None``. ``tokenizer``: may be ``None`` if there is a ``length``, and the template adds nothing.
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
    if _adds_text(prompt):
        length -= prompt_tokens(tokenizer, prompt)
    return length if length >= 3 else 0


def _tokenizer(transformer: Path) -> Any:
    try:
        return read_tokenizer(transformer)
    except Exception as error:  # damaged files may raise any exception in transformers
        raise unreadable(transformer, error) from error


def _stated_positions(folder: Path) -> int:
    """Return the positions that ``config.json`` states, relative ones too, which need no embeddings; 0 for none."""
    positions = configuration(folder).get("max_position_embeddings")
    return positions if isinstance(positions, int) else 0


def prompt_tokens(tokenizer: Any, prompt: str) -> int:
    """Return the number of tokens that a template, or a prompt before the text, adds to a text."""
    whole = prompt if TEXT in prompt else prompt + TEXT
    whole = whole.replace(MASK, tokenizer.mask_token or "")
    # Count with a word, since without one a space at the end of the prompt may be a separate token.
    n_tokens_of_word = len(tokenizer("a")["input_ids"])
    n_tokens_of_prompted = len(tokenizer(whole.replace(TEXT, "a"))["input_ids"])
    return n_tokens_of_prompted - n_tokens_of_word
