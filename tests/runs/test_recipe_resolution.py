"""Recipes of specs: presets, backbones, users."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from helpers.random_models import Models
from helpers.sentence_transformer_directories import as_sentence_transformers
from sentence_transformers import SentenceTransformer

import mirrorbench
from mirrorbench.core.errors import UsageError
from mirrorbench.core.plugins import Plugins
from mirrorbench.core.specs import parse_spec
from mirrorbench.runs.recipe_resolution import resolve_recipe


@pytest.mark.parametrize("method", ["base", "mirror", "pairs", "sap"])
@pytest.mark.parametrize("level", ["word", "phrase", "sentence"])
def test_sentence_encoders_keep_their_pooling_in_tuning(
    registered: Plugins, method: str, level: str
) -> None:
    """The rows of a ladder differ in one thing: Mirror's recipe reads words at [CLS], this model by mean pooling."""
    for protocol, pooling in (("paper", "mean"), ("released", "mean-padded")):
        recipe = resolve_recipe(parse_spec(f"minilm+{method}"), level, "bert", protocol, registered)
        assert recipe.pooling == pooling
        for spec, expected in (("minilm+{}:pooling=cls", "cls"), ("roberta+{}:pooling=cls", "cls")):
            named = resolve_recipe(
                parse_spec(spec.format(method)), level, "bert", protocol, registered
            )
            assert named.pooling == expected
            assert replace(recipe, pooling=expected) == named
    for name, pooling in (("bge", "cls"), ("qwen3-embedding", "last"), ("e5", "mean")):
        assert (
            resolve_recipe(
                parse_spec(f"{name}+{method}"), level, "bert", "paper", registered
            ).pooling
            == pooling
        )
    assert (
        resolve_recipe(parse_spec("minilm+mirrorwic"), "wic", "bert", "paper", registered).pooling
        == "target"
    )


@pytest.fixture
def stating(random_model: Models, tmp_path: Path) -> Path:
    """A model of sentence-transformers that reads 40 tokens and has vectors of length 1."""
    classes = ("Transformer", "Pooling", "Normalize")
    folder = as_sentence_transformers(random_model("bert"), tmp_path / "model", *classes)
    (folder / "sentence_bert_config.json").write_text('{"max_seq_length": 40}')
    return folder


def test_own_texts_are_read_with_the_models_window(
    random_model: Models, stating: Path, tmp_path: Path
) -> None:
    session = mirrorbench.Session(tmp_path, device="cpu", offline=True)
    path = random_model("bert")
    own = tmp_path / "pairs.csv"
    own.write_text("sentence1,sentence2,score\na,b,1\nb,c,2\na,d,3\n")
    spec = f"{path}+base:pooling={{}}"
    windows = {
        (task, pooling): session.plan(spec.format(pooling), task).cells[0].pooling.max_length
        for task in (str(own), "quick-sts")
        for pooling in ("mean", "mean-padded")
    }
    assert windows == {
        (str(own), "mean"): 80,
        (str(own), "mean-padded"): 64,
        ("quick-sts", "mean"): 64,
        ("quick-sts", "mean-padded"): 64,
    }
    for task in (str(own), "quick-sts"):
        cells = session.plan(f"{stating}:pooling=mean-padded", task).cells
        assert cells[0].pooling.max_length == 64
    assert session.load(spec.format("mean")).encoder.pooling.max_length == 80
    assert session.load(f"{path}+base:pooling=mean,max_length=9").encoder.pooling.max_length == 9


TRAINING = [f"{word} zebras and dogs" for word in ("quick", "lazy", "two", "one", "more")]


def with_prompt(folder: Path, prompt: str) -> Path:
    """Give a model of sentence-transformers a default prompt."""
    settings = {"prompts": {"query": prompt}, "default_prompt_name": "query"}
    (folder / "config_sentence_transformers.json").write_text(json.dumps(settings))
    return folder


