"""Cross-encoders against sentence-transformers itself."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from sentence_transformers import CrossEncoder

from mirrorbench.core.encoder_protocol import TextInput, reads_pairs
from mirrorbench.core.errors import EncodingError, ModelUnavailableError, UsageError
from mirrorbench.core.specs import parse_spec
from mirrorbench.models.cross_encoder import create_cross_encoder
from mirrorbench.models.encoder_systems import EncoderContext

PAIRS = [("one two", f"three {'four ' * n}") for n in range(40)]


@pytest.fixture
def reranker(random_model: Callable[[str], Path], tmp_path: Path) -> Path:
    torch.manual_seed(0)
    model = CrossEncoder(str(random_model("bert")), num_labels=1, local_files_only=True)
    model.save_pretrained(str(tmp_path / "reranker"))
    return tmp_path / "reranker"


def scores_of(spec: str) -> np.ndarray:
    encoder = create_cross_encoder(parse_spec(spec), EncoderContext())
    assert reads_pairs(encoder)
    scores = encoder.encode([TextInput(first, second=second) for first, second in PAIRS])
    assert scores.shape == (40, 1)
    return scores[:, 0]


def test_scores_equal_sentence_transformers(reranker: Path) -> None:
    """Before the sigmoid, in which high scores would be equal."""
    model = CrossEncoder(str(reranker), local_files_only=True)
    expected = model.predict(PAIRS, activation_fn=torch.nn.Identity())
    np.testing.assert_allclose(scores_of(f"crossencoder:path={reranker}"), expected, atol=1e-6)
    model.max_seq_length = 8
    expected = model.predict(PAIRS, activation_fn=torch.nn.Identity())
    cut = scores_of(f"crossencoder:path={reranker},max_length=8")
    np.testing.assert_allclose(cut, expected, atol=1e-6)


def test_cut_pairs_are_counted(reranker: Path) -> None:
    spec = parse_spec(f"crossencoder:path={reranker},max_length=8")
    encoder = create_cross_encoder(spec, EncoderContext())
    inputs = [TextInput(first, second=second) for first, second in PAIRS]
    tokenizer = CrossEncoder(str(reranker), local_files_only=True).tokenizer
    n = sum(len(tokenizer(*pair)["input_ids"]) > 8 for pair in PAIRS)
    counts = encoder.count_cut(inputs)
    assert counts is not None
    assert f"{n} of 40 pairs are longer than 8 tokens" in counts.sentence


def test_texts_alone_have_no_vector(reranker: Path) -> None:
    encoder = create_cross_encoder(parse_spec(f"crossencoder:path={reranker}"), EncoderContext())
    with pytest.raises(EncodingError, match="scores pairs of texts"):
        encoder.encode(["one"])


def test_models_that_are_no_rerankers_are_refused(
    reranker: Path, random_model: Callable[[str], Path], tmp_path: Path
) -> None:
    with pytest.raises(ModelUnavailableError, match="is not a cross-encoder: its config"):
        scores_of(f"crossencoder:path={random_model('bert')}")
    with pytest.raises(UsageError, match="needs either path or model"):
        scores_of("crossencoder")
    with pytest.raises(ModelUnavailableError, match="there is no such directory"):
        scores_of(f"crossencoder:path={tmp_path}/none")
    model = CrossEncoder(str(random_model("bert")), num_labels=3, local_files_only=True)
    model.save_pretrained(str(tmp_path / "three"))
    with pytest.raises(ModelUnavailableError, match="gives a pair 3 scores"):
        scores_of(f"crossencoder:path={tmp_path}/three")
    config = reranker / "config.json"
    positions = json.loads(config.read_text())["max_position_embeddings"]
    with pytest.raises(UsageError, match=f"has {positions} positions"):
        scores_of(f"crossencoder:path={reranker},max_length={positions + 1}")


def test_a_head_without_weights_is_refused(reranker: Path) -> None:
    file = reranker / "model.safetensors"
    weights = {name: own for name, own in load_file(file).items() if "classifier" not in name}
    save_file(weights, file, {"format": "pt"})
    with pytest.raises(ModelUnavailableError, match="has no weights of its score"):
        scores_of(f"crossencoder:path={reranker}")
