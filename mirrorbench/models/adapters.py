"""LoRA adapters (Hu et al., ICLR 2022) of ``peft``: adding them to all linear layers, opening and merging them.

"LoRA on all linear transformer block layers are required to match full finetuning performance" (Dettmers et al.,
NeurIPS 2023, "QLoRA", section 4).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from mirrorbench.core.errors import ModelUnavailableError, UsageError, not_installed
from mirrorbench.models.backbones import ADAPTER
from mirrorbench.models.families import LANGUAGE
from mirrorbench.models.model_files import json_object

SCALE = 2
"""Scaling of LoRA, alpha / rank, applied to the product of its matrices."""
_UNREAD = ("pooler", "decoder")
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
    """Freeze a model and add a LoRA adapter of a rank: A random, from the seed, and B zero.

    ``base``: the model's folder, which is stored with the adapter.
    """
    import torch
    from peft import LoraConfig
    from transformers.pytorch_utils import Conv1D

    if is_adapted(model):
        raise UsageError(
            "lora cannot be added to a backbone that is an adapter itself",
            "Tune it without lora, or write that backbone with --merge first.",
        )
    names = {part for path, _ in model.named_modules() for part in path.split(".")}
    left_out = (*_UNREAD, *(_MAMBA_REFUSED if "mamba" in model.config.model_type else ()))
    present = "|".join(name for name in left_out if name in names)
    excluded = [rf"(.*\.)?({present})(\..*)?"] if present else []
    if [name for name, _ in model.named_children()] == [
        LANGUAGE
    ]:  # part of a larger model with layers of equal names
        excluded.append(rf"(?!{LANGUAGE}\.).*")
    settings = LoraConfig(
        r=rank,
        lora_alpha=SCALE * rank,
        target_modules="all-linear",
        lora_dropout=0.0,
        exclude_modules="|".join(excluded) or None,
        fan_in_fan_out=any(type(module) is Conv1D for module in model.modules()),
    )
    with torch.random.fork_rng(devices=[]):
        model.add_adapter(settings)
        torch.manual_seed(seed)
        _in_float32(model)
        for name, weight in model.named_parameters():
            if "lora_A" in name:  # peft draws in the precision of the frozen weights
                weight.data.copy_(
                    torch.nn.init.kaiming_uniform_(torch.empty(weight.shape), a=5**0.5)
                )
    settings.base_model_name_or_path = str(base)
    settings.target_modules = sorted(
        settings.target_modules or ()
    )  # a set, which would be stored in any order


def is_adapted(model: Any) -> bool:
    """Return whether a model has an adapter, in which case ``save_pretrained`` writes the adapter alone."""
    return bool(getattr(model, "_hf_peft_config_loaded", False))


def open_adapter(model: Any, folder: Path, tokens: int = 0) -> None:
    """Add the adapter in a folder to its backbone, without merging it.

    Embeddings of tokens that the adapter stores replace the backbone's, and heads that it stores are left out.

    Args:
        model: the backbone.
        folder: the adapter's.
        tokens: number of token ids if the adapter's tokenizer adds some to the backbone's, else 0.

    Raises:
        ModelUnavailableError: the adapter does not fit, or adds tokens and stores no embeddings of them.
    """
    check_installed()
    from peft import inject_adapter_in_model, set_peft_model_state_dict

    settings = json_object(folder / ADAPTER)
    if (type_ := str(settings.get("peft_type"))) in _PROMPT_TYPES:
        raise ModelUnavailableError(
            f"the adapter in {folder} is of the type {type_}, which puts vectors before a text",
            "Adapters that can be merged are read: LoRA, DoRA, IA3, LoHa, LoKr and their like.",
        )
    stored = adapter_tensors(folder)
    trained = _as_trained(model, stored)
    tensors = _without_heads(model, trained, stored)
    if not tensors:
        raise _does_not_fit(folder, stored)
    config = _without_tokens_of_heads(trained, settings)
    _take_embeddings(model, trained, _Adapter(folder, config, tensors), tokens)
    inject_adapter_in_model(config, trained, _ADAPTER_NAME)
    _in_float32(trained)  # as they are stored, whatever the precision of the frozen weights
    try:
        report: Any = set_peft_model_state_dict(trained, tensors, _ADAPTER_NAME)
    except KeyError as error:  # a weight of a module of modules_to_save that is not stored
        raise _does_not_fit(folder, error.args) from error
    weights = {name for name, _ in trained.named_parameters()}  # tied ones once
    missing = {
        name for name in report.missing_keys if name in weights and _ADAPTER_NAME in name.split(".")
    }
    unfit = {name for name in missing.union(report.unexpected_keys) if not _is_of_pooler(name)}
    if unfit:
        raise _does_not_fit(folder, unfit)
    model.peft_config = trained.peft_config
    model._hf_peft_config_loaded = True
    model.eval()


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
    """Return the error for an adapter of another model; ``names``: of the weights of only one of the two."""
    return ModelUnavailableError(
        f"the adapter in {folder} does not fit its backbone ({min(names, default='no weights')})",
        f"Check that base_model_name_or_path in {ADAPTER} names the model that the adapter was trained on.",
    )


def _as_trained(model: Any, stored: Iterable[str]) -> Any:
    """Return a model under the names of modules with which an adapter was trained; ``stored``: names of its tensors.

    In a model with a head, they begin with the name of the model inside (``roberta.``). An adapter's settings name
    modules too, by whole names or patterns, so the model is put under that name instead of translating each setting.
    """
    prefix = model.base_model_prefix
    if not any(name.startswith(f"{prefix}.") for name in stored) or hasattr(model, prefix):
        return model
    import torch

    outer: Any = torch.nn.Module()
    outer.add_module(prefix, model)
    # What peft asks a model of transformers for; those inside have their tied weights themselves.
    outer.config = model.config
    outer.base_model_prefix = prefix
    outer.get_input_embeddings = model.get_input_embeddings
    outer._tied_weights_keys = {}
    return outer


def _without_heads(model: Any, trained: Any, stored: Mapping[str, Any]) -> dict[str, Any]:
    """Return an adapter's tensors for modules of the model, rather than of a head or a decoder that is not read."""
    prefix = next(
        f"{name}." if name else "" for name, part in trained.named_modules() if part is model
    )
    parts = tuple(f"{prefix}{name}." for name, _ in model.named_children())
    inside = {name: tensor for name, tensor in stored.items() if name.startswith(parts)}
    # peft stores a module of modules_to_save twice, where it stores the embeddings too.
    return {name.replace(".modules_to_save.", "."): tensor for name, tensor in inside.items()}


