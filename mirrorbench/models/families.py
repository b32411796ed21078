"""Families of models: what a backbone's files say of it, and which part of it reads texts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from pickle import UnpicklingError
from typing import TYPE_CHECKING, Any

from mirrorbench.core.devices import out_of_memory
from mirrorbench.core.errors import DeviceMemoryError, MirrorbenchError, ModelUnavailableError, TuningError, UsageError
from mirrorbench.models.backbones import configuration
from mirrorbench.models.opening import read_config, read_tokenizer, read_weights
from mirrorbench.models.traits import AS_BERT, ModelTraits

if TYPE_CHECKING:
    import torch

BIDIRECTIONAL = "bidirectional"
"""The value of the spec key ``attention`` under which each token of a causal model sees the whole text."""

# Read in both directions, with mask token and dropout modules: transformers need not be imported to plan them.
_ENCODERS = frozenset((
    "albert", "bert", "camembert", "deberta", "deberta-v2", "distilbert", "electra", "modernbert", "mpnet", "roberta",
    "xlm-roberta",
))  # fmt: skip
LANGUAGE = "language_model"
"""The module that reads texts in transformers' models with other inputs, too."""


@dataclass(frozen=True, slots=True)
class Family:
    """The properties of a backbone that tuning and reading depend on."""

    traits: ModelTraits = AS_BERT
    """The properties that were seen when it was tried."""
    masks: bool = True
    """Whether the tokenizer has a mask token."""
    marks_start: bool = True
    """Whether a special token stands before each text."""
    attends: bool = True
    """Whether it has attention."""
    half: bool = False
    """Whether an encoder is read that transformers opens with its decoder only (BART)."""

    @property
    def has_cls(self) -> bool:
        """Whether a text has a token that stands for all of it, as [CLS] does."""
        return not self.traits.causal and (self.masks or self.marks_start)


PLAIN = Family()
"""An encoder of BERT's kind."""


def family(path: Path, look: Callable[[Path], ModelTraits]) -> Family:
    """The family of the model in a directory; ``look`` tries it, where its type is none of BERT's kind.

    What cannot be read is reported when the model is opened.
    """
    settings = configuration(path)
    if settings.get("model_type") in _ENCODERS and not settings.get("is_decoder"):
        return PLAIN
    try:
        config, tokenizer = read_config(path), read_tokenizer(path)
        first = tokenizer("a").encodings[0].special_tokens_mask[0] if tokenizer.is_fast else 1
    except Exception:  # damaged files may raise any exception in transformers
        return PLAIN
    half = getattr(config, "is_encoder_decoder", False) and not encoder_class(config)
    attends = hasattr(text_part(config), "num_attention_heads")
    return Family(look(path), tokenizer.mask_token is not None, bool(first), attends, half)


def encoder_class(config: Any) -> str:
    """The class of transformers that opens an encoder-decoder without its decoder (T5's); empty if there is none."""
    import transformers
    from transformers.models.auto.modeling_auto import MODEL_MAPPING_NAMES

    both = MODEL_MAPPING_NAMES.get(config.model_type, "")
    name = f"{both.removesuffix('Model')}EncoderModel" if isinstance(both, str) else ""
    return name if name and hasattr(transformers, name) else ""


def parts(config: Any) -> Iterator[Any]:
    """A configuration and those inside it, of halves and of other inputs than text."""
    from transformers import PreTrainedConfig

    yield config
    for value in vars(config).values():
        if isinstance(value, PreTrainedConfig):
            yield from parts(value)


def text_part(config: Any) -> Any:
    """The part of a configuration that describes what reads texts."""
    inner = "encoder" if config.model_type == "t5gemma" else "text_config"
    return getattr(config, inner, None) or config


def rates(config: Any) -> Iterator[str]:
    """The names of a configuration's dropout rates."""
    for key, value in vars(config).items():
        named = "dropout" in key or key.endswith("pdrop")
        if named and isinstance(value, int | float) and not isinstance(value, bool):
            yield key


def set_rates(config: Any, rate: float) -> None:
    """Set every dropout rate of a configuration; what a field does not take is a ``TuningError``."""
    for part in parts(config):
        for key in list(rates(part)):
            whole = isinstance(getattr(part, key), int) and rate == int(rate)
            try:
                setattr(part, key, int(rate) if whole else float(rate))
            except Exception as error:  # transformers' own, which is no ValueError
                raise TuningError(
                    f"{config.model_type} models take no {key} of {rate:g}",
                    "Write dropout=0 and another augmentation: word_shuffle=3.",
                ) from error


def open_model(path: Path, config: Any, **options: Any) -> tuple[Any, Any, set[str]]:
    """Open the part of a model that reads texts and the part that takes adapters; with the names of missing weights.

    Of T5, T5Gemma and their like the encoder, which transformers opens alone; of other encoder-decoders (BART) the
    encoder, which it opens with its decoder only; of models for images and text the text's half. An adapter of that
    has the names of the original's modules: it is put onto the original, of which all else is dropped.
    """
    if half := encoder_class(config):
        config.is_encoder_decoder = False
    for part in parts(config):
        part.use_cache = False  # of earlier tokens, which only writing texts needs; xLSTM's breaks reading them
    model, report = read_weights(path, half or "AutoModel", config=config, output_loading_info=True, **options)
    missing = set(report["missing_keys"])
    part = reader(model, config)
    if not hasattr(part, "config"):  # FSMT's encoder
        part.config = model.config
    if getattr(config, "is_encoder_decoder", False):
        missing = {name for name in missing if name.split(".")[0] != "decoder"}
    elif part is not model:
        for name in [name for name, _ in model.named_children() if name != LANGUAGE]:
            delattr(model, name)
    return part, model, missing


