"""LoRA adapters (Hu et al., ICLR 2022) of ``peft``: adding them to all linear layers, opening and merging them.

"LoRA on all linear transformer block layers are required to match full finetuning performance" (Dettmers et al.,
NeurIPS 2023, "QLoRA", section 4).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from mirrorbench.core.errors import ModelUnavailableError, UsageError, not_installed
from mirrorbench.models.backbones import ADAPTER
from mirrorbench.models.families import LANGUAGE
from mirrorbench.models.model_files import json_object
from mirrorbench.models.opening import read_adapter

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
    from peft import set_peft_model_state_dict

    if (type_ := str(json_object(folder / ADAPTER).get("peft_type"))) in _PROMPT_TYPES:
        raise ModelUnavailableError(
            f"the adapter in {folder} is of the type {type_}, which puts vectors before a text",
            "Adapters that can be merged are read: LoRA, DoRA, IA3, LoHa, LoKr and their like.",
        )
    tensors = _tensors_for(model, adapter_tensors(folder))
    _take_embeddings(model, folder, tensors, tokens)
    conversions = model._weight_conversions  # from the names in the backbone's file
    report: Any = read_adapter(model, folder)
    model._weight_conversions = (
        conversions  # a merged model could not be opened under the adapter's
    )
    missing, unexpected = {*report.missing_keys}, _unread(model, report, tensors)
    if missing or unexpected:  # transformers does not know the names of DoRA's magnitude vectors
        report = set_peft_model_state_dict(model, tensors)
        missing, unexpected = missing & {*report.missing_keys}, _unread(model, report, tensors)
    if missing or unexpected:
        raise ModelUnavailableError(
            f"the adapter in {folder} does not fit its backbone ({[*sorted(missing), *sorted(unexpected)][0]})",
            f"Check that base_model_name_or_path in {ADAPTER} names the model that the adapter was trained on.",
        )
    if _in_float32(model):  # it was read in the precision of the frozen weights
        set_peft_model_state_dict(model, tensors)
    model.eval()


def _tensors_for(model: Any, stored: Mapping[str, Any]) -> dict[str, Any]:
    """Return an adapter's tensors by their names in a model without a head, for which it may have been trained with one.

    With a head, names begin with the name of the model inside (``roberta.``); tensors of the head have none.
    """
    prefix = f"{model.base_model_prefix}."
    inside = {name.removeprefix(prefix): tensor for name, tensor in stored.items()}
    return {name: tensor for name, tensor in inside.items() if _is_inside(model, name)}


def _is_inside(model: Any, name: str) -> bool:
    """Whether a tensor's name is that of a module of the model, rather than of a head."""
    return name.partition(".")[0] in dict(model.named_children())


def _unread(model: Any, report: Any, tensors: Mapping[str, Any]) -> set[str]:
    """Return the names of an adapter's tensors that a report of loading does not expect, and the model needs."""
    prefix = f"{model.base_model_prefix}."
    names = {name.removeprefix(prefix) for name in report.unexpected_keys}
    # peft stores a module of modules_to_save twice, where it stores the embeddings too.
    twice = {
        name
        for name in names
        if ".modules_to_save." in name and name.replace(".modules_to_save.", ".") in tensors
    }
    return {name for name in names - twice if _is_inside(model, name)}


_STORED_EMBEDDINGS = (
    "weight",
    "modules_to_save.weight",
    "base_layer.weight",
    "token_adapter.base_layer.weight",
)
"""Names of a matrix of embeddings in an adapter: plain, tuned as a whole, under LoRA, and under tuned tokens."""
_TUNED_TOKENS = "token_adapter.trainable_tokens_delta"
"""Name of the embeddings of tuned tokens in an adapter."""


def _take_embeddings(model: Any, folder: Path, tensors: Mapping[str, Any], tokens: int) -> None:
    """Give a backbone the embeddings of tokens that an adapter stores, as many as there are."""
    embeddings = model.get_input_embeddings()
    name = next(name for name, module in model.named_modules() if module is embeddings)
    candidates = (tensors.get(f"{name}.{part}") for part in _STORED_EMBEDDINGS)
    stored = next((tensor for tensor in candidates if tensor is not None), None)
    known = embeddings.weight.shape[0]
    if stored is not None:
        if len(stored) != known:
            model.resize_token_embeddings(len(stored), mean_resizing=False)
        model.get_input_embeddings().weight.data.copy_(stored)
    elif tokens > known:
        if f"{name}.{_TUNED_TOKENS}" not in tensors or not _tuned_tokens(folder, name).issuperset(
            range(known, tokens)
        ):
            raise ModelUnavailableError(
                f"the adapter in {folder} adds tokens to its backbone's {known}, and stores no embeddings of them; they "
                "would be random numbers",
                "Save it anew with save_embedding_layers=True (peft).",
            )
        model.resize_token_embeddings(
            tokens, mean_resizing=False
        )  # their rows are read with the adapter


def _tuned_tokens(folder: Path, name: str) -> set[int]:
    """Return the ids of tokens whose embeddings an adapter has tuned; ``name``: of the module of embeddings."""
    indices = json_object(folder / ADAPTER).get("trainable_token_indices") or []
    if isinstance(indices, dict):
        indices = next((own for part, own in indices.items() if name.endswith(part)), [])
    return set(indices)


def adapter_tensors(folder: Path) -> dict[str, Any]:
    """Read the weights in an adapter's file, by the names of ``get_adapter_state_dict``."""
    from peft import load_peft_weights

    return {
        key.removeprefix("base_model.model."): w
        for key, w in load_peft_weights(str(folder), device="cpu").items()
    }


def _in_float32(model: Any) -> bool:
    """Convert an adapter's weights to float32, and return whether any had a lower precision."""
    halves = [
        weight
        for name, weight in model.named_parameters()
        if "lora_" in name and weight.dtype.itemsize < 4
    ]
    for weight in halves:
        weight.data = weight.data.float()
    return bool(halves)


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
