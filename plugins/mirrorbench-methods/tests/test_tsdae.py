"""TSDAE: the deletion of words, and models without a decoder."""

from __future__ import annotations

import numpy as np
import pytest
from mirrorbench_methods import tsdae
from transformers import DistilBertConfig, GPTNeoXConfig

from mirrorbench.plugin import AugmentationContext, Transformer, TuningError


@pytest.mark.parametrize("rate", [0.3, 0.6, 0.99])
def test_words_are_deleted_at_the_given_rate(rate: float) -> None:
    context = AugmentationContext(np.random.default_rng(0), rate, "[MASK]", "paper")
    words = [f"w{n}" for n in range(200)]
    shares = []
    for _ in range(100):
        kept = tsdae.delete_words(" ".join(words), context).split()
        assert kept == [word for word in words if word in set(kept)]
        shares.append(len(kept) / len(words))
    assert np.mean(shares) == pytest.approx(1 - rate, abs=0.01)
    left = {tsdae.delete_words("a b", context) for _ in range(200)}
    assert {"a", "b"} <= left <= {"a", "b", "a b"}
    assert tsdae.delete_words("  ", context) == ""


def test_model_without_decoder_is_rejected(
    transformer: Transformer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for config in (
        DistilBertConfig(),
        GPTNeoXConfig(hidden_size=8, num_attention_heads=2, num_hidden_layers=1),
    ):
        monkeypatch.setattr(transformer.model, "config", config)
        with pytest.raises(
            TuningError, match="transformers has none with cross-attention for"
        ) as caught:
            tsdae.tied_decoder(transformer)
        assert "another method" in caught.value.hint
