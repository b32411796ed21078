"""Tiny transformers with random weights, one for each architecture, as directories like those on a hub."""

from __future__ import annotations

import string
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors
from transformers import AutoModel, PreTrainedTokenizerFast
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

from mirrorbench.models.encoder import TransformerEncoder
from mirrorbench.models.pooling import Pooling
from mirrorbench.models.transformer import load_transformer

Models = Callable[[str], Path]
"""The fixture ``random_model``: from the name of an architecture to the directory of a model."""
POSITIONS = 80
"""Tokens that each model with absolute positions can take."""
_SIZES = {"hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 4, "intermediate_size": 64}
_BERT_TOKENS = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]",
                "mask_token": "[MASK]"}  # fmt: skip
_ROBERTA_TOKENS = {"cls_token": "<s>", "pad_token": "<pad>", "sep_token": "</s>", "unk_token": "<unk>",
                   "mask_token": "<mask>"}  # fmt: skip
_OFFSET = {"max_position_embeddings": POSITIONS + 2, "pad_token_id": 1, "type_vocab_size": 1}
_DEBERTA = {"relative_attention": True, "position_biased_input": False, "pos_att_type": ["c2p", "p2c"],
            "max_position_embeddings": POSITIONS, "type_vocab_size": 0}  # fmt: skip

# architecture -> (transformers' model type, changes to its configuration, special tokens in the order of their ids)
ARCHITECTURES: dict[str, tuple[str, dict[str, Any], dict[str, str]]] = {
    "bert": ("bert", {"max_position_embeddings": POSITIONS}, _BERT_TOKENS),
    "roberta": ("roberta", _OFFSET, _ROBERTA_TOKENS),
    "xlm-r": ("xlm-roberta", _OFFSET, _ROBERTA_TOKENS),
    "electra": ("electra", {"max_position_embeddings": POSITIONS, "embedding_size": 16}, _BERT_TOKENS),
    "deberta": ("deberta", _DEBERTA, _BERT_TOKENS),
    "deberta-v2": (
        "deberta-v2",
        {**_DEBERTA, "position_buckets": 16, "norm_rel_ebd": "layer_norm", "share_att_key": True},
        _BERT_TOKENS,
    ),
    "modernbert": (
        "modernbert",
        {"max_position_embeddings": POSITIONS, "local_attention": 16, "pad_token_id": 0, "cls_token_id": 2,
         "sep_token_id": 3, "bos_token_id": 2, "eos_token_id": 3},
        _BERT_TOKENS,
    ),
}  # fmt: skip


def encoder(path: Path, pooling: Pooling = Pooling("mean"), precision: str = "fp32") -> TransformerEncoder:  # noqa: B008
    """An encoder from a directory, on the CPU."""
    return TransformerEncoder(load_transformer(path, torch.device("cpu")), pooling, precision)


def build(architecture: str, path: Path) -> None:
    """Write the model and a tokenizer that spells words out in single characters."""
    model_type, changes, tokens = ARCHITECTURES[architecture]
    tokenizer = _tokenizer(tokens)
    config = CONFIG_MAPPING[model_type](**{"vocab_size": len(tokenizer), "initializer_range": 0.1, **_SIZES, **changes})
    with torch.random.fork_rng():
        torch.manual_seed(7)
        AutoModel.from_config(config).save_pretrained(path)
    tokenizer.save_pretrained(path)


def _tokenizer(tokens: dict[str, str]) -> PreTrainedTokenizerFast:
    vocabulary = {token: index for index, token in enumerate(tokens.values())}
    if tokens is _BERT_TOKENS:
        letters = string.ascii_lowercase + string.digits + string.punctuation
        for piece in [*letters, *(f"##{letter}" for letter in letters)]:
            vocabulary[piece] = len(vocabulary)
        tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
        tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
        tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        tokenizer.decoder = decoders.WordPiece()
    else:
        for byte in sorted(pre_tokenizers.ByteLevel.alphabet()):
            vocabulary[byte] = len(vocabulary)
        tokenizer = Tokenizer(models.BPE(vocabulary, []))
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        tokenizer.decoder = decoders.ByteLevel()
    start, end = tokens["cls_token"], tokens["sep_token"]
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{start} $A {end}", special_tokens=[(start, vocabulary[start]), (end, vocabulary[end])]
    )
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, **tokens)
