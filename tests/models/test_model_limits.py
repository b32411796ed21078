"""Lengths, prompts and modules that a model's files state, within what the model can read."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from helpers.random_models import POSITIONS, Models
from helpers.recording_reporter import Log
from helpers.sentence_transformer_directories import as_sentence_transformers
from sentence_transformers import SentenceTransformer

import mirrorbench
from mirrorbench.core.errors import UsageError
from mirrorbench.core.truncation import TruncationWarning

TEXTS = ["quick zebras and lazy dogs " * 9, "short"]


@pytest.fixture
def model(random_model: Models, tmp_path: Path) -> Path:
    """RoBERTa, whose last position is two less than its configuration's number."""
    folder = tmp_path / "model"
    return as_sentence_transformers(random_model("roberta"), folder, "Transformer", "Pooling")


def by_sentence_transformers(path: Path, max_length: int, **options: str) -> np.ndarray:
    opened = SentenceTransformer(str(path), device="cpu")
    opened.max_seq_length = max_length
    return opened.encode(TEXTS, show_progress_bar=False, **options)


@pytest.mark.parametrize("spec", ["{}", "sbert:path={}"])
@pytest.mark.parametrize("key", ["max_seq_length", "model_max_length"])
def test_stated_length_beyond_the_positions_is_cut_and_said(
    spec: str, key: str, model: Path
) -> None:
    of_modules = {"max_seq_length": POSITIONS + 2} if key == "max_seq_length" else {}
    (model / "sentence_bert_config.json").write_text(json.dumps(of_modules))
    file = model / "tokenizer_config.json"
    of_tokenizer = json.loads(file.read_text()) | {"model_max_length": POSITIONS + 2}
    file.write_text(json.dumps(of_tokenizer))
    log = Log()
    session = mirrorbench.Session(device="cpu", offline=True, reporter=log)
    encoder = session.load(spec.format(model))
    with pytest.warns(TruncationWarning, match=f"1 of 2 texts is longer than {POSITIONS} tokens"):
        actual = encoder.encode(TEXTS)
    np.testing.assert_allclose(actual, by_sentence_transformers(model, POSITIONS), atol=1e-5)
    (said,) = log.lines
    assert said.endswith(
        f"{POSITIONS + 2} tokens, and it has {POSITIONS} positions: texts are cut there"
    )


@pytest.mark.parametrize("spec", ["{}:max_length=12", "sbert:path={},max_length=12"])
def test_max_length_goes_with_the_pooling_of_the_model(spec: str, model: Path) -> None:
    (model / "sentence_bert_config.json").write_text('{"max_seq_length": 40}')
    actual = mirrorbench.load(spec.format(model), device="cpu").encode(TEXTS)
    np.testing.assert_allclose(actual, by_sentence_transformers(model, 12), atol=1e-5)
    own = mirrorbench.load(f"sbert:path={model}", device="cpu")
    assert own.fingerprint != mirrorbench.load(spec.format(model), device="cpu").fingerprint


def test_max_length_beyond_the_positions_is_refused(model: Path) -> None:
    for spec in (f"{model}:max_length=81", f"sbert:path={model},max_length=81"):
        with pytest.raises(UsageError, match="80 positions") as caught:
            mirrorbench.load(spec, device="cpu").encode(TEXTS)
        assert "max_length=80" in caught.value.hint


@pytest.mark.parametrize("asked", ["d", "query", "a%20much%20longer%20prompt:%20"])
def test_prompt_beside_a_default_prompt_keeps_the_whole_window(asked: str, model: Path) -> None:
    (model / "sentence_bert_config.json").write_text('{"max_seq_length": 40}')
    prompts = {"prompts": {"d": "", "query": "query: "}, "default_prompt_name": "query"}
    (model / "config_sentence_transformers.json").write_text(json.dumps(prompts))
    actual = mirrorbench.load(f"{model}:prompt={asked}", device="cpu").encode(TEXTS)
    prompt = prompts["prompts"].get(asked, asked.replace("%20", " "))
    np.testing.assert_allclose(
        actual, by_sentence_transformers(model, 40, prompt=prompt), atol=1e-5
    )


@pytest.mark.parametrize("content", [None, "{}"])
def test_missing_settings_of_a_pooling_are_said(content: str | None, model: Path) -> None:
    file = model / "1_Pooling" / "config.json"
    if content is None:
        file.unlink()
    else:
        file.write_text(content)
    for spec in (str(model), f"sbert:path={model}", f"{model}+mirror"):
        with pytest.raises(
            UsageError, match=r"1_Pooling/config\.json is (missing|empty)"
        ) as caught:
            mirrorbench.load(spec, device="cpu")
        assert f"{model}:pooling=mean" in caught.value.hint or "+mirror" in spec
    assert mirrorbench.load(f"{model}:pooling=mean", device="cpu").encode(TEXTS).shape == (2, 32)


def test_missing_settings_of_another_module_are_said(random_model: Models, tmp_path: Path) -> None:
    classes = ("Transformer", "Pooling", "Dense")
    model = as_sentence_transformers(random_model("bert"), tmp_path / "model", *classes)
    with pytest.raises(UsageError, match=r"2_Dense/config\.json is missing") as caught:
        mirrorbench.load(f"sbert:path={model}", device="cpu")
    assert f"{model}:pooling=mean" in caught.value.hint
    assert mirrorbench.load(f"{model}:pooling=mean", device="cpu").encode(TEXTS).shape == (2, 32)