def test_tuned_encoder_reads_as_its_base(stating: Path, tmp_path: Path) -> None:
    with_prompt(stating, "query: ")
    long = ["quick zebras and lazy dogs " * 20, "two dogs"]
    base = SentenceTransformer(str(stating), device="cpu").encode(long)
    once = tmp_path / "once"
    twice = tmp_path / "twice"
    mirrorbench.tune(TRAINING, f"{stating}+mirror:lr=0", once, held_out=0, device="cpu")
    mirrorbench.tune(TRAINING, f"{once}:lr=0", twice, held_out=0, device="cpu")
    for tuned in (once, twice):
        served = SentenceTransformer(str(tuned), device="cpu").encode(long)
        np.testing.assert_allclose(served, base, atol=1e-5)
        actual = mirrorbench.load(tuned, device="cpu").encode(long)
        np.testing.assert_allclose(actual, base, atol=1e-5)


def test_methods_for_other_inputs_keep_their_readout(tmp_path: Path) -> None:
    """A sentence method on an encoder of words, and the reverse, keep the reading of the method."""
    marked = ["the [quick] zebra", "a [lazy] dog", "two [more] dogs", "one [dog] more"]
    words = tmp_path / "words"
    texts = tmp_path / "texts"
    mirrorbench.tune(marked, "tiny:lr=0,layers=-2:", words, level="wic", held_out=0, device="cpu")
    mirrorbench.tune(TRAINING, "tiny:lr=0,max_length=20", texts, held_out=0, device="cpu")
    session = mirrorbench.Session(tmp_path, device="cpu", offline=True)
    read = {
        (path.name, method): session.plan(f"{path}+{method}", "quick-sts").cells[0].model.recipe
        for path in (words, texts)
        for method in ("mirror", "mirrorwic")
    }
    assert {key: (recipe.pooling, recipe.layers) for key, recipe in read.items()} == {
        ("words", "mirror"): ("mean", "-1:"),
        ("words", "mirrorwic"): ("target", "-2:"),
        ("texts", "mirror"): ("mean", ":"),
        ("texts", "mirrorwic"): ("target", "-4:"),
    }


def test_prompts_that_would_be_cut_are_not_exported(
    stating: Path, random_model: Models, tmp_path: Path
) -> None:
    """A tokenizer that cuts at the left keeps the end of a text, and sentence-transformers cuts the prompt too."""
    with_prompt(stating, "query: ")
    bare = tmp_path / "bare"
    shutil.copytree(random_model("bert"), bare)
    for folder in (stating, bare):
        settings = json.loads((folder / "tokenizer_config.json").read_text())
        changed = json.dumps(settings | {"truncation_side": "left"})
        (folder / "tokenizer_config.json").write_text(changed)
    long = ["quick zebras and lazy dogs " * 20]
    expected = SentenceTransformer(str(stating), device="cpu").encode(long)
    np.testing.assert_allclose(
        mirrorbench.load(stating, device="cpu").encode(long), expected, atol=1e-5
    )
    for spec in (f"{stating}+mirror", f"{bare}+mirror:prompt=query:%20"):
        with pytest.raises(UsageError, match=r"at the(ir)? left"):
            mirrorbench.tune(TRAINING, spec, tmp_path / "tuned", held_out=0, device="cpu")


def test_spec_keys_replace_stated_keys(stating: Path) -> None:
    read = {
        pooling: mirrorbench.load(f"{stating}:pooling={pooling}", device="cpu").encoder.pooling
        for pooling in ("mean", "cls", "mean-padded")
    }
    assert all(pooling.normalize for pooling in read.values())
    assert [pooling.max_length for pooling in read.values()] == [40, 40, 64]
    with_prompt(stating, "query: ")
    target = mirrorbench.load(f"{stating}:pooling=target", device="cpu").encoder.pooling
    assert (target.prompt, target.max_length) == ("query: {text}", 34)
    plain = mirrorbench.load(
        f"{stating}:normalize=false,max_length=9", device="cpu"
    ).encoder.pooling
    assert (plain.normalize, plain.max_length) == (False, 9)
