"""DiffCSE in the loop of the core, against a loss that is computed text by text."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from helpers.method_tunings import TEXTS, contrast, opened, pairs_of
from mirrorbench_methods import diffcse
from torch.nn.functional import batch_norm, cross_entropy

from mirrorbench.core.plugins import Plugins
from mirrorbench.training.loop import _Loop
from mirrorbench.training.microbatch import MicroBatchReader

SOME = [TEXTS[n] for n in (0, 30, 5, 31)]


@pytest.fixture
def loop(plugins: Plugins, monkeypatch: pytest.MonkeyPatch) -> _Loop:
    """A tuning without dropout, with the third token of each text masked."""

    def third(
        tokens: torch.Tensor, special: torch.Tensor, mask_id: int, vocabulary: int
    ) -> torch.Tensor:
        masked = tokens.clone()
        masked[:, 3] = mask_id
        return masked

    monkeypatch.setattr(diffcse, "masked_tokens", third)
    transformer, recipe = opened(plugins, "diffcse", dropout=0, temperature=0.3)
    torch.manual_seed(0)
    return _Loop(MicroBatchReader(diffcse.Difference(transformer, recipe), "fp32", True), 0)


def naive(objective: Any) -> tuple[torch.Tensor, int]:
    """The loss, one text at a time, and the number of tokens that the generator replaced."""
    discriminator, projection, head = objective.modules
    tokenizer, model = objective.transformer.tokenizer, objective.transformer.model
    vectors = torch.cat(
        [model(**tokenizer(text, return_tensors="pt")).last_hidden_state[:, 0] for text in SOME * 2]
    )
    first, norm, _, second, _ = projection
    inner = batch_norm(
        vectors @ first.weight.T, None, None, norm.weight, norm.bias, training=True
    ).clamp(min=0)
    vectors = batch_norm(inner @ second.weight.T, None, None, training=True)
    losses, tokens, changed = [], 0, 0
    for vector, text in zip(vectors, SOME * 2, strict=True):
        ids = tokenizer(text, return_tensors="pt")["input_ids"]
        masked = ids.clone()
        masked[0, 3] = tokenizer.mask_token_id
        filled = objective.generator(input_ids=masked).logits.argmax(-1)
        filled[0, 0] = ids[0, 0]
        parts = discriminator.embeddings
        positions, types = torch.arange(ids.shape[1]), torch.zeros_like(ids)
        summed = parts.word_embeddings(filled) + parts.position_embeddings(positions)
        summed = summed + parts.token_type_embeddings(types)
        states = torch.cat([vector[None, None], parts.LayerNorm(summed)[:, 1:]], dim=1)
        for layer in discriminator.encoder.layer:
            states = layer(states)
            states = states[0] if isinstance(states, tuple) else states
        replaced = (filled != ids)[0].long()
        losses.append(
            cross_entropy(states[0] @ head.weight.T + head.bias, replaced, reduction="sum")
        )
        tokens, changed = tokens + len(replaced), changed + int(replaced.sum())
    return contrast(vectors[:4], vectors[4:], 0.3) + 0.005 * torch.stack(
        losses
    ).sum() / tokens, changed


@pytest.mark.parametrize("most", [10_000, 160])
def test_the_loss_is_contrast_and_replaced_token_detection(loop: _Loop, most: int) -> None:
    loop.objective.train()
    loop.most = most  # 160: in parts
    with torch.no_grad():
        expected, changed = naive(loop.objective)
    assert changed > 4
    batch = pairs_of(loop.objective.transformer, SOME, SOME, [0, 1, 2, 3])
    assert loop.within_memory(batch).item() == pytest.approx(expected.item(), abs=1e-5)
    gradients = [weight.grad for module in loop.objective.modules for weight in module.parameters()]
    assert all(gradient is not None for gradient in gradients[-6:])
    assert all(weight.grad is None for weight in loop.objective.generator.parameters())  # type: ignore[attr-defined]
