"""Dropout with quickly drawn masks drops what torch's drops: each value alone, at its rate."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.stats import binomtest, chisquare
from torch.nn import functional as F

from mirrorbench.training.cpu_functions import FastCpuFunctions
from mirrorbench.training.quick_dropout import dropout


@pytest.mark.parametrize("p", [1e-4, 0.1, 0.4, 0.5, 0.999])
def test_the_rate_and_the_scale(p: float) -> None:
    torch.manual_seed(0)
    found = dropout(torch.ones(401, 997), p)
    zeros = int((found == 0).sum())
    assert binomtest(zeros, found.numel(), p).pvalue > 1e-4
    kept = found[found != 0]
    assert kept.unique().numel() == 1
    assert kept[0].item() == pytest.approx(1 / (1 - p), rel=0.01 if p > 0.99 else 1e-4)


def test_each_value_is_dropped_alone() -> None:
    """Four values share a draw: all sixteen ways in which they can fall are as frequent as chance has it."""
    torch.manual_seed(0)
    p = 0.3
    zeros = (dropout(torch.ones(400_000), p) == 0).reshape(-1, 4).numpy()
    patterns = np.bincount(zeros @ [1, 2, 4, 8], minlength=16)
    ones = np.array([bin(n).count("1") for n in range(16)])
    expected = p**ones * (1 - p) ** (4 - ones) * len(zeros)
    assert chisquare(patterns, expected / expected.sum() * patterns.sum()).pvalue > 1e-4
    neighbours = np.corrcoef(zeros[:-1].ravel(), zeros[1:].ravel())[0, 1]
    assert abs(neighbours) < 0.01


@pytest.mark.parametrize("shape", [(), (1,), (3, 5), (2, 3, 7), (0, 4)])
def test_any_shape_in_place_or_not(shape: tuple[int, ...]) -> None:
    torch.manual_seed(1)
    x = torch.randn(shape)
    found = dropout(x.clone(), 0.5)
    assert found.shape == x.shape
    assert ((found == 0) | torch.isclose(found, 2 * x)).all()
    torch.manual_seed(1)
    torch.randn(shape)
    inside = x.clone()
    assert dropout(inside, 0.5, inplace=True) is inside
    torch.testing.assert_close(inside, found)


def test_gradients_go_where_values_went() -> None:
    x = torch.randn(50, 60, requires_grad=True)
    found = dropout(x, 0.4)
    found.sum().backward()
    assert x.grad is not None
    torch.testing.assert_close(x.grad, (found != 0) / 0.6, rtol=1e-4, atol=0)


@pytest.mark.parametrize(("p", "training"), [(0.0, True), (1.0, True), (0.5, False)])
def test_all_or_nothing_is_torchs(p: float, training: bool) -> None:
    x = torch.randn(30, 7)
    torch.testing.assert_close(dropout(x, p, training), F.dropout(x, p, training))


def test_layers_use_it_inside_the_mode_alone() -> None:
    layer, x = torch.nn.Dropout(0.25), torch.randn(40, 30)

    def drawn(function: object) -> torch.Tensor:
        torch.manual_seed(3)
        return function(x)  # type: ignore[operator, no-any-return]

    with FastCpuFunctions():
        inside = drawn(layer)
        assert drawn(layer.eval()) is x
    layer.train()
    assert torch.equal(inside, drawn(lambda x: dropout(x, 0.25)))
    assert not torch.equal(inside, drawn(layer))


def test_bad_rates_are_torchs_error() -> None:
    with pytest.raises(ValueError, match="between 0 and 1"), FastCpuFunctions():
        F.dropout(torch.ones(3), 1.5)
