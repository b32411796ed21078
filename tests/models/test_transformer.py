"""Transformers of every architecture that the papers use, tiny and with random weights."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from random_models import ARCHITECTURES, POSITIONS, Models, encoder
from transformers import AutoModel, AutoTokenizer

from mirrorbench.core.errors import ModelUnavailableError, UsageError
from mirrorbench.core.inputs import TextInput, as_inputs
from mirrorbench.models.encoder import TransformerEncoder
from mirrorbench.models.pooling import POOLING_MODES, Pooling
from mirrorbench.models.transformer import load_transformer

CPU = torch.device("cpu")
TEXTS = [
    "a", "A much longer text, of many characters!", "the cat", "", "the cat", "  spaces around  ", "żółw 亀",
    "x " * 200, "one two three", "dogs & cats",
]  # fmt: skip
POOLINGS = [
    Pooling("cls"), Pooling("mean"), Pooling("mean-padded"), Pooling("mean", "-2:"), Pooling("cls", "0"),
    Pooling("mean-padded", ":", 40), Pooling("mean", "1:3", 20),
]  # fmt: skip

architectures = pytest.mark.parametrize("architecture", ARCHITECTURES)


def naive(path: Path, text: str, pooling: Pooling) -> np.ndarray:
    """One text at a time through plain transformers, as its documentation does it."""
    tokenizer, model = AutoTokenizer.from_pretrained(path), AutoModel.from_pretrained(path).eval()
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


def test_no_texts_give_no_vectors(random_model: Models) -> None:
    assert encoder(random_model("bert")).encode([]).shape == (0, 32)


def test_the_spec_wins_over_the_tokenizers_own_truncation_and_padding(random_model: Models, tmp_path: Path) -> None:
    path = tmp_path / "model"
    shutil.copytree(random_model("bert"), path)
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
    from transformers import DebertaV2Config

    path = tmp_path / "absolute"
    shutil.copytree(random_model("deberta-v2"), path)
    config = DebertaV2Config.from_pretrained(path)
    config.position_biased_input = True
    AutoModel.from_config(config).save_pretrained(path)
    with pytest.raises(UsageError, match=f"has {POSITIONS} positions"):
        encoder(path, Pooling(max_length=POSITIONS + 1)).encode(["x " * 500])
    assert encoder(path, Pooling(max_length=POSITIONS)).encode(["x " * 500]).shape == (1, 32)


@pytest.mark.parametrize("pooling", POOLING_MODES)
def test_bf16_is_close_to_fp32(random_model: Models, pooling: str) -> None:
    path = random_model("bert")
    inputs = [TextInput(text, ((0, 1),)) for text in TEXTS if text]
    exact = encoder(path, Pooling(pooling, "-2:")).encode(inputs)
    half = encoder(path, Pooling(pooling, "-2:"), "bf16").encode(inputs)
    assert half.dtype == np.float32
    assert 0 < np.abs(half - exact).max() < 0.1


def test_code_beside_a_model_is_never_run(random_model: Models, tmp_path: Path) -> None:
    path = tmp_path / "remote"
    shutil.copytree(random_model("bert"), path)
    config = json.loads((path / "config.json").read_text()) | {
        "model_type": "custom",
        "auto_map": {"AutoConfig": "evil.Config", "AutoModel": "evil.Model"},
    }
    (path / "config.json").write_text(json.dumps(config))
    (path / "evil.py").write_text(f"open({str(tmp_path / 'proof')!r}, 'w')")
    with pytest.raises(ModelUnavailableError):
        load_transformer(path, CPU)
    assert not (tmp_path / "proof").exists()
