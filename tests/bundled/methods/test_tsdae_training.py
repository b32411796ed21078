"""TSDAE in the loop of the core, against sentence-transformers."""

from __future__ import annotations

import pytest
import torch
from helpers.method_tunings import TEXTS, TINY, opened, pairs_of
from mirrorbench_methods import tsdae

from mirrorbench.core.plugins import Plugins
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
