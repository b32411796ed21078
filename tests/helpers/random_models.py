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

from mirrorbench.models.pooling import Pooling
from mirrorbench.models.transformer import load_transformer
from mirrorbench.models.transformer_encoder import TransformerEncoder

Models = Callable[[str], Path]
"""The fixture ``random_model``: from the name of an architecture to the directory of a model."""
POSITIONS = 80
"""Tokens that each model with absolute positions can take."""
_SIZES = {
    "hidden_size": 32,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "intermediate_size": 64,
}
BERT_TOKENS = {
    "pad_token": "[PAD]",
    "unk_token": "[UNK]",
    "cls_token": "[CLS]",
    "sep_token": "[SEP]",
    "mask_token": "[MASK]",
}
_ROBERTA_TOKENS = {
    "cls_token": "<s>",
    "pad_token": "<pad>",
    "sep_token": "</s>",
    "unk_token": "<unk>",
    "mask_token": "<mask>",
}
_OFFSET = {"max_position_embeddings": POSITIONS + 2, "pad_token_id": 1, "type_vocab_size": 1}
_DEBERTA = {
    "relative_attention": True,
    "position_biased_input": False,
    "pos_att_type": ["c2p", "p2c"],
    "max_position_embeddings": POSITIONS,
    "type_vocab_size": 0,
}

# architecture -> (transformers' model type, changes to its configuration, special tokens in the order of their ids)
ARCHITECTURES: dict[str, tuple[str, dict[str, Any], dict[str, str]]] = {
    "bert": ("bert", {"max_position_embeddings": POSITIONS}, BERT_TOKENS),
    "roberta": ("roberta", _OFFSET, _ROBERTA_TOKENS),
    "xlm-r": ("xlm-roberta", _OFFSET, _ROBERTA_TOKENS),
    "electra": (
        "electra",
        {"max_position_embeddings": POSITIONS, "embedding_size": 16},
        BERT_TOKENS,
    ),
    "deberta": ("deberta", _DEBERTA, BERT_TOKENS),
    "deberta-v2": (
        "deberta-v2",
        {**_DEBERTA, "position_buckets": 16, "norm_rel_ebd": "layer_norm", "share_att_key": True},
        BERT_TOKENS,
    ),
    "modernbert": (
        "modernbert",
        {
            "max_position_embeddings": POSITIONS,
            "local_attention": 16,
            "pad_token_id": 0,
            "cls_token_id": 2,
            "sep_token_id": 3,
            "bos_token_id": 2,
            "eos_token_id": 3,
        },
        BERT_TOKENS,
    ),
}

# Above the architectures of the papers, whose tuning is tested in detail; here the others: models/test_families.py.
_PLAIN = {"max_position_embeddings": POSITIONS}
DECODER_TOKENS = {
    "unk_token": "<unk>",
    "bos_token": "<s>",
    "eos_token": "</s>",
}  # as Llama's: no padding, no mask
_DECODER = {
    **_PLAIN,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": None,
}
_GEMMA = {
    **_DECODER,
    "num_hidden_layers": 2,
    "sliding_window": 16,
    "layer_types": ["sliding_attention", "full_attention"],
    "query_pre_attn_scalar": 8,
}
_T5_TOKENS = {"pad_token": "<pad>", "eos_token": "</s>", "unk_token": "<unk>"}
BART_TOKENS = {
    "bos_token": "<s>",
    "pad_token": "<pad>",
    "eos_token": "</s>",
    "unk_token": "<unk>",
    "mask_token": "<mask>",
    "cls_token": "<s>",
    "sep_token": "</s>",
}
GPT2_TOKENS = {"eos_token": "<|endoftext|>"}
_HALF = {**_SIZES, **_GEMMA, "num_hidden_layers": 2, "vocab_size": 400, "pad_token_id": 3}

