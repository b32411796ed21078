"""Families of models: properties of a backbone from its files, and opening the part of a model that reads texts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from pickle import UnpicklingError
from typing import Any, NamedTuple

from mirrorbench.core.devices import out_of_memory
from mirrorbench.core.errors import (
    DeviceMemoryError,
    MirrorbenchError,
    ModelUnavailableError,
    TuningError,
)
from mirrorbench.models.backbones import backbone_folder, configuration
from mirrorbench.models.opening import (
    empty_model,
    read_config,
    read_tokenizer,
    read_weights,
)
from mirrorbench.models.positions import positions_of_model, positions_of_settings
from mirrorbench.models.traits import AS_BERT, ModelTraits

BIDIRECTIONAL = "bidirectional"
"""Value of the spec key ``attention`` under which each token of a causal model sees the whole text."""

# Bidirectional models with a mask token and dropout modules. They can be planned without importing transformers.
_BERT_LIKE_TYPES = frozenset(
    {
        "albert",
        "bert",
        "camembert",
        "deberta",
        "deberta-v2",
        "distilbert",
        "electra",
        "modernbert",
        "mpnet",
        "roberta",
        "xlm-roberta",
    }
)
LANGUAGE = "language_model"
"""Name of the module that reads texts in transformers' models with further inputs."""


@dataclass(frozen=True, slots=True)
class Family:
    """Properties of a backbone for tuning and reading."""

    traits: ModelTraits = AS_BERT
    """Properties measured by passes over texts."""
    has_mask_token: bool = True
    """Whether the tokenizer has a mask token."""
    adds_start_token: bool = True
    """Whether a special token precedes each text."""
    has_attention: bool = True
    """Whether the model has attention."""
    needs_decoder: bool = False
    """Whether transformers opens the encoder only together with its decoder (BART)."""

    @property
    def has_cls(self) -> bool:
        """Whether a special token represents the whole text, as [CLS] does."""
        return not self.traits.causal and (self.has_mask_token or self.adds_start_token)


BERT_LIKE = Family()
"""Family of encoders like BERT."""


def family(path: Path, measure: Callable[[Path], ModelTraits]) -> Family:
    """Return the family of the model in a directory; ``BERT_LIKE`` for types that are known to be, and damaged files.

    ``measure`` is called for other types and returns their traits. Damaged files are reported when the model is opened.
    """
    settings = configuration(path)
    if settings.get("model_type") in _BERT_LIKE_TYPES and not settings.get("is_decoder"):
        return BERT_LIKE
    try:
        config = read_config(path)
        tokenizer = read_tokenizer(path)
        # Only fast tokenizers tell which tokens are special; others are taken to begin with such a token.
        adds_start_token = True
        if tokenizer.is_fast:
            adds_start_token = bool(tokenizer("a").encodings[0].special_tokens_mask[0])
    except Exception:  # damaged files may raise any exception in transformers
        return BERT_LIKE
    is_encoder_decoder = getattr(config, "is_encoder_decoder", False)
    return Family(
        traits=measure(path),
        has_mask_token=tokenizer.mask_token is not None,
        adds_start_token=adds_start_token,
        has_attention=hasattr(text_part(config), "num_attention_heads"),
        needs_decoder=is_encoder_decoder and not encoder_class_name(config),
    )


def positions_of(path: Path) -> int:
    """Return the most tokens that the model in a directory can read; 0 if unknown, or without a ``config.json``.

    The number is also unknown for damaged files, which are reported when the model is opened.
    """
    file = backbone_folder(path) / "config.json"
    if not file.is_file():
        return 0
    positions = positions_of_settings(configuration(path))
    if positions is None:
        return _measured_positions(path, file.read_bytes())
    return positions


@cache
def _measured_positions(path: Path, settings: bytes) -> int:
    """Return the positions of a model built without weights; ``settings``: its ``config.json``, which decides them."""
    try:
        model = empty_model(path)
        return positions_of_model(configured_reader(model, model.config))
    except Exception:  # damaged files may raise any exception in transformers
        return 0


def encoder_class_name(config: Any) -> str:
    """Return the name of the class in transformers that opens an encoder without its decoder (T5); empty for none."""
    import transformers
    from transformers.models.auto.modeling_auto import MODEL_MAPPING_NAMES

    whole_class = MODEL_MAPPING_NAMES.get(config.model_type, "")
    if not isinstance(whole_class, str):
        return ""
    name = f"{whole_class.removesuffix('Model')}EncoderModel"
    return name if hasattr(transformers, name) else ""


