"""Tiny transformers of every architecture in the papers, with random weights."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from helpers.plain_transformers import hidden_states
from helpers.random_models import ARCHITECTURES, POSITIONS, Models, encoder
from helpers.suite_marks import few
from transformers import AutoConfig, AutoModel, AutoTokenizer
from transformers.models.bert.tokenization_bert_legacy import BertTokenizerLegacy

from mirrorbench.core import devices
from mirrorbench.core.encoder_protocol import as_inputs
from mirrorbench.core.errors import UsageError
from mirrorbench.models.pooling import Pooling
from mirrorbench.models.transformer import load_transformer, lower_casing_tokenizer
from mirrorbench.models.transformer_encoder import TransformerEncoder

CPU = torch.device("cpu")
TEXTS = [
    "a",
    "A much longer text, of many characters!",
    "the cat",
    "",
    "the cat",
    "  spaces around  ",
    "żółw 亀",
    "x " * 200,
    "one two three",
    "dogs & cats",
]
POOLINGS = [
    Pooling("cls"),
    Pooling("mean"),
    Pooling("mean-padded"),
    Pooling("mean", "-2:"),
    Pooling("cls", "0"),
    Pooling("mean-padded", ":", 40),
    Pooling("mean", "1:3", 20),
]

CASED = "Äike Õun Йод Abc"
LOWER = "äike õun йод abc"
PLAIN = "aike oun иод abc"
"""The text in lower case and without accents, as WordPiece has it where ``strip_accents`` is not set."""


@pytest.fixture
def cased(random_model: Models, tmp_path: Path) -> Path:
    """A BERT with a ``vocab.txt`` in two cases and without ``tokenizer.json``, as the Russian and the Estonian one."""
    path = shutil.copytree(random_model("bert"), tmp_path / "cased")
    for file in ("tokenizer.json", "tokenizer_config.json"):
        (path / file).unlink()
    letters = sorted({*CASED, *LOWER, *PLAIN} - {" "})
    vocabulary = [
        "[PAD]",
        "[UNK]",
        "[CLS]",
        "[SEP]",
        "[MASK]",
        *letters,
        *(f"##{letter}" for letter in letters),
    ]
    (path / "vocab.txt").write_text("".join(f"{token}\n" for token in vocabulary), encoding="utf-8")
    return path


architectures = pytest.mark.parametrize("architecture", few(ARCHITECTURES, "bert", "deberta"))


def naive(path: Path, text: str, pooling: Pooling) -> np.ndarray:
    padding = "max_length" if pooling.mode == "mean-padded" else False
    states, _ = hidden_states(
        path, text, truncation=True, max_length=pooling.max_length, padding=padding
    )
    layers = {"-1:": [-1], "-2:": [-2, -1], "0": [0], ":": list(range(len(states))), "1:3": [1, 2]}[
        pooling.layers
    ]
    vectors = states[layers].mean(0)
    return np.asarray(vectors[0] if pooling.mode == "cls" else vectors.mean(0))


@architectures
def test_batched_pooling_equals_single_text_pooling(
    random_model: Models, architecture: str
) -> None:
    path = random_model(architecture)
    actual = encoder(path).encode_pooled(as_inputs(TEXTS), POOLINGS)
    for pooling, vectors in zip(POOLINGS, actual, strict=True):
        assert vectors.shape == (len(TEXTS), 32)
        assert vectors.dtype == np.float32
        for index in (0, 1, 3, 6, 7):
            np.testing.assert_allclose(
                vectors[index], naive(path, TEXTS[index], pooling), atol=1e-5
            )
    assert encoder(path).encode([]).shape == (0, 32)


def test_spec_overrides_tokenizer_truncation_and_padding(
    random_model: Models, tmp_path: Path
) -> None:
    path = shutil.copytree(random_model("bert"), tmp_path / "model")
    before = encoder(path, Pooling("mean", max_length=64)).encode(TEXTS)
    raw = json.loads((path / "tokenizer.json").read_text())
    raw["truncation"] = {
        "direction": "Right",
        "max_length": 8,
        "strategy": "LongestFirst",
        "stride": 0,
    }
    raw["padding"] = {
        "strategy": {"Fixed": 30},
        "direction": "Left",
        "pad_to_multiple_of": None,
        "pad_id": 0,
        "pad_type_id": 0,
        "pad_token": "[PAD]",
    }
    (path / "tokenizer.json").write_text(json.dumps(raw))
    settings = json.loads((path / "tokenizer_config.json").read_text())
    (path / "tokenizer_config.json").write_text(
        json.dumps(settings | {"model_max_length": 8, "padding_side": "left"})
    )
    altered = encoder(path, Pooling("mean", max_length=64))
    assert altered.transformer.tokenize(["x " * 200, "x"], 64).lengths.tolist() == [64, 3]
    np.testing.assert_array_equal(altered.encode(TEXTS), before)


@pytest.mark.parametrize(
    "architecture", few([*ARCHITECTURES, "absolute"], "bert", "deberta", "absolute")
)
def test_length_beyond_absolute_positions_is_refused(
    random_model: Models, tmp_path: Path, architecture: str
) -> None:
    """``absolute``: DeBERTa, whose positions are relative, may have absolute ones too."""
    path = random_model("deberta-v2" if architecture == "absolute" else architecture)
    if architecture == "absolute":
        path = shutil.copytree(path, tmp_path / "absolute")
        AutoModel.from_config(
            AutoConfig.from_pretrained(path, position_biased_input=True)
        ).save_pretrained(path)
    transformer = load_transformer(path, CPU)
    for mode in ("mean", "mean-padded", "target"):
        at_limit = TransformerEncoder(transformer, Pooling(mode, max_length=POSITIONS)).encode(
            ["x " * 500]
        )
        assert np.isfinite(at_limit).all()
        too_long = TransformerEncoder(transformer, Pooling(mode, max_length=POSITIONS + 1))
        if architecture.startswith("deberta"):
            assert too_long.encode(["x " * 500]).shape == (1, 32)
        else:
            with pytest.raises(UsageError, match=f"has {POSITIONS} positions") as caught:
                too_long.encode(["x"])
            assert f"max_length={POSITIONS}" in caught.value.hint


@pytest.mark.parametrize(
    ("settings", "alone", "released"),
    [
        (
            {"do_lower_case": False},
            CASED,
            PLAIN,
        ),  # Russian today: DeepPavlov/rubert-base-cased from commit 4036cab on
        ({}, PLAIN, PLAIN),  # Russian before, and Estonian: the class's own default is lower case
        (
            {"do_lower_case": True, "strip_accents": False},
            LOWER,
            LOWER,
        ),  # Korean: kykim/bert-kor-base
        ({"do_lower_case": False, "strip_accents": False}, CASED, LOWER),
    ],
)
def test_lower_casing_tokenizer_follows_released_training(
    cased: Path, settings: dict[str, bool], alone: str, released: str
) -> None:
    """Mirror-BERT, ``src/mirror_bert.py``: ``AutoTokenizer.from_pretrained(path, ..., do_lower_case=True)``."""
    (cased / "tokenizer_config.json").write_text(json.dumps(settings))
    tokenizers = load_transformer(cased, CPU).tokenizer, lower_casing_tokenizer(cased)
    for tokenizer, written in zip(tokenizers, (alone, released), strict=True):
        assert "".join(tokenizer.tokenize(CASED)).replace("##", "") == written.replace(" ", "")
    slow = BertTokenizerLegacy.from_pretrained(cased, do_lower_case=True)
    assert tokenizers[1].tokenize(CASED) == slow.tokenize(CASED)


def test_lower_casing_skips_tokenizer_json_and_bpe(
    cased: Path, random_model: Models, tmp_path: Path
) -> None:
    """transformers 4.2.1, ``BertTokenizerFast.__init__``: it compares ``do_lower_case`` with a key of another name."""
    (cased / "tokenizer_config.json").write_text('{"do_lower_case": false}')
    AutoTokenizer.from_pretrained(cased).save_pretrained(cased)
    assert (cased / "tokenizer.json").is_file()
    bpe = shutil.copytree(random_model("roberta"), tmp_path / "roberta")
    vocabulary = json.loads((bpe / "tokenizer.json").read_text())["model"]["vocab"]
    (bpe / "vocab.json").write_text(json.dumps(vocabulary))
    (bpe / "merges.txt").write_text("#version: 0.2\n")
    for file in ("tokenizer.json", "tokenizer_config.json"):
        (bpe / file).unlink()
    for path in (cased, bpe):
        assert "A" in "".join(lower_casing_tokenizer(path).tokenize(CASED))


@architectures
def test_gpu_branches_do_not_change_vectors(
    architecture: str, random_model: Models, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Replaced functions against waits for a GPU change no bit."""
    transformer = load_transformer(random_model(architecture), CPU)
    ids = transformer.tokenize(TEXTS, 40)
    for some in (ids, ids.take([2, 2, 4])):  # with padding, and without
        with torch.no_grad():
            plain = transformer.forward(some, [Pooling("mean", ":")])[0]
            with monkeypatch.context() as patch:
                patch.setattr(devices, "GPUS", ("cpu",))
                patch.setattr(torch.Tensor, "pin_memory", lambda tensor: tensor)
                actual = transformer.forward(some, [Pooling("mean", ":")])[0]
        assert torch.equal(actual, plain)
