"""LoRA adapters (Hu et al., ICLR 2022) of ``peft``: adding them to all linear layers, opening and merging them.

"LoRA on all linear transformer block layers are required to match full finetuning performance" (Dettmers et al.,
NeurIPS 2023, "QLoRA", section 4).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from mirrorbench.core.errors import ModelUnavailableError, UsageError, not_installed
from mirrorbench.models.backbones import ADAPTER
from mirrorbench.models.families import LANGUAGE
from mirrorbench.models.model_files import json_object

SCALE = 2
"""Scaling of LoRA, alpha / rank, applied to the product of its matrices."""
_UNUSED_MODULES = ("pooler", "decoder")
"""Modules whose output enters no vector, and which get no adapter."""
_PROMPT_TYPES = (
    "PREFIX_TUNING",
    "PROMPT_TUNING",
    "P_TUNING",
    "MULTITASK_PROMPT_TUNING",
    "CPT",
    "ADAPTION_PROMPT",
)
_MAMBA_REFUSED = ("out_proj",)
"""Modules of Mamba that ``peft`` refuses, since its fused kernel takes their weights instead of their results."""


def check_installed() -> None:
    """Raise a ``UsageError`` if ``peft`` is not installed."""
    if find_spec("peft") is None:
        raise not_installed(UsageError, "lora needs", "peft", "lora")


def add_adapter(model: Any, base: Path, rank: int, seed: int) -> None:
    """Freeze a model and add a LoRA adapter to it: matrix A is drawn from ``seed``, and matrix B is zero.

    ``base``: the model's folder, which the adapter's settings name. A model with an adapter raises a ``UsageError``.
    """
    import torch
    from peft import LoraConfig
    from transformers.pytorch_utils import Conv1D

    if is_adapted(model):
        raise UsageError(
            "lora cannot be added to a backbone that is an adapter itself",
            "Tune it without lora, or write that backbone with --merge first.",
        )
    # Conv1D stores its matrix transposed, which peft has to be told.
    has_conv1d = any(type(module) is Conv1D for module in model.modules())
    settings = LoraConfig(
        r=rank,
        lora_alpha=SCALE * rank,
        target_modules="all-linear",
        lora_dropout=0.0,
        exclude_modules=_excluded_modules(model) or None,
        fan_in_fan_out=has_conv1d,
    )
    with torch.random.fork_rng(devices=[]):
        # This freezes the weights of the model, and draws A in their precision.
        model.add_adapter(settings)
        # Draw A again from the seed, by the same distribution, but in float32.
        torch.manual_seed(seed)
        _convert_adapter_to_float32(model)
        for name, weight in model.named_parameters():
            if "lora_A" in name:
                drawn = torch.nn.init.kaiming_uniform_(torch.empty(weight.shape), a=5**0.5)
                weight.data.copy_(drawn)
    settings.base_model_name_or_path = str(base)
    # A set would be stored in any order.
    settings.target_modules = sorted(settings.target_modules or ())


def _excluded_modules(model: Any) -> str:
    """Return a regular expression for the paths of the modules that get no adapter; empty for none."""
    names: set[str] = set()
    for path, _ in model.named_modules():
        names.update(path.split("."))
    excluded_names = list(_UNUSED_MODULES)
    if "mamba" in model.config.model_type:
        excluded_names += _MAMBA_REFUSED
    present = [name for name in excluded_names if name in names]
    patterns = []
    if present:
        patterns.append(rf"(.*\.)?({'|'.join(present)})(\..*)?")
    # Only the language model of a larger model gets an adapter; other parts have layers of the same names.
    if [name for name, _ in model.named_children()] == [LANGUAGE]:
        patterns.append(rf"(?!{LANGUAGE}\.).*")
    return "|".join(patterns)


def is_adapted(model: Any) -> bool:
    """Return whether a model has an adapter, in which case ``save_pretrained`` writes the adapter alone."""
    return bool(getattr(model, "_hf_peft_config_loaded", False))


def open_adapter(model: Any, folder: Path, n_tokens: int = 0) -> None:
    """Add the adapter in a folder to its backbone, without merging it.

    Token embeddings that the adapter stores replace the backbone's; heads that it stores are left out.

    Args:
        model: the backbone.
        folder: the directory of the adapter.
        n_tokens: number of token ids if the adapter's tokenizer adds some to the backbone's, else 0.

    Raises:
        ModelUnavailableError: the adapter does not fit, is of a type that is not read, or lacks embeddings.
        UsageError: ``peft`` is not installed.
    """
    check_installed()
    from peft import inject_adapter_in_model, set_peft_model_state_dict

    settings = json_object(folder / ADAPTER)
    peft_type = str(settings.get("peft_type"))
    if peft_type in _PROMPT_TYPES:
        raise ModelUnavailableError(
            f"the adapter in {folder} is of the type {peft_type}, which puts vectors before a text",
            "Adapters that can be merged are read: LoRA, DoRA, IA3, LoHa, LoKr and their like.",
        )
    # `trained_model` holds the modules of `model`, under the names that the adapter's files have for them. Modules that
    # are added to the one are therefore in the other, too.
    stored_tensors = adapter_tensors(folder)
    trained_model = _with_trained_names(model, stored_tensors)
    # Leave out the tensors of a head, and of a decoder that reads no text.
    tensors = _tensors_of_model(model, trained_model, stored_tensors)
    if not tensors:
        raise _does_not_fit(folder, stored_tensors)
    # Add empty modules of the adapter to the model, then load the weights into them.
    config = _config_without_head_tokens(trained_model, settings)
    _prepare_embeddings(model, trained_model, _Adapter(folder, config, tensors), n_tokens)
    inject_adapter_in_model(config, trained_model, _ADAPTER_NAME)
    # peft adds weights in the precision of the frozen ones; float32 takes the stored weights without rounding.
    _convert_adapter_to_float32(trained_model)
    try:
        report: Any = set_peft_model_state_dict(trained_model, tensors, _ADAPTER_NAME)
    except KeyError as error:
        # A module of modules_to_save lacks a stored weight.
        raise _does_not_fit(folder, error.args) from error
    mismatches = _mismatches(trained_model, report)
    if mismatches:
        raise _does_not_fit(folder, mismatches)
    # Attributes by which transformers knows that a model has an adapter.
    model.peft_config = trained_model.peft_config
    model._hf_peft_config_loaded = True
    model.eval()


def _mismatches(trained_model: Any, report: Any) -> set[str]:
    """Return the names of weights that only the model or only the adapter has, according to ``peft``'s report.

    Those of a pooler are left out: models with some heads lack one, and no vector depends on it.
    """
    # Each tied weight has a single name here.
    parameter_names = {name for name, _ in trained_model.named_parameters()}
    mismatches = set(report.unexpected_keys)
    for name in report.missing_keys:
        if name in parameter_names and _ADAPTER_NAME in name.split("."):
            mismatches.add(name)
    return {name for name in mismatches if "pooler" not in name.split(".")}


@dataclass(frozen=True)
class _Adapter:
    """An adapter in memory."""

    folder: Path
    config: Any
    """Its settings, a ``PeftConfig``."""
    tensors: Mapping[str, Any]
    """Its weights, by their names in the model that it was trained on."""


_ADAPTER_NAME = "default"
"""Name that ``peft`` gives to a model's adapter, and so a part of the names of its weights in memory."""


