from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from augmented import AUGMENTATIONS, opened, tuning_of
from random_models import Models, encoder

from mirrorbench.core import devices
from mirrorbench.core.devices import lost_device
from mirrorbench.core.errors import DeviceMemoryError
from mirrorbench.models.pooling import Pooling
from mirrorbench.models.transformer import Transformer
from mirrorbench.training import loop as loop_module
from mirrorbench.training import microbatch
from mirrorbench.training.loop import _Loop, limits, tune_backbone
from mirrorbench.training.microbatch import TokenizedPairs
from mirrorbench.training.objective import Objective
from mirrorbench.training.recipes import Recipe

TEXTS = [f"{'word ' * (n % 7)}number {n}" for n in range(10, 40)]
LIMIT = 80  # tokens: fewer than those of the texts of one length
RECIPE = Recipe(
    temperature=0.05, epochs=1, train_max_length=30, pooling="cls", batch_size=10, lr=1e-3, augment=(("dropout", 0.0),)
)


ERRORS = [
    torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB."),
    RuntimeError("MPS backend out of memory (MPS allocated: 9 GB). Tried to allocate 20.00 GB on private pool."),
    RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when"),
]


@pytest.fixture
def full(monkeypatch: pytest.MonkeyPatch) -> Callable[[Transformer, int], list[int]]:
    """Makes a real model raise what a GPU raises, for every batch of more positions than fit; the rest it computes."""

    def full(transformer: Transformer, limit: int) -> list[int]:
        seen: list[int] = []
        forward = transformer.model.forward

        def limited(*args: Any, input_ids: torch.Tensor, **kwargs: Any) -> Any:
            seen.append(input_ids.numel())
            if input_ids.numel() > limit:
                raise ERRORS[0]
            return forward(*args, input_ids=input_ids, **kwargs)

        monkeypatch.setattr(transformer.model, "forward", limited)
        return seen

    return full


@pytest.fixture
def bert(random_model: Models) -> Path:
    return random_model("bert")


