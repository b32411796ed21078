"""Other readings of a model, against transformers alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from helpers.random_models import encoder
from transformers import AutoModel, AutoTokenizer

from mirrorbench.agreement.readings import ModelReader, Reading, token_edits
from mirrorbench.models.pooling import Pooling


def states_by_transformers(folder: Path, ids: list[int]) -> torch.Tensor:
    """Return the last states of a text's tokens, shape (tokens, dimensions)."""
    model = AutoModel.from_pretrained(folder).eval()
    with torch.no_grad():
        return model(input_ids=torch.tensor([ids])).last_hidden_state[0]


@pytest.mark.parametrize(
    ("mode", "pool"),
    [
        ("max", lambda states: states.max(dim=0).values),
        ("mean-of-text", lambda states: states[1:-1].mean(dim=0)),
        ("cls", lambda states: states[0]),
        ("last", lambda states: states[-1]),
    ],
)
def test_poolings_equal_those_of_plain_torch(
    reader: ModelReader,
    random_model: Callable[[str], Path],
    mode: str,
    pool: Callable[[torch.Tensor], torch.Tensor],
) -> None:
    folder = random_model("bert")
    texts = ["a cat", "nobody asked the river"]
    pooling = replace(reader.own.pooling, mode=mode)
    (vectors,) = reader.vectors(texts, [Reading(pooling)])
    tokenizer = AutoTokenizer.from_pretrained(folder)
    for vector, text in zip(vectors, texts, strict=True):
        states = states_by_transformers(folder, tokenizer(text)["input_ids"])
        np.testing.assert_allclose(vector, pool(states).numpy(), atol=1e-5)


@pytest.mark.parametrize(
    ("words", "edit"),
    [
        ("without [CLS]", lambda ids: ids[1:]),
        ("with [CLS] twice", lambda ids: ids[:1] + ids),
        ("without [SEP]", lambda ids: ids[:-1]),
        ("with [SEP] twice", lambda ids: ids + ids[-1:]),
        ("without special tokens", lambda ids: ids[1:-1]),
    ],
)
def test_token_edits_change_the_tokens_at_the_ends(
    reader: ModelReader,
    random_model: Callable[[str], Path],
    words: str,
    edit: Callable[[list[int]], list[int]],
) -> None:
    folder = random_model("bert")
    found = {found.words: found for found in token_edits(reader.transformer)}
    (vectors,) = reader.vectors(["a cat"], [Reading(reader.own.pooling, found[words])])
    ids = edit(AutoTokenizer.from_pretrained(folder)("a cat")["input_ids"])
    expected = states_by_transformers(folder, ids).mean(dim=0)
    np.testing.assert_allclose(vectors[0], expected.numpy(), atol=1e-5)


def test_decoder_without_special_tokens_may_get_one(random_model: Callable[[str], Path]) -> None:
    found = ModelReader.of(encoder(random_model("qwen3"), Pooling("last")))
    assert found is not None
    words = [edit.words for edit in token_edits(found.transformer)]
    assert words == ["with <|endoftext|> after it"]


def test_readings_differ_from_the_own_one_and_each_other(reader: ModelReader) -> None:
    readings = []
    for prompt_and_edit in (False, True):
        for group in reader.other_readings(prompt_and_edit):
            readings += group
    words = [reading.words for reading in readings]
    assert all(words)
    assert len(set(words)) == len(words)
    assert ("at its last token", "without [SEP]") in words


def test_prompts_of_the_encoder_can_be_left_out_or_doubled(
    random_model: Callable[[str], Path],
) -> None:
    pooling = Pooling(prompt="query: {text}")
    found = ModelReader.of(encoder(random_model("bert"), pooling))
    assert found is not None
    prompts = {
        reading.words: reading.pooling.prompt
        for group in found.other_readings(prompt_and_edit=False)
        for reading in group
        if reading.pooling.mode == "mean"
    }
    assert prompts[("without its prompt",)] == ""
    assert prompts[("with its prompt twice",)] == "query: query: {text}"
    assert prompts[("with the prompt 'passage: '",)] == "passage: {text}"
    assert ("with the prompt 'query: '",) not in prompts


def test_models_that_are_read_at_their_own_place_have_no_reader(
    random_model: Callable[[str], Path],
) -> None:
    folder = random_model("bert")
    for pooling in (Pooling("target"), Pooling(prompt="{text} again: {text}")):
        assert ModelReader.of(encoder(folder, pooling)) is None
    assert ModelReader.of(object()) is None
