"""Texts packed in one row attend to themselves alone, in every architecture that permits it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from types import SimpleNamespace

import pytest
import torch
from helpers.flash_attention import as_if_on_ampere
from helpers.random_models import FAMILIES, UNPACKED, Models
from helpers.suite_marks import few
from torch.nn import functional as F
from torch.testing import assert_close
from transformers.masking_utils import (
    bidirectional_mask_function,
    causal_mask_function,
    sliding_window_bidirectional_mask_function,
)

from mirrorbench.core.encoder_protocol import TextInput
from mirrorbench.models import packing
from mirrorbench.models.families import set_dropout_rates
from mirrorbench.models.packing import NotPackableError, PackedRow, RowMask
from mirrorbench.models.pooling import Pooling
from mirrorbench.models.ragged import Ragged
from mirrorbench.models.transformer import Transformer, load_transformer

CPU = torch.device("cpu")
LENGTHS = {"different": [3, 7, 1, 4, 3], "equal": [5, 5, 5], "one text": [6], "one token": [1, 1]}
# The vocabulary of gemma3-vision is smaller than its tokenizer's.
PACKED = [name for name in FAMILIES if name not in (*UNPACKED, "gemma3-vision")]
PACKED_TEXTS = [
    "a",
    "A much longer text, of many characters!",
    "the cat",
    "",
    "the cat",
    "żółw 亀",
    "x " * 30,
    "a & b",
    "b [PAD] c <pad> d",  # a padding token that is written out in a text has a position of BERT, and none of RoBERTa
]
RULES = {
    "all": bidirectional_mask_function,
    "causal": causal_mask_function,
    "window": sliding_window_bidirectional_mask_function(2),
}


def row_of(lengths: list[int], padded: bool, device: str = "cpu") -> PackedRow:
    ids = Ragged.of([list(range(n)) for n in lengths])
    return PackedRow.of(
        ids,
        SimpleNamespace(model_type="bert"),
        lambda array: torch.from_numpy(array).to(device),
        padded,
    )


def attend(
    row: PackedRow, rule: Callable[..., torch.Tensor], *states: torch.Tensor, **options: object
) -> torch.Tensor:
    """Call attention like a layer; states and result have shape (tokens, heads, dimensions of a head)."""
    heads_first = (part.transpose(0, 1)[None] for part in states)
    return packing.row_attention(SimpleNamespace(), *heads_first, RowMask(row, rule), **options)[0][
        0
    ]


kernels = pytest.mark.parametrize(
    ("way", "dtype", "device"),
    [
        ("padded", torch.float32, "cpu"),
        ("by length", torch.float32, "cpu"),
        ("flash", torch.bfloat16, "cpu"),
        pytest.param("padded", torch.float32, "cuda", marks=pytest.mark.gpu),
        pytest.param("by length", torch.float32, "cuda", marks=pytest.mark.gpu),
        pytest.param("flash", torch.bfloat16, "cuda", marks=pytest.mark.gpu),
    ],
)


def one_by_one(
    row: PackedRow, rule: Callable[..., torch.Tensor], *states: torch.Tensor, scaling: float | None
) -> torch.Tensor:
    """Compute the attention of each text alone, by torch."""
    lengths = row.starts.diff().tolist()
    states_by_text = [part.transpose(0, 1).split(lengths, dim=1) for part in states]
    attended = []
    for query, key, value in zip(*states_by_text, strict=True):
        n = query.shape[1]
        mask = torch.zeros(n, n, dtype=torch.bool)
        for i in range(n):
            for j in range(n):
                mask[i, j] = bool(rule(0, 0, torch.tensor(i), torch.tensor(j)))
        attended.append(
            F.scaled_dot_product_attention(query, key, value, attn_mask=mask, scale=scaling)
        )
    return torch.cat(attended, dim=1).transpose(0, 1)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("scaling", [None, 0.3])
@kernels
@pytest.mark.parametrize("lengths", LENGTHS.values(), ids=LENGTHS)
def test_packed_attention_equals_attention_per_text(
    lengths: list[int],
    way: str,
    dtype: torch.dtype,
    device: str,
    scaling: float,
    rule: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    torch.manual_seed(0)
    row = row_of(lengths, way == "padded", device)
    own = [torch.randn(sum(lengths), 2, 8).to(device, dtype).requires_grad_() for _ in range(3)]
    states = [part.detach().float().cpu().requires_grad_() for part in own]
    factors = torch.randn(sum(lengths), 2, 8)
    with as_if_on_ampere(monkeypatch) if device == "cpu" else nullcontext() as flash:
        actual = attend(row, RULES[rule], *own, scaling=scaling)
        gradients = torch.autograd.grad((actual.float().cpu() * factors).sum(), own)
    if flash:  # which sees all of a text
        whole = rule == "all" or max(lengths) == 1
        assert bool(flash.calls) == (way == "flash" and whole)
    wanted = one_by_one(row, RULES[rule], *states, scaling=scaling)
    close = {} if dtype is torch.float32 else {"rtol": 0.02, "atol": 0.02}
    assert_close(actual.float().cpu(), wanted, **close)
    for gradient, exact in zip(
        gradients, torch.autograd.grad((wanted * factors).sum(), states), strict=True
    ):
        assert_close(gradient.float().cpu(), exact, **close)


@kernels
def test_packed_attention_applies_dropout(
    way: str, dtype: torch.dtype, device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For values of one the result is the sum of the kept weights, 1 on average."""
    torch.manual_seed(0)
    lengths = [30, 20, 10] * 20
    row = row_of(lengths, way == "padded", device)
    query, key = torch.randn(2, sum(lengths), 4, 8).to(device, dtype)
    value = torch.ones_like(query, requires_grad=True)

    def kept(rate: float) -> torch.Tensor:
        torch.manual_seed(1)
        return attend(row, bidirectional_mask_function, query, key, value, dropout=rate).float()

    with as_if_on_ampere(monkeypatch) if device == "cpu" else nullcontext():
        actual = kept(0.3)
        whole = kept(0.0)
        with torch.no_grad():
            again = kept(0.3)
        (gradient,) = torch.autograd.grad(actual.sum(), value)
    assert abs(actual.mean().item() - 1) < 0.01
    assert actual.std() > 0.05
    assert_close(whole, torch.ones_like(whole), rtol=0.01, atol=0.01)
    assert torch.equal(again, actual)  # the same draws, as when a micro-batch is computed twice
    # The gradient of a value is the sum of the kept weights that read it: the way back drops the same ones.
    parts = row.starts.diff().tolist()
    for read, written in zip(
        gradient.float().split(parts), actual.detach().split(parts), strict=True
    ):
        assert_close(read.sum(0), written.sum(0), rtol=0.01, atol=0.0)


