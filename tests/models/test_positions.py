"""Positions of models against passes of as many tokens, and of one more."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModel, BertConfig, T5Config
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

from mirrorbench.models.families import positions_of
from mirrorbench.models.positions import (
    _FROM_PADDING,
    _FROM_ZERO,
    positions_of_model,
    positions_of_settings,
)

SIZES: dict[str, Any] = {
    **dict.fromkeys(("hidden_size", "d_model", "n_embd", "dim", "emb_dim", "embedding_size"), 32),
    **dict.fromkeys(("intermediate_size", "dff", "ffn_dim", "encoder_ffn_dim"), 32),
    **dict.fromkeys(("num_hidden_layers", "n_layer", "n_layers", "encoder_layers"), 1),
    **dict.fromkeys(("num_attention_heads", "n_head", "n_heads", "encoder_attention_heads"), 4),
    **dict.fromkeys(("max_position_embeddings", "n_positions"), 20),
    **dict.fromkeys(("max_encoder_position_embeddings", "max_decoder_position_embeddings"), 20),
    **dict.fromkeys(("decoder_layers", "decoder_attention_heads"), 1),
    "decoder_ffn_dim": 32,
    "rotary_dim": 8,
    "vocab_size": 50,
    "attention_window": [4],
    "pad_token_id": 1,
    "word_embed_proj_dim": 32,
}
TYPES = {
    "bart": 20,
    "codegen": 20,
    "ctrl": 20,
    "data2vec-text": 18,
    "esm": 18,
    "gpt2": 20,
    "ibert": 18,
    "longformer": 18,
    "luke": 18,
    "nystromformer": 20,
    "openai-gpt": 20,
    "opt": 20,
}
FEW = ("gpt2", "longformer", "opt")


def config_of(model_type: str) -> Any:
    config = CONFIG_MAPPING[model_type]()
    for key, value in SIZES.items():
        if hasattr(config, key) and getattr(config, key) != value:
            setattr(config, key, value)
    return config


@pytest.mark.parametrize(
    ("model_type", "expected"),
    [
        pytest.param(name, n, marks=[] if name in FEW else [pytest.mark.full])
        for name, n in TYPES.items()
    ],
)
def test_a_pass_takes_all_positions_and_no_more(model_type: str, expected: int) -> None:
    model = AutoModel.from_config(config_of(model_type)).eval()
    assert positions_of_model(model) == expected
    model(input_ids=torch.full((1, expected), 5))
    with pytest.raises((IndexError, RuntimeError)):
        model(input_ids=torch.full((1, expected + 1), 5))


@pytest.mark.parametrize("model_type", sorted(_FROM_ZERO | _FROM_PADDING))
def test_papers_types_are_known_from_their_settings(model_type: str) -> None:
    config = config_of(model_type)
    with torch.device("meta"):
        model = AutoModel.from_config(config)
    assert positions_of_settings(config.to_dict()) == positions_of_model(model)


def test_relative_positions_have_no_limit() -> None:
    with torch.device("meta"):
        model = AutoModel.from_config(T5Config(num_layers=1))
    assert positions_of_model(model) == 0


def test_unstated_positions_are_those_of_transformers(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "bert", "num_hidden_layers": 1}')
    assert positions_of(tmp_path) == BertConfig().max_position_embeddings
    (tmp_path / "config.json").write_text('{"model_type": "unheard-of"}')
    assert positions_of(tmp_path) == 0
    assert positions_of(tmp_path / "none") == 0
