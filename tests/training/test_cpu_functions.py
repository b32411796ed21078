"""Replaced functions for a CPU equal torch's, except for the values that dropout drops."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from scipy.stats import binomtest, chisquare
from torch.nn import functional as F
from torch.testing import assert_close

from mirrorbench.training.augmentations import _paired_attention as controlled
from mirrorbench.training.cpu_functions import attention, dropout, embedding, fast_cpu_functions

HALF = torch.tensor([[True, True, False, True], [True, False, False, False]])[:, None, None, :]
MASKS = {
    "none": None,
    "of padding": HALF,
    "added": torch.zeros(2, 1, 1, 4).masked_fill(~HALF, -3.0),
}
MICRO_BATCHES = ([[3, 7, 7], [3, 0, 9]], [[7, 7, 0]], [[40, 3, 3], [1, 1, 1]])


@pytest.mark.parametrize("p", [1e-4, 0.1, 0.4, 0.999])
def test_dropout_has_its_rate_and_scale(p: float) -> None:
    torch.manual_seed(0)
    actual = dropout(torch.ones(401, 997), p)
    zeros = int((actual == 0).sum())
    assert binomtest(zeros, actual.numel(), p).pvalue > 1e-4
    kept = actual[actual != 0]
    assert kept.unique().numel() == 1
    assert kept[0].item() == pytest.approx(1 / (1 - p), rel=0.01 if p > 0.99 else 1e-4)


def test_dropout_of_neighbouring_values_is_independent() -> None:
    """Four values share a draw: all sixteen ways in which they can fall are as frequent as chance has it."""
    torch.manual_seed(0)
    p = 0.3
    zeros = (dropout(torch.ones(400_000), p) == 0).reshape(-1, 4).numpy()
    ones = np.array([n.bit_count() for n in range(16)])
    expected = p**ones * (1 - p) ** (4 - ones) * len(zeros)
    assert chisquare(np.bincount(zeros @ [1, 2, 4, 8], minlength=16), expected).pvalue > 1e-4
    assert abs(np.corrcoef(zeros[:-1].ravel(), zeros[1:].ravel())[0, 1]) < 0.01


@pytest.mark.parametrize("shape", [(), (3, 5), (2, 3, 7), (0, 4)])
def test_dropout_is_correct_for_any_shape_and_inplace(shape: tuple[int, ...]) -> None:
    x = torch.randn(shape, requires_grad=True)
    torch.manual_seed(1)
    actual = dropout(x, 0.5)
    assert actual.shape == x.shape
    assert ((actual == 0) | torch.isclose(actual, 2 * x)).all()
    torch.manual_seed(1)
    inside = x.detach().clone()
    assert dropout(inside, 0.5, inplace=True) is inside
    assert_close(inside, actual.detach())
    (gradient,) = torch.autograd.grad(actual.sum(), x)
    assert_close(gradient, 2.0 * (actual != 0))


@pytest.mark.parametrize(("p", "training"), [(0.0, True), (1.0, True), (0.5, False)])
def test_dropout_without_randomness_equals_torch(p: float, training: bool) -> None:
    x = torch.randn(30, 7)
    assert_close(dropout(x, p, training), F.dropout(x, p, training))
    with pytest.raises(ValueError, match="between 0 and 1"), fast_cpu_functions():
        F.dropout(x, 1.5)


def states(queries: int = 5, keys: int = 4) -> list[torch.Tensor]:
    torch.manual_seed(0)
    return [torch.randn(2, 3, n, 8, requires_grad=True) for n in (queries, keys, keys)]


@pytest.mark.parametrize("function", [attention, controlled])
@pytest.mark.parametrize("scale", [None, 0.2])
@pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS)
@pytest.mark.parametrize(("queries", "keys"), [(5, 4), (3, 1)])
def test_attention_without_dropout_equals_torch(
    queries: int,
    keys: int,
    mask: torch.Tensor | None,
    scale: float | None,
    function: Callable[..., torch.Tensor],
) -> None:
    """A rate below half of 2^-16 takes the quick way and drops nothing."""
    mine = states(queries, keys)
    torchs = states(queries, keys)
    mask = None if mask is None else mask[..., :keys]
    actual = function(*mine, attn_mask=mask, dropout_p=1e-9, scale=scale)
    wanted = F.scaled_dot_product_attention(*torchs, attn_mask=mask, scale=scale)
    assert_close(actual, wanted)
    assert_close(
        torch.autograd.grad(actual.sin().sum(), mine),
        torch.autograd.grad(wanted.sin().sum(), torchs),
    )


def test_attention_dropout_has_its_rate_and_respects_masks() -> None:
    query = torch.zeros(50, 4, 20, 8)  # all weights are 1 / 20
    value = torch.eye(20).expand(50, 4, 20, 20)
    torch.manual_seed(0)
    actual = attention(query, query, value, dropout_p=0.3) * 20
    assert abs((actual == 0).float().mean().item() - 0.3) < 0.01
    assert_close(
        actual[actual != 0], torch.full_like(actual[actual != 0], 1 / 0.7), rtol=1e-4, atol=0
    )
    query, key, value = states()
    value = torch.ones_like(value).masked_fill(~HALF.transpose(-1, -2), 1e6)
    assert attention(query, key, value, attn_mask=HALF, dropout_p=0.2).max() < 10


def test_unsupported_attention_options_fall_back_to_torch() -> None:
    value = states()[2]
    actual = []
    for options in ({"dropout_p": 0.0}, {"is_causal": True, "dropout_p": 0.5}):
        for function in (attention, F.scaled_dot_product_attention):
            torch.manual_seed(1)
            actual.append(function(value, value, value, **options))  # type: ignore[operator]
        assert torch.equal(*actual[-2:])


@pytest.mark.parametrize("padding", [None, 0, -1, 7])
def test_embedding_gradients_equal_torch_bit_for_bit(padding: int | None) -> None:
    """The function has several micro-batches that share rows."""
    layer = torch.nn.Embedding(50, 16, padding_idx=padding)
    actual = []
    for fast in (True, False):
        layer.weight.grad = None
        torch.manual_seed(1)
        with fast_cpu_functions() if fast else torch.enable_grad():
            for rows in MICRO_BATCHES:
                (layer(torch.tensor(rows)) * torch.randn(16)).tanh().sum().backward()
        assert layer.weight.grad is not None
        assert layer.weight.grad.is_sparse == fast
        actual.append(layer.weight.grad.to_dense())
    assert torch.equal(*actual)
    with fast_cpu_functions(), torch.no_grad():
        assert not layer(torch.tensor([1])).requires_grad


@pytest.mark.parametrize("options", [{"max_norm": 0.5}, {"scale_grad_by_freq": True}, {}])
def test_unsupported_embeddings_fall_back_to_torch(options: dict[str, float]) -> None:
    """Norms and scales; and, without options, a vocabulary smaller than the text."""
    actual = []
    for function in (embedding, F.embedding):
        weight = torch.arange(20.0).reshape(5, 4).requires_grad_()
        used = weight * 1 if "max_norm" in options else weight  # which is changed in place
        function(torch.tensor([0, 1, 1, 4, 4, 4, 2]), used, None, **options).pow(2).sum().backward()  # type: ignore[arg-type]
        actual.append(weight.grad)
    assert not actual[0].is_sparse
    assert torch.equal(*actual)


def test_fast_functions_apply_only_inside_their_mode() -> None:
    layer = torch.nn.Dropout(0.25)
    x = torch.randn(40, 30)
    triple = states()
    with fast_cpu_functions(torch.Generator().manual_seed(3)):
        inside = layer(x), F.scaled_dot_product_attention(*triple, dropout_p=0.4)
        assert layer.eval()(x) is x
    torch.manual_seed(3)
    assert torch.equal(inside[0], dropout(x, 0.25))
    assert torch.equal(inside[1], attention(*triple, dropout_p=0.4))
    torch.manual_seed(3)
    assert not torch.equal(inside[0], layer.train()(x))
