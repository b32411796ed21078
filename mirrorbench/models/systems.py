"""Encoder systems: the context and bases of those that plugins register, and encoders of Python objects."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from mirrorbench.core.errors import PluginError, UsageError, unknown_name
from mirrorbench.core.identity import digest
from mirrorbench.core.inputs import Encoder, as_inputs, check_vectors
from mirrorbench.core.specs import EncoderSpec
from mirrorbench.models.pooling import POOLINGS, Pooling, PoolingFunction

if TYPE_CHECKING:
    from mirrorbench.core.inputs import Array, TextInput
    from mirrorbench.core.plugins import Plugins


@dataclass(frozen=True, slots=True)
class EncoderContext:
    """How an encoder system is to run.

    Attributes:
        device: e.g. ``cpu``, ``cuda:0``.
        precision: ``fp32``, ``bf16`` or ``fp16``.
        offline: do not use the network.
        poolings: the registered ones, by name.
        begin: called before long work with its size and unit (``30000, "tokens"``).
        advance: called with how many more units are done.
    """

    device: str = "cpu"
    precision: str = "fp32"
    offline: bool = False
    poolings: Mapping[str, PoolingFunction] = field(default_factory=lambda: POOLINGS)
    begin: Callable[[int, str], None] = lambda total, unit: None
    advance: Callable[[int], None] = lambda n: None


def create_encoder(spec: EncoderSpec, plugins: Plugins, context: EncoderContext) -> Encoder:
    """An encoder system from a spec; a ``PluginError`` if the plugin returned something else."""
    entry = plugins.encoders.entry(spec.backbone)
    encoder = entry.value(spec, context)
    if not isinstance(encoder, Encoder) or not isinstance(encoder.fingerprint, str):
        raise PluginError(
            f"the encoder {entry.name!r} of {entry.origin} has no encode() or no fingerprint",
            "An encoder needs encode(inputs) -> array (n, d) and a string attribute fingerprint.",
        )
    return encoder


def checked_params(spec: EncoderSpec, **types: type) -> dict[str, Any]:
    """The keys of a spec, each checked to be known and of its type; values of text keys are converted to text."""
    for key, value in spec.params:
        if key not in types:
            raise unknown_name(f"key of {spec.backbone}", key, list(types))
        if types[key] is not str and type(value) is not types[key] and (types[key], type(value)) != (float, int):
            wanted = {int: "a whole number", float: "a number", bool: "true or false"}[types[key]]
            raise UsageError(f"{key}={value} is not {wanted}")
    return {key: value if types[key] is bool else types[key](value) for key, value in spec.params}


@dataclass
class LazyEncoder:
    """An encoder whose weights are loaded when it first encodes: ``load`` returns a function from inputs to vectors.

    ``fingerprint``: identity of all that changes vectors; ``pooling``: its pooling, if known.
    """

    fingerprint: str
    load: Callable[[], Callable[[list[TextInput]], Any]]
    pooling: Pooling | None = None

    @cached_property
    def _encode(self) -> Callable[[list[TextInput]], Any]:
        return self.load()

    def encode(self, inputs: Sequence[TextInput | str]) -> Any:
        """Vectors of texts, shape (n, dimensions)."""
        return self._encode(as_inputs(inputs))


def as_encoder(model: Any) -> Encoder:
    """A Python object as an encoder: an encoder as it is, any other through its ``encode(strings)``.

    Only SentenceTransformers get a fingerprint; for other objects it is empty.
    """
    if isinstance(getattr(model, "fingerprint", None), str) and isinstance(model, Encoder):
        return model
    if not callable(getattr(model, "encode", None)):
        raise UsageError(
            f"a {type(model).__name__} is no encoder: it has no encode(texts)",
            "Give a spec, what mirrorbench.load returns, or a SentenceTransformer.",
        )
    known = any(kind.__name__ == "SentenceTransformer" for kind in type(model).__mro__)
    quiet = {"show_progress_bar": False} if known else {}

    def encode(inputs: list[TextInput]) -> Any:
        return model.encode([item.text for item in inputs], **quiet)

    return LazyEncoder(_object_fingerprint(model) if known else "", lambda: encode)


def _object_fingerprint(model: Any) -> str:
    """Digest of weights, modules, tokenizer, prompts and settings: changes whenever vectors could."""
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


@dataclass(repr=False, eq=False)
class TextEncoder:
    """An encoder as ``load`` returns it: vectors of strings or of words in context.

    Args:
        encoder: computes the vectors.
        name: the spec that was loaded.
    """

    encoder: Encoder
    name: str = "encoder"

    def __repr__(self) -> str:
        return f"<mirrorbench encoder {self.name}>"

    @property
    def fingerprint(self) -> str:
        """Identity of the vectors: changes with weights, pooling or precision."""
        pooling = getattr(self.encoder, "pooling", None)
        if not isinstance(pooling, Pooling):
            return self.encoder.fingerprint
        precision = getattr(self.encoder, "precision", "")
        return digest({"encoder": self.encoder.fingerprint, "readout": str(pooling), "precision": precision})

    def encode(self, texts: Sequence[str | TextInput]) -> Array:
        """One vector per text: float32 of shape (len(texts), dimensions).

        Args:
            texts: strings, or inputs with target words.

        Raises:
            UsageError: ``texts`` is a single string.
            EncodingError: the encoder returned something else.
        """
        if isinstance(texts, str):
            raise UsageError("encode() takes a list of texts, and got one string", "Write encode([text]).")
        inputs = as_inputs(texts)
        return check_vectors(self.encoder.encode(inputs), len(inputs), "the encoder")