def reader(model: Any, config: Any) -> Any:
    """The part of a model that reads texts: the encoder of an encoder-decoder, or what stands beside other inputs."""
    if getattr(config, "is_encoder_decoder", False):
        return model.get_encoder()
    return model if text_part(config) is config else getattr(model, LANGUAGE, model)


def checkpoint_precision(config: Any) -> str:
    """The precision that a configuration says its weights are in."""
    import torch

    return {torch.bfloat16: "bf16", torch.float16: "fp16"}.get(getattr(config, "dtype", None) or torch.float32, "fp32")


def keeps_precision(module: Any) -> bool:
    """Whether autocast gives the same numbers with a module's matrix in half precision: linear layers, embeddings.

    Not those of Gemma, which are multiplied in the precision of the matrix.
    """
    import torch
    from transformers.pytorch_utils import Conv1D

    return type(module) in (torch.nn.Linear, torch.nn.Embedding, Conv1D)


def keep_precision(model: Any) -> None:
    """Keep those matrices of a half-precision model as they are; all else, and what embeddings give, is float32.

    Autocast computes with the same numbers then as with all weights in float32, which it would round to these.
    """
    import torch

    matrices = {id(module.weight) for module in model.modules() if keeps_precision(module)}
    for tensor in (*model.parameters(), *model.buffers()):
        if id(tensor) not in matrices and tensor.is_floating_point():
            tensor.data = tensor.data.float()
    for module in model.modules():
        if type(module) is torch.nn.Embedding:
            module.register_forward_hook(_as_float)
        if hasattr(module, "scalar_embed_scale"):  # Gemma's buffer of it was rounded
            module.embed_scale.fill_(module.scalar_embed_scale)


def _as_float(module: Any, inputs: Any, output: torch.Tensor) -> torch.Tensor:
    return output.float()


def can_checkpoint(settings: Mapping[str, Any]) -> bool:
    """Whether transformers can compute the layers of a model with such a ``config.json`` twice."""
    from transformers.models.auto import CONFIG_MAPPING, MODEL_MAPPING

    name = settings.get("model_type")
    if name not in CONFIG_MAPPING or (config := CONFIG_MAPPING[name]) not in MODEL_MAPPING:
        return True  # what is wrong with it is said when it is opened
    return bool(MODEL_MAPPING[config].supports_gradient_checkpointing)


def set_attention(config: Any) -> None:
    """Let each token of a causal model see the whole text, in the families that heed their configuration."""
    for part in parts(config):
        part.is_causal = False
        if hasattr(part, "use_bidirectional_attention"):
            part.use_bidirectional_attention = True


def checked_attention(value: str) -> str:
    """The value of the spec key ``attention``, empty for the model's own."""
    if value not in ("", BIDIRECTIONAL):
        raise UsageError(f"attention={value} is unknown", f"Write attention={BIDIRECTIONAL}, or leave it out.")
    return value


_HINT = "It must be an encoder that transformers knows, with safetensors (or plain tensors in pytorch_model.bin)."


def check_complete(path: Path, config: Any, tokenizer: Any, missing: set[str]) -> None:
    """Raise where weights other than the pooler's are missing, or the vocabulary, or the model reads no text."""
    lacking = sorted(name for name in missing if "pooler" not in name.split(".")[:2])
    if lacking:
        shown = ", ".join(lacking[:3]) + (", ..." if len(lacking) > 3 else "")
        raise ModelUnavailableError(
            f"the weights in {path} are missing {len(lacking)} tensors of a {config.model_type} model ({shown}); "
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
    """Raise where a tokenizer has no vocabulary."""
    if len(tokenizer.get_vocab()) <= len(tokenizer.all_special_tokens):
        raise ModelUnavailableError(
            f"the tokenizer in {path} has no vocabulary; its files are missing",
            "Copy them there from the model's source: tokenizer.json, or vocab.txt, or a sentencepiece model.",
        )


def not_telling_apart(model: str, what: str) -> ModelUnavailableError:
    """The error for a model that gives every text the same vector; ``what``: its parts that may be the cause."""
    return ModelUnavailableError(
        f"{model} does not tell texts apart: vectors do not depend on what they are of",
        f"Compare {what} with their source, or use another backbone.",
    )


def unreadable(path: Path, error: Exception) -> MirrorbenchError:
    """The text to report of an exception of transformers."""
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
    report = " ".join(str(error).split()) or "no message"
    if "ignore_mismatched_sizes" in report:
        return ModelUnavailableError(f"the weights in {path} have other shapes than its config.json says", _HINT)
    return ModelUnavailableError(f"the model in {path} cannot be opened: {type(error).__name__}: {report[:300]}", _HINT)
