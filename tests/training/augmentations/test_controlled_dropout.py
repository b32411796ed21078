from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from augmented import AUGMENTATIONS, TEXTS, attached, embed, recipe
from random_models import ARCHITECTURES
from torch.nn import functional as F

from mirrorbench.core.errors import UsageError
from mirrorbench.models.transformer import Transformer
from mirrorbench.training.augmentations.model import ControlledDropout
from mirrorbench.training.loop import _Loop
from mirrorbench.training.methods import mirror_preset
from mirrorbench.training.microbatch import MicroBatchReader, TokenizedPairs
from mirrorbench.training.recipes import override


def identical(transformer: Transformer, texts: list[str]) -> TokenizedPairs:
    """Pairs of identical strings."""
    return TokenizedPairs(transformer.tokenize([*texts, *texts], 40), None, torch.arange(len(texts)))


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_identical_strings_have_identical_vectors_in_training_mode(
    architecture: str, random_model: Callable[[str], Path]
) -> None:
    changed = recipe(controlled_dropout=0.2)
    with attached(random_model(architecture), changed) as transformer:
        loop = _Loop(MicroBatchReader(transformer, changed, "fp32", packs=False), changed, seed=0)
        texts = [*TEXTS[:20], *TEXTS[:10]]
        pairs = identical(transformer, texts)
        left, right = embed(loop, pairs)
        assert transformer.model.training
        assert torch.equal(left, right)
        # The masks are drawn anew for each pair and each step; only the two views of a pair share them.
        assert (left[:10] - left[20:]).abs().amax(1).min() > 1e-3
        loop.steps += 1
        again, _ = embed(loop, pairs)
        assert (again - left).abs().amax(1).min() > 1e-3
    left, right = embed(loop, pairs)
    assert (left - right).abs().amax(1).min() > 1e-3


@pytest.mark.parametrize("architecture", ["bert", "deberta-v2"])
def test_identical_strings_in_half_precision(architecture: str, random_model: Callable[[str], Path]) -> None:
    changed = recipe(controlled_dropout=0.2)
    with attached(random_model(architecture), changed) as transformer:
        loop = _Loop(MicroBatchReader(transformer, changed, "bf16", packs=False), changed, seed=0)
        pairs = identical(transformer, TEXTS)
        left, right = embed(loop, pairs)
    assert torch.equal(left, right)


@pytest.mark.parametrize("hidden", ["none", "bool", "added"])
def test_attention_is_torchs_own_but_for_the_mask(hidden: str) -> None:
    torch.manual_seed(0)
    query, key, value = torch.randn(3, 6, 2, 5, 8)
    keep = torch.rand(6, 1, 1, 5) < 0.7
    keep[..., 0] = True
    mask = {"none": None, "bool": keep, "added": torch.zeros(6, 1, 1, 5).masked_fill(~keep, -1e9)}[hidden]
    detach = ControlledDropout().attach(torch.nn.Dropout(), 1e-12)
    assert detach is not None
    controlled = F.scaled_dot_product_attention(query, key, value, mask, dropout_p=1e-12, scale=0.3)
    plain = F.scaled_dot_product_attention(query, key, value, mask, scale=0.3)
    detach()
    torch.testing.assert_close(controlled, plain)


def test_the_rate_of_attention_and_of_layers_is_measured() -> None:
    detach = ControlledDropout().attach(torch.nn.Dropout(), 0.3)
    assert detach is not None
    torch.manual_seed(0)
    dropped = F.dropout(torch.ones(40, 30, 50), 0.3)
    unit = torch.eye(64).expand(40, 2, 64, 64)
    # All scores are equal and the values are unit vectors, so the output is the dropped attention matrix itself.
    attention = F.scaled_dot_product_attention(torch.zeros(40, 2, 64, 64), unit, unit, dropout_p=0.3) * 64
    shared = F.dropout(torch.ones(200, 50), 0.3)
    detach()
    for result in (dropped, attention, shared):
        assert (result == 0).float().mean().item() == pytest.approx(0.3, abs=0.02)
        torch.testing.assert_close(result[result != 0], torch.full_like(result[result != 0], 1 / 0.7))
    for result in (dropped, attention):
        assert torch.equal(result[:20], result[20:])
        assert not torch.equal(result[0], result[1])
    assert not torch.equal(shared[:100], shared[100:])  # no batch axis: nothing to mirror


def test_every_dropout_of_the_model_has_the_rate(random_model: Callable[[str], Path]) -> None:
    with attached(random_model("deberta"), recipe(controlled_dropout=0.25)) as transformer:
        rates = {m.p for m in transformer.model.modules() if isinstance(m, torch.nn.Dropout)}
    assert rates == {0.25}


def test_it_takes_the_place_of_dropout() -> None:
    preset = mirror_preset("sentence", "bert", "paper")
    assert preset.rate("dropout") == 0.1
    assert override(preset, {"controlled_dropout": 0.1}, AUGMENTATIONS).rate("dropout") == 0
    assert override(preset, {"controlled_dropout": 0}, AUGMENTATIONS).rate("dropout") == 0.1
    with pytest.raises(UsageError, match="dropout and controlled_dropout set the same layers"):
        override(preset, {"controlled_dropout": 0.1, "dropout": 0.1}, AUGMENTATIONS)