FAMILIES = ARCHITECTURES | {
    "llama": ("llama", _DECODER, DECODER_TOKENS),
    "mistral": ("mistral", _DECODER, DECODER_TOKENS),
    "qwen3": ("qwen3", _DECODER, GPT2_TOKENS),
    "gemma3": ("gemma3_text", _GEMMA, DECODER_TOKENS),
    "gemma3-vision": (
        "gemma3",
        {
            "text_config": _HALF,
            "vision_config": {**_SIZES, "num_hidden_layers": 1, "image_size": 16, "patch_size": 8},
            "mm_tokens_per_image": 4,
        },
        DECODER_TOKENS,
    ),
    "gpt2": (
        "gpt2",
        {
            "n_embd": 32,
            "n_layer": 2,
            "n_head": 4,
            "n_positions": POSITIONS,
            "bos_token_id": 0,
            "eos_token_id": 0,
        },
        GPT2_TOKENS,
    ),
    "eurobert": (
        "eurobert",
        {**_DECODER, "mask_token": "<mask>", "mask_token_id": 4, "pad_token_id": 1},
        _ROBERTA_TOKENS,
    ),
    "bart": (
        "bart",
        {
            "d_model": 32,
            "encoder_layers": 2,
            "decoder_layers": 2,
            "encoder_attention_heads": 4,
            "decoder_attention_heads": 4,
            "encoder_ffn_dim": 64,
            "decoder_ffn_dim": 64,
            "max_position_embeddings": POSITIONS,
            "bos_token_id": 0,
            "pad_token_id": 1,
            "eos_token_id": 2,
            "forced_eos_token_id": 2,
            "decoder_start_token_id": 2,
        },
        BART_TOKENS,
    ),
    "t5": (
        "t5",
        {
            "d_model": 32,
            "d_kv": 8,
            "d_ff": 64,
            "num_layers": 2,
            "num_heads": 4,
            "pad_token_id": 0,
            "eos_token_id": 1,
            "decoder_start_token_id": 0,
        },
        _T5_TOKENS,
    ),
    "t5gemma": (
        "t5gemma",
        {"encoder": _HALF, "decoder": _HALF},
        DECODER_TOKENS | {"pad_token": "<pad>"},
    ),
    "distilbert": (
        "distilbert",
        {"dim": 32, "hidden_dim": 64, "n_layers": 2, "n_heads": 4, **_PLAIN},
        BERT_TOKENS,
    ),
    "albert": ("albert", {**_PLAIN, "embedding_size": 16, "hidden_dropout_prob": 0.1}, BERT_TOKENS),
    "mpnet": (
        "mpnet",
        {"max_position_embeddings": POSITIONS + 2, "pad_token_id": 1},
        _ROBERTA_TOKENS,
    ),
    "nomic": ("nomic_bert", {**_PLAIN, "pad_token_id": 0}, BERT_TOKENS),
    "xlnet": ("xlnet", {"d_model": 32, "n_layer": 2, "n_head": 4, "d_inner": 64}, BERT_TOKENS),
    "mamba": ("mamba", {"hidden_size": 32, "num_hidden_layers": 2, "state_size": 4}, GPT2_TOKENS),
}
UNPACKED = ("bart", "deberta", "deberta-v2", "mamba", "mpnet", "t5", "t5gemma", "xlnet")
"""Families whose texts cannot be packed in one row."""


def encoder(
    path: Path,
    pooling: Pooling = Pooling("mean"),  # noqa: B008
    precision: str = "fp32",
) -> TransformerEncoder:
    """An encoder from a directory, on the CPU."""
    return TransformerEncoder(load_transformer(path, torch.device("cpu")), pooling, precision)


def build(architecture: str, path: Path) -> None:
    """Write the model and a tokenizer that spells words out in single characters."""
    model_type, changes, tokens = FAMILIES[architecture]
    tokenizer = tokenizer_of(
        tokens, tokens is not _ROBERTA_TOKENS or model_type in ("eurobert", "mpnet")
    )
    sizes = {
        "vocab_size": len(tokenizer),
        "initializer_range": 0.1,
        **({} if model_type == "mamba" else _SIZES),
    }
    config = CONFIG_MAPPING[model_type](**sizes | changes)
    with torch.random.fork_rng():
        torch.manual_seed(7)
        AutoModel.from_config(config).save_pretrained(path)
    tokenizer.save_pretrained(path)


def tokenizer_of(tokens: dict[str, str], spaced: bool = False) -> PreTrainedTokenizerFast:
    """One that spells words out; ``spaced``: spaces are no tokens."""
    vocabulary = {token: index for index, token in enumerate(dict.fromkeys(tokens.values()))}
    if tokens is BERT_TOKENS:
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
        joined = (
            [("\u0120", byte) for byte in vocabulary if len(byte) == 1] if spaced else []
        )  # spaces are no tokens
        for space, byte in joined:
            vocabulary[space + byte] = len(vocabulary)
        tokenizer = Tokenizer(models.BPE(vocabulary, joined))
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        tokenizer.decoder = decoders.ByteLevel()
    start = tokens.get("cls_token", tokens.get("bos_token"))
    end = tokens.get("sep_token", tokens.get("eos_token") if tokens is _T5_TOKENS else None)
    around = {token: vocabulary[token] for token in (start, end) if token}
    single = " ".join(part for part in (start, "$A", end) if part)
    if around:
        tokenizer.post_processor = processors.TemplateProcessing(
            single=single, special_tokens=list(around.items())
        )
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, **tokens)
