"""PromptBERT against vectors that are computed text by text."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from mirrorbench_methods import promptbert
from tuned import TEXTS, contrast, opened, tuned

from mirrorbench.core.errors import TuningError, UsageError
from mirrorbench.core.plugins import Plugins
from mirrorbench.models.pooling import Pooling
from mirrorbench.training.loop import _Loop
from mirrorbench.training.losses import TokenizedPairs
from mirrorbench.training.microbatch import MicroBatchReader

SOME = [TEXTS[n] for n in (0, 30, 5, 31)]


def vector(objective: Any, text: str, before: str, after: str) -> torch.Tensor:
    """The mask's state minus that of the template alone, with positions as if the text were there."""
    tokenizer, model = objective.transformer.tokenizer, objective.transformer.model
    whole = tokenizer(f'{before}"{text}" means [MASK].{after}', return_tensors="pt")
    bare = tokenizer(f'{before}"" means [MASK].{after}', return_tensors="pt")["input_ids"]
    shift = whole["input_ids"].shape[1] - bare.shape[1]
    quote = (
        bare[0].tolist().index(tokenizer.convert_tokens_to_ids('"'))
    )  # the text comes after this one
    positions = torch.tensor([[n + shift * (n > quote) for n in range(bare.shape[1])]])
    states = model(**whole).last_hidden_state[whole["input_ids"] == tokenizer.mask_token_id]
    noise = model(input_ids=bare, position_ids=positions).last_hidden_state[
        bare == tokenizer.mask_token_id
    ]
    dense = objective.modules[0][0]
    return torch.tanh((states - noise)[0] @ dense.weight.T + dense.bias)


@pytest.mark.parametrize("packs", [True, False])
def test_the_loss_contrasts_denoised_masks_of_two_templates(plugins: Plugins, packs: bool) -> None:
    transformer, recipe = opened(plugins, "promptbert", dropout=0, temperature=0.3)
    torch.manual_seed(0)
    objective = promptbert.Templates(transformer, recipe)
    left, right = (
        torch.stack([vector(objective, text, before, "") for text in SOME])
        for before in ("This sentence of ", "This sentence : ")
    )
    ids = transformer.tokenize(SOME * 2, 64, recipe.prompt)
    loop = _Loop(MicroBatchReader(objective, "fp32", packs), 0)
    loss = loop.within_memory(TokenizedPairs(ids, None, torch.arange(4)))
    torch.testing.assert_close(loss, contrast(left, right, 0.3), rtol=0, atol=1e-5)


def test_evaluation_reads_the_mask_of_first_template(plugins: Plugins) -> None:
    transformer, recipe = opened(plugins, "promptbert")
    tokenizer, model = transformer.tokenizer, transformer.model.eval()
    readout = recipe.readout(64)
    ids = transformer.tokenize(SOME, 64, readout.prompt)
    with torch.no_grad():
        (read,) = transformer.forward(ids, [readout])
        for row, text in zip(read, SOME, strict=True):
            whole = tokenizer(f'This sentence of "{text}" means [MASK].', return_tensors="pt")
            states = model(**whole).last_hidden_state[whole["input_ids"] == tokenizer.mask_token_id]
            torch.testing.assert_close(row, states[0], rtol=1e-5, atol=1e-5)


def test_missing_mask_token_is_rejected(plugins: Plugins) -> None:
    transformer, _ = opened(plugins, "promptbert")
    with pytest.raises(UsageError, match="a text has no mask token") as caught:
        transformer.forward(transformer.tokenize(SOME, 64), [Pooling("mask")])
    assert "prompt=" in caught.value.hint
    for changes in ({"pooling": "cls"}, {"prompt": "about {text}"}):
        with pytest.raises(TuningError, match="compares the masks of two templates"):
            tuned(plugins, "promptbert", **changes)


def test_preset_equals_the_released_scripts(plugins: Plugins) -> None:
    for architecture, first in (("bert", "of"), ("roberta", ":")):
        recipe = plugins.methods["promptbert"].preset("sentence", architecture, "paper")
        assert (recipe.temperature, recipe.epochs, recipe.lr, recipe.batch_size) == (
            0.05,
            1,
            1e-5,
            256,
        )
        assert recipe.prompt.split()[:3] == ["This", "sentence", first]
