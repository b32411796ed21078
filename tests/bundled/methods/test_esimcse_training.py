"""ESimCSE in the loop of the core: the queue, the slow copy of the model, and repeated tokens."""

from __future__ import annotations

import copy

import torch
from helpers.method_tunings import TEXTS, opened, pairs_of, tuned
from mirrorbench_methods import esimcse

from mirrorbench.core.plugins import Plugins
from mirrorbench.training.loop import _Loop
from mirrorbench.training.microbatch import MicroBatchReader


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
