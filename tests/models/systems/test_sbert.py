from __future__ import annotations

import shutil
import sys
from pathlib import Path

import numpy as np
import pytest

from mirrorbench.core.errors import ModelUnavailableError, UnknownNameError
from mirrorbench.core.inputs import TextInput
from mirrorbench.core.specs import EncoderSpec, parse_spec
from mirrorbench.models import backbones
from mirrorbench.models.systems import EncoderContext
from mirrorbench.models.systems.sbert import create_sbert, directory_checksum

TEXTS = ["A man is playing a guitar.", "", "word", "long " * 400, "Ein Satz mit Umlauten: äöü"]


@pytest.mark.real
def test_vectors_are_those_of_sentence_transformers(minilm: Path) -> None:
    sentence_transformers = pytest.importorskip("sentence_transformers")
    encoder = create_sbert(EncoderSpec("sbert", params=(("path", str(minilm)),)), EncoderContext())
    vectors = encoder.encode([TextInput(text) for text in TEXTS])
    expected = sentence_transformers.SentenceTransformer(str(minilm), device="cpu").encode(TEXTS)
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(vectors, expected, atol=1e-6)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)  # this model's own normalisation


@pytest.mark.real
def test_the_models_own_pooling_is_honoured(minilm: Path, tmp_path: Path) -> None:
    pytest.importorskip("sentence_transformers")
    copy = tmp_path / "cls"
    shutil.copytree(minilm, copy)
    pooling = copy / "1_Pooling" / "config.json"
    text = pooling.read_text()
    pooling.write_text(
        text.replace('"pooling_mode_mean_tokens": true', '"pooling_mode_mean_tokens": false').replace(
            '"pooling_mode_cls_token": false', '"pooling_mode_cls_token": true'
        )
    )
    assert pooling.read_text() != text
    mean, cls = (
        create_sbert(EncoderSpec("sbert", params=(("path", str(path)),)), EncoderContext()) for path in (minilm, copy)
    )
    assert mean.fingerprint != cls.fingerprint
    assert np.abs(mean.encode(TEXTS[:1]) - cls.encode(TEXTS[:1])).max() > 1e-3


def test_the_checksum_covers_modules_and_leaves_out_notes(tmp_path: Path) -> None:
    (tmp_path / "1_Pooling").mkdir()
    (tmp_path / "modules.json").write_text("[]")
    (tmp_path / "1_Pooling" / "config.json").write_text("{}")
    first = directory_checksum(tmp_path)
    (tmp_path / "README.md").write_text("notes")
    (tmp_path / "onnx").mkdir()
    (tmp_path / "onnx" / "model.onnx").write_text("x")
    assert directory_checksum(tmp_path) == first
    (tmp_path / "1_Pooling" / "config.json").write_text("{ }")
    assert directory_checksum(tmp_path) != first


@pytest.mark.parametrize(
    ("spec", "hub_id"),
    [
        ("sbert", "sbert"),
        ("sbert:model=all-MiniLM-L6-v2", "sentence-transformers/all-MiniLM-L6-v2"),
        ("sbert:model=intfloat/e5-small", "intfloat/e5-small"),
    ],
)
def test_ids(spec: str, hub_id: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    asked: list[str] = []

    def locate(spec: EncoderSpec, language: str, offline: bool) -> Path:
        asked.append(spec.backbone)
        return tmp_path

    monkeypatch.setattr(backbones, "locate", locate)
    create_sbert(parse_spec(spec), EncoderContext())
    assert asked == [hub_id]
    assert backbones.BACKBONES["sbert"].hub_id == "sentence-transformers/bert-base-nli-mean-tokens"


def test_errors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UnknownNameError, match="key of sbert 'pooling'"):
        create_sbert(parse_spec("sbert:pooling=cls"), EncoderContext())
    spec = EncoderSpec("sbert", params=(("path", str(tmp_path)),))
    with pytest.raises(ModelUnavailableError, match="no directory of a sentence-transformers model"):
        create_sbert(spec, EncoderContext())
    (tmp_path / "modules.json").write_text("[")
    broken = create_sbert(spec, EncoderContext())
    with pytest.raises(ModelUnavailableError, match="sentence-transformers cannot open"):
        broken.encode(["a"])
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    with pytest.raises(ModelUnavailableError, match="not installed") as caught:
        broken.encode(["a"])
    assert "mirrorbench[sbert]" in caught.value.hint
