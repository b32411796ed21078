"""The optimiser leaves out rows that nothing touched, and gives the weights of torch's AdamW all the same."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from mirrorbench.models.transformer import load_transformer
from mirrorbench.training.cpu_functions import FastCpuFunctions
from mirrorbench.training.optimizer import LazyAdamW, TuningOptimizer

STEPS = [[3, 7, 7], [3, 0, 9, 9], [12], [7, 12], [3]]
LR, DECAY = 0.01, 0.2


def table() -> torch.nn.Parameter:
    torch.manual_seed(0)
    return torch.nn.Parameter(torch.randn(15, 4))


def gradients(of: str) -> list[torch.Tensor | None]:
    """One a step: few rows in a sparse tensor, as the substitute for the embedding gives it, or all."""
    torch.manual_seed(1)
    found: list[torch.Tensor | None] = []
    for rows in STEPS:
        sparse = torch.sparse_coo_tensor(
            torch.tensor([rows]), torch.randn(len(rows), 4), (15, 4), check_invariants=True
        )
        found.append({"few rows": sparse.coalesce(), "not summed": sparse, "all rows": sparse.to_dense()}[of])
    return found


@pytest.mark.parametrize("decay", [0.0, DECAY])
@pytest.mark.parametrize("of", ["few rows", "not summed", "all rows"])
def test_rows_are_those_of_adamw(of: str, decay: float) -> None:
    mine, torchs = table(), table()
    rows = LazyAdamW(mine, LR, decay)
    adamw = torch.optim.AdamW([torchs], lr=LR, weight_decay=decay)
    for step, mine.grad, whole in zip(STEPS, gradients(of), gradients("all rows"), strict=True):
        torchs.grad = whole
        rows.touch(torch.tensor(sorted(set(step))))
        assert_close(mine[step], torchs[step], rtol=1e-6, atol=1e-7)  # what the pass would read
        rows.step()
        adamw.step()
        touched = rows.touched
        assert_close(mine[touched], torchs[touched], rtol=1e-6, atol=1e-7)
    assert sorted(rows.touched.tolist()) == ([0, 3, 7, 9, 12] if of != "all rows" else list(range(15)))
    assert decay == 0 or of == "all rows" or not torch.allclose(mine, torchs)  # the others wait for the end
    rows.finish()
    assert_close(mine, torchs, rtol=1e-6, atol=1e-7)


def test_without_a_gradient_weights_only_decay_and_moments_fade() -> None:
    mine, torchs = table(), table()
    rows, adamw = LazyAdamW(mine, LR, DECAY), torch.optim.AdamW([torchs], lr=LR, weight_decay=DECAY)
    few, none, again = gradients("few rows")[0], None, gradients("few rows")[1]
    for gradient in (few, none, again):
        mine.grad = gradient
        torchs.grad = torch.zeros(15, 4) if gradient is None else gradient.to_dense()
        rows.step()
        adamw.step()
    rows.finish()
    assert_close(mine, torchs, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("architecture", ["bert", "roberta", "deberta", "deberta-v2"])
def test_a_model_is_tuned_as_by_adamw(random_model: Callable[[str], Path], architecture: str) -> None:
    """The substitutes give gradients of few rows, and to tables too that are optimised whole.

    In double precision: some gradients are nothing but rounding, and of those AdamW takes the sign.
    """
    mine, torchs = (load_transformer(random_model(architecture), torch.device("cpu")).model.double() for _ in range(2))
    own = TuningOptimizer(mine, LR, DECAY)
    adamw = torch.optim.AdamW(torchs.parameters(), lr=LR, weight_decay=DECAY)
    for ids in ([[5, 6, 7]], [[9]], [[5, 11, 12, 11]]):
        for model, substitutes, optimizer in ((mine, FastCpuFunctions(), own), (torchs, nullcontext(), adamw)):
            optimizer.zero_grad()
            if model is mine:
                own.catch_up(np.array(ids))
            with substitutes:
                model(torch.tensor(ids)).last_hidden_state.mean(1).sin().sum().backward()
            if model is mine:
                assert mine.get_input_embeddings().weight.grad.is_sparse
            optimizer.step()
    own.finish()
    for (name, one), other in zip(mine.named_parameters(), torchs.parameters(), strict=True):
        assert_close(one, other, rtol=1e-6, atol=1e-8, msg=lambda text, n=name: f"{n}: {text}")
