"""PromptBERT in the loop of the core, against vectors that are computed text by text."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from helpers.method_tunings import TEXTS, contrast, opened
from mirrorbench_methods import promptbert

from mirrorbench.core.plugins import Plugins
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
