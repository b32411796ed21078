"""Contrastive Tension: pairs, the learning rate, and wrong recipes."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from mirrorbench_methods import ct
from sample_texts import CORPUS, TEXTS

import mirrorbench
from mirrorbench.plugin import PairMaker, Plugins, TokenizedPairs, Transformer, TuningError

RECIPE = ct.preset("sentence", "bert", "paper")


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
    assert made.together == 8


def test_learning_rate_falls_every_500_steps(transformer: Transformer) -> None:
    objective = ct.ContrastiveTension(transformer, RECIPE)
    optimizer, seen = objective.optimizer(), []
    for steps in range(2100):
        if steps:
            objective.stepped(optimizer, steps)
        seen.append(optimizer.param_groups[0]["lr"])
    # tf.optimizers.schedules.PiecewiseConstantDecay: values[0] while step <= boundaries[0], and so on.
    expected = [1e-5] * 501 + [8e-6] * 500 + [6e-6] * 500 + [4e-6] * 500 + [2e-6] * 99
    assert seen == pytest.approx(expected)


def test_pairs_of_more_than_two_groups_are_rejected(transformer: Transformer) -> None:
    ids = transformer.tokenize(TEXTS[:3] * 2, 64)
    pairs = TokenizedPairs(ids, None, torch.tensor([0, 1, 2]))
    vectors = torch.ones(3, 2)
    objective = ct.ContrastiveTension(transformer, RECIPE)
    with pytest.raises(
        TuningError, match="needs pairs of the same and of different texts"
    ) as caught:
        objective.loss(vectors, vectors, pairs, 1)
    assert "Write +ct" in caught.value.hint


def test_other_losses_are_rejected(plugins: Plugins) -> None:
    with pytest.raises(TuningError, match="ct makes pairs of different texts, but loss=ntxent"):
        mirrorbench.load(f"tiny+ct:loss=ntxent,{CORPUS}", offline=True)