def _without_tokens_of_heads(trained: Any, settings: Mapping[str, Any]) -> Any:
    """Return the configuration of an adapter without tuned tokens of a head, where ``peft`` would look for them."""
    from peft import PeftConfig

    config: Any = PeftConfig.from_peft_type(**settings)  # type: ignore[no-untyped-call]
    config.inference_mode = True
    indices = getattr(config, "trainable_token_indices", None)
    if isinstance(indices, dict):
        names = [name for name, _ in trained.named_modules(remove_duplicate=False)]
        config.trainable_token_indices = {
            part: ids for part, ids in indices.items() if any(name.endswith(part) for name in names)
        }
    return config


def _is_of_pooler(name: str) -> bool:
    """Return whether a weight is a pooler's, which models with some heads lack and no vector depends on."""
    return "pooler" in name.split(".")


_STORED_EMBEDDINGS = ("weight", "base_layer.weight", "token_adapter.base_layer.weight")
"""Names of a matrix of embeddings in an adapter: plain or tuned as a whole, under LoRA, and under tuned tokens."""
_TUNED_TOKENS = ("trainable_tokens_delta", "token_adapter.trainable_tokens_delta")
"""Names of the embeddings of tuned tokens in an adapter: of tokens alone, and beside LoRA."""


def _take_embeddings(model: Any, trained: Any, adapter: _Adapter, tokens: int) -> None:
    """Give a backbone the embeddings of tokens that an adapter stores, as many as there are."""
    import torch

    matrix = model.get_input_embeddings().weight
    # Encoder-decoders have the same matrix in several modules.
    modules = trained.named_modules(remove_duplicate=False)
    names = [name for name, module in modules if getattr(module, "weight", None) is matrix]
    rows = _first(adapter.tensors, names, _STORED_EMBEDDINGS)
    tuned = _first(adapter.tensors, names, _TUNED_TOKENS)
    known = len(matrix)
    if rows is None:
        beyond = {*range(known, tokens)}
        lacking = beyond if tuned is None else beyond - _tuned_tokens(adapter.config, names)
        if lacking:
            which = "them" if lacking == beyond else f"{len(lacking)} of them"
            raise ModelUnavailableError(
                f"the adapter in {adapter.folder} adds tokens to its backbone's {known}, and stores no embeddings of "
                f"{which}; they would be random numbers",
                "Save it anew with save_embedding_layers=True (peft).",
            )
    needed = max(known, tokens) if rows is None else len(rows)
    if needed != known:
        model.resize_token_embeddings(needed, mean_resizing=False)
    weight = model.get_input_embeddings().weight
    for tensor in (rows, tuned):
        if tensor is not None:  # peft rounds rows of tuned tokens to the precision of the others
            weight.data = weight.data.to(torch.promote_types(weight.dtype, tensor.dtype))
    if rows is not None:
        weight.data.copy_(rows)


