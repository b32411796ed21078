"""Words of a text, encoded in one pass over it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

from mirrorbench.analysis.layers import words_in
from mirrorbench.analysis.words_in_context import encode_words
from mirrorbench.models.pooling import Pooling
from mirrorbench.models.transformer import load_transformer
from mirrorbench.models.transformer_encoder import TransformerEncoder


def test_sentence_pass_equals_single_word_passes(
    random_model: Callable[[str], Path],
) -> None:
    model = load_transformer(random_model("bert"), torch.device("cpu"))
    poolings = [Pooling("target", str(layer), 16) for layer in range(3)]
    sentences = words_in(
        ["the cat sat here", "a dog ran", "so one two three four five " * 5, "cats ran"]
    )
    words = [sentence.words for sentence in sentences]
    encoded = dict(encode_words(TransformerEncoder(model, poolings[0]), words, poolings))
    assert sorted(encoded) == [0, 1, 3]  # one is longer than 16 tokens
    for number, vectors in encoded.items():
        alone = TransformerEncoder(model, poolings[0]).encode_pooled(
            sentences[number].words, poolings
        )
        np.testing.assert_allclose(vectors, np.array(alone), atol=1e-6)
