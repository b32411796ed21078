"""Prompts with the mask token, and what a prompt is part of."""

from __future__ import annotations

from itertools import chain
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoModel, AutoTokenizer

from mirrorbench.core.errors import UsageError
from mirrorbench.core.inputs import TextInput
from mirrorbench.core.specs import parse_spec
from mirrorbench.models.encoder import TransformerEncoder
from mirrorbench.models.pooling import Pooling
from mirrorbench.models.prompts import prefix
from mirrorbench.models.transformer import load_transformer
from mirrorbench.runs.workspace import Workspace
from mirrorbench.training.recipes import Recipe
from tests.random_models import POSITIONS, Models

CPU = torch.device("cpu")
TEXTS = ["ab cd", "e", "the fox, the cat"]
PROMPTS = ["query: {text}", 'about "{text}" in {mask}.', "{text} {mask}"]


def naive(path: Path, text: str, prompt: str) -> np.ndarray:
    """The mean over the tokens of the prompt's two parts and the text between them."""
    tokenizer, model = AutoTokenizer.from_pretrained(path), AutoModel.from_pretrained(path).eval()
    before, after = prompt.replace("{mask}", tokenizer.mask_token).split("{text}")
    parts = [tokenizer(part, add_special_tokens=False)["input_ids"] for part in (before, text, after)]
    first, *_, last = tokenizer("a")["input_ids"]
    with torch.no_grad():
        states = model(input_ids=torch.tensor([[first, *chain(*parts), last]])).last_hidden_state
    found: np.ndarray = states[0].mean(0).numpy()
    return found


@pytest.mark.parametrize("architecture", ["bert", "roberta"])
def test_the_prompt_is_read_around_each_text(random_model: Models, architecture: str) -> None:
    path = random_model(architecture)
    encoder = TransformerEncoder(load_transformer(path, CPU), Pooling())
    poolings = [Pooling(prompt=prompt) for prompt in PROMPTS]
    plain, *found = encoder.encode_pooled([TextInput(text) for text in TEXTS], [Pooling(), *poolings])
    for vectors, prompt in zip(found, PROMPTS, strict=True):
        expected = [naive(path, text, prompt) for text in TEXTS]
        np.testing.assert_allclose(vectors, expected, atol=1e-5)
        assert np.abs(vectors - plain).max() > 1e-3


def test_of_a_long_text_no_token_of_the_prompt_is_cut(random_model: Models) -> None:
    transformer = load_transformer(random_model("bert"), CPU)
    before, after = transformer.prompt_ids(PROMPTS[1])
    for length in (10, POSITIONS):
        (ids,) = transformer.tokenize(["ab " * 100], length, PROMPTS[1])
        assert ids.tolist()[1 : 1 + len(before)] == before
        assert ids.tolist()[-1 - len(after) : -1] == after
        assert len(ids) == min(length + len(before) + len(after), POSITIONS)
    with pytest.raises(UsageError, match="leaves no room for a text"):
        transformer.tokenize(TEXTS, POSITIONS, "ab " * POSITIONS + "{text}")


def test_it_is_part_of_the_identity_where_there_is_one(random_model: Models, tmp_path: Path) -> None:
    recipe = Recipe(1.0, 1, 64, "mean")
    assert "prompt" not in recipe.to_json()
    assert str(Pooling()) == "Readout(pooling='mean', layers='-1:', max_length=64)"
    assert Pooling().identity == ["mean", "-1:", 64]
    assert Recipe(1.0, 1, 64, "mean", prompt=PROMPTS[0]).to_json()["prompt"] == PROMPTS[0]
    assert Pooling(prompt=PROMPTS[0]).identity == ["mean", "-1:", 64, PROMPTS[0]]
    workspace = Workspace.create(tmp_path, tmp_path / "results", tmp_path / "cache", "cpu")
    path = random_model("bert")
    for prompt in PROMPTS:
        encoder = workspace.load(parse_spec(f"{path}:pooling=mean,prompt={prompt}"))[0]
        np.testing.assert_allclose(encoder.encode(TEXTS[:1])[0], naive(path, TEXTS[0], prompt), atol=1e-5)
    corpus = tmp_path / "texts.txt"
    corpus.write_text("".join(f"{a}{b}\n" for a in "abcd" for b in "efg"))
    spec = f"{path}+mirror:pooling=mean,corpus={corpus},span_mask=0,batch_size=4"
    tuned = [workspace.load(parse_spec(spec + more))[0].encode(TEXTS) for more in ("", f",prompt={PROMPTS[0]}")]
    assert np.abs(tuned[0] - tuned[1]).max() > 1e-3


def test_wrong_prompts(random_model: Models) -> None:
    with pytest.raises(UsageError, match="has no place for the text"):
        Pooling(prompt="about")
    for pooling, prompt in (("mean", "{text} {mask} {text}"), ("target", PROMPTS[1])):
        with pytest.raises(UsageError, match="holds the text once"):
            Pooling(pooling, prompt=prompt)
    for prompt in ("{text}.", PROMPTS[1], "{mask} {text}"):
        with pytest.raises(UsageError, match="has more than a text before"):
            prefix(prompt)
    transformer = load_transformer(random_model("bert"), CPU)
    transformer.tokenizer.mask_token = None
    with pytest.raises(UsageError, match="has a mask, and the tokenizer of"):
        transformer.tokenize(TEXTS, 20, PROMPTS[1])
