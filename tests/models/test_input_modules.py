"""Modules of sentence-transformers that read texts: their tokens, prompts and limits."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from helpers.missing_tokens import with_missing_tokens
from helpers.random_models import POSITIONS, Models
from helpers.sentence_transformer_directories import as_sentence_transformers
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import (
    Pooling,
    Router,
    StaticEmbedding,
    Transformer,
)
from transformers import AutoTokenizer

import mirrorbench
from mirrorbench.core.encoder_protocol import TextInput
from mirrorbench.core.errors import UnreadableTextError, UsageError
from mirrorbench.models.encoder_systems import EncoderContext
from mirrorbench.models.sentence_transformer import sentence_transformer

TEXTS = ["a quick zebra", "two lazy dogs"]


@pytest.fixture
def added(random_model: Models, tmp_path: Path) -> Path:
    """RoBERTa, whose tokenizer got the word zyxq without an embedding."""
    return with_missing_tokens(random_model("roberta"), tmp_path / "added", "zyxq")


def saved(folder: Path, *modules: object) -> str:
    model = SentenceTransformer(modules=list(modules), device="cpu")
    model.save(str(folder), create_model_card=False)
    return f"sbert:path={folder}"


def router(queries: Path, documents: Path) -> Router:
    routes = ([Transformer(str(path)), Pooling(32)] for path in (queries, documents))
    return Router.for_query_document(*routes, default_route="document")


def test_static_embeddings_refuse_a_missing_token(added: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(added)
    rows = np.random.default_rng(0).normal(size=(len(tokenizer) - 1, 8)).astype(np.float32)
    spec = saved(added.parent / "static", StaticEmbedding(tokenizer, embedding_weights=rows))
    encoder = mirrorbench.load(spec, device="cpu")
    assert encoder.encode(TEXTS).shape == (2, 8)
    with pytest.raises(UnreadableTextError, match="its token 'zyxq'"):
        encoder.encode([*TEXTS, "a zyxq"])


def test_router_checks_the_route_of_each_role(added: Path, random_model: Models) -> None:
    folder = added.parent / "router"
    saved(folder, router(random_model("roberta"), added))
    encoder = sentence_transformer(folder, EncoderContext())
    encoder.encode([TextInput("zyxq", role="query")])
    for role in ("", "document"):
        with pytest.raises(UnreadableTextError, match="its token 'zyxq'"):
            encoder.encode([TextInput("zyxq", role=role)])


def test_router_cuts_texts_at_positions_of_route(random_model: Models, tmp_path: Path) -> None:
    spec = saved(tmp_path / "router", router(random_model("roberta"), random_model("roberta")))
    opened = SentenceTransformer(str(tmp_path / "router"), device="cpu")
    opened.max_seq_length = POSITIONS
    text = "zebras and dogs " * 40
    actual = mirrorbench.load(spec, device="cpu").encode([text])
    np.testing.assert_allclose(actual[0], opened.encode(text), atol=1e-6)


def test_cut_texts_are_counted_with_their_prompt(random_model: Models, tmp_path: Path) -> None:
    folder = as_sentence_transformers(
        random_model("bert"), tmp_path / "model", "Transformer", "Pooling"
    )
    (folder / "sentence_bert_config.json").write_text('{"max_seq_length": 12}')
    prompts = {"prompts": {"query": "a b c: ", "document": ""}, "default_prompt_name": None}
    (folder / "config_sentence_transformers.json").write_text(json.dumps(prompts))
    encoder = sentence_transformer(folder, EncoderContext())
    text = "a " * 9
    roles = [TextInput(text, role=role) for role in ("", "query", "document")]
    counts = encoder.count_cut(roles)
    assert counts is not None
    assert (counts.cut, counts.texts, counts.window) == (1, 3, 12)


@pytest.mark.parametrize("spec", ["{}:prompt=zyxq:%20", "sbert:path={},prompt=zyxq:%20"])
def test_prompt_with_a_missing_token_is_named(spec: str, added: Path) -> None:
    folder = as_sentence_transformers(added, added.parent / "model", "Transformer", "Pooling")
    with pytest.raises(UsageError, match=r"the prompt 'zyxq: \{text\}' cannot be read"):
        mirrorbench.load(spec.format(folder), device="cpu").encode(TEXTS)


def test_prompt_of_queries_is_checked_with_queries(added: Path) -> None:
    folder = as_sentence_transformers(added, added.parent / "model", "Transformer", "Pooling")
    prompts = {"prompts": {"query": "zyxq: ", "document": ""}, "default_prompt_name": None}
    (folder / "config_sentence_transformers.json").write_text(json.dumps(prompts))
    encoder = sentence_transformer(folder, EncoderContext())
    encoder.encode([TextInput(text, role="document") for text in TEXTS])
    with pytest.raises(UsageError, match="zyxq: "):
        encoder.encode([TextInput(TEXTS[0], role="query")])


def test_model_without_padding_token_reads_single_texts(
    random_model: Models, tmp_path: Path
) -> None:
    folder = as_sentence_transformers(
        random_model("gpt2"), tmp_path / "model", "Transformer", "Pooling"
    )
    tokenizer = AutoTokenizer.from_pretrained(folder)
    tokenizer.pad_token = None
    tokenizer.save_pretrained(folder)
    actual = mirrorbench.load(f"sbert:path={folder}", device="cpu").encode(TEXTS)
    expected = mirrorbench.load(f"{folder}:pooling=mean", device="cpu").encode(TEXTS)
    np.testing.assert_allclose(actual, expected, atol=1e-5)
