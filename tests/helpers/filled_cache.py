"""A cache with a model and two vectors."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from mirrorbench.core.encoder_protocol import TextInput
from mirrorbench.storage.cache import Cache
from mirrorbench.storage.embedding_cache import EmbeddingCache

KEY = "a" * 64
"""The key of the model."""


def fill_cache(root: Path, model: Path) -> Path:
    """Store the model in a directory, and two vectors; return the folder of the cache."""
    import torch

    from mirrorbench.models.transformer import load_transformer

    cache = Cache(root)
    transformer = load_transformer(model, torch.device("cpu"))
    cache.save_model(KEY, transformer, {"spec": "tiny+mirror", "seed": 3})
    vectors = EmbeddingCache(cache.root / "embeddings" / ("b" * 64))
    vectors.put([TextInput("one"), TextInput("two")], np.ones((2, 5), dtype=np.float32))
    return cache.root