@pytest.mark.parametrize("mode", ["mean", "cls", "mean-padded"])
def test_encoding_goes_on_with_half_the_budget(
    bert: Path, full: Callable[..., list[int]], mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mirrorbench.models.batching.MIN_TOKENS", 32)  # no batch is filled up beyond the limit
    limited = encoder(bert, Pooling(mode, "-1:", 40))
    expected, budget = limited.encode(TEXTS), limited.transformer.budget
    seen = full(limited.transformer, LIMIT)
    np.testing.assert_allclose(limited.encode(TEXTS), expected, atol=1e-5)
    assert any(size > LIMIT for size in seen)
    assert limited.transformer.budget < budget
    seen.clear()
    np.testing.assert_allclose(limited.encode(TEXTS), expected, atol=1e-5)
    assert all(size <= LIMIT for size in seen)  # it has learnt


def test_one_text_that_does_not_fit_is_an_error_with_a_way_out(bert: Path, full: Callable[..., list[int]]) -> None:
    limited = encoder(bert, Pooling("mean", "-1:", 40))
    full(limited.transformer, 5)
    with pytest.raises(DeviceMemoryError, match="no memory left on cpu for one text of") as caught:
        limited.encode(TEXTS)
    assert "max_length" in caught.value.hint
    transformer = opened(bert, RECIPE)
    full(transformer, 5)
    with pytest.raises(DeviceMemoryError, match="no memory left on cpu for one pair"):
        tune_backbone(transformer, TEXTS, RECIPE, 3, AUGMENTATIONS)


def test_other_errors_are_not_taken_for_a_lack_of_memory(bert: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = encoder(bert, Pooling("mean"))
    assert broken.transformer.kind.varies  # it was tried before it broke
    monkeypatch.setattr(broken.transformer.model.encoder.layer[0], "intermediate", torch.nn.Linear(7, 7))
    with pytest.raises(RuntimeError, match="mat1"):
        broken.encode(TEXTS)
    with pytest.raises(RuntimeError, match="mat1"):
        tune_backbone(broken.transformer, TEXTS, RECIPE, 0, AUGMENTATIONS)


@pytest.fixture
def as_on_a_gpu(bert: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], tuple[_Loop, TokenizedPairs]]:
    """A tuning with dropout whose parts are differentiated as on a GPU, and a batch of several parts."""
    monkeypatch.setattr(microbatch, "kind", lambda device: "cuda")
    monkeypatch.setitem(microbatch.TOKEN_BUDGET, "cuda", 200)
    changed = replace(RECIPE, augment=(("dropout", 0.2),))

    def tuning() -> tuple[_Loop, TokenizedPairs]:
        transformer = opened(bert, changed)
        loop = tuning_of(transformer, changed, packs=False)
        return loop, TokenizedPairs(transformer.tokenize([*TEXTS, *TEXTS], 30), None, torch.arange(len(TEXTS)))

    return tuning


def gradients_of(loop: _Loop) -> list[torch.Tensor]:
    return [weight.grad.clone() for weight in loop.reader.weights if weight.grad is not None]


def test_what_is_kept_changes_no_bit_on_a_gpu(as_on_a_gpu: Callable[[], tuple[_Loop, TokenizedPairs]]) -> None:
    """How much is kept follows from the free memory, which other programs change; so it must not show."""
    found = []
    for held in (10**6, 2):
        loop, pairs = as_on_a_gpu()
        loop.held = held
        found.append([loop.within_memory(pairs), *gradients_of(loop)])
    assert len(found[0]) > 20
    assert all(torch.equal(one, other) for one, other in zip(*found, strict=True))


@pytest.mark.parametrize("error", ERRORS)
def test_less_is_kept_before_smaller_parts_draw_other_dropout(
    as_on_a_gpu: Callable[[], tuple[_Loop, TokenizedPairs]], monkeypatch: pytest.MonkeyPatch, error: RuntimeError
) -> None:
    loop, pairs = as_on_a_gpu()
    loop.most, most = 200, 400
    expected, gradients, read = loop.within_memory(pairs), gradients_of(loop), loop.reader.read

    def limited(parts: Any, keep: bool = True) -> list[torch.Tensor]:
        if keep and sum(map(loop.reader.positions, parts)) > most:
            raise error
        return read(parts, keep)

    monkeypatch.setattr(loop.reader, "read", limited)
    tokens = loop.tokens
    assert torch.equal(loop.within_memory(pairs), expected)
    assert all(torch.equal(one, other) for one, other in zip(gradients_of(loop), gradients, strict=True))
    assert (loop.most, loop.tokens) == (200, 2 * tokens)
    assert 200 < loop.held < 10**4
    most = 150
    assert loop.within_memory(pairs).isfinite()
    assert loop.most == loop.held == 100


def test_the_first_step_allocates_nothing_that_could_leave_it_half_done(bert: Path) -> None:
    """Adam's averages are there before, all zero; they are what torch makes in its first step."""
    loop = tuning_of(opened(bert, RECIPE), RECIPE)
    weight = loop.reader.weights[0].detach().clone().requires_grad_()
    made = torch.optim.AdamW([weight], fused=True)
    weight.grad = torch.ones_like(weight)
    made.step()
    ours, theirs = loop.optimizer.state[loop.reader.weights[0]], made.state[weight]
    assert {key: (t.shape, t.dtype, t.device) for key, t in ours.items()} == {
        key: (t.shape, t.dtype, t.device) for key, t in theirs.items()
    }
    assert all(not t.any() for weight in loop.reader.weights for t in loop.optimizer.state[weight].values())


def test_no_room_for_the_averages_is_one_message(bert: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def none_left(*args: Any, **kwargs: Any) -> Any:
        raise ERRORS[0]

    transformer = opened(bert, RECIPE)
    monkeypatch.setattr(torch, "zeros_like", none_left)
    with pytest.raises(DeviceMemoryError, match="no memory left on cpu for the averages") as caught:
        tune_backbone(transformer, TEXTS, RECIPE, 3, AUGMENTATIONS)
    assert "fewer --workers" in caught.value.hint
    assert lost_device(caught.value) is None


def test_the_budget_of_a_gpu(bert: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The cut follows from the memory that there is, what is kept from what is free; of both the model is taken off."""
    transformer = encoder(bert, Pooling("cls")).transformer
    objective, config, gib = Objective(transformer, RECIPE), transformer.model.config, 1 << 30
    token = 105 * config.num_hidden_layers * config.hidden_size
    weights = 4 * transformer.n_parameters
    assert limits(objective) == ((8 * gib) // token,) * 2
    monkeypatch.setattr(loop_module, "on_gpu", lambda device: True)
    monkeypatch.setattr(loop_module, "kind", lambda device: "cuda")
    memory = {"total": 80 * gib, "free": 60 * gib, "reserved": 5 * gib, "allocated": 3 * gib}
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (memory["free"], memory["total"]))
    for name in ("reserved", "allocated"):
        monkeypatch.setattr(torch.cuda, f"memory_{name}", lambda device, name=name: memory[name])
    alone = limits(objective)
    assert alone == (16 * gib // token, (60 * gib + 2 * gib - weights) * 3 // 4 // token)
    memory["free"] = 5 * gib  # other programs took the rest
    assert limits(objective) == (alone[0], (5 * gib + 2 * gib - weights) * 3 // 4 // token)
    monkeypatch.setattr(devices, "_share", 0.25)  # four workers
    memory["free"] = 60 * gib
    assert limits(objective) == (
        (20 * gib - 4 * weights) // 2 // token,
        (20 * gib - 3 * gib - weights) * 3 // 4 // token,
    )
    memory["free"] = memory["reserved"] = memory["total"] = 0
    assert limits(objective) == (2, 2)
