"""Contrastive Tension: pairs, a step against sentence-transformers, and the learning rate."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from mirrorbench_methods import ct
from tuned import TEXTS, TINY, opened, pairs_of, tuned

from mirrorbench.core.errors import TuningError
from mirrorbench.core.plugins import Plugins
from mirrorbench.training.loop import _Loop, batches
from mirrorbench.training.methods import PairMaker
from mirrorbench.training.microbatch import MicroBatchReader


@pytest.mark.parametrize("protocol", ["paper", "released"])
def test_seven_negative_pairs_follow_each_positive_pair(
    protocol: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(PairMaker, "augment", lambda maker, texts: list(texts))
    preset = ct.preset("sentence", "bert", protocol)
    made = ct.pairs(TEXTS, PairMaker(preset, np.random.default_rng(0), "[MASK]", protocol, {}))
    left, right = ([item.text for item in side] for side in (made.left, made.right))
    assert made.groups is not None
    assert left[::8] == right[::8] == TEXTS
    assert made.groups[:9] == ["same", *["different"] * 7, "same"]
    apart = [n for n in range(len(left)) if n % 8]
    if protocol == "paper":
        assert all(left[n] == TEXTS[n // 8] != right[n] for n in apart)
    assert len({right[n] for n in apart}) == len(TEXTS)
    assert (len({left[n] for n in range(1, 8)}) > 1) == (protocol == "released")
    for drop_last in (False, True):
        batched = list(batches(len(left), 16, drop_last, np.random.default_rng(1), 8))
        assert [len(batch) for batch in batched] == [16] * (len(TEXTS) // 2)
        order = np.concatenate(batched)
        assert sorted(order.tolist()) == list(range(len(left)))
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


def test_learning_rate_falls_every_500_steps(plugins: Plugins) -> None:
    transformer, recipe = opened(plugins, "ct")
    objective = ct.ContrastiveTension(transformer, recipe)
    optimizer, seen = objective.optimizer(), []
    for steps in range(2100):
        if steps:
            objective.stepped(optimizer, steps)
        seen.append(optimizer.param_groups[0]["lr"])
    # tf.optimizers.schedules.PiecewiseConstantDecay: values[0] while step <= boundaries[0], and so on.
    expected = [1e-5] * 501 + [8e-6] * 500 + [6e-6] * 500 + [4e-6] * 500 + [2e-6] * 99
    assert seen == pytest.approx(expected)


def test_wrong_pairs_and_losses_are_rejected(
    plugins: Plugins,
) -> None:
    transformer, recipe = opened(plugins, "ct")
    pairs = pairs_of(transformer, TEXTS[:3], TEXTS[:3], [0, 1, 2])
    with pytest.raises(
        TuningError, match="needs pairs of the same and of different texts"
    ) as caught:
        ct.ContrastiveTension(transformer, recipe).loss(
            torch.ones(3, 2), torch.ones(3, 2), pairs, 1
        )
    assert "Write +ct" in caught.value.hint
    with pytest.raises(TuningError, match="ct makes pairs of different texts, but loss=ntxent"):
        tuned(plugins, "ct", loss="ntxent")
