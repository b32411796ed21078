"""Micro-batches give the loss and gradients of the plain loop: every text padded, the views in two passes, one core."""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from helpers.augmented_models import (
    AUGMENTATIONS,
    TEXTS,
    attached,
    embed,
    opened,
    recipe,
    tuning_of,
)
from helpers.random_models import Models
from helpers.suite_marks import few

from mirrorbench.core.devices import cpu_threads
from mirrorbench.models.ragged import Ragged
from mirrorbench.models.transformer import Transformer
from mirrorbench.training import microbatch as parts
from mirrorbench.training.loop import tune_backbone
from mirrorbench.training.losses import LOSSES, TokenizedPairs
from mirrorbench.training.microbatch import map_shares
from mirrorbench.training.recipes import Recipe

LENGTH = 30
SHAPES = {
    "one pair": ["alone"],
    "very different lengths": ["a", "b c " * 40, "dd", "e f g " * 6, "", "hh " * 12],
    "texts that repeat": ["one two", "one two", "four", "three and more", "one two"],
}


def gradients(transformer: Transformer) -> dict[str, torch.Tensor]:
    actual = {
        n: p.grad.to_dense().clone()
        for n, p in transformer.model.named_parameters()
        if p.grad is not None
    }
    transformer.model.zero_grad()
    return actual


def plain(
    transformer: Transformer, views: Sequence[Sequence[str]], labels: Any, changed: Recipe
) -> torch.Tensor:
    """The released procedure: both views padded to the maximum length, one pass for each."""
    vectors = []
    for view in views:
        texts = [text.strip() for text in view]
        cut = {"padding": "max_length", "truncation": True, "max_length": LENGTH}
        batch = transformer.tokenizer(texts, return_tensors="pt", **cut)
        mask = batch["attention_mask"]
        states = transformer.model(
            input_ids=batch["input_ids"], attention_mask=mask
        ).last_hidden_state
        means = {
            "mean-padded": states.mean(1),
            "mean": (states * mask[..., None]).sum(1) / mask.sum(1, keepdim=True),
        }
        vectors.append({"cls": states[:, 0], **means}[changed.pooling])
    loss = LOSSES[changed.loss](*vectors, changed.temperature, labels)
    loss.backward()
    return loss.detach()


def tokenized(
    transformer: Transformer, left: Sequence[str], right: Sequence[str]
) -> TokenizedPairs:
    labels = torch.tensor(
        [left.index(text) for text in left]
    )  # one group for the pairs of one text
    return TokenizedPairs(transformer.tokenize([*left, *right], LENGTH), None, labels)


def close(actual: dict[str, torch.Tensor], expected: dict[str, torch.Tensor]) -> None:
    assert actual.keys() == expected.keys()
    for name, gradient in expected.items():
        named = lambda text, name=name: f"{name}: {text}"  # noqa: E731
        torch.testing.assert_close(actual[name], gradient, rtol=1e-3, atol=2e-6, msg=named)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("architecture", few(["bert", "roberta", "deberta-v2"]))
