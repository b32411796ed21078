"""Models whose tokenizer has tokens without an embedding."""

from __future__ import annotations

import shutil
from pathlib import Path

from transformers import AutoModel, AutoTokenizer


def with_missing_tokens(model: Path, folder: Path, *tokens: str, padding: str = "") -> Path:
    """Copy a model, and give its tokenizer tokens, for which the embeddings are not resized."""
    shutil.copytree(model, folder)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    embeddings = AutoModel.from_pretrained(folder).get_input_embeddings().weight.shape[0]
    fill = [f"<fill{number}>" for number in range(embeddings - len(tokenizer))]
    tokenizer.add_tokens([*fill, *tokens])
    if padding:
        tokenizer.add_special_tokens({"pad_token": padding})
    tokenizer.save_pretrained(folder)
    return folder