def _first(tensors: Mapping[str, Any], names: Iterable[str], parts: Iterable[str]) -> Any:
    """Return the first tensor of a part of a module, of modules with these names; ``None`` without any."""
    candidates = (tensors.get(f"{name}.{part}") for part in parts for name in names)
    return next((tensor for tensor in candidates if tensor is not None), None)


def _tuned_tokens(config: Any, names: Iterable[str]) -> set[int]:
    """Return the ids of tokens whose embeddings an adapter has tuned; ``names``: of the modules of embeddings."""
    indices = getattr(config, "trainable_token_indices", None)
    if indices is None:  # an adapter of tokens alone
        indices = config.token_indices
    if not isinstance(indices, dict):
        return set(indices)
    of_embeddings = [
        ids for part, ids in indices.items() if any(name.endswith(part) for name in names)
    ]
    return {id_ for ids in of_embeddings for id_ in ids}


def adapter_tensors(folder: Path) -> dict[str, Any]:
    """Read the weights in an adapter's file, by the names of ``get_adapter_state_dict``."""
    from peft import load_peft_weights

    return {
        key.removeprefix("base_model.model."): w
        for key, w in load_peft_weights(str(folder), device="cpu").items()
    }


def _in_float32(model: Any) -> None:
    """Convert an adapter's weights to float32."""
    for name, weight in model.named_parameters():
        if "lora_" in name and weight.dtype.itemsize < 4:
            weight.data = weight.data.float()


def merge_adapter(model: Any) -> None:
    """Add the adapter's products to the model's own weights and remove it; vectors change by rounding alone."""
    for parent, name, layer in list(_adapted_layers(model)):
        if hasattr(
            layer, "unload_and_optionally_merge_module"
        ):  # peft's modules_to_save or trainable tokens
            merged = layer.unload_and_optionally_merge_module(
                merge=True, safe_merge=True, adapter_names=None
            )
        else:
            layer.merge(safe_merge=True)
            merged = layer.get_base_layer()
        setattr(parent, name, merged)
    for weight in model.parameters():
        weight.requires_grad = True
    del model.peft_config
    model._hf_peft_config_loaded = False


def _adapted_layers(model: Any) -> Iterator[tuple[Any, str, Any]]:
    """Yield the parent, name and module of each outermost adapted layer."""
    from peft.tuners.tuners_utils import BaseTunerLayer
    from peft.utils.other import AuxiliaryTrainingWrapper

    outer: tuple[str, ...] = ()
    for path, module in model.named_modules():
        if isinstance(module, BaseTunerLayer | AuxiliaryTrainingWrapper) and not path.startswith(
            outer
        ):
            outer += (f"{path}.",)
            parent, _, name = path.rpartition(".")
            yield model.get_submodule(parent), name, module
