"""``sbert`` and ``sapbert`` against sentence-transformers and the released code."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from helpers.plain_transformers import hidden_states
from helpers.random_models import Models
from helpers.sentence_transformer_directories import as_sentence_transformers

from mirrorbench.core.errors import ModelUnavailableError, UsageError
from mirrorbench.core.specs import EncoderSpec, parse_spec
from mirrorbench.models.encoder_systems import EncoderContext
from mirrorbench.models.sbert import create_sapbert, create_sbert

CONTEXT = EncoderContext()


NAMES = [
    "covid-19",
    "coronavirus infection",
    "tumor of uterus and of everything else that is near to it",
]


def spec(system: str, path: Path, **params: object) -> EncoderSpec:
    return EncoderSpec(system, params=(("path", str(path)), *params.items()))  # type: ignore[arg-type]


def released(path: Path, length: int) -> np.ndarray:
    """The states of the last layer for each name, padded to a length."""
    options = {"padding": "max_length", "max_length": length, "truncation": True}
    return np.stack([hidden_states(path, name, **options)[0][-1] for name in NAMES])


def test_sapbert_uses_cls_vectors_of_25_tokens(random_model: Models) -> None:
    path = random_model("bert")
    encoder = create_sapbert(spec("sapbert", path), CONTEXT)
    np.testing.assert_allclose(encoder.encode(NAMES), released(path, 25)[:, 0], atol=1e-5)
    settings = ({}, {"max_length": 9}, {"pooling": "mean"})
    assert (
        len(
            {
                create_sapbert(spec("sapbert", path, **params), CONTEXT).fingerprint
                for params in settings
            }
        )
        == 3
    )


def test_sbert_pooling_can_be_overridden(random_model: Models, tmp_path: Path) -> None:
    """Released code (Mirror-BERT, ``evaluation/eval.py``): all texts padded to 64 tokens, the mean over all of them."""
    path = as_sentence_transformers(
        random_model("bert"), tmp_path / "sbert", "Transformer", "Pooling", "Normalize"
    )
    for length, params in ((64, {}), (30, {"max_length": 30})):
        encoder = create_sbert(spec("sbert", path, pooling="mean-padded", **params), CONTEXT)
        np.testing.assert_allclose(encoder.encode(NAMES), released(path, length).mean(1), atol=1e-5)
    readings = [
        {},
        {"pooling": "mean"},
        {"pooling": "mean-padded"},
        {"pooling": "mean-padded", "max_length": 30},
    ]
    assert (
        len(
            {
                create_sbert(spec("sbert", path, **params), CONTEXT).fingerprint
                for params in readings
            }
        )
        == 4
    )


def test_model_names_resolve_to_hub_ids() -> None:
    create = {"sbert": create_sbert, "sapbert": create_sapbert}
    for system, hub_id in (
        ("sbert", "sentence-transformers/bert-base-nli-mean-tokens"),
        ("sbert:model=all-MiniLM-L6-v2", "sentence-transformers/all-MiniLM-L6-v2"),
        ("sbert:model=intfloat/e5-small", "intfloat/e5-small"),
        ("sapbert", "cambridgeltl/SapBERT-from-PubMedBERT-fulltext"),
        ("sapbert:model=owner/SapBERT-XLMR", "owner/SapBERT-XLMR"),
    ):
        with pytest.raises(ModelUnavailableError, match=f"the model {hub_id} is not available"):
            create[system.split(":")[0]](parse_spec(system), EncoderContext(offline=True))


def test_unreadable_models_are_refused(
    random_model: Models, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(
        ModelUnavailableError, match="not a directory of a sentence-transformers model"
    ):
        create_sbert(spec("sbert", tmp_path), CONTEXT)
    (tmp_path / "adapter_config.json").write_text("{}")
    with pytest.raises(ModelUnavailableError, match="is an adapter alone") as caught:
        create_sbert(spec("sbert", tmp_path), CONTEXT)
    assert f"{tmp_path}:pooling=mean" in caught.value.hint
    dense = as_sentence_transformers(
        random_model("bert"), tmp_path / "dense", "Transformer", "Pooling", "Dense"
    )
    with pytest.raises(UsageError, match="dense consists of Transformer, Pooling, Dense"):
        create_sbert(spec("sbert", dense, pooling="mean"), CONTEXT)
    settings = dense / "2_Dense" / "config.json"
    settings.parent.mkdir()
    settings.write_text('{"unheard": 1}')
    with pytest.raises(
        ModelUnavailableError, match=r"sentence-transformers cannot open .*: TypeError"
    ):
        create_sbert(spec("sbert", dense), CONTEXT).encode(["a"])
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    with pytest.raises(ModelUnavailableError, match="not installed") as caught:
        create_sbert(spec("sbert", dense), CONTEXT).encode(["a"])
    assert "mirrorbench[sbert]" in caught.value.hint
