"""ESimCSE: repeated tokens, and the queue."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from mirrorbench_methods import esimcse
from sample_texts import CORPUS, TEXTS
from torch.nn.functional import cosine_similarity, cross_entropy

import mirrorbench
from mirrorbench.plugin import (
    AugmentationContext,
    Plugins,
    TokenizedPairs,
    Transformer,
    TuningError,
)

SPECIAL = frozenset({0, 1})


@pytest.mark.parametrize(
    ("protocol", "rate", "length", "most"),
    [
        ("paper", 0.32, 18, 5),
        ("paper", 0.32, 1, 1),
        ("paper", 0.5, 12, 6),
        ("released", 0.32, 18, 5),
        ("released", 0.3, 3, 0),
        ("released", 0.3, 40, 9),
        ("released", 0.3, 0, 0),
    ],
)
def test_number_of_repeated_tokens_follows_the_rate(
    protocol: str, rate: float, length: int, most: int
) -> None:
    """Released code: ``randrange(min(10, int(rate * n)))`` of positions 1 to n - 2; n counts [CLS] and [SEP]."""
    context = AugmentationContext(
        np.random.default_rng(0), rate, "[MASK]", protocol, special_ids=SPECIAL
    )
    ids = [0, *range(2, 2 + length), 1]
    repeated = [esimcse.repeat_tokens(ids, context) for _ in range(1000)]
    added = [len(row) - len(ids) for row in repeated]
    assert set(added) == set(range(most + 1))
    assert max(abs(added.count(n) / len(added) - 1 / (most + 1)) for n in range(most + 1)) < 0.04
    for row in repeated:
        assert list(dict.fromkeys(row)) == ids
        assert max(map(row.count, row)) <= 2
        assert row.count(0) == row.count(1) == 1
    if most:
        assert set(ids[1:-1]) == {
            token for row in repeated for token in row if row.count(token) == 2
        }


def test_queue_vectors_are_negatives_in_the_loss(transformer: Transformer) -> None:
    preset = esimcse.preset("sentence", "bert", "paper")
    recipe = replace(preset, temperature=0.3, augment=())  # without the head
    objective = esimcse.MomentumContrast(transformer, recipe)
    torch.manual_seed(0)
    left, right, queue = torch.randn(4, 5), torch.randn(4, 5), torch.randn(3, 5)
    batch = TokenizedPairs(transformer.tokenize(TEXTS[:4] * 2, 64), None, torch.arange(4))
    for objective.queue in ([], [queue]):
        cosines = cosine_similarity(left[:, None], torch.cat([right, *objective.queue]), dim=2)
        expected = cross_entropy(cosines / 0.3, torch.arange(4))
        torch.testing.assert_close(objective.loss(left, right, batch, 1000), expected)


def test_target_pooling_is_rejected_with_repeated_tokens(plugins: Plugins) -> None:
    spec = f"tiny+esimcse:pooling=target,simcse_head=0,{CORPUS}"
    with pytest.raises(TuningError, match="an augmentation changes the number of tokens") as caught:
        mirrorbench.load(spec, offline=True)
    assert "another pooling" in caught.value.hint
