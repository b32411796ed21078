"""Rows and batches hold each text once; of texts packed in one row each sees itself alone."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import closing, nullcontext
from itertools import chain

import numpy as np
import pytest
import torch
from flash import Flash, as_if_on_ampere
from hypothesis import given
from hypothesis import strategies as st
from random_models import ARCHITECTURES, Models
from suites import few
from torch.nn import functional as F
from torch.testing import assert_close

from mirrorbench.core.inputs import TextInput
from mirrorbench.models import batching
from mirrorbench.models.batching import Packing, Ragged, equal_length_batches, even_batches, similar_length_batches
from mirrorbench.models.pooling import Pooling
from mirrorbench.models.transformer import Transformer, load_transformer


@given(st.lists(st.lists(st.integers(0, 2**31 - 1), max_size=6), max_size=8), st.integers(0, 3), st.data())
def test_ragged_rows(rows: list[list[int]], extra: int, data: st.DataObject) -> None:
    ragged = Ragged.of(rows)
    assert [row.tolist() for row in ragged] == rows
    assert ragged.lengths.tolist() == [len(row) for row in rows]
    assert (len(ragged), ragged.values.dtype) == (len(rows), np.int32)
    chosen = data.draw(st.lists(st.integers(0, len(rows) - 1), max_size=10)) if rows else []
    assert [row.tolist() for row in ragged.take(chosen)] == [rows[i] for i in chosen]
    first, places = ragged.distinct()
    assert [rows[n] for n in first] == list(map(list, dict.fromkeys(map(tuple, rows))))
    assert [rows[first[place]] for place in places] == rows
    width = max(map(len, rows), default=0) + extra
    assert ragged.padded(width, -1).tolist() == [row + [-1] * (width - len(row)) for row in rows]
    assert ragged.mask(width).tolist() == [[i < len(row) for i in range(width)] for row in rows]


@given(st.lists(st.integers(0, 300)), st.integers(1, 1000), st.just(0) | st.integers(1, 300), st.integers(0, 50))
def test_batches_hold_each_text_once(lengths: list[int], budget: int, fixed: int, pass_cost: int) -> None:
    similar = list(similar_length_batches(lengths, budget, fixed, pass_cost))
    equal, even = list(equal_length_batches(lengths, budget, fixed)), list(even_batches(lengths, budget))
    for batches in (similar, equal, even):
        assert sorted(chain(*batches)) == list(range(len(lengths)))
        assert [lengths[index] for index in chain(*batches)] == sorted(lengths, reverse=True)
    for batch in (*similar, *equal):
        assert len(batch) == 1 or len(batch) * (fixed or lengths[batch[0]]) <= budget
    for batch in similar:
        padding = sum(max(1, lengths[batch[0]]) - lengths[index] for index in batch)
        assert fixed or padding <= max(pass_cost, len(batch))
    assert all(len({lengths[index] for index in batch}) == 1 for batch in equal)
    sizes = [sum(lengths[index] for index in batch) for batch in even]
    assert all(len(batch) == 1 or size <= budget for batch, size in zip(even, sizes, strict=True))
    if len(lengths) >= 50 and max(lengths) <= budget / 4:
        assert max(sizes) - min(sizes) <= 2 * max(lengths)


def test_batches_by_hand() -> None:
    for lengths, budget, pass_cost, expected in (
        ([3, 9, 3, 10], 20, 32, [[3, 1], [0, 2]]),  # longest first
        ([50, 2, 2], 10, 32, [[0], [1, 2]]),  # over the budget: a batch of its own
        ([9, 8, 8, 3, 3, 3], 100, 2, [[0, 1, 2], [3, 4, 5]]),  # ends where padding would cost more
        ([9, 8, 8, 3, 3, 3], 100, 1, [[0], [1, 2], [3, 4, 5]]),
        ([], 10, 32, []),
    ):
        assert list(similar_length_batches(lengths, budget, pass_cost=pass_cost)) == expected
    assert list(equal_length_batches([5, 5, 2, 5, 5, 5], budget=20)) == [[0, 1, 3], [4, 5], [2]]  # evenly filled
    assert list(even_batches([10, 1, 1], 10)) == [[0], [1, 2]]  # few
    assert list(even_batches([2, 4, 3, 3], 12)) == [[1, 2, 3, 0]]
    assert list(even_batches([2, 4, 2, 4], 6)) == [[1], [3], [0], [2]]  # where there are several, even in number
    assert list(even_batches([], 6)) == []


def prefetching() -> bool:
    return any(thread.name.startswith("mirrorbench-prefetch") for thread in threading.enumerate())


@pytest.mark.parametrize("n", [0, 20])
def test_prefetched_items_are_the_same_in_order(n: int) -> None:
    """Made in another thread; an error comes where its item would have."""
    makers = set()

    def items() -> Iterator[int]:
        for number in range(n):
            makers.add(threading.current_thread())
            yield number
        raise ValueError("broken")

    iterator = batching.prefetch(items(), room=2)
    assert [next(iterator) for _ in range(n)] == list(range(n))
    with pytest.raises(ValueError, match="broken"):
        next(iterator)
    assert len(makers - {threading.current_thread()}) == (n > 0)
    assert not prefetching()
    assert list(batching.prefetch(iter(range(n)), room=2)) == list(range(n))


def test_no_more_than_there_is_room_for() -> None:
    made: list[int] = []
    ahead = threading.Event()

    def items() -> Iterator[int]:
        for number in range(100):
            made.append(number)
            if number == 2:
                ahead.set()
            yield number

    with closing(batching.prefetch(items(), room=3)) as iterator:
        assert next(iterator) == 0
        assert ahead.wait(30)  # made though nobody has asked for it
        for number in range(1, 5):
            assert next(iterator) == number
            assert len(made) <= number + 1 + 3 + 1  # handed over, waiting, and one in the making
    assert not prefetching()  # who stops early leaves no thread behind


CPU = torch.device("cpu")
LENGTHS = {"different": [3, 7, 1, 4], "equal": [5, 5, 5], "one text": [6], "one token": [1, 1]}
PACKED_TEXTS = [
    "a", "A much longer text, of many characters!", "the cat", "", "the cat", "żółw 亀", "x " * 30, "a & b",
    "b [PAD] c <pad> d",  # a padding token that is written out in a text has a position of BERT, and none of RoBERTa
]  # fmt: skip


def packing(lengths: list[int], device: str = "cpu") -> Packing:
    return Packing.of(Ragged.of([list(range(n)) for n in lengths]), lambda array: torch.from_numpy(array).to(device))


kernels = pytest.mark.parametrize(
    ("kernel", "dtype", "device"),
    [
        (batching.padded_attention, torch.float32, "cpu"),
        (batching.flash_attention, torch.bfloat16, "cpu"),
        pytest.param(batching.padded_attention, torch.float32, "cuda", marks=pytest.mark.gpu),
        pytest.param(batching.flash_attention, torch.bfloat16, "cuda", marks=pytest.mark.gpu),
    ],
)


def one_by_one(lengths: list[int], *states: torch.Tensor, scale: float | None) -> torch.Tensor:
    """Attention of each text alone, by torch."""
    heads_first = (part.transpose(0, 1).split(lengths, dim=1) for part in states)
    found = [F.scaled_dot_product_attention(*text, scale=scale) for text in zip(*heads_first, strict=True)]
    return torch.cat(found, dim=1).transpose(0, 1)


@pytest.mark.parametrize("scale", [None, 0.3])
@kernels
@pytest.mark.parametrize("lengths", LENGTHS.values(), ids=LENGTHS)
def test_attention_is_that_of_each_text(
    lengths: list[int], kernel: Callable[..., torch.Tensor], dtype: torch.dtype, device: str, scale: float
) -> None:
    torch.manual_seed(0)
    own = [torch.randn(sum(lengths), 2, 8).to(device, dtype).requires_grad_() for _ in range(3)]
    states = [part.detach().float().cpu().requires_grad_() for part in own]
    factors = torch.randn(sum(lengths), 2, 8)
    with Flash() if device == "cpu" else nullcontext():
        found = kernel(packing(lengths, device), *own, scale=scale)
        gradients = torch.autograd.grad((found.float().cpu() * factors).sum(), own)
    wanted = one_by_one(lengths, *states, scale=scale)
    close = {} if dtype is torch.float32 else {"rtol": 0.02, "atol": 0.02}
    assert_close(found.float().cpu(), wanted, **close)
    for one, other in zip(gradients, torch.autograd.grad((wanted * factors).sum(), states), strict=True):
        assert_close(one.float().cpu(), other, **close)


@kernels
def test_attention_drops_what_it_is_told(kernel: Callable[..., torch.Tensor], dtype: torch.dtype, device: str) -> None:
    """Values of one: what comes out is the sum of the weights that are kept, 1 on average."""
    torch.manual_seed(0)
    lengths = [30, 20, 10] * 20
    query, key = torch.randn(2, sum(lengths), 4, 8).to(device, dtype)
    value = torch.ones_like(query, requires_grad=True)

    def attend(rate: float) -> torch.Tensor:
        torch.manual_seed(1)
        return kernel(packing(lengths, device), query, key, value, dropout_p=rate).float()

    with Flash() if device == "cpu" else nullcontext():
        found, whole = attend(0.3), attend(0.0)
        with torch.no_grad():
            again = attend(0.3)
        (gradient,) = torch.autograd.grad(found.sum(), value)
    assert abs(found.mean().item() - 1) < 0.01
    assert found.std() > 0.05
    assert_close(whole, torch.ones_like(whole), rtol=0.01, atol=0.01)
    assert torch.equal(again, found)  # the same draws, as when a micro-batch is computed twice
    # The gradient of a value is the sum of the kept weights that read it: the way back drops the same ones.
    for read, written in zip(gradient.float().split(lengths), found.detach().split(lengths), strict=True):
        assert_close(read.sum(0), written.sum(0), rtol=0.01, atol=0.0)


def test_what_the_flash_kernel_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    for dtype, size, capability, built, fits in (
        (torch.float16, 192, (8, 0), True, True),
        (torch.float32, 64, (9, 0), True, False),
        (torch.float16, 64, (7, 5), True, False),
        (torch.bfloat16, 64, (8, 0), False, False),
        (torch.bfloat16, 20, (8, 0), True, False),
        (torch.bfloat16, 256, (9, 0), True, False),
    ):
        monkeypatch.setattr(batching, "capability", lambda device, capability=capability: capability)
        monkeypatch.setattr(torch.backends.cuda, "is_flash_attention_available", lambda built=built: built)
        assert batching.flash_fits(torch.empty(5, 2, size, dtype=dtype)) == fits


def vectors_and_gradients(transformer: Transformer, poolings: list[Pooling], packed: bool) -> dict[str, torch.Tensor]:
    items = [TextInput(text, ((0, 3),) if len(text) > 3 else ()) for text in PACKED_TEXTS]
    located = transformer.locate(items, 24)
    vectors = transformer.forward(located.ids, poolings, targets=located.targets, packed=packed)
    sum((vector.sin() * (1 + number)).sum() for number, vector in enumerate(vectors)).backward()
    found = {name: p.grad for name, p in transformer.model.named_parameters() if p.grad is not None}
    transformer.model.zero_grad()
    return found | {str(pooling): vector.detach() for pooling, vector in zip(poolings, vectors, strict=True)}


@pytest.mark.parametrize("architecture", few(ARCHITECTURES, "bert", "roberta", "deberta"))
def test_a_packed_pass_gives_the_vectors_and_gradients_of_a_padded_one(random_model: Models, architecture: str) -> None:
    transformer = load_transformer(random_model(architecture), CPU)
    kind = transformer.model.config.model_type
    assert batching.can_pack(transformer.model) == (kind in batching.BERT_LIKE)
    if not batching.can_pack(transformer.model):
        return
    for key, value, usual in (("is_decoder", True, False), ("_attn_implementation", "eager", "sdpa")):
        setattr(transformer.model.config, key, value)
        assert not batching.can_pack(transformer.model)
        setattr(transformer.model.config, key, usual)
    poolings = [Pooling("mean"), Pooling("cls"), Pooling("mean", ":"), Pooling("target", "-2:")]
    found, wanted = (vectors_and_gradients(transformer, poolings, packed) for packed in (True, False))
    assert len(found) > 10
    assert_close(found, wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("architecture", few(["bert", "roberta"]))
def test_flash_attention_in_a_model(random_model: Models, architecture: str, monkeypatch: pytest.MonkeyPatch) -> None:
    transformer = load_transformer(random_model(architecture), CPU)
    layers = transformer.model.config.num_hidden_layers
    with torch.autocast("cpu", torch.bfloat16):
        padded, exact = (vectors_and_gradients(transformer, [Pooling()], packed) for packed in (False, True))
        with as_if_on_ampere(monkeypatch) as flash:
            found = vectors_and_gradients(transformer, [Pooling()], True)
    assert flash.calls == [("forward", 0.0)] * layers + [("backward", 0.0)] * layers
    assert found.keys() == padded.keys()
    for name, wanted in padded.items():
        if not name.endswith("key.bias"):  # its gradient is 0 but for rounding: softmax does not see it
            for other in (found, exact):
                assert (other[name] - wanted).norm() < 0.04 * wanted.norm(), name
