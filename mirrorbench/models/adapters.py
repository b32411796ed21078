"""LoRA (Hu et al., ICLR 2022): small matrices beside the frozen ones of a model, which learn in their place.

Every linear layer gets them, whatever the architecture: "LoRA on all linear transformer block layers are required to
match full finetuning performance" (Dettmers et al., NeurIPS 2023, "QLoRA", section 4). The library is ``peft``.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from mirrorbench.core.errors import ModelUnavailableError, UsageError, not_installed
from mirrorbench.models.backbones import ADAPTER
from mirrorbench.models.directories import json_object
from mirrorbench.models.families import LANGUAGE
from mirrorbench.models.opening import read_adapter

SCALE = 2
"""Alpha over rank: how much the matrices count, twice as much as the model's own at equal size."""
_UNREAD = ("pooler", "decoder")
"""Modules that no pooling reads."""
_PROMPTS = ("PREFIX_TUNING", "PROMPT_TUNING", "P_TUNING", "MULTITASK_PROMPT_TUNING", "CPT", "ADAPTION_PROMPT")
_MAMBA = ("out_proj",)
"""Modules of Mamba that ``peft`` refuses: its fused kernel takes their weights, not their results."""


def check_installed() -> None:
    """A ``UsageError`` where ``peft`` is not installed."""
    if find_spec("peft") is None:
        raise not_installed(UsageError, "lora needs", "peft", "lora")


def add_adapter(model: Any, base: Path, rank: int, seed: int) -> None:
    """Freeze a model, and put matrices of a rank beside its own; they change nothing before they have learnt.

    The first of each two matrices is random, by the seed; the second is zero. ``base``: the model's folder, which is
    stored with the adapter.
    """
    import torch
    from peft import LoraConfig
    from transformers.pytorch_utils import Conv1D

    if is_adapted(model):
        raise UsageError(
            "lora cannot be added to a backbone that is an adapter itself",
            "Tune it without lora, or write that backbone with --merge first.",
        )
    left_out = (*_UNREAD, *(_MAMBA if "mamba" in model.config.model_type else ()))
    names = {part for path, _ in model.named_modules() for part in path.split(".")}
    there = "|".join(name for name in left_out if name in names)
    excluded = [rf"(.*\.)?({there})(\..*)?"] if there else []
    children = [name for name, _ in model.named_children()]
    if children == [LANGUAGE]:  # the original has more, with layers of the same names
        excluded.append(rf"(?!{LANGUAGE}\.).*")
    settings = LoraConfig(
        r=rank, lora_alpha=SCALE * rank, target_modules="all-linear", lora_dropout=0.0,
        exclude_modules="|".join(excluded) or None,
        fan_in_fan_out=any(type(module) is Conv1D for module in model.modules()),
    )  # fmt: skip
    with torch.random.fork_rng(devices=[]):
        model.add_adapter(settings)
        torch.manual_seed(seed)
        _in_float32(model)
        for name, weight in model.named_parameters():
            if "lora_A" in name:  # drawn anew as by peft, whose draws have the precision of the frozen weights
                weight.data.copy_(torch.nn.init.kaiming_uniform_(torch.empty(weight.shape), a=5**0.5))
    settings.base_model_name_or_path = str(base)
    settings.target_modules = sorted(settings.target_modules or ())  # a set, which would be stored in any order


def is_adapted(model: Any) -> bool:
    """Whether a model has an adapter, which is then all that ``save_pretrained`` writes of it."""
    return bool(getattr(model, "_hf_peft_config_loaded", False))


def open_adapter(model: Any, folder: Path) -> None:
    """Put the adapter of a folder onto its backbone; it is not merged, so vectors are those of the tuning."""
    check_installed()
    from peft import set_peft_model_state_dict

    if (kind := str(json_object(folder / ADAPTER).get("peft_type"))) in _PROMPTS:
        problem = f"the adapter in {folder} is of the kind {kind}, which puts vectors before a text"
        raise ModelUnavailableError(
            problem, "Adapters that can be merged are read: LoRA, DoRA, IA3, LoHa, LoKr and their like."
        )

    conversions = model._weight_conversions  # from the names in the backbone's file
    report: Any = read_adapter(model, folder)
    model._weight_conversions = conversions  # not the adapter's: under its names a merged model could not be read
    lacking, foreign = sorted(report.missing_keys), sorted(report.unexpected_keys)
    if lacking or foreign:  # transformers does not find the names of DoRA's lengths
        report = set_peft_model_state_dict(model, adapter_tensors(folder))
        lacking, foreign = sorted({*lacking} & {*report.missing_keys}), sorted(report.unexpected_keys)
    if lacking or foreign:
        raise ModelUnavailableError(
            f"the adapter in {folder} does not fit its backbone ({(lacking + foreign)[0]})",
            f"Compare the base_model_name_or_path in {ADAPTER} with what it was made from.",
        )
    if _in_float32(model):  # it was read in the precision of the frozen weights
        set_peft_model_state_dict(model, adapter_tensors(folder))
    model.eval()


def adapter_tensors(folder: Path) -> dict[str, Any]:
    """The weights in an adapter's file, by the names of ``get_adapter_state_dict``."""
    from peft import load_peft_weights

    return {key.removeprefix("base_model.model."): w for key, w in load_peft_weights(str(folder), device="cpu").items()}


def _in_float32(model: Any) -> bool:
    """Turn an adapter's weights into float32; whether they were in less."""
    less = [weight for name, weight in model.named_parameters() if "lora_" in name and weight.dtype.itemsize < 4]
    for weight in less:
        weight.data = weight.data.float()
    return bool(less)


def merge_adapter(model: Any) -> None:
    """Add the adapter's products to the model's own weights, and take it out; vectors change by rounding alone."""
    for parent, name, layer in list(_layers(model)):
        if hasattr(layer, "unload_and_optionally_merge_module"):  # a whole module beside the original, or rows of one
            merged = layer.unload_and_optionally_merge_module(merge=True, safe_merge=True, adapter_names=None)
        else:
            layer.merge(safe_merge=True)
            merged = layer.get_base_layer()
        setattr(parent, name, merged)
    for weight in model.parameters():
        weight.requires_grad = True
    del model.peft_config
    model._hf_peft_config_loaded = False


def _layers(model: Any) -> Iterator[tuple[Any, str, Any]]:
    from peft.tuners.tuners_utils import BaseTunerLayer
    from peft.utils.other import AuxiliaryTrainingWrapper

    within: tuple[str, ...] = ()
    for path, module in model.named_modules():
        if isinstance(module, BaseTunerLayer | AuxiliaryTrainingWrapper) and not path.startswith(within):
            within += (f"{path}.",)
            parent, _, name = path.rpartition(".")
            yield model.get_submodule(parent), name, module
