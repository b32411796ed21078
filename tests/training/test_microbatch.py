"""Micro-batches give the loss and gradients of the plain loop: every text padded, the views in two passes, one core."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from augmented import AUGMENTATIONS, TEXTS, attached, embed, opened, recipe, tuning_of
from random_models import Models
from suites import few

from mirrorbench.models.batching import Ragged
from mirrorbench.models.transformer import Transformer
from mirrorbench.training import microbatch as parts
from mirrorbench.training.loop import TuningReport, _Loop, tune_backbone
from mirrorbench.training.losses import LOSSES
from mirrorbench.training.microbatch import TokenizedPairs, map_shares
from mirrorbench.training.recipes import Recipe

LENGTH = 30
SHAPES = {
    "one pair": ["alone"],
    "very different lengths": ["a", "b c " * 40, "dd", "e f g " * 6, "", "hh " * 12],
    "texts that repeat": ["one two", "one two", "four", "three and more", "one two"],
    "equal lengths": ["ab cd", "ef gh", "ij kl", "mn op"],
}


def gradients(transformer: Transformer) -> dict[str, torch.Tensor]:
    found = {n: p.grad.to_dense().clone() for n, p in transformer.model.named_parameters() if p.grad is not None}
    transformer.model.zero_grad()
    return found


def labels_of(left: Sequence[str]) -> torch.Tensor:
    """One group for the pairs of one text."""
    return torch.tensor([left.index(text) for text in left])


def plain(transformer: Transformer, left: Sequence[str], right: Sequence[str], changed: Recipe) -> torch.Tensor:
    """The released procedure: both views padded to the maximum length, one pass for each."""
    vectors = []
    for view in (left, right):
        texts = [text.strip() for text in view]
        cut = {"padding": "max_length", "truncation": True, "max_length": LENGTH}
        batch = transformer.tokenizer(texts, return_tensors="pt", **cut)
        mask = batch["attention_mask"]
        states = transformer.model(input_ids=batch["input_ids"], attention_mask=mask).last_hidden_state
        means = {"mean-padded": states.mean(1), "mean": (states * mask[..., None]).sum(1) / mask.sum(1, keepdim=True)}
        vectors.append({"cls": states[:, 0], **means}[changed.pooling])
    loss = LOSSES[changed.loss](*vectors, changed.temperature, labels_of(left))
    loss.backward()
    return loss.detach()


def tokenized(transformer: Transformer, left: Sequence[str], right: Sequence[str]) -> TokenizedPairs:
    return TokenizedPairs(transformer.tokenize([*left, *right], LENGTH), None, labels_of(left))


def close(found: dict[str, torch.Tensor], expected: dict[str, torch.Tensor]) -> None:
    assert found.keys() == expected.keys()
    for name, gradient in expected.items():
        torch.testing.assert_close(found[name], gradient, rtol=1e-3, atol=2e-6, msg=lambda text, n=name: f"{n}: {text}")


@pytest.mark.parametrize("shape", few(SHAPES, 0, 1, 2))
@pytest.mark.parametrize("architecture", few(["bert", "roberta", "deberta-v2"]))
def test_loss_and_gradients_are_those_of_the_plain_loop(
    architecture: str, shape: str, random_model: Models, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = SHAPES[shape]
    right = [f"{text[:4]} [MASK] {text[6:]}" for text in left]
    for pooling in ("mean", "cls", "mean-padded"):
        # One pair has no negatives; only the loss with the positive in its denominator is defined then.
        changed = recipe(pooling=pooling, train_max_length=LENGTH, loss="infonce" if len(left) > 1 else "ntxent")
        transformer = opened(random_model(architecture), changed)
        loop = tuning_of(transformer, changed)
        expected = plain(transformer, left, right, changed)
        wanted = gradients(transformer)
        pairs = tokenized(transformer, left, right)
        for budget, held in ((1, 10**6), (10**5, 10**6), (80, 0)):
            monkeypatch.setitem(parts.TOKEN_BUDGET, "cpu", budget)
            loop.held = held or 2 * LENGTH  # below every batch but the smallest
            loss = loop.differentiate(pairs)
            torch.testing.assert_close(loss, expected, rtol=1e-5, atol=1e-5)
            close(gradients(transformer), wanted)


@pytest.mark.parametrize(("rate", "texts"), [(0, 5), (0.1, 10)])
def test_a_text_that_repeats_is_read_once_where_nothing_is_drawn(
    random_model: Models, monkeypatch: pytest.MonkeyPatch, rate: float, texts: int
) -> None:
    changed = recipe(dropout=rate)
    transformer = opened(random_model("bert"), changed)
    left = SHAPES["texts that repeat"]
    pairs, loop, read = tokenized(transformer, left, [*left[:3], "six", "seven"]), tuning_of(transformer, changed), []

    def counted(ids: Ragged, *args: Any) -> list[torch.Tensor]:
        read.append(len(ids))
        return Transformer.forward(transformer, ids, *args)

    monkeypatch.setattr(transformer, "forward", counted)
    loop.differentiate(pairs)
    assert read == [texts]


def watched(transformer: Transformer, seen: list[bool], *args: Any) -> list[torch.Tensor]:
    """A pass that notes whether it keeps what back-propagation needs."""
    seen.append(torch.is_grad_enabled())
    return Transformer.forward(transformer, *args)


@pytest.mark.parametrize(
    ("augmentation", "threads"),
    few([({"dropout": 0.2}, 2), ({"controlled_dropout": 0.2}, 1), ({"drophead": 0.3}, 1), ({"dropout": 0.2}, 1)], 0, 1),
)
def test_a_batch_over_the_memory_is_read_twice_with_the_same_masks(
    augmentation: dict[str, float], threads: int, random_model: Models, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.set_num_threads(threads)
    monkeypatch.setitem(parts.TOKEN_BUDGET, "cpu", 80)
    changed = recipe(**augmentation)
    with attached(random_model("bert"), changed) as transformer:
        loop = tuning_of(transformer, changed, packs="dropout" in augmentation)
        pairs = tokenized(transformer, TEXTS[:10], TEXTS[1:11])
        found = []
        for held in (10**6, 79):
            loop.held = held
            seen: list[bool] = []
            monkeypatch.setattr(transformer, "forward", partial(watched, transformer, seen))
            loss = loop.differentiate(pairs)
            found.append((loss, gradients(transformer), seen.count(True), seen.count(False)))
    (loss, wanted, passes, none), (again, twice, passes_again, first) = found
    assert passes == passes_again == first > 3
    assert none == 0
    torch.testing.assert_close(again, loss, rtol=1e-6, atol=1e-6)
    close(twice, wanted)


def test_each_part_and_each_step_draws_anew(random_model: Models) -> None:
    changed = recipe(dropout=0.1)
    transformer = opened(random_model("bert"), changed)
    pairs = tokenized(transformer, TEXTS[:4], TEXTS[:4])
    found = {}
    for seed in (0, 1):
        for step in (0, 1):
            loop = tuning_of(transformer, changed)
            loop.seed, loop.steps = seed, step
            left, right = embed(loop, pairs)
            assert not torch.allclose(left, right)
            assert all(torch.equal(one, other) for one, other in zip((left, right), embed(loop, pairs), strict=True))
            found[seed, step] = left.detach()
    assert len({tuple(vectors.flatten().tolist()) for vectors in found.values()}) == 4


def held_bytes(loop: _Loop, pairs: TokenizedPairs) -> int:
    """The most bytes of activations that are kept for back-propagation at one time."""
    living: Counter[int] = Counter()
    now = most = 0

    class Kept:
        def __init__(self, tensor: torch.Tensor) -> None:
            nonlocal now, most
            self.tensor = tensor
            storage = tensor.untyped_storage()
            self.key, self.size = storage.data_ptr(), storage.nbytes()
            now += self.size * (living[self.key] == 0)
            living[self.key] += 1
            most = max(most, now)

        def __del__(self) -> None:
            nonlocal now
            living[self.key] -= 1
            now -= self.size * (living[self.key] == 0)

    with torch.autograd.graph.saved_tensors_hooks(Kept, lambda kept: kept.tensor):
        loop.differentiate(pairs)
    return most


def test_memory_is_that_of_one_part_whatever_the_batch(random_model: Models, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.set_num_threads(1)  # what is kept is seen in this thread alone
    monkeypatch.setitem(parts.TOKEN_BUDGET, "cpu", 256)
    changed = recipe(dropout=0.1)
    transformer = opened(random_model("bert"), changed)
    loop = tuning_of(transformer, changed)
    weights = sum(p.numel() * 4 for p in transformer.model.parameters())
    found = {}
    for held, n in ((10**9, 10), (10**9, 128), (256, 128)):
        loop.held = held
        texts = [f"{TEXTS[i % 100]} {i}" for i in range(n)]
        found[held, n] = held_bytes(loop, tokenized(transformer, texts, texts))
    matrix = 8 * (2 * 128) ** 2 * 4  # of the loss itself: a few matrices of all vectors by all vectors
    assert found[10**9, 128] > 8 * found[10**9, 10]
    assert found[256, 128] < 256 * 90 * 3 * 32 + weights + matrix < found[10**9, 128]


DRAWING = recipe(dropout=0.1, lr=1e-3, batch_size=12)


@pytest.fixture(autouse=True)
def threads_as_before() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def test_each_item_is_in_one_share() -> None:
    for n in (0, 1, 2, 3, 8):
        items = list(range(n))
        assert map_shares(list, items, 3) == ([items[start::3] for start in range(min(n, 3))] or [[]])


def test_shares_have_threads_of_their_own_and_divide_torchs() -> None:
    torch.set_num_threads(4)
    meeting = threading.Barrier(2, timeout=30)  # both must be there at once

    def work(share: Sequence[int]) -> tuple[str, int]:
        meeting.wait()
        return threading.current_thread().name, torch.get_num_threads()

    found = map_shares(work, [1, 2], 4)
    assert torch.get_num_threads() == 4
    assert map_shares(lambda share: torch.get_num_threads(), [1], 4) == [4]  # one share has them all
    assert [threads for _, threads in found] == [2, 2]
    assert len({name for name, _ in found} | {threading.current_thread().name}) == 3


def test_an_error_waits_for_the_others() -> None:
    torch.set_num_threads(2)
    done: list[int] = []
    failed = threading.Event()

    def work(share: Sequence[int]) -> None:
        if share == [1]:
            failed.set()
            raise ValueError("one")
        assert failed.wait(30)
        done.append(share[0])

    with pytest.raises(ValueError, match="one"):
        map_shares(work, [1, 2], 2)
    assert torch.get_num_threads() == 2
    assert done == [2]


def tuned(path: Path, changed: Recipe, threads: int) -> tuple[TuningReport, torch.Tensor]:
    torch.set_num_threads(threads)
    transformer = opened(path, changed)
    report = tune_backbone(transformer, TEXTS[:24], changed, 5, AUGMENTATIONS)
    return report, torch.cat([weight.detach().flatten() for weight in transformer.model.parameters()])


def test_a_tuning_draws_the_same_with_any_number_of_threads(
    random_model: Models, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(parts.TOKEN_BUDGET, "cpu", 100)
    path = random_model("roberta")
    (alone, wanted), (report, weights) = (tuned(path, DRAWING, threads) for threads in (1, 2))
    assert report.losses == pytest.approx(alone.losses, abs=1e-4)
    # AdamW takes the sign of gradients that are nothing but rounding: a few weights go their own way.
    assert (weights - wanted).abs().quantile(0.99) < 1e-4
    assert torch.equal(tuned(path, DRAWING, 2)[1], weights)  # bit for bit
    other, _ = tuned(path, replace(DRAWING, augment=(("dropout", 0.11),)), 2)
    assert other.losses != pytest.approx(alone.losses, abs=1e-4)
