"""Noise of fewer bits, of a real model quantised by torch."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pytest
import torch

import mirrorbench
from mirrorbench.agreement.included_texts import included_texts
from mirrorbench.agreement.noise import noise_words
from mirrorbench.agreement.readings import ModelReader, Reading
from mirrorbench.plugin import describe_model

pytestmark = [pytest.mark.real, pytest.mark.slow]


@pytest.fixture(scope="module")
def texts() -> list[str]:
    return included_texts()[::4]


@pytest.fixture(scope="module")
def reader() -> ModelReader:
    found = ModelReader.of(mirrorbench.load("minilm", device="cpu").encoder)
    assert found is not None
    return found


def quantised(texts: list[str], kind: str) -> np.ndarray:
    """Return vectors of MiniLM by sentence-transformers, with weights in bf16 or layers in int8."""
    sentence_transformers = pytest.importorskip("sentence_transformers")
    folder = describe_model("minilm").folder
    dtype = torch.bfloat16 if kind == "bf16" else torch.float32
    model = sentence_transformers.SentenceTransformer(
        str(folder), device="cpu", model_kwargs={"dtype": dtype}
    )
    if kind == "int8":
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = torch.ao.quantization.quantize_dynamic(
                model, {torch.nn.Linear}, dtype=torch.qint8
            )
    return model.encode(texts, convert_to_tensor=True).float().numpy()


@pytest.mark.parametrize(
    ("kind", "words"),
    [("bf16", "noise as of half precision"), ("int8", "noise of the size of int8")],
)
def test_fewer_bits_are_named(reader: ModelReader, texts: list[str], kind: str, words: str) -> None:
    own = reader.vectors(texts, [reader.own])[0]
    assert noise_words(reader, texts, own, quantised(texts, kind)).startswith(words)


def test_other_changes_are_no_noise(reader: ModelReader, texts: list[str]) -> None:
    own = reader.vectors(texts, [reader.own])[0]
    isotropic = np.random.default_rng(0).normal(size=own.shape).astype(np.float32)
    assert not noise_words(reader, texts, own, own + 0.005 * isotropic)
    with_stops = reader.vectors([f"{text} ." for text in texts], [Reading(reader.own.pooling)])[0]
    assert not noise_words(reader, texts, own, with_stops)
    # The mean of the first and the last layer changes the same texts most as rounding does, but them all much more.
    first_layer = reader.vectors(texts, [Reading(replace(reader.own.pooling, layers="0"))])[0]
    assert not noise_words(reader, texts, own, own + first_layer)
    weights = {name: value.clone() for name, value in reader.transformer.model.state_dict().items()}
    noise_words(reader, texts, own, with_stops)
    for name, value in reader.transformer.model.state_dict().items():
        assert torch.equal(value, weights[name])
