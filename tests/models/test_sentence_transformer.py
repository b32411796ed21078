"""Models that sentence-transformers itself reads."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from helpers.random_models import Models
from helpers.sentence_transformer_directories import as_sentence_transformers
from sentence_transformers import SentenceTransformer

from mirrorbench.core import devices
from mirrorbench.core.encoder_protocol import TextInput
from mirrorbench.core.errors import ModelUnavailableError
from mirrorbench.core.specs import EncoderSpec
from mirrorbench.models import batching
from mirrorbench.models.encoder_systems import EncoderContext
from mirrorbench.models.model_files import directory_checksum
from mirrorbench.models.sbert import create_sbert

CONTEXT = EncoderContext()


NAMES = [
    "covid-19",
    "coronavirus infection",
    "tumor of uterus and of everything else that is near to it",
]


TEXTS = ["A man is playing a guitar.", "", "word", "long " * 400, "Ein Satz mit Umlauten: äöü"]


def spec(system: str, path: Path, **params: object) -> EncoderSpec:
    return EncoderSpec(system, params=(("path", str(path)), *params.items()))  # type: ignore[arg-type]


def test_roles_select_query_and_document_prompts(random_model: Models, tmp_path: Path) -> None:
    path = as_sentence_transformers(
        random_model("bert"), tmp_path / "model", "Transformer", "Pooling"
    )
    prompts = {"prompts": {"query": "query: ", "passage": "passage: "}, "default_prompt_name": None}
    (path / "config_sentence_transformers.json").write_text(json.dumps(prompts))
    encoder = create_sbert(spec("sbert", path), CONTEXT)
    model = SentenceTransformer(str(path), device="cpu")
    inputs = [TextInput(text, role=role) for text in NAMES for role in ("query", "", "document")]
    functions = (model.encode_query, model.encode, model.encode_document)
    expected = [encode(name) for name in NAMES for encode in functions]
    np.testing.assert_allclose(encoder.encode(inputs), expected, atol=1e-5)
    bare = create_sbert(spec("sbert", path, prompt="x: "), CONTEXT).encode(inputs)
    np.testing.assert_allclose(bare[0], bare[2], atol=1e-6)


@pytest.mark.parametrize("fits", [2048, 9])
def test_sbert_gpu_batches_adapt_to_memory(
    random_model: Models, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fits: int
) -> None:
    """The CPU takes its place, with room for ``fits`` texts in a batch; only the padding of the vectors differs."""
    path = as_sentence_transformers(
        random_model("bert"), tmp_path / "sbert", "Transformer", "Pooling"
    )
    texts = TEXTS + ["in " * n for n in range(1, 60)]
    sizes: list[int] = []
    encode = SentenceTransformer.encode
    whole = create_sbert(spec("sbert", path), CONTEXT).encode(texts)

    def counted(self: Any, batch: list[str], batch_size: int, **options: Any) -> Any:
        assert batch_size == len(batch)
        if len(batch) > fits:
            raise torch.OutOfMemoryError
        sizes.append(len(batch))
        return encode(self, batch, batch_size=batch_size, **options)

    monkeypatch.setattr(devices, "GPUS", ("cuda", "cpu"))
    monkeypatch.setattr(batching, "release_memory", lambda device: None)
    monkeypatch.setattr(SentenceTransformer, "encode", counted)
    np.testing.assert_allclose(
        create_sbert(spec("sbert", path), CONTEXT).encode(texts), whole, atol=1e-5
    )
    assert sum(sizes) == 5 + len(
        texts
    )  # two are tried on opening, then one alone and beside another
    assert (max(sizes) > 32) == (fits > 32)
    assert max(sizes) <= fits


def test_checksum_covers_modules_but_not_notes(random_model: Models, tmp_path: Path) -> None:
    path = as_sentence_transformers(
        random_model("bert"), tmp_path / "sbert", "Transformer", "Pooling"
    )
    first = directory_checksum(path)
    (path / "README.md").write_text("notes")
    (path / "onnx").mkdir()
    (path / "onnx" / "model.onnx").write_text("x")
    assert directory_checksum(path) == first
    (path / "1_Pooling" / "config.json").write_text("{ }")
    assert directory_checksum(path) != first


@pytest.mark.parametrize(
    ("classes", "message"),
    [
        (
            ("Transformer",),
            "makes no vectors of texts: none of its modules returns 'sentence_embedding'",
        ),
        (("Transformer", "Pooling"), "returns the same vector for every text"),
    ],
)
def test_sbert_without_text_vectors_is_refused(
    random_model: Models, tmp_path: Path, classes: tuple[str, ...], message: str
) -> None:
    """The models have no pooling, or a prompt of as many tokens as the model reads."""
    path = as_sentence_transformers(random_model("bert"), tmp_path / "sbert", *classes)
    prompt = {"prompts": {"long": 40 * "letters "}, "default_prompt_name": "long"}
    (path / "config_sentence_transformers.json").write_text(json.dumps(prompt))
    with pytest.raises(ModelUnavailableError, match=message) as caught:
        create_sbert(spec("sbert", path), CONTEXT).encode(["a"])
    assert ("prompt" if len(classes) > 1 else f"{path}:pooling=mean") in caught.value.hint