def test_flash_fits_only_supported_inputs_and_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    for dtype, size, heads, capability, built, fits in (
        (torch.float16, 192, 2, (8, 0), True, True),
        (torch.float16, 192, 1, (8, 0), True, False),  # keys of fewer heads
        (torch.float32, 64, 2, (9, 0), True, False),
        (torch.float16, 64, 2, (7, 5), True, False),
        (torch.bfloat16, 64, 2, (8, 0), False, False),
        (torch.bfloat16, 20, 2, (8, 0), True, False),
        (torch.bfloat16, 256, 2, (9, 0), True, False),
    ):
        monkeypatch.setattr(packing, "capability", lambda device, capability=capability: capability)
        monkeypatch.setattr(
            torch.backends.cuda, "is_flash_attention_available", lambda built=built: built
        )
        query = torch.empty(5, 2, size, dtype=dtype)
        key = torch.empty(5, heads, size, dtype=dtype)
        assert packing.flash_fits(query, key, key) == fits


def test_unsupported_attention_option_is_refused(random_model: Models) -> None:
    """T5's bias by distance is an example."""
    row = row_of([3, 2], False)
    states = torch.randn(3, 5, 2, 8)
    for allowed in (
        {"dropout": 0.0, "sliding_window": None, "position_ids": states},
        {"softcap": None},
    ):
        assert attend(row, causal_mask_function, *states, **allowed).shape == (5, 2, 8)
    for refused in ({"position_bias": states}, {"softcap": 0.0}):
        with pytest.raises(NotPackableError, match=next(iter(refused))):
            attend(row, causal_mask_function, *states, **refused)
    assert not load_transformer(random_model("t5"), CPU).traits.packs


def vectors_and_gradients(
    transformer: Transformer, poolings: list[Pooling], packed: bool
) -> dict[str, torch.Tensor]:
    items = [TextInput(text, ((0, 3),) if len(text) > 3 else ()) for text in PACKED_TEXTS]
    located = transformer.locate(items, 40)
    vectors = transformer.forward(located.ids, poolings, targets=located.targets, packed=packed)
    sum((vector.sin() * (1 + number)).sum() for number, vector in enumerate(vectors)).backward()
    actual = {
        name: p.grad for name, p in transformer.model.named_parameters() if p.grad is not None
    }
    transformer.model.zero_grad()
    return actual | {
        str(pooling): vector.detach() for pooling, vector in zip(poolings, vectors, strict=True)
    }


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("architecture", few(PACKED, "bert", "roberta", "gemma3"))
def test_packed_pass_equals_padded_pass(
    random_model: Models, architecture: str, training: bool
) -> None:
    """Attention pads texts in training, else takes those of one length together; windows are shorter than texts."""

    def without_dropout(config: object) -> None:
        set_dropout_rates(config, 0)

    transformer = load_transformer(random_model(architecture), CPU, without_dropout)
    assert transformer.traits.packs
    transformer.model.train(training)
    poolings = [Pooling("mean"), Pooling("cls"), Pooling("mean", ":"), Pooling("target", "-2:")]
    actual, wanted = (
        vectors_and_gradients(transformer, poolings, packed) for packed in (True, False)
    )
    assert len(actual) > 10
    assert_close(actual, wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("architecture", few(["bert", "roberta"]))
def test_model_with_flash_attention_matches_padded_pass(
    random_model: Models, architecture: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    transformer = load_transformer(random_model(architecture), CPU)
    layers = transformer.model.config.num_hidden_layers
    with torch.autocast("cpu", torch.bfloat16):
        padded, exact = (
            vectors_and_gradients(transformer, [Pooling()], packed) for packed in (False, True)
        )
        with as_if_on_ampere(monkeypatch) as flash:
            actual = vectors_and_gradients(transformer, [Pooling()], True)
    assert flash.calls == [("forward", 0.0)] * layers + [("backward", 0.0)] * layers
    assert actual.keys() == padded.keys()
    for name, wanted in padded.items():
        if not name.endswith(
            "key.bias"
        ):  # its gradient is 0 but for rounding: softmax does not see it
            for rounded in (actual, exact):
                assert (rounded[name] - wanted).norm() < 0.04 * wanted.norm(), name
