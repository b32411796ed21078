"""Encoders that live in this process only: SentenceTransformer objects, and whatever else has ``encode(texts)``."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from mirrorbench.core.errors import UsageError
from mirrorbench.core.identity import digest
from mirrorbench.core.inputs import Encoder, TextInput, as_inputs


@dataclass(frozen=True)
class ObjectEncoder:
    """Any object whose ``encode`` takes a list of strings.

    Attributes:
        model: the object.
        fingerprint: its identity; empty where nothing says when its vectors change.
    """

    model: Any
    fingerprint: str

    def encode(self, inputs: Sequence[TextInput | str]) -> Any:
        """Vectors of whole texts as the object gives them, of shape (n, dimensions)."""
        quiet = {"show_progress_bar": False} if _is_sentence_transformer(self.model) else {}
        return self.model.encode([item.text for item in as_inputs(inputs)], **quiet)


def as_encoder(model: Any) -> Encoder:
    """An object as an encoder: one that is an encoder as it is, others through their ``encode(list of strings)``.

    Raises:
        UsageError: it has no ``encode``.
    """
    if isinstance(getattr(model, "fingerprint", None), str) and isinstance(model, Encoder):
        return model
    if not callable(getattr(model, "encode", None)):
        raise UsageError(
            f"a {type(model).__name__} is no encoder: it has no encode(texts)",
            "Give a spec, what mirrorbench.load returns, or a SentenceTransformer.",
        )
    return ObjectEncoder(model, _fingerprint(model) if _is_sentence_transformer(model) else "")


def _is_sentence_transformer(model: Any) -> bool:
    return any(kind.__name__ == "SentenceTransformer" for kind in type(model).__mro__)


def _fingerprint(model: Any) -> str:
    """Changes whenever the vectors of some text could: weights, modules, settings of the tokenizer, prompts."""
    weights = hashlib.sha256()
    for name, tensor in model.state_dict().items():
        weights.update(f"{name} {tuple(tensor.shape)}".encode())
        weights.update(tensor.detach().cpu().contiguous().float().numpy().tobytes())
    settings = ("max_seq_length", "default_prompt_name", "prompts", "truncate_dim")
    tokenizer = getattr(model.tokenizer, "backend_tokenizer", None)
    return digest({
        "weights": weights.hexdigest(),
        "modules": str(model),
        "settings": [str(getattr(model, name, "")) for name in settings],
        "tokenizer": hashlib.sha256((tokenizer.to_str() if tokenizer else "").encode()).hexdigest(),
    })  # fmt: skip
