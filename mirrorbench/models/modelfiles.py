"""Reading a model directory that somebody else wrote: no code is run, and nothing is made up where files lack it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from mirrorbench.core.errors import MirrorbenchError, ModelUnavailableError

_WAY_OUT = "It must be an encoder that transformers knows, with safetensors (or plain tensors in pytorch_model.bin)."


def read_model(path: Path, configure: Callable[[Any], None] | None = None) -> tuple[Any, Any, Any]:
    """Configuration, tokenizer and model of a directory, as transformers opens them, in float32 on the CPU.

    Weights come from safetensors, or through torch's restricted weights-only unpickler where a model has none (several
    of the papers' backbones); code beside a model is never run. Weights that the files lack would be random numbers:
    that is an error, except for the pooler, which no pooling uses and which masked language models do not have.

    Args:
        path: the directory.
        configure: may change the configuration before the model is built (dropout rates).

    Raises:
        ModelUnavailableError: the files are damaged, incomplete or refused, or no text encoder that transformers knows.
    """
    from transformers import AutoConfig, AutoModel, AutoTokenizer

    try:
        config = AutoConfig.from_pretrained(path, local_files_only=True, trust_remote_code=False)
        if configure:
            configure(config)
        tokenizer = AutoTokenizer.from_pretrained(path, local_files_only=True, trust_remote_code=False)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)  # of the unused pooler: the same at each load
            model, report = AutoModel.from_pretrained(
                path,
                config=config,
                local_files_only=True,
                trust_remote_code=False,
                dtype=torch.float32,
                output_loading_info=True,
            )
    except MirrorbenchError:
        raise
    except Exception as error:  # transformers checks little of what it reads: damage may show as any exception
        raise _unreadable(path, error) from error
    _check_weights(path, config, report["missing_keys"])
    if len(tokenizer.get_vocab()) <= len(tokenizer.all_special_tokens):
        raise ModelUnavailableError(
            f"the tokenizer in {path} has no vocabulary; its files are missing",
            "Copy them there from the model's source: tokenizer.json, or vocab.txt, or a sentencepiece model.",
        )
    return config, tokenizer, model


def _check_weights(path: Path, config: Any, missing: set[str]) -> None:
    parts = ("pooler", "decoder") if getattr(config, "is_encoder_decoder", False) else ("pooler",)
    lacking = sorted(name for name in missing if not any(part in name.split(".")[:2] for part in parts))
    if lacking:
        shown = ", ".join(lacking[:3]) + (", ..." if len(lacking) > 3 else "")
        raise ModelUnavailableError(
            f"the weights in {path} lack {len(lacking)} tensors of a {config.model_type} model ({shown}); "
            "they would be random numbers",
            "Compare config.json with the weights; a download may be incomplete.",
        )
    if not hasattr(config.get_text_config(), "vocab_size"):
        raise ModelUnavailableError(f"the {config.model_type} model in {path} does not read text", _WAY_OUT)


def _unreadable(path: Path, error: Exception) -> ModelUnavailableError:
    from pickle import UnpicklingError

    if isinstance(error, UnpicklingError):
        return ModelUnavailableError(
            f"the weights in {path} are a pickle that holds more than tensors, or are damaged; they are not opened",
            "If you trust their source, convert them to safetensors elsewhere and use the result.",
        )
    said = " ".join(str(error).split()) or "no message"
    if "ignore_mismatched_sizes" in said:
        return ModelUnavailableError(f"the weights in {path} have other shapes than its config.json says", _WAY_OUT)
    return ModelUnavailableError(
        f"the model in {path} cannot be opened: {type(error).__name__}: {said[:300]}", _WAY_OUT
    )
