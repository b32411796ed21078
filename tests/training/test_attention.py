"""The quick attention is torch's, but for which weights it drops."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F
from torch.testing import assert_close

from mirrorbench.training.attention import FEW, attention
from mirrorbench.training.cpu_functions import FastCpuFunctions

HALF = torch.tensor([[True, True, False, True], [True, False, False, False]])[:, None, None, :]
MASKS = {"none": None, "of padding": HALF, "added": torch.zeros(2, 1, 1, 4).masked_fill(~HALF, -3.0)}


def states(queries: int = 5, keys: int = 4) -> list[torch.Tensor]:
    torch.manual_seed(0)
    return [torch.randn(2, 3, n, 8, requires_grad=True) for n in (queries, keys, keys)]


@pytest.mark.parametrize("scale", [None, 0.2])
@pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS)
@pytest.mark.parametrize(("queries", "keys"), [(5, 4), (FEW, FEW), (FEW, 1), (1, FEW + 1)])
def test_with_a_rate_too_small_to_drop_anything_it_is_torchs(
    queries: int, keys: int, mask: torch.Tensor | None, scale: float | None
) -> None:
    """A rate below half of 2^-16 takes the quick way and drops nothing."""
    mine, torchs = states(queries, keys), states(queries, keys)
    mask = None if mask is None else mask[..., :keys]
    found = attention(*mine, attn_mask=mask, dropout_p=1e-9, scale=scale)
    wanted = F.scaled_dot_product_attention(*torchs, attn_mask=mask, scale=scale)
    assert_close(found, wanted)
    for one, other in zip(
        torch.autograd.grad(found.sin().sum(), mine), torch.autograd.grad(wanted.sin().sum(), torchs), strict=True
    ):
        assert_close(one, other)


@pytest.mark.parametrize(("texts", "tokens"), [(50, 20), (5000, FEW)])
def test_weights_are_dropped_at_the_rate_and_scaled(texts: int, tokens: int) -> None:
    query = torch.zeros(texts, 4, tokens, 8)  # all weights are 1 / tokens
    value = torch.eye(tokens).expand(texts, 4, tokens, tokens)
    torch.manual_seed(0)
    found = attention(query, query, value, dropout_p=0.3) * tokens
    assert abs((found == 0).float().mean().item() - 0.3) < 0.01
    assert_close(found[found != 0], torch.full_like(found[found != 0], 1 / 0.7), rtol=1e-4, atol=0)


def test_masked_places_get_nothing() -> None:
    query, key, value = states()
    value = torch.ones_like(value).masked_fill(~HALF.transpose(-1, -2), 1e6)
    assert attention(query, key, value, attn_mask=HALF, dropout_p=0.2).max() < 10


@pytest.mark.parametrize("options", [{"dropout_p": 0.0}, {"is_causal": True, "dropout_p": 0.5}])
def test_what_it_does_not_know_is_torchs(options: dict[str, float]) -> None:
    value = states()[2]
    torch.manual_seed(1)
    found = attention(value, value, value, **options)  # type: ignore[arg-type]
    torch.manual_seed(1)
    assert torch.equal(found, F.scaled_dot_product_attention(value, value, value, **options))  # type: ignore[arg-type]


def test_models_use_it_while_they_are_tuned() -> None:
    query, key, value = states()
    drawn = []
    for inside in (True, False):
        torch.manual_seed(1)
        if inside:
            with FastCpuFunctions():
                drawn.append(F.scaled_dot_product_attention(query, key, value, dropout_p=0.4))
        else:
            drawn.append(attention(query, key, value, dropout_p=0.4))
    assert torch.equal(*drawn)
