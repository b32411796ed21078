"""ESimCSE: repeated tokens, the queue, and the slow copy of the model."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from mirrorbench_methods import esimcse
from tuned import TEXTS, contrast, opened, pairs_of, tuned

from mirrorbench.core.errors import TuningError
from mirrorbench.core.plugins import Plugins
from mirrorbench.training.augmentations import AugmentationContext
from mirrorbench.training.loop import _Loop
from mirrorbench.training.microbatch import MicroBatchReader

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


def test_queue_vectors_are_negatives_in_the_loss(plugins: Plugins) -> None:
    transformer, recipe = opened(plugins, "esimcse", temperature=0.3, simcse_head=0)
    objective = esimcse.MomentumContrast(transformer, recipe)
    torch.manual_seed(0)
    left, right, queue = torch.randn(4, 5), torch.randn(4, 5), torch.randn(3, 5)
    batch = pairs_of(transformer, TEXTS[:4], TEXTS[:4], [0, 1, 2, 3])
    for objective.queue in ([], [queue]):
        expected = contrast(left, torch.cat([right, *objective.queue]), 0.3)
        torch.testing.assert_close(objective.loss(left, right, batch, 1000), expected)


def test_momentum_encoder_and_queue_equal_released_code(plugins: Plugins) -> None:
    """The copy moves by .005, then reads the first views without dropout, through the model's own head."""
    transformer, recipe = opened(plugins, "esimcse", batch_size=2, simcse_head=1, lr=1e-3)
    assert transformer.traits.packs  # it was tried before it got the head
    detach = plugins.augmentations["simcse_head"].function.attach(transformer.model, 1.0)  # type: ignore[union-attr]
    objective = esimcse.MomentumContrast(transformer, recipe)
    loop = _Loop(MicroBatchReader(objective, "fp32", True), 0)
    slow, kept, head = (
        copy.deepcopy(transformer.model).eval(),
        torch.empty(0, 256),
        transformer.model.simcse_head,
    )
    for step in range(4):
        texts = TEXTS[4 * step : 4 * step + 4]
        with torch.no_grad():
            for copied, weight in zip(
                slow.parameters(), transformer.model.parameters(), strict=True
            ):
                copied.copy_(copied if copied is weight else 0.995 * copied + 0.005 * weight)
            slow.simcse_head = torch.nn.Identity()
            plain = transformer.tokenizer(texts, padding=True, return_tensors="pt")
            keys = head(slow(**plain).last_hidden_state[:, 0])
            slow.simcse_head = head
        loop.step(pairs_of(transformer, texts, texts, [0, 1, 2, 3]))
        kept = torch.cat([kept, keys])[-5:]
        torch.testing.assert_close(objective.queue[0], kept, rtol=1e-5, atol=1e-5)
    assert detach is not None
    detach()


def test_repeated_tokens_do_not_exceed_model_positions(
    plugins: Plugins,
) -> None:
    positions = opened(plugins, "esimcse")[0].positions
    text = "the river " * positions
    report, _ = tuned(plugins, "esimcse", texts=[text, text + "stone"], train_max_length=positions)
    assert report.tokens == 4 * positions
    with pytest.raises(TuningError, match="an augmentation changes the number of tokens") as caught:
        tuned(plugins, "esimcse", pooling="target", simcse_head=0)
    assert "another pooling" in caught.value.hint
