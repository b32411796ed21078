"""Reference computations for one text by transformers alone."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import AutoModel, AutoTokenizer


@cache
def opened(path: Path) -> tuple[Any, Any]:
    """Open the tokenizer and the model."""
    return AutoTokenizer.from_pretrained(path), AutoModel.from_pretrained(path).eval()


def hidden_states(
    path: Path, text: str, **options: Any
) -> tuple[np.ndarray, list[tuple[int, int]]]:
    """Return the states of all layers, embeddings first, shape (layers, tokens, dimensions), and token offsets."""
    tokenizer, model = opened(path)
    batch = tokenizer(text, return_tensors="pt", return_offsets_mapping=True, **options)
    offsets = batch.pop("offset_mapping")[0].tolist()
    batch.pop("token_type_ids", None)
    with torch.no_grad():
        states = model(**batch, output_hidden_states=True).hidden_states
    return torch.stack(states)[:, 0].double().numpy(), offsets
