"""Texts end to end in one row: nothing is lost on the way, and each text sees itself alone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from random_models import ARCHITECTURES
from torch.nn import functional as F
from torch.testing import assert_close

from mirrorbench.core.inputs import TextInput
from mirrorbench.models.batching import (
    BERT_LIKE,
    Packing,
    Ragged,
    attention_within_texts,
    can_pack,
    nested_attention,
    padded_attention,
    position_ids,
)
from mirrorbench.models.pooling import Pooling
from mirrorbench.models.transformer import Transformer, load_transformer

CPU = torch.device("cpu")
LENGTHS = {"different": [3, 7, 1, 4], "equal": [5, 5, 5], "one text": [6], "one token": [1, 1]}
TEXTS = ["a", "A much longer text, of many characters!", "the cat", "", "the cat", "żółw 亀", "x " * 30, "dogs & cats"]
KERNELS = (padded_attention, nested_attention)


def packing(lengths: list[int]) -> Packing:
    return Packing.of(Ragged.of([list(range(n)) for n in lengths]), torch.from_numpy)


@given(st.lists(st.integers(1, 20), min_size=1))
def test_row_and_matrix_hold_the_same(lengths: list[int]) -> None:
    row = torch.arange(2.0 * sum(lengths)).view(-1, 2)
    found = packing(lengths)
    matrix = found.padded(row)
    assert matrix.shape == (len(lengths), max(lengths), 2)
    for text, (own, part) in enumerate(zip(matrix, row.split(lengths), strict=True)):
        assert torch.equal(own[: lengths[text]], part)
        assert found.real[text].tolist() == [place < lengths[text] for place in range(max(lengths))]
    assert torch.equal(found.packed(matrix), row)


def one_by_one(lengths: list[int], *states: torch.Tensor, scale: float | None) -> torch.Tensor:
    """Attention of each text, by its definition."""
    found = []
    for query, key, value in zip(*(part.split(lengths) for part in states), strict=True):
        factor = query.shape[-1] ** -0.5 if scale is None else scale
        weights = torch.einsum("qhd,khd->hqk", query, key).mul(factor).softmax(-1)
        found.append(torch.einsum("hqk,khd->qhd", weights, value))
    return torch.cat(found)


@pytest.mark.parametrize("scale", [None, 0.3])
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("lengths", LENGTHS.values(), ids=LENGTHS)
def test_attention_is_that_of_each_text(lengths: list[int], kernel: Callable[..., torch.Tensor], scale: float) -> None:
    torch.manual_seed(0)
    states = [torch.randn(sum(lengths), 2, 4, requires_grad=True) for _ in range(3)]
    factors = torch.randn(sum(lengths), 2, 4)
    found = kernel(packing(lengths), *states, scale=scale)
    wanted = one_by_one(lengths, *states, scale=scale)
    assert_close(found, wanted)
    for one, other in zip(*(torch.autograd.grad((x * factors).sum(), states) for x in (found, wanted)), strict=True):
        assert_close(one, other)


@pytest.mark.parametrize("kernel", KERNELS)
def test_attention_drops_what_it_is_told(kernel: Callable[..., torch.Tensor]) -> None:
    """Values of one: what comes out is the sum of the weights that are kept, 1 on average."""
    torch.manual_seed(0)
    lengths = [30, 20, 10] * 20
    query, key = torch.randn(2, sum(lengths), 4, 8)
    found = kernel(packing(lengths), query, key, torch.ones_like(query), dropout_p=0.3)
    assert abs(found.mean().item() - 1) < 0.01
    assert found.std() > 0.05
    assert_close(kernel(packing(lengths), query, key, torch.ones_like(query)), torch.ones_like(query))


def test_nothing_but_attention_is_replaced() -> None:
    states = torch.randn(1, 2, 5, 4)
    plain = F.scaled_dot_product_attention(states, states, states)
    with attention_within_texts(packing([2, 3])):
        found = F.scaled_dot_product_attention(states, states, states, is_causal=False)
        assert torch.equal(F.gelu(states), torch._C._nn.gelu(states))
    assert found.shape == plain.shape
    assert not torch.allclose(found, plain)
    assert_close(found[:, :, :2], F.scaled_dot_product_attention(*[states[:, :, :2]] * 3))


def opened(path: Path) -> Transformer:
    return load_transformer(path, CPU)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_a_packed_pass_gives_the_vectors_and_gradients_of_a_padded_one(
    random_model: Callable[[str], Path], architecture: str
) -> None:
    transformer = opened(random_model(architecture))
    kind = transformer.model.config.model_type
    assert can_pack(transformer.model) == (kind in BERT_LIKE)
    if not can_pack(transformer.model):
        return
    poolings = [Pooling("mean"), Pooling("cls"), Pooling("mean", ":"), Pooling("target", "-2:")]
    located = transformer.locate([TextInput(text, ((0, 3),) if len(text) > 3 else ()) for text in TEXTS], 24)
    found, wanted = [], []
    for results, packed in ((found, True), (wanted, False)):
        vectors = transformer.forward(located.ids, poolings, targets=located.targets, packed=packed)
        sum((vector.sin() * (1 + number)).sum() for number, vector in enumerate(vectors)).backward()
        results += [*vectors, *(p.grad.clone() for p in transformer.model.parameters() if p.grad is not None)]
        transformer.model.zero_grad()
    assert len(found) == len(wanted) > 10
    for one, other in zip(found, wanted, strict=True):
        assert_close(one, other, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("architecture", ["bert", "roberta"])
def test_positions_are_those_of_transformers(random_model: Callable[[str], Path], architecture: str) -> None:
    """A padding token that is written out in a text counts for BERT, and not for RoBERTa."""
    transformer = opened(random_model(architecture))
    pad = transformer.tokenizer.pad_token_id
    rows = [[7, 8, pad, 9, 6], [7], [pad, 5], [9, 9, 9]]
    ids = Ragged.of(rows)
    found = np.split(position_ids(ids, transformer.model.config), ids.starts[1:-1])
    for row, own in zip(rows, found, strict=True):
        if architecture == "bert":
            wanted = np.arange(len(row))
        else:
            wanted = transformer.model.embeddings.create_position_ids_from_input_ids(torch.tensor([row]), pad)[0]
        assert own.tolist() == wanted.tolist()


def test_a_decoder_and_other_attention_are_not_packed(random_model: Callable[[str], Path]) -> None:
    model = opened(random_model("bert")).model
    assert can_pack(model)
    model.config.is_decoder = True
    assert not can_pack(model)
    model.config.is_decoder, model.config._attn_implementation = False, "eager"
    assert not can_pack(model)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("lengths", LENGTHS.values(), ids=LENGTHS)
def test_on_cuda_attention_in_half_precision_is_that_of_each_text(lengths: list[int]) -> None:
    torch.manual_seed(0)
    states = [torch.randn(sum(lengths), 4, 64, device="cuda", dtype=torch.bfloat16) for _ in range(3)]
    ids = Ragged.of([list(range(n)) for n in lengths])
    found = nested_attention(Packing.of(ids, lambda array: torch.from_numpy(array).cuda()), *states)
    wanted = one_by_one(lengths, *(part.float().cpu() for part in states), scale=None)
    assert_close(found.float().cpu(), wanted, rtol=0.02, atol=0.02)
