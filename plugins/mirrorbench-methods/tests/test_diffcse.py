"""DiffCSE: the share of masked tokens, and models without a prediction head."""

from __future__ import annotations

import pytest
import torch
from mirrorbench_methods import diffcse

from mirrorbench.plugin import Transformer, TuningError


def test_thirty_percent_of_the_tokens_are_masked() -> None:
    tokens = torch.arange(100_000).reshape(100, 1000) + 10
    special = torch.zeros_like(tokens, dtype=torch.bool)
    special[:, 0] = True
    torch.manual_seed(0)
    masked = diffcse.masked_tokens(tokens, special, 3, 10)
    assert torch.equal(masked[:, 0], tokens[:, 0])
    masks, random = (
        (masked == 3).float().mean().item(),
        ((masked < 10) & (masked != 3)).float().mean().item(),
    )
    assert masks == pytest.approx(0.3 * (0.8 + 0.1 / 10), abs=0.005)
    assert random == pytest.approx(0.3 * 0.1 * 0.9, abs=0.003)


def test_model_without_prediction_head_is_rejected(
    transformer: Transformer, monkeypatch: pytest.MonkeyPatch
) -> None:
    headless = (None, {"missing_keys": {"cls.predictions.transform.dense.weight"}})
    monkeypatch.setattr(diffcse, "read_weights", lambda *args, **named: headless)
    with pytest.raises(TuningError, match="has no head that predicts them") as caught:
        diffcse.language_model(transformer)
    assert "another method" in caught.value.hint
