from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from augmented import AUGMENTATIONS, opened
from random_models import Models, encoder

from mirrorbench.core.errors import EncodingError, TuningError
from mirrorbench.models.encoder import TransformerEncoder
from mirrorbench.models.pooling import Pooling
from mirrorbench.models.transformer import Transformer
from mirrorbench.training.loop import tune_backbone
from mirrorbench.training.recipes import Recipe

TEXTS = [f"{'word ' * (n % 7)}number {n}" for n in range(10, 50)]
LIMIT = 80  # tokens: fewer than those of the texts of one length
RECIPE = Recipe(
    temperature=0.05, epochs=2, train_max_length=30, pooling="cls", batch_size=20, lr=1e-3, augment=(("dropout", 0.0),)
)


ERRORS = {
    "cuda": torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB."),
    "mps": RuntimeError("MPS backend out of memory (MPS allocated: 9 GB). Tried to allocate 20.00 GB on private pool."),
}


@pytest.fixture(params=ERRORS)
def full(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Callable[[Transformer, int], list[int]]:
    """Makes a real model raise what a GPU raises, for every batch of more positions than fit; the rest it computes."""

    def full(transformer: Transformer, limit: int) -> list[int]:
        seen: list[int] = []
        forward = transformer.model.forward

        def limited(*args: Any, input_ids: torch.Tensor, **kwargs: Any) -> Any:
            seen.append(input_ids.numel())
            if input_ids.numel() > limit:
                raise ERRORS[request.param]
            return forward(*args, input_ids=input_ids, **kwargs)

        monkeypatch.setattr(transformer.model, "forward", limited)
        return seen

    return full


@pytest.fixture
def bert(random_model: Models) -> Path:
    return random_model("bert")


@pytest.mark.parametrize("mode", ["mean", "cls", "mean-padded"])
def test_encoding_goes_on_with_half_the_budget(
    bert: Path, full: Callable[..., list[int]], mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mirrorbench.models.batching.MIN_TOKENS", 32)  # no batch is filled up beyond the limit
    pooling = Pooling(mode, "-1:", 40)
    expected = encoder(bert, pooling).encode(TEXTS)
    limited = encoder(bert, pooling)
    budget = limited.transformer.budget
    seen = full(limited.transformer, LIMIT)
    np.testing.assert_allclose(limited.encode(TEXTS), expected, atol=1e-5)
    assert any(size > LIMIT for size in seen)
    assert limited.transformer.budget < budget
    seen.clear()
    np.testing.assert_allclose(limited.encode(TEXTS), expected, atol=1e-5)
    assert all(size <= LIMIT for size in seen)  # it has learnt


def test_one_text_that_does_not_fit_is_an_error_with_a_way_out(bert: Path, full: Callable[..., list[int]]) -> None:
    limited = encoder(bert, Pooling("mean", "-1:", 40))
    full(limited.transformer, 5)
    with pytest.raises(EncodingError, match="no memory left on cpu for one text of") as caught:
        limited.encode(TEXTS)
    assert "max_length" in caught.value.hint


def tuned(path: Path, full: Any = None) -> tuple[Any, np.ndarray]:
    transformer = opened(path, RECIPE)
    if full:
        full(transformer, 300)
    report = tune_backbone(transformer, TEXTS, RECIPE, 3, AUGMENTATIONS)
    # Not the weights: Adam makes steps of the rounding where the gradient is zero, as in the biases of keys.
    return report, TransformerEncoder(transformer, Pooling("cls", "-1:", 30)).encode(TEXTS)


def test_tuning_goes_on_with_half_held_and_learns_the_same(bert: Path, full: Callable[..., list[int]]) -> None:
    """Without dropout nothing is drawn, so the smaller parts give the same gradients but for rounding."""
    expected_report, expected = tuned(bert)
    report, found = tuned(bert, full)
    np.testing.assert_allclose(report.losses, expected_report.losses, rtol=1e-4)
    assert (report.steps, report.tokens) == (expected_report.steps, expected_report.tokens)
    untuned = encoder(bert, Pooling("cls", "-1:", 30)).encode(TEXTS)
    assert np.abs(expected - untuned).max() > 0.01
    np.testing.assert_allclose(found, expected, atol=1e-3)


def test_a_pair_that_does_not_fit_fails_the_tuning(bert: Path, full: Callable[..., list[int]]) -> None:
    transformer = opened(bert, RECIPE)
    full(transformer, 5)
    with pytest.raises(TuningError, match="no memory left on cpu for one pair"):
        tune_backbone(transformer, TEXTS, RECIPE, 3, AUGMENTATIONS)


def test_other_errors_are_not_taken_for_a_lack_of_memory(bert: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def forward(*args: Any, **kwargs: Any) -> Any:
        raise RuntimeError("mat1 and mat2 shapes cannot be multiplied")

    broken = encoder(bert, Pooling("mean"))
    monkeypatch.setattr(broken.transformer.model, "forward", forward)
    with pytest.raises(RuntimeError, match="mat1"):
        broken.encode(TEXTS)
    with pytest.raises(RuntimeError, match="mat1"):
        tune_backbone(broken.transformer, TEXTS, RECIPE, 0, AUGMENTATIONS)
