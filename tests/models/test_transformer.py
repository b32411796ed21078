"""Transformers of every architecture that the papers use, tiny and with random weights."""

from __future__ import annotations

import json
import shutil
import unicodedata
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from random_models import ARCHITECTURES, POSITIONS, Models, encoder
from suites import few
from transformers import AutoConfig, AutoModel, AutoTokenizer
from transformers.models.bert.tokenization_bert_legacy import BertTokenizerLegacy

from mirrorbench.core import devices
from mirrorbench.core.errors import UsageError
from mirrorbench.core.inputs import TextInput, as_inputs
from mirrorbench.models.encoder import TransformerEncoder
from mirrorbench.models.pooling import POOLINGS as REGISTERED
from mirrorbench.models.pooling import Pooling
from mirrorbench.models.transformer import load_transformer, lower_casing_tokenizer

CPU = torch.device("cpu")
TEXTS = [
    "a", "A much longer text, of many characters!", "the cat", "", "the cat", "  spaces around  ", "żółw 亀",
    "x " * 200, "one two three", "dogs & cats",
]  # fmt: skip
POOLINGS = [
    Pooling("cls"), Pooling("mean"), Pooling("mean-padded"), Pooling("mean", "-2:"), Pooling("cls", "0"),
    Pooling("mean-padded", ":", 40), Pooling("mean", "1:3", 20),
]  # fmt: skip

CASED = "Äike Õun Йод Abc"


@pytest.fixture
def cased(random_model: Models, tmp_path: Path) -> Path:
    """A BERT with a ``vocab.txt`` in two cases and without ``tokenizer.json``, as the Russian and the Estonian one."""
    path = shutil.copytree(random_model("bert"), tmp_path / "cased")
    for file in ("tokenizer.json", "tokenizer_config.json"):
        (path / file).unlink()
    letters = sorted({*CASED, *CASED.lower(), *plain(CASED)} - {" "})
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *letters, *(f"##{letter}" for letter in letters)]
    (path / "vocab.txt").write_text("".join(f"{token}\n" for token in vocabulary), encoding="utf-8")
    return path


architectures = pytest.mark.parametrize("architecture", few(ARCHITECTURES, "bert", "deberta"))


@cache
def opened(path: Path) -> tuple[Any, Any]:
    return AutoTokenizer.from_pretrained(path), AutoModel.from_pretrained(path).eval()


def naive(path: Path, text: str, pooling: Pooling) -> np.ndarray:
    """One text at a time through plain transformers, as its documentation does it."""
    tokenizer, model = opened(path)
    padding = "max_length" if pooling.mode == "mean-padded" else False
    batch = tokenizer(
        text.strip(), truncation=True, max_length=pooling.max_length, padding=padding, return_tensors="pt"
    )
    batch.pop("token_type_ids", None)
    with torch.no_grad():
        states = torch.stack(model(**batch, output_hidden_states=True).hidden_states)[:, 0].double()
    layers = {"-1:": [-1], "-2:": [-2, -1], "0": [0], ":": list(range(len(states))), "1:3": [1, 2]}[pooling.layers]
    vectors = states[layers].mean(0).numpy()
    return vectors[0] if pooling.mode == "cls" else vectors.mean(0)


@architectures
def test_every_pooling_equals_one_text_at_a_time(random_model: Models, architecture: str) -> None:
    path = random_model(architecture)
    found = encoder(path).encode_pooled(as_inputs(TEXTS), POOLINGS)
    for pooling, vectors in zip(POOLINGS, found, strict=True):
        assert vectors.shape == (len(TEXTS), 32)
        assert vectors.dtype == np.float32
        for index in (0, 1, 3, 6, 7):
            np.testing.assert_allclose(vectors[index], naive(path, TEXTS[index], pooling), atol=1e-5)
    assert encoder(path).encode([]).shape == (0, 32)


def test_the_spec_wins_over_the_tokenizers_own_truncation_and_padding(random_model: Models, tmp_path: Path) -> None:
    path = shutil.copytree(random_model("bert"), tmp_path / "model")
    before = encoder(path, Pooling("mean", max_length=64)).encode(TEXTS)
    raw = json.loads((path / "tokenizer.json").read_text())
    raw["truncation"] = {"direction": "Right", "max_length": 8, "strategy": "LongestFirst", "stride": 0}
    raw["padding"] = {"strategy": {"Fixed": 30}, "direction": "Left", "pad_to_multiple_of": None, "pad_id": 0,
                      "pad_type_id": 0, "pad_token": "[PAD]"}  # fmt: skip
    (path / "tokenizer.json").write_text(json.dumps(raw))
    settings = json.loads((path / "tokenizer_config.json").read_text())
    (path / "tokenizer_config.json").write_text(json.dumps(settings | {"model_max_length": 8, "padding_side": "left"}))
    altered = encoder(path, Pooling("mean", max_length=64))
    assert len(altered.transformer.tokenize(["x " * 200], 64)[0]) == 64
    assert len(altered.transformer.tokenize(["x"], 64)[0]) == 3
    np.testing.assert_array_equal(altered.encode(TEXTS), before)


