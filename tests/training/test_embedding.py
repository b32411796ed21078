"""The embedding with gradients of few rows gives torch's own gradients, bit for bit."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

from mirrorbench.training.cpu_functions import FastCpuFunctions
from mirrorbench.training.embedding import embedding

PARTS = ([[3, 7, 7], [3, 0, 9]], [[7, 7, 0]], [[40, 3, 3], [1, 1, 1]])


def gradient(layer: torch.nn.Embedding, substituted: bool) -> torch.Tensor:
    """Of a function of several parts that share rows, as a batch in parts has it."""
    layer.weight.grad = None
    torch.manual_seed(1)
    factors = torch.randn(3, layer.embedding_dim)
    with FastCpuFunctions() if substituted else torch.enable_grad():
        total = sum(
            (layer(torch.tensor(part)) * factor).tanh().sum() for part, factor in zip(PARTS, factors, strict=True)
        )
    assert isinstance(total, torch.Tensor)
    total.backward()  # type: ignore[no-untyped-call]
    assert layer.weight.grad is not None
    assert layer.weight.grad.is_sparse == substituted
    return layer.weight.grad.to_dense()


@pytest.mark.parametrize("padding", [None, 0, -1, 7])
def test_gradients_are_torchs_bit_for_bit(padding: int | None) -> None:
    torch.manual_seed(0)
    layer = torch.nn.Embedding(50, 16, padding_idx=padding)
    assert torch.equal(gradient(layer, True), gradient(layer, False))
    if padding == 7:
        assert not gradient(layer, True)[7].any()


def test_values_are_torchs() -> None:
    weight = torch.randn(50, 4, requires_grad=True)
    ids = torch.tensor([[1, 2], [49, 1]])
    assert torch.equal(embedding(ids, weight), F.embedding(ids, weight))


@pytest.mark.parametrize(
    "options", [{"max_norm": 0.5}, {"scale_grad_by_freq": True}, {"norm_type": 1.0, "max_norm": 1.0}, {}]
)
def test_what_it_does_not_know_is_torchs(options: dict[str, float]) -> None:
    """Norms and scales; and, without options, a vocabulary smaller than the text."""
    found, expected = (torch.arange(20.0).reshape(5, 4).requires_grad_() for _ in range(2))
    ids = torch.tensor([0, 1, 1, 4, 4, 4, 2])
    first = embedding(ids, found * 1 if "max_norm" in options else found, None, **options)
    second = F.embedding(ids, expected * 1 if "max_norm" in options else expected, None, **options)  # type: ignore[arg-type]
    torch.testing.assert_close(first, second, rtol=0, atol=0)
    for value in (first, second):
        value.sum().backward()
    assert found.grad is not None
    assert expected.grad is not None
    assert not found.grad.is_sparse
    assert torch.equal(found.grad, expected.grad)


def test_nothing_is_kept_where_no_gradient_is_wanted() -> None:
    weight = torch.randn(50, 4, requires_grad=True)
    with torch.no_grad():
        assert not embedding(torch.tensor([1]), weight).requires_grad
