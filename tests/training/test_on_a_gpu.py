"""Operations for a GPU on torch's ``meta`` device, which raises when a number is read."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from itertools import product
from typing import Any

import pytest
import torch
from helpers.augmented_models import attached, recipe, tuning_of
from helpers.flash_attention import force_gpu
from helpers.random_models import Models
from helpers.suite_marks import few
from torch.utils._python_dispatch import TorchDispatchMode

from mirrorbench.core.encoder_protocol import TextInput
from mirrorbench.models.pooling import POOLINGS, Pooling
from mirrorbench.models.transformer import Transformer, load_transformer
from mirrorbench.training import loop as tuning
from mirrorbench.training.losses import LOSSES, TokenizedPairs
from mirrorbench.training.recipes import Recipe

SHORT = ["a", "the cat sat", "dd", "e f g " * 3, "", "hh " * 4]


class NoWaiting(TorchDispatchMode):
    """A context that raises at synchronous copies, which ``meta`` permits."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        named = kwargs or {}
        name = func.overloadpacket.__name__
        if name == "_to_copy" and named.get("device", args[0].device) != args[0].device:
            assert named.get("non_blocking"), (
                f"{args[0].shape} is copied to {named['device']} while the host waits"
            )
        if name == "copy_" and args[0].device != args[1].device and args[1].dim():
            assert args[2:] == (True,) or named.get("non_blocking"), "copied while the host waits"
        return func(*args, **named)


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> torch.device:
    """A GPU in all branches, without numbers."""
    device = force_gpu(monkeypatch)
    on = torch.autocast
    enabled = torch.is_autocast_enabled
    monkeypatch.setattr(
        torch,
        "autocast",
        lambda name, *a, **k: nullcontext() if name == "meta" else on(name, *a, **k),
    )
    monkeypatch.setattr(
        torch, "is_autocast_enabled", lambda *name: name != ("meta",) and enabled(*name)
    )
    monkeypatch.setattr(
        sys.modules["torch.optim.adam"], "_device_dtype_check_for_fused", lambda *args: None
    )
    monkeypatch.setattr(tuning, "gpu_memory", lambda device: (141 << 30, 140 << 30))
    return device


def moved_to(transformer: Transformer, device: torch.device) -> Transformer:
    assert transformer.traits.varies  # tried, once, where there are numbers
    transformer.model.to(device)
    transformer.device = device
    return transformer


def pairs_of(transformer: Transformer, changed: Recipe) -> TokenizedPairs:
    inputs = [TextInput(text, ((0, 1),) if text else ()) for text in (*SHORT, *reversed(SHORT))]
    located = transformer.locate(
        inputs, changed.train_max_length, changed.pooling == "target-marked"
    )
    return TokenizedPairs(located.ids, located.targets, torch.arange(len(SHORT)))


OTHERS = ("roberta", "deberta", "deberta-v2", "modernbert")
VARIANTS: list[dict[str, Any]] = [
    *({"loss": loss, "dropout": 0.1} for loss in LOSSES),
    *({"pooling": pooling, "dropout": 0.1} for pooling in POOLINGS),
    {"dropout": 0},
    {"layers": "-4:", "drophead": 0.2},
    {"controlled_dropout": 0.1},
    {"dropout": 0.1},
]


@pytest.mark.parametrize(
    ("architecture", "changes"),
    few(
        [*(("bert", changes) for changes in VARIANTS), *product(OTHERS, VARIANTS[-2:])],
        0,
        len(VARIANTS) - 2,
    ),
    ids=str,
)
def test_tuning_step_on_meta_device_never_waits(
    architecture: str, changes: dict[str, Any], random_model: Models, gpu: torch.device
) -> None:
    changed = recipe(**changes)
    with attached(random_model(architecture), changed) as transformer:
        moved_to(transformer, gpu)
        loop = tuning_of(
            transformer, changed, packs="dropout" in changes, precision="fp16"
        )  # with the scaler's work
        assert not loop.reader.parallel
        pairs = pairs_of(transformer, changed)
        for most in (1 << 20, 60):  # in one piece, and in parts that are computed twice
            loop.most = loop.most_kept = most
            with NoWaiting():
                loop.step(pairs)
    gradients = [weight.grad for weight in loop.reader.weights]
    assert sum(gradient is not None for gradient in gradients) > 10
    assert {gradient.device.type for gradient in gradients if gradient is not None} == {"meta"}
    assert len(loop.pending) == 2


@pytest.mark.gpu
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
# transformers' DeBERTa v2 waits in each layer, where it makes a tensor of a number on the GPU
@pytest.mark.parametrize(
    ("architecture", "changes"),
    [*product(["bert", "roberta", "deberta", "modernbert"], VARIANTS[-2:])],
)
def test_tuning_step_on_a_real_gpu_never_waits(
    architecture: str, changes: dict[str, Any], precision: str, random_model: Models
) -> None:
    changed = recipe(**changes)
    with attached(random_model(architecture), changed) as transformer:
        moved_to(transformer, torch.device("cuda"))
        loop = tuning_of(transformer, changed, packs="dropout" in changes, precision=precision)
        pairs = pairs_of(transformer, changed)
        loop.step(pairs)  # the first one opens libraries
        torch.cuda.set_sync_debug_mode("error")
        try:
            loop.step(pairs)
        finally:
            torch.cuda.set_sync_debug_mode("default")
        loop.check()
        assert len(loop.losses) == 1


@pytest.mark.parametrize("architecture", few(["bert", *OTHERS], 0, 2))
def test_encoder_forward_on_meta_device_never_waits(
    architecture: str, random_model: Models, gpu: torch.device
) -> None:
    transformer = moved_to(load_transformer(random_model(architecture), torch.device("cpu")), gpu)
    located = transformer.locate([TextInput(text, ((0, 1),) if text else ()) for text in SHORT], 24)
    for same in (located.ids, located.ids.take([2, 2])):  # with padding, and without
        targets = located.targets if len(same) == len(SHORT) else located.targets.take([2, 2])
        for mode in ("mean-padded", "target"):
            with (
                torch.no_grad(),
                NoWaiting(),
            ):  # inference mode would hide what some operations consist of
                (actual,) = transformer.forward(
                    same, [Pooling(mode, "-2:")], 24 * (mode == "mean-padded"), targets
                )
            assert (actual.shape, actual.dtype) == ((len(same), 32), torch.float32)