def nested_configs(config: Any) -> Iterator[Any]:
    """Yield a configuration and all configurations inside it, such as those of an encoder or of vision."""
    from transformers import PreTrainedConfig

    yield config
    for value in vars(config).values():
        if isinstance(value, PreTrainedConfig):
            yield from nested_configs(value)


def text_part(config: Any) -> Any:
    """Return the part of a configuration that describes the module for texts; usually it is the whole one."""
    inner = "encoder" if config.model_type == "t5gemma" else "text_config"
    return getattr(config, inner, None) or config


def set_dropout_rates(config: Any, rate: float) -> None:
    """Set every dropout rate of a configuration; a field that refuses the rate raises a ``TuningError``."""
    for part in nested_configs(config):
        for key, value in list(vars(part).items()):
            is_rate = "dropout" in key or key.endswith("pdrop")
            if not is_rate or type(value) not in (int, float):
                continue
            try:
                # A field that holds a whole number gets one where the rate is whole.
                if type(value) is int and rate == int(rate):
                    setattr(part, key, int(rate))
                else:
                    setattr(part, key, float(rate))
            except Exception as error:  # a class of transformers, which is not a ValueError
                raise TuningError(
                    f"{config.model_type} models take no {key} of {rate:g}",
                    "Write dropout=0 and another augmentation: word_shuffle=3.",
                ) from error


class OpenedModel(NamedTuple):
    """A model whose weights are loaded."""

    reader: Any
    """The part that reads texts; often the model itself."""
    outer_model: Any
    """The model that holds the reader, with the original names of its modules, which adapters use."""
    missing_weights: set[str]
    """Names of the weights that the files lack."""


def open_model(path: Path, config: Any, **options: Any) -> OpenedModel:
    """Open a model and find the part that reads texts.

    For an encoder-decoder, that is the encoder, which transformers opens alone (T5) or with the decoder (BART). For a
    model of images and text, it is the language model: it stays inside the outer model, since adapters use the original
    names of modules, and the other parts are deleted.
    """
    # Name of the class that opens an encoder without its decoder; empty for models without such a class.
    encoder_alone = encoder_class_name(config)
    if encoder_alone:
        config.is_encoder_decoder = False
    for part in nested_configs(config):
        # The cache serves generation only, and with xLSTM's no text can be read.
        part.use_cache = False
    model, report = read_weights(
        path,
        encoder_alone or "AutoModel",
        config=config,
        output_loading_info=True,
        **options,
    )
    missing_weights = set(report["missing_keys"])
    reader = configured_reader(model, config)
    if getattr(config, "is_encoder_decoder", False):
        # The decoder was opened too, but reads no text, so that its weights may be missing.
        missing_weights = {name for name in missing_weights if name.split(".")[0] != "decoder"}
    elif reader is not model:
        # Of a model of images and text, only the language model is kept.
        other_parts = [name for name, _ in model.named_children() if name != LANGUAGE]
        for name in other_parts:
            delattr(model, name)
    return OpenedModel(reader, model, missing_weights)


def configured_reader(model: Any, config: Any) -> Any:
    """Return the part of a model that reads texts, and make sure that it has a ``config``.

    It is the encoder of an encoder-decoder, the language model of a larger model, or else the model itself.
    """
    if getattr(config, "is_encoder_decoder", False):
        reader = model.get_encoder()
    elif text_part(config) is config:
        reader = model
    else:
        reader = getattr(model, LANGUAGE, model)
    if not hasattr(reader, "config"):
        # E.g. the encoder of FSMT.
        reader.config = model.config
    return reader


def checkpoint_precision(config: Any) -> str:
    """Return the precision of the weights according to a configuration."""
    import torch

    dtype = getattr(config, "dtype", None)
    if dtype == torch.bfloat16:
        return "bf16"
    if dtype == torch.float16:
        return "fp16"
    return "fp32"


