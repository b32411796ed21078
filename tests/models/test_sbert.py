"""``sbert`` and ``sapbert`` against sentence-transformers and the released code."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from models.plain import hidden_states
from random_models import Models
from sentence_transformers import SentenceTransformer

from mirrorbench.core import devices
from mirrorbench.core.encoder_protocol import TextInput
from mirrorbench.core.errors import ModelUnavailableError, UsageError
from mirrorbench.core.specs import EncoderSpec, parse_spec
from mirrorbench.models import batching
from mirrorbench.models.encoder_systems import EncoderContext
from mirrorbench.models.sbert import create_sapbert, create_sbert
from mirrorbench.models.sentence_transformer import directory_checksum

CONTEXT = EncoderContext()
NAMES = [
    "covid-19",
    "coronavirus infection",
    "tumor of uterus and of everything else that is near to it",
]
TEXTS = ["A man is playing a guitar.", "", "word", "long " * 400, "Ein Satz mit Umlauten: äöü"]


def spec(system: str, path: Path, **params: object) -> EncoderSpec:
    return EncoderSpec(system, params=(("path", str(path)), *params.items()))  # type: ignore[arg-type]


def released(path: Path, length: int) -> np.ndarray:
    """The states of the last layer for each name, padded to a length."""
    options = {"padding": "max_length", "max_length": length, "truncation": True}
    return np.stack([hidden_states(path, name, **options)[0][-1] for name in NAMES])


def test_sapbert_takes_the_first_tokens_of_25(random_model: Models) -> None:
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


def as_sentence_transformers(path: Path, folder: Path, *classes: str) -> Path:
    """A model's directory with the ``modules.json`` of sentence-transformers."""
    shutil.copytree(path, folder)
    modules = [
        {
            "type": f"sentence_transformers.models.{name}",
            "path": f"{n}_{name}" if n else "",
            "idx": n,
            "name": str(n),
        }
        for n, name in enumerate(classes)
    ]
    (folder / "modules.json").write_text(json.dumps(modules))
    (folder / "1_Pooling").mkdir(exist_ok=True)
    (folder / "1_Pooling" / "config.json").write_text(
        '{"embedding_dimension": 32, "pooling_mode": "mean"}'
    )
    return folder


def test_queries_and_documents_are_read_under_the_models_prompts(
    random_model: Models, tmp_path: Path
) -> None:
    path = as_sentence_transformers(
        random_model("bert"), tmp_path / "model", "Transformer", "Pooling"
    )
    prompts = {"prompts": {"query": "query: ", "passage": "passage: "}, "default_prompt_name": None}
    (path / "config_sentence_transformers.json").write_text(json.dumps(prompts))
    encoder, model = (
        create_sbert(spec("sbert", path), CONTEXT),
        SentenceTransformer(str(path), device="cpu"),
    )
    inputs = [TextInput(text, role=role) for text in NAMES for role in ("query", "", "document")]
    functions = (model.encode_query, model.encode, model.encode_document)
    expected = [encode(name) for name in NAMES for encode in functions]
    np.testing.assert_allclose(encoder.encode(inputs), expected, atol=1e-5)
    bare = create_sbert(spec("sbert", path, prompt="x: "), CONTEXT).encode(inputs)
    np.testing.assert_allclose(bare[0], bare[2], atol=1e-6)


def test_sbert_may_be_read_by_another_pooling(random_model: Models, tmp_path: Path) -> None:
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


@pytest.mark.parametrize("fits", [2048, 9])
def test_sbert_on_a_gpu(
    random_model: Models, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fits: int
) -> None:
    """The CPU takes its place, with room for ``fits`` texts in a batch; only the padding of the vectors differs."""
    path = as_sentence_transformers(
        random_model("bert"), tmp_path / "sbert", "Transformer", "Pooling"
    )
    texts, sizes, encode = TEXTS + ["in " * n for n in range(1, 60)], [], SentenceTransformer.encode
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
    assert sum(sizes) == 2 + len(texts)  # two are tried on opening
    assert (max(sizes) > 32) == (fits > 32)
    assert max(sizes) <= fits


def test_the_checksum_covers_modules_and_leaves_out_notes(
    random_model: Models, tmp_path: Path
) -> None:
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
def test_sbert_without_vectors_of_texts_is_refused(
    random_model: Models, tmp_path: Path, classes: tuple[str, ...], message: str
) -> None:
    """The models have no pooling, or a prompt of as many tokens as the model reads."""
    path = as_sentence_transformers(random_model("bert"), tmp_path / "sbert", *classes)
    prompt = {"prompts": {"long": 40 * "letters "}, "default_prompt_name": "long"}
    (path / "config_sentence_transformers.json").write_text(json.dumps(prompt))
    with pytest.raises(ModelUnavailableError, match=message) as caught:
        create_sbert(spec("sbert", path), CONTEXT).encode(["a"])
    assert ("prompt" if len(classes) > 1 else f"{path}:pooling=mean") in caught.value.hint


def test_models_by_name() -> None:
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


def test_errors(random_model: Models, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for create, wrong, message in (
        (create_sapbert, parse_spec("sapbert:lr=1"), "key of sapbert 'lr'"),
        (create_sapbert, parse_spec("sapbert:max_length=long"), "max_length=long"),
        (create_sbert, parse_spec("sbert:max_length=64"), "max_length belongs to a pooling"),
        (create_sbert, spec("sbert", tmp_path), "no directory of a sentence-transformers model"),
    ):
        with pytest.raises((ModelUnavailableError, UsageError), match=message):
            create(wrong, CONTEXT)
    dense = as_sentence_transformers(
        random_model("bert"), tmp_path / "dense", "Transformer", "Pooling", "Dense"
    )
    with pytest.raises(UsageError, match="dense consists of Transformer, Pooling, Dense"):
        create_sbert(spec("sbert", dense, pooling="mean"), CONTEXT)
    with pytest.raises(
        ModelUnavailableError, match=r"sentence-transformers cannot open .*: TypeError"
    ):
        create_sbert(spec("sbert", dense), CONTEXT).encode(["a"])  # its modules have no settings
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    with pytest.raises(ModelUnavailableError, match="not installed") as caught:
        create_sbert(spec("sbert", dense), CONTEXT).encode(["a"])
    assert "mirrorbench[sbert]" in caught.value.hint
