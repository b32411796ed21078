"""Contrastive Tension in the loop of the core: its batches, and a step against sentence-transformers."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from helpers.method_tunings import TEXTS, TINY, opened, pairs_of
from mirrorbench_methods import ct

from mirrorbench.core.plugins import Plugins
from mirrorbench.training.loop import _Loop, batches
from mirrorbench.training.methods import PairMaker
from mirrorbench.training.microbatch import MicroBatchReader


@pytest.mark.parametrize("protocol", ["paper", "released"])
def test_batches_keep_negatives_with_their_pair(
    protocol: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(PairMaker, "augment", lambda maker, texts: list(texts))
    preset = ct.preset("sentence", "bert", protocol)
    pairs = ct.pairs(TEXTS, PairMaker(preset, np.random.default_rng(0), "[MASK]", protocol, {}))
    for drop_last in (False, True):
        rng = np.random.default_rng(1)
        batched = list(batches(len(pairs.left), 16, drop_last, rng, pairs.together))
        assert [len(batch) for batch in batched] == [16] * (len(TEXTS) // 2)
        order = np.concatenate(batched)
        assert sorted(order.tolist()) == list(range(len(pairs.left)))
        assert (order.reshape(-1, 8) % 8 == np.arange(8)).all()


def test_training_step_equals_sentence_transformers(plugins: Plugins) -> None:
    """The loss is their sum divided by the number of pairs; RMSprop is as TensorFlow documents it."""
    from sentence_transformers import SentenceTransformer, losses, models

    transformer, recipe = opened(plugins, "ct")
    left, right = (
        [TEXTS[row] for row in side] for side in ((0, 0, 0, 3, 3, 5), (0, 7, 9, 3, 1, 2))
    )
    labels = [0, 1, 1, 0, 1, 1]
    modules = [models.Transformer(str(TINY), max_seq_length=64), models.Pooling(256, "mean")]
    theirs = losses.ContrastiveTensionLoss(SentenceTransformer(modules=modules, device="cpu"))
    theirs.eval()  # without dropout
    features = [
        dict(transformer.tokenizer(side, return_tensors="pt", padding=True))
        for side in (left, right)
    ]
    expected = theirs(features, 1.0 - torch.tensor(labels)) / len(labels)
    loop = _Loop(MicroBatchReader(ct.ContrastiveTension(transformer, recipe), "fp32", True), 0)
    pairs = pairs_of(transformer, left, right, labels)
    torch.testing.assert_close(loop.within_memory(pairs), expected.detach(), rtol=1e-5, atol=1e-5)
    expected.backward()
    key = "encoder.layer.1.output.dense.weight"
    weights, moved = [], []
    for reader, model in zip(loop.objective.readers, (theirs.model1, theirs.model2), strict=True):
        assert reader is not None
        weights.append(dict(reader.model.named_parameters())[key])
        (gradient,) = (
            weight.grad for name, weight in model.named_parameters() if name.endswith(key)
        )
        torch.testing.assert_close(weights[-1].grad, gradient, rtol=1e-3, atol=1e-5)
        mean_square = 0.1 * weights[-1].grad ** 2
        moved.append(weights[-1].detach() - 1e-5 * weights[-1].grad / (mean_square.sqrt() + 1e-7))
    assert not torch.equal(*moved)
    loop.step(pairs)
    for weight, expected in zip(weights, moved, strict=True):
        torch.testing.assert_close(weight.detach(), expected, rtol=0, atol=2e-7)