def keep_half_precision_matrices(model: Any) -> None:
    """Convert a half-precision model to float32, except for the matrices of linear layers and embeddings.

    These may stay: autocast would round float32 matrices to the same numbers. Outputs of embeddings become float32.
    """
    import torch
    from transformers.pytorch_utils import Conv1D

    # Matrices that may stay in half precision. Subclasses do not count: Gemma's multiply in half precision.
    classes = (torch.nn.Linear, torch.nn.Embedding, Conv1D)
    matrices = {id(module.weight) for module in model.modules() if type(module) in classes}
    for tensor in (*model.parameters(), *model.buffers()):
        if id(tensor) not in matrices and tensor.is_floating_point():
            tensor.data = tensor.data.float()
    for module in model.modules():
        if type(module) is torch.nn.Embedding:
            module.register_forward_hook(lambda module, inputs, output: output.float())
        if hasattr(module, "scalar_embed_scale"):
            # Gemma's buffer embed_scale holds it in half precision.
            module.embed_scale.fill_(module.scalar_embed_scale)


def can_checkpoint(settings: Mapping[str, Any]) -> bool:
    """Return whether transformers has gradient checkpointing for a model with these settings in ``config.json``."""
    from transformers.models.auto import CONFIG_MAPPING, MODEL_MAPPING

    name = settings.get("model_type")
    # Unknown names and types without a model are reported when the model is opened.
    if name not in CONFIG_MAPPING:
        return True
    config_class = CONFIG_MAPPING[name]
    if config_class not in MODEL_MAPPING:
        return True
    return bool(MODEL_MAPPING[config_class].supports_gradient_checkpointing)


def set_bidirectional_attention(config: Any) -> None:
    """Let each token of a causal model see the whole text, in families that follow their configuration."""
    for part in nested_configs(config):
        part.is_causal = False
        if hasattr(part, "use_bidirectional_attention"):
            part.use_bidirectional_attention = True


_HINT = "It must be an encoder that transformers knows, with safetensors (or plain tensors in pytorch_model.bin)."


def check_complete(path: Path, config: Any, tokenizer: Any, missing: set[str]) -> None:
    """Raise a ``ModelUnavailableError`` for missing weights other than the pooler's, or a missing vocabulary."""
    # The pooler, of the model or of the one inside it, enters no vector.
    needed = sorted(name for name in missing if "pooler" not in name.split(".")[:2])
    if needed:
        examples = ", ".join(needed[:3])
        if len(needed) > 3:
            examples += ", ..."
        raise ModelUnavailableError(
            f"the weights in {path} are missing {len(needed)} tensors of a {config.model_type} model ({examples}); "
            "they would be random numbers",
            "Compare config.json with the weights; a download may be incomplete.",
        )
    if not hasattr(text_part(config), "vocab_size"):
        raise ModelUnavailableError(
            f"the {config.model_type} model in {path} has no vocabulary of tokens (vocab_size in config.json); models "
            "of characters, images or sounds are not read",
            "Read it as sentence-transformers does, if that can: sbert:path=DIRECTORY",
        )
    check_vocabulary(path, tokenizer)


def check_vocabulary(path: Path, tokenizer: Any) -> None:
    """Raise a ``ModelUnavailableError`` for a tokenizer without a vocabulary."""
    if len(tokenizer.get_vocab()) <= len(tokenizer.all_special_tokens):
        raise ModelUnavailableError(
            f"the tokenizer in {path} has no vocabulary; its files are missing",
            "Copy them there from the model's source: tokenizer.json, or vocab.txt, or a sentencepiece model.",
        )


def not_telling_apart(model: str, suspects: str) -> ModelUnavailableError:
    """Return the error for a model that gives all texts one vector; ``suspects``: parts that may be the cause."""
    return ModelUnavailableError(
        f"{model} returns the same vector for every text",
        f"Compare {suspects} with their source, or use another backbone.",
    )


def unreadable(path: Path, error: Exception) -> MirrorbenchError:
    """Return the error that reports an exception of transformers on opening a model."""
    if out_of_memory(error):
        return DeviceMemoryError(
            f"no memory left on the device to open the model in {path}",
            "Free some, or use another device or a smaller model.",
        )
    if isinstance(error, UnpicklingError):
        return ModelUnavailableError(
            f"the weights in {path} are a pickle that holds more than tensors, or are damaged; they are not opened",
            "If you trust their source, convert them to safetensors elsewhere and use the result.",
        )
    message = " ".join(str(error).split()) or "no message"
    if "ignore_mismatched_sizes" in message:
        return ModelUnavailableError(
            f"the weights in {path} have other shapes than its config.json says", _HINT
        )
    return ModelUnavailableError(
        f"the model in {path} cannot be opened: {type(error).__name__}: {message[:300]}", _HINT
    )