def test_micro_batches_equal_plain_loss_and_gradients(
    architecture: str, shape: str, random_model: Models, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = SHAPES[shape]
    right = [f"{text[:4]} [MASK] {text[6:]}" for text in left]
    for pooling in ("mean", "cls", "mean-padded"):
        # One pair has no negatives; only the loss with the positive in its denominator is defined then.
        changed = recipe(
            pooling=pooling, train_max_length=LENGTH, loss="infonce" if len(left) > 1 else "ntxent"
        )
        transformer = opened(random_model(architecture), changed)
        loop = tuning_of(transformer, changed)
        pairs = tokenized(transformer, left, right)
        expected = plain(transformer, (left, right), pairs.labels, changed)
        wanted = gradients(transformer)
        for budget, held in ((1, 10**6), (10**5, 10**6), (80, 0)):
            monkeypatch.setitem(parts.TOKEN_BUDGET, "cpu", budget)
            loop.most_kept = held or 2 * LENGTH  # below every batch but the smallest
            loss = loop.differentiate(pairs)
            torch.testing.assert_close(loss, expected, rtol=1e-5, atol=1e-5)
            close(gradients(transformer), wanted)


@pytest.mark.parametrize(("rate", "texts"), [(0, 5), (0.1, 10)])
def test_repeated_text_is_read_once_without_dropout(
    random_model: Models, monkeypatch: pytest.MonkeyPatch, rate: float, texts: int
) -> None:
    changed = recipe(dropout=rate)
    transformer = opened(random_model("bert"), changed)
    left = SHAPES["texts that repeat"]
    read = []

    def counted(ids: Ragged, *args: Any) -> list[torch.Tensor]:
        read.append(len(ids))
        return Transformer.forward(transformer, ids, *args)

    monkeypatch.setattr(transformer, "forward", counted)
    tuning_of(transformer, changed).differentiate(
        tokenized(transformer, left, [*left[:3], "six", "seven"])
    )
    assert read == [texts]


@pytest.mark.parametrize(
    ("augmentation", "threads"),
    few(
        [
            ({"dropout": 0.2}, 2),
            ({"controlled_dropout": 0.2}, 1),
            ({"drophead": 0.3}, 1),
            ({"dropout": 0.2}, 1),
        ],
        0,
        1,
    ),
)
def test_batch_beyond_memory_is_recomputed_with_same_masks(
    augmentation: dict[str, float],
    threads: int,
    random_model: Models,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(parts.TOKEN_BUDGET, "cpu", 80)
    changed = recipe(**augmentation)
    passes: list[
        tuple[bool, int]
    ] = []  # whether it keeps what back-propagation needs, and how many that do are alive
    alive: weakref.WeakSet[torch.Tensor] = weakref.WeakSet()

    def watched(*args: Any) -> list[torch.Tensor]:
        actual = Transformer.forward(transformer, *args)
        alive.update(actual if actual[0].requires_grad else ())
        passes.append((torch.is_grad_enabled(), len(alive)))
        return actual

    with cpu_threads(threads), attached(random_model("bert"), changed) as transformer:
        monkeypatch.setattr(transformer, "forward", watched)
        loop = tuning_of(transformer, changed, packs="dropout" in augmentation)
        pairs = tokenized(transformer, TEXTS[:10], TEXTS[1:11])
        loss = loop.differentiate(pairs)
        wanted = gradients(transformer)
        once = len(passes)
        assert once > 3
        assert all(keeps for keeps, _ in passes)
        assert max(kept for _, kept in passes) == once
        passes.clear()
        loop.most_kept = 79
        torch.testing.assert_close(loop.differentiate(pairs), loss, rtol=1e-6, atol=1e-6)
    assert [keeps for keeps, _ in passes] == [False] * once + [True] * once
    assert {kept for _, kept in passes[once:]} == {1}
    close(gradients(transformer), wanted)


def test_dropout_differs_between_views_steps_and_seeds(random_model: Models) -> None:
    changed = recipe(dropout=0.1)
    transformer = opened(random_model("bert"), changed)
    pairs = tokenized(transformer, TEXTS[:4], TEXTS[:4])
    actual = []
    for seed in (0, 1):
        for step in (0, 1):
            loop = tuning_of(transformer, changed)
            loop.seed = seed
            loop.steps = step
            left, right = embed(loop, pairs)
            assert not torch.allclose(left, right)
            actual.append(loop.differentiate(pairs).item())
            assert loop.differentiate(pairs).item() == actual[-1]
    assert len(set(actual)) == 4


def test_shares_cover_items_and_divide_threads() -> None:
    meeting = threading.Barrier(2, timeout=30)  # both must be there at once

    def work(share: Sequence[int]) -> tuple[str, int]:
        meeting.wait()
        return threading.current_thread().name, torch.get_num_threads()

    with cpu_threads(4):
        actual = map_shares(work, [1, 2], 4)
        assert torch.get_num_threads() == 4
        assert map_shares(list, range(6), 4) == [[0, 4], [1, 5], [2], [3]]
        assert map_shares(list, [], 4) == [[]]
        assert map_shares(lambda share: torch.get_num_threads(), [1], 4) == [
            4
        ]  # one share has them all
    assert [threads for _, threads in actual] == [2, 2]
    assert len({name for name, _ in actual} | {threading.current_thread().name}) == 3


def test_error_waits_for_all_shares() -> None:
    done: list[int] = []

    def work(share: Sequence[int]) -> None:
        if share == [1]:
            raise ValueError("one")
        time.sleep(0.2)
        done.append(share[0])

    with cpu_threads(2), pytest.raises(ValueError, match="one"):
        map_shares(work, [1, 2], 2)
    assert done == [2]


def test_thread_count_does_not_change_dropout_draws(
    random_model: Models, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(parts.TOKEN_BUDGET, "cpu", 100)

    def tuned(threads: int, dropout: float = 0.1) -> tuple[tuple[float, ...], torch.Tensor]:
        changed = recipe(dropout=dropout, batch_size=12)
        transformer = opened(random_model("roberta"), changed)
        with cpu_threads(threads):
            losses = tune_backbone(transformer, TEXTS[:24], changed, 5, AUGMENTATIONS).losses
        return losses, torch.cat(
            [weight.detach().flatten() for weight in transformer.model.parameters()]
        )

    (alone, wanted) = tuned(1)
    (losses, weights) = tuned(2)
    assert losses == pytest.approx(alone, abs=1e-4)
    # AdamW takes the sign of gradients that are nothing but rounding: a few weights go their own way.
    assert (weights - wanted).abs().quantile(0.99) < 1e-4
    assert torch.equal(tuned(2)[1], weights)  # bit for bit
    assert tuned(2, dropout=0.11)[0] != pytest.approx(alone, abs=1e-4)
