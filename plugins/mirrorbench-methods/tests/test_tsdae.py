"""TSDAE against sentence-transformers, and the deletion of words."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from mirrorbench_methods import tsdae
from transformers import DistilBertConfig, GPTNeoXConfig
from tuned import TEXTS, TINY, opened, pairs_of

from mirrorbench.core.errors import TuningError
from mirrorbench.core.plugins import Plugins
from mirrorbench.training.augmentations import AugmentationContext
from mirrorbench.training.loop import _Loop
from mirrorbench.training.microbatch import MicroBatchReader

WHOLE = [TEXTS[n] for n in (0, 30, 5, 31)]
LEFT_OVER = ["near the", "saw", TEXTS[5], "nobody saw the"]


@pytest.fixture
def loop(plugins: Plugins) -> _Loop:
    transformer, recipe = opened(plugins, "tsdae", dropout=0)
    torch.manual_seed(0)
    return _Loop(MicroBatchReader(tsdae.Reconstruction(transformer, recipe), "fp32", True), 0)


@pytest.mark.parametrize("most", [1 << 20, 100])  # 100: a text a part
def test_loss_and_gradients_equal_sentence_transformers(loop: _Loop, most: int) -> None:
    from sentence_transformers import SentenceTransformer, losses, models

    loop.most = loop.most_kept = most
    modules = [models.Transformer(str(TINY), max_seq_length=64), models.Pooling(256, "cls")]
    model = SentenceTransformer(modules=modules, device="cpu")
    theirs = losses.DenoisingAutoEncoderLoss(model, tie_encoder_decoder=True).eval()
    decoder = loop.objective.modules[0]
    theirs.decoder.load_state_dict(
        {name: value for name, value in decoder.state_dict().items() if "crossattention" in name},
        strict=False,
    )
    tokenizer = loop.objective.transformer.tokenizer
    features = [
        dict(tokenizer(side, return_tensors="pt", padding=True)) for side in (LEFT_OVER, WHOLE)
    ]
    expected = theirs(features, torch.zeros(4))
    expected.backward()
    batch = pairs_of(loop.objective.transformer, WHOLE, LEFT_OVER, [0, 1, 2, 3])
    torch.testing.assert_close(loop.within_memory(batch), expected.detach(), rtol=1e-5, atol=1e-5)
    gradients = {
        name: weight.grad
        for name, weight in theirs.decoder.named_parameters()
        if weight.grad is not None
    }
    ours = {
        name: weight.grad for name, weight in decoder.named_parameters() if weight.grad is not None
    }
    assert ours.keys() == gradients.keys()
    assert len(ours) > 60
    for name, gradient in gradients.items():
        torch.testing.assert_close(ours[name].to_dense(), gradient, rtol=1e-3, atol=1e-5)


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


def test_model_without_decoder_is_rejected(loop: _Loop, monkeypatch: pytest.MonkeyPatch) -> None:
    transformer = loop.objective.transformer
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