def _does_not_fit(folder: Path, names: Iterable[str]) -> ModelUnavailableError:
    """Return the error for an adapter of another model; ``names``: weights that only one of the two has."""
    return ModelUnavailableError(
        f"the adapter in {folder} does not fit its backbone ({min(names, default='no weights')})",
        f"Check that base_model_name_or_path in {ADAPTER} names the model that the adapter was trained on.",
    )


def _with_trained_names(model: Any, tensor_names: Iterable[str]) -> Any:
    """Return a model whose modules have the names that they had when an adapter was trained.

    ``tensor_names``: names of the adapter's weights. If it was trained on a model with a head, they begin with the name
    of the model inside (``roberta.``); then the model is returned inside an outer module, under that name. So the
    adapter's settings, which name modules too, by whole names or patterns, need no translation.
    """
    prefix = model.base_model_prefix
    trained_inside = any(name.startswith(f"{prefix}.") for name in tensor_names)
    if not trained_inside or hasattr(model, prefix):
        return model
    import torch

    outer: Any = torch.nn.Module()
    outer.add_module(prefix, model)
    # Attributes that peft requires of a model of transformers. The model inside handles its tied weights itself.
    outer.config = model.config
    outer.base_model_prefix = prefix
    outer.get_input_embeddings = model.get_input_embeddings
    outer._tied_weights_keys = {}
    return outer