@architectures
def test_a_length_beyond_the_positions_is_a_clear_error(random_model: Models, architecture: str) -> None:
    relative = architecture.startswith("deberta")
    path = random_model(architecture)
    transformer = load_transformer(path, CPU)
    for mode in ("mean", "mean-padded", "target"):
        at_limit = TransformerEncoder(transformer, Pooling(mode, max_length=POSITIONS)).encode(["x " * 500])
        assert np.isfinite(at_limit).all()
        too_long = TransformerEncoder(transformer, Pooling(mode, max_length=POSITIONS + 1))
        if relative:
            assert too_long.encode(["x " * 500]).shape == (1, 32)
        else:
            with pytest.raises(UsageError, match=f"has {POSITIONS} positions") as caught:
                too_long.encode(["x"])
            assert f"max_length={POSITIONS}" in caught.value.hint


def test_deberta_with_absolute_positions_too(random_model: Models, tmp_path: Path) -> None:
    path = shutil.copytree(random_model("deberta-v2"), tmp_path / "absolute")
    config = AutoConfig.from_pretrained(path, position_biased_input=True)
    AutoModel.from_config(config).save_pretrained(path)
    with pytest.raises(UsageError, match=f"has {POSITIONS} positions"):
        encoder(path, Pooling(max_length=POSITIONS + 1)).encode(["x " * 500])
    assert encoder(path, Pooling(max_length=POSITIONS)).encode(["x " * 500]).shape == (1, 32)


@pytest.mark.parametrize("pooling", few(REGISTERED, "mean", "target"))
def test_bf16_is_close_to_fp32(random_model: Models, pooling: str) -> None:
    path = random_model("bert")
    inputs = [TextInput(text, ((0, 1),)) for text in TEXTS if text]
    exact = encoder(path, Pooling(pooling, "-2:")).encode(inputs)
    half = encoder(path, Pooling(pooling, "-2:"), "bf16").encode(inputs)
    assert half.dtype == np.float32
    assert 0 < np.abs(half - exact).max() < 0.1


def plain(text: str) -> str:
    """Lower case without accents, as WordPiece has it where ``strip_accents`` is not set."""
    return "".join(c for c in unicodedata.normalize("NFD", text.lower()) if unicodedata.category(c) != "Mn")


@pytest.mark.parametrize(
    ("settings", "alone", "released"),
    [
        ({"do_lower_case": False}, str, plain),  # Russian today: DeepPavlov/rubert-base-cased from commit 4036cab on
        ({}, plain, plain),  # Russian before, and Estonian: the class's own default is lower case
        ({"do_lower_case": True, "strip_accents": False}, str.lower, str.lower),  # Korean: kykim/bert-kor-base
        ({"do_lower_case": False, "strip_accents": False}, str, str.lower),
    ],
)
def test_the_released_training_lower_cases_wordpiece(
    cased: Path, settings: dict[str, bool], alone: Callable[[str], str], released: Callable[[str], str]
) -> None:
    """Mirror-BERT, ``src/mirror_bert.py``: ``AutoTokenizer.from_pretrained(path, ..., do_lower_case=True)``."""
    (cased / "tokenizer_config.json").write_text(json.dumps(settings))
    ours = lower_casing_tokenizer(cased)
    for tokenizer, written in ((load_transformer(cased, CPU).tokenizer, alone), (ours, released)):
        assert "".join(tokenizer.tokenize(CASED)).replace("##", "") == written(CASED).replace(" ", "")
    slow = BertTokenizerLegacy.from_pretrained(cased, do_lower_case=True)
    assert ours.tokenize(CASED) == slow.tokenize(CASED)


def test_the_option_reaches_no_tokenizer_json_and_no_byte_level_bpe(
    cased: Path, random_model: Models, tmp_path: Path
) -> None:
    """transformers 4.2.1, ``BertTokenizerFast.__init__``: it compares ``do_lower_case`` with a key of another name."""
    bpe = shutil.copytree(random_model("roberta"), tmp_path / "roberta")
    vocabulary = json.loads((bpe / "tokenizer.json").read_text())["model"]["vocab"]
    (bpe / "tokenizer.json").unlink()
    (bpe / "tokenizer_config.json").unlink()
    (bpe / "vocab.json").write_text(json.dumps(vocabulary))
    (bpe / "merges.txt").write_text("#version: 0.2\n")
    (cased / "tokenizer_config.json").write_text('{"do_lower_case": false}')
    AutoTokenizer.from_pretrained(cased).save_pretrained(cased)
    assert (cased / "tokenizer.json").is_file()
    for path in (cased, bpe, random_model("roberta")):
        tokens = lower_casing_tokenizer(path).tokenize(CASED)
        assert tokens == AutoTokenizer.from_pretrained(path).tokenize(CASED)
        assert "A" in "".join(tokens)


@architectures
def test_with_questions_answered_by_the_host_vectors_are_the_same(
    architecture: str, random_model: Models, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What keeps a pass on a GPU from waiting changes no bit."""
    transformer = load_transformer(random_model(architecture), CPU)
    ids = transformer.tokenize(TEXTS, 40)
    for some in (ids, ids.take([2, 2, 4])):  # with padding, and without
        with torch.no_grad():
            plain = transformer.forward(some, [Pooling("mean", ":")])[0]
            with monkeypatch.context() as patch:
                patch.setattr(devices, "GPUS", ("cpu",))
                patch.setattr(torch.Tensor, "pin_memory", lambda tensor: tensor)
                found = transformer.forward(some, [Pooling("mean", ":")])[0]
        assert torch.equal(found, plain)
