from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from helpers.augmented_models import AUGMENTATIONS, opened, tuning_of
from helpers.random_models import Models, encoder

from mirrorbench.core import devices
from mirrorbench.core.devices import lost_device
from mirrorbench.core.errors import DeviceMemoryError
from mirrorbench.models.pooling import Pooling
from mirrorbench.models.transformer import Transformer
from mirrorbench.training import loop as loop_module
from mirrorbench.training import microbatch
from mirrorbench.training.loop import limits, tune_backbone
from mirrorbench.training.losses import Objective, TokenizedPairs
from mirrorbench.training.recipes import Recipe

TEXTS = [f"{'word ' * (n % 7)}number {n}" for n in range(10, 40)]
LIMIT = 80  # tokens: fewer than those of the texts of one length
RECIPE = Recipe(
    temperature=0.05,
    epochs=1,
    train_max_length=30,
    pooling="cls",
    batch_size=10,
    lr=1e-3,
    augment=(("dropout", 0.0),),
)
FULL = RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when")


def limit_memory(transformer: Transformer, limit: int) -> list[int]:
    """Make a real model raise a GPU's error for every batch of too many positions."""
    seen: list[int] = []
    forward = transformer.model.forward

    def limited(*args: Any, input_ids: torch.Tensor, **kwargs: Any) -> Any:
        seen.append(input_ids.numel())
        if seen[-1] > limit:
            raise FULL
        return forward(*args, input_ids=input_ids, **kwargs)

    transformer.model.forward = limited
    return seen


@pytest.fixture
def bert(random_model: Models) -> Path:
    return random_model("bert")


@pytest.mark.parametrize("mode", ["mean", "mean-padded"])
def test_encoding_lowers_its_budget_after_memory_errors(
    bert: Path, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "mirrorbench.models.batching.MIN_TOKENS", 32
    )  # no batch is filled up beyond the limit
    limited = encoder(bert, Pooling(mode, "-1:", 40))
    expected = limited.encode(TEXTS)
    budget = limited.transformer.budget
    seen = limit_memory(limited.transformer, LIMIT)
    np.testing.assert_allclose(limited.encode(TEXTS), expected, atol=1e-5)
    assert any(size > LIMIT for size in seen)
    assert limited.transformer.budget < budget
    seen.clear()
    np.testing.assert_allclose(limited.encode(TEXTS), expected, atol=1e-5)
    assert all(size <= LIMIT for size in seen)  # it has learnt


def test_single_text_beyond_memory_is_an_error(bert: Path) -> None:
    limited = encoder(bert, Pooling("mean", "-1:", 40))
    assert limited.transformer.traits.packs  # it was tried before
    limit_memory(limited.transformer, 5)
    with pytest.raises(DeviceMemoryError, match="no memory left on cpu for one text of") as caught:
        limited.encode(TEXTS)
    assert "max_length" in caught.value.hint
    transformer = opened(bert, RECIPE)
    limit_memory(transformer, 5)
    with pytest.raises(DeviceMemoryError, match="no memory left on cpu for one pair"):
        tune_backbone(transformer, TEXTS, RECIPE, 3, AUGMENTATIONS)


def test_unrelated_errors_are_not_memory_errors(
    bert: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = encoder(bert, Pooling("mean"))
    assert broken.transformer.traits.varies  # it was tried before it broke
    monkeypatch.setattr(
        broken.transformer.model.encoder.layer[0], "intermediate", torch.nn.Linear(7, 7)
    )
    with pytest.raises(RuntimeError, match="mat1"):
        broken.encode(TEXTS)
    with pytest.raises(RuntimeError, match="mat1"):
        tune_backbone(broken.transformer, TEXTS, RECIPE, 0, AUGMENTATIONS)


def test_kept_activations_shrink_before_micro_batches(
    bert: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kept part depends on the free memory, which other programs change: on a GPU it changes no bit."""
    monkeypatch.setattr(microbatch, "device_type", lambda device: "cuda")
    monkeypatch.setitem(microbatch.TOKEN_BUDGET, "cuda", 200)
    changed = replace(RECIPE, augment=(("dropout", 0.2),))
    transformer = opened(bert, changed)
    loop = tuning_of(transformer, changed, packs=False)
    pairs = TokenizedPairs(
        transformer.tokenize([*TEXTS, *TEXTS], 30), None, torch.arange(len(TEXTS))
    )

    def computed() -> list[torch.Tensor]:
        loss = loop.within_memory(pairs)
        return [
            loss,
            *(weight.grad.clone() for weight in loop.reader.weights if weight.grad is not None),
        ]

    loop.most = 200
    most = 400
    expected = computed()
    read = loop.reader.read
    assert len(expected) > 20

    def limited(parts: Any, keep: bool = True) -> list[torch.Tensor]:
        if keep and sum(map(loop.reader.count_positions, parts)) > most:
            raise FULL
        return read(parts, keep)

    monkeypatch.setattr(loop.reader, "read", limited)
    tokens = loop.tokens
    assert all(map(torch.equal, computed(), expected))
    assert (loop.most, loop.tokens) == (200, 2 * tokens)
    assert 200 < loop.most_kept < 10**4
    most = 150
    assert loop.within_memory(pairs).isfinite()
    assert loop.most == loop.most_kept == 100


def test_no_memory_for_optimizer_averages_is_reported(
    bert: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none_left(*args: Any, **kwargs: Any) -> Any:
        raise FULL

    transformer = opened(bert, RECIPE)
    monkeypatch.setattr(torch, "zeros_like", none_left)
    with pytest.raises(DeviceMemoryError, match="no memory left on cpu for the averages") as caught:
        tune_backbone(transformer, TEXTS, RECIPE, 3, AUGMENTATIONS)
    assert "fewer --workers" in caught.value.hint
    assert lost_device(caught.value) is None


def test_gpu_token_budget_follows_total_and_free_memory(
    bert: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Micro-batches depend on the total memory, kept activations on the free memory, both less the model's."""
    transformer = encoder(bert, Pooling("cls")).transformer
    objective = Objective(transformer, RECIPE)
    config = transformer.model.config
    gib = 1 << 30
    weights = 4 * transformer.n_parameters

    def tokens(*sizes: int) -> tuple[int, ...]:
        return tuple(
            size // (105 * config.num_hidden_layers * config.hidden_size) for size in sizes
        )

    assert limits(objective) == tokens(8 * gib, 8 * gib)
    monkeypatch.setattr(loop_module, "on_gpu", lambda device: True)
    monkeypatch.setattr(loop_module, "device_type", lambda device: "cuda")
    memory = {"total": 80 * gib, "free": 60 * gib, "reserved": 5 * gib, "allocated": 3 * gib}
    monkeypatch.setattr(
        torch.cuda, "mem_get_info", lambda device: (memory["free"], memory["total"])
    )
    for name in ("reserved", "allocated"):
        monkeypatch.setattr(torch.cuda, f"memory_{name}", lambda device, name=name: memory[name])
    assert limits(objective) == tokens(16 * gib, (60 * gib + 2 * gib - weights) * 3 // 4)
    memory["free"] = 5 * gib  # other programs took the rest
    assert limits(objective) == tokens(16 * gib, (5 * gib + 2 * gib - weights) * 3 // 4)
    monkeypatch.setattr(devices, "_memory_share", 0.25)  # four workers
    memory["free"] = 60 * gib
    assert limits(objective) == tokens(
        (20 * gib - 4 * weights) // 2, (20 * gib - 3 * gib - weights) * 3 // 4
    )
    memory["free"] = memory["reserved"] = memory["total"] = 0
    assert limits(objective) == (2, 2)
