"""PromptBERT: the recipe, the evaluation, and specs without a mask."""

from __future__ import annotations

import pytest
import torch
from sample_texts import CORPUS, TEXTS

import mirrorbench
from mirrorbench.plugin import Plugins, Transformer, TuningError, UsageError

SOME = [TEXTS[n] for n in (0, 30, 5, 31)]


def test_evaluation_reads_the_mask_of_first_template(plugins: Plugins) -> None:
    encoder = mirrorbench.load(f"tiny+promptbert:{CORPUS}", offline=True)
    transformer: Transformer = encoder.encoder.transformer  # type: ignore[attr-defined]
    tokenizer, model = transformer.tokenizer, transformer.model
    for row, text in zip(encoder.encode(SOME), SOME, strict=True):
        whole = tokenizer(f'This sentence of "{text}" means [MASK].', return_tensors="pt")
        with torch.no_grad():
            states = model(**whole).last_hidden_state[whole["input_ids"] == tokenizer.mask_token_id]
        torch.testing.assert_close(torch.from_numpy(row), states[0], rtol=1e-5, atol=1e-5)


def test_missing_mask_token_is_rejected(plugins: Plugins) -> None:
    encoder = mirrorbench.load("tiny+base:pooling=mask", offline=True)
    with pytest.raises(UsageError, match="a text has no mask token") as caught:
        encoder.encode(SOME)
    assert "prompt=" in caught.value.hint
    for change in ("pooling=cls", "prompt=about {text}"):
        with pytest.raises(TuningError, match="compares the masks of two templates"):
            mirrorbench.load(f"tiny+promptbert:{change},{CORPUS}", offline=True)


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
