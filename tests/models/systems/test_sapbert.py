from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoModel, AutoTokenizer

from mirrorbench.core.errors import UnknownNameError, UsageError
from mirrorbench.core.inputs import TextInput
from mirrorbench.core.specs import EncoderSpec, parse_spec
from mirrorbench.models import backbones
from mirrorbench.models.systems import EncoderContext
from mirrorbench.models.systems.sapbert import create_sapbert

NAMES = ["covid-19", "coronavirus infection", "tumor of uterus and of everything else that is near to it"]


def spec(path: Path, **params: object) -> EncoderSpec:
    return EncoderSpec("sapbert", params=(("path", str(path)), *params.items()))  # type: ignore[arg-type]


def test_vectors_are_the_first_tokens_of_25(random_model: Callable[[str], Path]) -> None:
    path = random_model("bert")
    tokenizer, model = AutoTokenizer.from_pretrained(path), AutoModel.from_pretrained(path).eval()
    batch = tokenizer(NAMES, padding="max_length", max_length=25, truncation=True, return_tensors="pt")
    with torch.no_grad():
        expected = model(**batch).last_hidden_state[:, 0]
    encoder = create_sapbert(spec(path), EncoderContext())
    np.testing.assert_allclose(encoder.encode([TextInput(name) for name in NAMES]), expected, atol=1e-5)
    np.testing.assert_allclose(encoder.encode(NAMES), expected, atol=1e-5)  # type: ignore[arg-type]


def test_the_fingerprint_follows_the_readout(random_model: Callable[[str], Path]) -> None:
    path = random_model("bert")
    encoders = [create_sapbert(spec(path, **p), EncoderContext()) for p in ({}, {"max_length": 9}, {"pooling": "mean"})]
    assert len({encoder.fingerprint for encoder in encoders}) == 3


def test_id_and_errors(random_model: Callable[[str], Path]) -> None:
    assert backbones.BACKBONES["sapbert"].hub_id == "cambridgeltl/SapBERT-from-PubMedBERT-fulltext"
    with pytest.raises(UnknownNameError, match="key of sapbert 'lr'"):
        create_sapbert(parse_spec("sapbert:lr=1"), EncoderContext())
    with pytest.raises(UsageError, match="max_length=long"):
        create_sapbert(spec(random_model("bert"), max_length="long"), EncoderContext())