def _tensors_of_model(
    model: Any, trained_model: Any, stored_tensors: Mapping[str, Any]
) -> dict[str, Any]:
    """Return an adapter's tensors for modules of the model, without those of a head or a decoder that is not read."""
    model_path = next(path for path, module in trained_model.named_modules() if module is model)
    prefix = f"{model_path}." if model_path else ""
    prefixes = tuple(f"{prefix}{name}." for name, _ in model.named_children())
    tensors = {}
    for name, tensor in stored_tensors.items():
        if name.startswith(prefixes):
            # Where peft also stores the embeddings, it stores a module of modules_to_save under two names.
            tensors[name.replace(".modules_to_save.", ".")] = tensor
    return tensors


def _config_without_head_tokens(trained_model: Any, settings: Mapping[str, Any]) -> Any:
    """Return the ``PeftConfig`` of an adapter, without tuned tokens of a head, which ``peft`` would look for."""
    from peft import PeftConfig

    config: Any = PeftConfig.from_peft_type(**settings)  # type: ignore[no-untyped-call]
    config.inference_mode = True
    indices = getattr(config, "trainable_token_indices", None)
    if isinstance(indices, dict):
        paths = [path for path, _ in trained_model.named_modules(remove_duplicate=False)]
        config.trainable_token_indices = _indices_of_modules(indices, paths)
    return config


def _indices_of_modules(indices: Mapping[str, Any], paths: Sequence[str]) -> dict[str, Any]:
    """Return the entries of ``trainable_token_indices`` whose key ends the path of a module."""
    entries = {}
    for ending, token_ids in indices.items():
        if any(path.endswith(ending) for path in paths):
            entries[ending] = token_ids
    return entries


_STORED_EMBEDDINGS = ("weight", "base_layer.weight", "token_adapter.base_layer.weight")
"""Names of a matrix of embeddings in an adapter: plain or tuned as a whole, under LoRA, and under tuned tokens."""
_TUNED_TOKENS = ("trainable_tokens_delta", "token_adapter.trainable_tokens_delta")
"""Names of the embeddings of tuned tokens in an adapter: of tokens alone, and beside LoRA."""


def _prepare_embeddings(model: Any, trained_model: Any, adapter: _Adapter, n_tokens: int) -> None:
    """Prepare the backbone's token embeddings for those that an adapter stores: all of them, of single tokens, or none.

    A whole stored matrix replaces the backbone's. Otherwise the backbone's gets new rows up to ``n_tokens``; ``peft``
    fills them later with the embeddings of single tuned tokens. Raise a ``ModelUnavailableError`` for new rows that
    nothing fills.

    Args:
        model: the backbone, whose embeddings are changed.
        trained_model: the same modules under the names that the adapter's files have for them.
        adapter: the adapter.
        n_tokens: number of token ids if the adapter's tokenizer adds some to the backbone's, else 0.
    """
    import torch

    matrix = model.get_input_embeddings().weight
    # Find what the adapter stores. Encoder-decoders have the same matrix in several modules.
    paths = []
    for path, module in trained_model.named_modules(remove_duplicate=False):
        if getattr(module, "weight", None) is matrix:
            paths.append(path)
    stored_matrix = _first_tensor(adapter.tensors, paths, _STORED_EMBEDDINGS)
    tuned_rows = _first_tensor(adapter.tensors, paths, _TUNED_TOKENS)

    # Give the backbone's matrix as many rows as will be filled.
    if stored_matrix is not None:
        new_size = len(stored_matrix)
    else:
        tuned_tokens: set[int] = set()
        if tuned_rows is not None:
            tuned_tokens = _tuned_tokens(adapter.config, paths)
        added_tokens = set(range(len(matrix), n_tokens))
        _check_added_tokens(adapter.folder, len(matrix), added_tokens, tuned_tokens)
        new_size = max(len(matrix), n_tokens)
    if new_size != len(matrix):
        model.resize_token_embeddings(new_size, mean_resizing=False)
    weight = model.get_input_embeddings().weight
    # Raise its precision to that of what is stored, if that is higher: otherwise the stored numbers would be rounded.
    for tensor in (stored_matrix, tuned_rows):
        if tensor is not None:
            weight.data = weight.data.to(torch.promote_types(weight.dtype, tensor.dtype))
    if stored_matrix is not None:
        weight.data.copy_(stored_matrix)


