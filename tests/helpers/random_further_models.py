"""Tiny random models of further types of transformers that read texts, by one recipe that cuts every known size."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from transformers import AutoModel
from transformers.models.auto.configuration_auto import CONFIG_MAPPING
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES as CONTINUE
from transformers.models.auto.modeling_auto import MODEL_FOR_MASKED_LM_MAPPING_NAMES as FILL

from helpers.random_models import (
    BART_TOKENS,
    BERT_TOKENS,
    DECODER_TOKENS,
    GPT2_TOKENS,
    POSITIONS,
    tokenizer_of,
)

_SIZES: dict[str, Any] = {
    **dict.fromkeys(
        ("hidden_size", "d_model", "n_embd", "dim", "emb_dim", "word_embed_proj_dim"), 32
    ),
    **dict.fromkeys(("true_hidden_size", "intra_bottleneck_size"), 32),
    **dict.fromkeys(
        (
            "intermediate_size",
            "d_ff",
            "encoder_ffn_dim",
            "decoder_ffn_dim",
            "hidden_dim",
            "ffn_dim",
        ),
        64,
    ),
    **dict.fromkeys(("d_inner", "ffn_hidden_size"), 64),
    **dict.fromkeys(
        (
            "num_hidden_layers",
            "n_layer",
            "n_layers",
            "num_layers",
            "encoder_layers",
            "decoder_layers",
        ),
        2,
    ),
    **dict.fromkeys(
        ("num_decoder_layers", "num_encoder_layers", "num_key_value_heads", "num_kv_heads"), 2
    ),
    **dict.fromkeys(
        ("num_attention_heads", "n_head", "n_heads", "num_heads", "encoder_attention_heads"), 4
    ),
    **dict.fromkeys(
        ("decoder_attention_heads", "num_encoder_attention_heads", "num_decoder_attention_heads"), 4
    ),
    **dict.fromkeys(("max_position_embeddings", "n_positions", "n_ctx"), POSITIONS),
    **dict.fromkeys(
        ("head_dim", "d_kv", "kv_lora_rank", "q_lora_rank", "qk_rope_head_dim", "qk_nope_head_dim"),
        8,
    ),
    **dict.fromkeys(("v_head_dim", "attention_window", "block_size"), 8),
    **dict.fromkeys(
        (
            "embedding_size",
            "moe_intermediate_size",
            "shared_expert_intermediate_size",
            "mamba_d_head",
        ),
        16,
    ),
    **dict.fromkeys(("local_attention", "qk_head_dim"), 16),
    **dict.fromkeys(
        ("num_experts", "num_local_experts", "n_routed_experts", "rotary_dim", "state_size"), 4
    ),
    **dict.fromkeys(("mamba_d_state", "mamba_n_heads"), 4),
    **dict.fromkeys(("num_experts_per_tok",), 2),
    **dict.fromkeys(
        (
            "n_shared_experts",
            "n_group",
            "topk_group",
            "num_attention_groups",
            "first_k_dense_replace",
        ),
        1,
    ),
    **dict.fromkeys(("initializer_range", "init_std"), 0.1),
    "projection_dim": 0,
    "attention_types": [[["global", "local"], 1]],
}
_LATENT = {"num_key_value_heads": 4}
_CHANGES: dict[str, dict[str, Any]] = {
    "bamba": {"attn_layer_indices": [1]},
    "big_bird": {"num_random_blocks": 1},  # reads texts of 57 tokens and more by blocks
    "bigbird_pegasus": {"num_random_blocks": 1},
    "deepseek_v2": _LATENT,
    "deepseek_v3": _LATENT,
    "falcon_h1": {"mamba_d_ssm": 64},
    "glm4_moe_lite": _LATENT,
    "granitemoehybrid": {"layer_types": ["mamba", "attention"]},
    "esm": {"mask_token_id": 4, "token_dropout": True, "position_embedding_type": "rotary"},
    "jamba": {"attn_layer_period": 2, "attn_layer_offset": 1},
    "lfm2": {"layer_types": ["conv", "full_attention"]},
    "mamba2": {"head_dim": 16, "num_heads": 4, "n_groups": 1},
    "modernbert-decoder": {"pad_token_id": 0},
    "reformer": {
        "axial_pos_embds": False,
        "attn_layers": ["local", "lsh"],
        "num_buckets": 4,
        "attention_head_size": 8,
        "is_decoder": False,
        "local_attn_chunk_length": 8,
        "lsh_attn_chunk_length": 8,
    },
    "phi3": {
        "max_position_embeddings": 4096,
        "original_max_position_embeddings": 1024,
        "rope_parameters": {
            "rope_type": "longrope",
            "rope_theta": 1e4,
            "original_max_position_embeddings": 1024,
            "short_factor": [1.0] * 4,
            "long_factor": [4.0] * 4,
        },
    },
    "recurrent_gemma": {"num_hidden_layers": 3},
    "squeezebert": {"embedding_size": 32},
    "xmod": {"languages": ["en_XX"], "default_language": "en_XX"},
}
FURTHER = (
    "afmoe",
    "apertus",
    "arcee",
    "bamba",
    "bert-generation",
    "big_bird",
    "bigbird_pegasus",
    "biogpt",
    "bitnet",
    "blenderbot",
    "blenderbot-small",
    "bloom",
    "camembert",
    "clip_text_model",
    "codegen",
    "cohere",
    "cohere2",
    "convbert",
    "cpmant",
    "ctrl",
    "data2vec-text",
    "deepseek_v2",
    "deepseek_v3",
    "diffllama",
    "doge",
    "dots1",
    "ernie",
    "ernie4_5",
    "esm",
    "exaone4",
    "falcon",
    "falcon_h1",
    "falcon_mamba",
    "flaubert",
    "flex_olmo",
    "fnet",
    "fsmt",
    "gemma",
    "gemma2",
    "glm",
    "glm4",
    "glm4_moe",
    "glm4_moe_lite",
    "gpt_bigcode",
    "gpt_neo",
    "gpt_neox",
    "gpt_neox_japanese",
    "gpt_oss",
    "gptj",
    "granite",
    "granitemoe",
    "granitemoehybrid",
    "granitemoeshared",
    "helium",
    "hunyuan_v1_dense",
    "ibert",
    "jamba",
    "jetmoe",
    "layoutlm",
    "led",
    "lfm2",
    "longformer",
    "longt5",
    "m2m_100",
    "mamba2",
    "marian",
    "mbart",
    "megatron-bert",
    "minimax",
    "ministral",
    "mixtral",
    "mobilebert",
    "modernbert-decoder",
    "mpt",
    "mra",
    "mt5",
    "mvp",
    "nemotron",
    "nllb-moe",
    "nystromformer",
    "olmo",
    "olmo2",
    "olmoe",
    "openai-gpt",
    "opt",
    "pegasus",
    "pegasus_x",
    "persimmon",
    "phi",
    "phi3",
    "phimoe",
    "plbart",
    "prophetnet",
    "qwen2",
    "qwen2_moe",
    "qwen3_moe",
    "recurrent_gemma",
    "reformer",
    "rembert",
    "roberta-prelayernorm",
    "roformer",
    "rwkv",
    "smollm3",
    "splinter",
    "squeezebert",
    "stablelm",
    "starcoder2",
    "switch_transformers",
    "umt5",
    "xglm",
    "xlm",
    "xlm-roberta-xl",
    "xlstm",
    "xmod",
    "yoso",
)
"""Types that read texts; the sizes of the others cannot be cut by this recipe."""
OTHER_INPUTS = (
    "beit",
    "blip_2_qformer",
    "bros",
    "canine",
    "decision_transformer",
    "dpr",
    "lxmert",
    "vilt",
)
"""Types that want more than tokens, or other tokens."""


def build_further(model_type: str, path: Path) -> None:
    """Write a tiny model of a type and a tokenizer."""
    plain = CONFIG_MAPPING[model_type]()
    known = plain.to_dict()
    halves = getattr(plain, "is_encoder_decoder", False)
    continues = model_type in CONTINUE and model_type not in FILL
    of_decoder = GPT2_TOKENS if model_type.startswith("qwen") else DECODER_TOKENS
    tokenizer = tokenizer_of(
        BART_TOKENS if halves else of_decoder if continues else BERT_TOKENS, spaced=True
    )
    sizes = _SIZES | {"vocab_size": len(tokenizer), "pad_token_id": tokenizer.pad_token_id}
    first, last = tokenizer.bos_token_id, tokenizer.eos_token_id
    sizes |= {"bos_token_id": tokenizer.cls_token_id if first is None else first}
    sizes |= {"eos_token_id": tokenizer.sep_token_id if last is None else last}
    changes = {key: value for key, value in sizes.items() if key in known} | _CHANGES.get(
        model_type, {}
    )
    if isinstance(layers := known.get("layer_types"), list) and "layer_types" not in changes:
        different = list(dict.fromkeys(layers))
        changes |= {"layer_types": (different * 2)[: max(2, len(different))]}
        changes |= {"num_hidden_layers": len(changes["layer_types"])}
    with torch.random.fork_rng():
        torch.manual_seed(7)
        AutoModel.from_config(CONFIG_MAPPING[model_type](**changes)).save_pretrained(path)
    tokenizer.save_pretrained(path)