def _check_added_tokens(
    folder: Path, n_embeddings: int, added_tokens: set[int], tuned_tokens: set[int]
) -> None:
    """Raise a ``ModelUnavailableError`` if an adapter adds tokens whose embeddings it has not tuned and stored."""
    random_tokens = added_tokens - tuned_tokens
    if not random_tokens:
        return
    which = "them" if random_tokens == added_tokens else f"{len(random_tokens)} of them"
    raise ModelUnavailableError(
        f"the adapter in {folder} adds tokens to its backbone's {n_embeddings}, and stores no embeddings of {which}; "
        "they would be random numbers",
        "Save it again with save_embedding_layers=True (peft).",
    )


def _first_tensor(tensors: Mapping[str, Any], paths: Sequence[str], names: Sequence[str]) -> Any:
    """Return the first tensor that is there, by name and then by module path; ``None`` if there is none."""
    for name in names:
        for path in paths:
            tensor = tensors.get(f"{path}.{name}")
            if tensor is not None:
                return tensor
    return None


def _tuned_tokens(config: Any, paths: Sequence[str]) -> set[int]:
    """Return the ids of tokens whose embeddings an adapter has tuned; ``paths``: of the modules of embeddings."""
    indices = getattr(config, "trainable_token_indices", None)
    if indices is None:
        # The adapter tunes tokens only.
        indices = config.token_indices
    if not isinstance(indices, dict):
        return set(indices)
    tuned_tokens: set[int] = set()
    for token_ids in _indices_of_modules(indices, paths).values():
        tuned_tokens.update(token_ids)
    return tuned_tokens


def adapter_tensors(folder: Path) -> dict[str, Any]:
    """Read the weights in an adapter's file, by the names of ``get_adapter_state_dict``."""
    from peft import load_peft_weights

    weights = load_peft_weights(str(folder), device="cpu")
    return {name.removeprefix("base_model.model."): weight for name, weight in weights.items()}


def _convert_adapter_to_float32(model: Any) -> None:
    """Convert an adapter's weights to float32."""
    for name, weight in model.named_parameters():
        if "lora_" in name and weight.dtype.itemsize < 4:
            weight.data = weight.data.float()


def merge_adapter(model: Any) -> None:
    """Add the adapter's products to the model's weights and remove the adapter; only rounding changes vectors."""
    for adapted in list(_adapted_layers(model)):
        layer = adapted.layer
        # This method exists for modules_to_save and trainable tokens, but not for layers.
        if hasattr(layer, "unload_and_optionally_merge_module"):
            merged = layer.unload_and_optionally_merge_module(
                merge=True, safe_merge=True, adapter_names=None
            )
        else:
            layer.merge(safe_merge=True)
            merged = layer.get_base_layer()
        setattr(adapted.parent, adapted.name, merged)
    for weight in model.parameters():
        weight.requires_grad = True
    del model.peft_config
    model._hf_peft_config_loaded = False


class _AdaptedLayer(NamedTuple):
    """A layer with an adapter, and its place in the model."""

    parent: Any
    """Module that holds the layer."""
    name: str
    """Name of the layer in the parent."""
    layer: Any


def _adapted_layers(model: Any) -> Iterator[_AdaptedLayer]:
    """Yield each outermost adapted layer."""
    from peft.tuners.tuners_utils import BaseTunerLayer
    from peft.utils.other import AuxiliaryTrainingWrapper

    prefixes: tuple[str, ...] = ()
    for path, module in model.named_modules():
        is_adapted_layer = isinstance(module, BaseTunerLayer | AuxiliaryTrainingWrapper)
        if not is_adapted_layer or path.startswith(prefixes):
            continue
        prefixes += (f"{path}.",)
        parent, _, name = path.rpartition(".")
        yield _AdaptedLayer(model.get_submodule(parent), name, module)
