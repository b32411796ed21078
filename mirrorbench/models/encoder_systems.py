"""Encoder systems of plugins: their context, checks and base class; and encoders of Python objects."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, wraps
from typing import TYPE_CHECKING, Any

from mirrorbench.core.arguments import as_text_list, checks_keywords
from mirrorbench.core.encoder_protocol import Encoder, as_inputs, check_vectors
from mirrorbench.core.errors import PluginError, UsageError, unknown_name
from mirrorbench.core.foreign_errors import defined_at
from mirrorbench.core.identity import digest
from mirrorbench.core.specs import EncoderSpec
from mirrorbench.core.truncation import Truncation, TruncationWarning, truncation_of
from mirrorbench.core.unknown_words import count_words
from mirrorbench.models.pooling import POOLINGS, Pooling, PoolingFunction

if TYPE_CHECKING:
    from pathlib import Path

    from mirrorbench.core.encoder_protocol import Array, TextInput
    from mirrorbench.core.plugins import Plugins
    from mirrorbench.models.transformer import Transformer


@dataclass(frozen=True, slots=True)
class EncoderContext:
    """Settings of a run for an encoder of a plugin.

    mirrorbench makes it and passes it to the function of ``register_encoders``, and to ``create`` of a ``Method``.
    In a test, ``EncoderContext()`` stands for a run on the CPU without progress. It is immutable.

    Attributes:
        device: torch's name of the device to compute on: ``cpu`` (default), ``cuda:0``, ``mps``.
        precision: ``fp32`` (default), ``bf16`` or ``fp16``, the precision that the user asked for.
        offline: whether the network must not be used (default false).
        poolings: functions of registered poolings by name; by default the built-in ones.
        begin: ``begin(total, unit)`` is to be called before long work of the opening, such as ``begin(30000,
            "tokens")``; it shows a progress bar in a run, and does nothing by default.
        advance: ``advance(n)`` is to be called when n further units are done.
        note: ``note(message)`` shows the user a message that is not an error; it does nothing by default.
        folder: a folder in the cache for what encoders of this name remember between runs, which may be missing or be
            removed; ``None`` (default) where nothing is kept.

    Example:
        >>> import numpy as np
        >>> from mirrorbench.plugin import EncoderContext, TextInput, parse_spec
        >>> class WordVectors:
        ...     def __init__(self, words, size, context):
        ...         self.fingerprint = f"random-{size}-{sorted(words)}"
        ...         rng = np.random.default_rng(0)
        ...         self.vectors = {}
        ...         context.begin(len(words), "words")
        ...         for word in words:
        ...             self.vectors[word] = rng.normal(size=size)
        ...             context.advance(1)
        ...     def encode(self, inputs):
        ...         return np.array([self.vectors[item.text] for item in inputs])
        >>> def open_random(spec, context):
        ...     return WordVectors(["cat", "dog"], spec.get("size", 4), context)
        >>> encoder = open_random(parse_spec("random:size=8"), EncoderContext())
        >>> encoder.encode([TextInput("cat")]).shape
        (1, 8)
    """

    device: str = "cpu"
    precision: str = "fp32"
    offline: bool = False
    poolings: Mapping[str, PoolingFunction] = field(default_factory=lambda: POOLINGS)
    begin: Callable[[int, str], None] = lambda total, unit: None
    advance: Callable[[int], None] = lambda n: None
    note: Callable[[str], None] = lambda message: None
    folder: Path | None = None


def create_encoder(spec: EncoderSpec, plugins: Plugins, context: EncoderContext) -> Encoder:
    """Create the encoder system of a spec; a plugin that returns no encoder raises a ``PluginError``."""
    entry = plugins.encoders.entry(spec.backbone)
    encoder = entry.value(spec, context)
    if not isinstance(encoder, Encoder) or not isinstance(encoder.fingerprint, str):
        kind = "None" if encoder is None else f"a {type(encoder).__name__}"
        place = f"{entry.origin}{defined_at(entry.value)}"
        raise PluginError(
            f"the encoder {entry.name!r} of {place} is {kind}, with no encode() or no fingerprint",
            "An encoder needs encode(inputs) -> array (n, d) and a string attribute fingerprint.",
        )
    return encoder


OpenEncoder = Callable[[EncoderSpec, EncoderContext], Encoder]
"""Function that creates the encoder of a spec."""
_KEY_TYPES = (bool, int, float, str)
_TYPES_IN_WORDS = {int: "a whole number", float: "a number", bool: "true or false"}


def open_with_keys(open_encoder: OpenEncoder, keys: Mapping[str, type], who: str) -> OpenEncoder:
    """Return ``open_encoder`` with a check that a spec has only these keys, of these types.

    Raise a ``PluginError`` if ``keys`` is not a mapping to such types; ``who``: its subject.
    """
    if not isinstance(keys, Mapping) or not set(keys.values()) <= set(_KEY_TYPES):
        names = ", ".join(type_.__name__ for type_ in _KEY_TYPES)
        hint = f'Such as keys={{"size": int}}; a type is one of {names}.'
        raise PluginError(f"{who} states its keys as {keys!r:.80}", hint)

    @wraps(open_encoder)
    def open_checked(spec: EncoderSpec, context: EncoderContext) -> Encoder:
        checked_params(spec, **keys)
        return open_encoder(spec, context)

    return open_checked


def checked_params(spec: EncoderSpec, **types: type) -> dict[str, Any]:
    """Return the keys of a spec with their values, converted to the types that the keys have.

    An unknown key raises an ``UnknownNameError``, a value of another type a ``UsageError``. Every value is accepted as
    text, and a whole number as a float.
    """
    params: dict[str, Any] = {}
    for key, value in spec.params:
        if key not in types:
            raise unknown_name(f"key of {spec.backbone}", key, list(types))
        type_ = types[key]
        is_int_for_float = type_ is float and type(value) is int
        if type(value) is not type_ and type_ is not str and not is_int_for_float:
            raise UsageError(f"{key}={value} is not {_TYPES_IN_WORDS[type_]}")
        params[key] = type_(value)
    return params


@dataclass
class LazyEncoder:
    """An encoder whose weights are loaded when it first encodes."""

    fingerprint: str
    """Identity of everything that changes vectors."""
    load: Callable[[], Callable[[list[TextInput]], Any]]
    """Function that loads the weights and returns a function from inputs to vectors."""
    pooling: Pooling | None = None
    """Pooling, if known."""
    notes: tuple[str, ...] = ()
    """Notes for results."""

    @cached_property
    def _encode(self) -> Callable[[list[TextInput]], Any]:
        return self.load()

    def encode(self, inputs: Sequence[TextInput | str]) -> Any:
        """Return the vectors of texts, shape (n, dimensions)."""
        return self._encode(as_inputs(inputs))


@dataclass
class LazyModel:
    """A model whose weights are loaded when it is used or asked for its notes."""

    fingerprint: str
    """Identity of everything that changes vectors."""
    load: Callable[[], Any]
    """Function that loads the weights and returns the encoder, with ``notes``, ``refuses_texts`` and ``check_inputs``."""
    pooling: Pooling | None = None
    """Pooling, if known."""
    notes_on_files: tuple[str, ...] = ()
    """Notes for results on what the model's files say."""

    @cached_property
    def _model(self) -> Any:
        return self.load()

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes for results."""
        return (*self.notes_on_files, *self._model.notes)

    @property
    def refuses_texts(self) -> bool:
        """Whether ``check_inputs`` may find a text that the model cannot read."""
        return bool(self._model.refuses_texts)

    def check_inputs(self, inputs: Sequence[TextInput], poolings: Sequence[Any] = ()) -> None:
        """Raise an ``UnreadableTextError`` for the first text with a token that the model cannot read."""
        self._model.check_inputs(inputs)

    def count_cut(self, inputs: Sequence[TextInput], pooling: Any = None) -> Truncation | None:
        """Count the inputs that are longer than the model reads; ``None`` for a model that cuts none."""
        return truncation_of(self._model, inputs)

    def encode(self, inputs: Sequence[TextInput | str]) -> Any:
        """Return the vectors of texts, shape (n, dimensions)."""
        return self._model.encode(as_inputs(inputs))


@dataclass(frozen=True)
class NamedEncoder:
    """An encoder that the caller passes as an object, with its name in tables."""

    name: str
    encoder: Encoder

    def __str__(self) -> str:
        return self.name

    @property
    def spec(self) -> EncoderSpec:
        """The spec of its row."""
        return EncoderSpec(self.name)


def as_encoder(model: Any) -> Encoder:
    """Return an encoder unchanged, and wrap any other object with ``encode(strings)``.

    The fingerprint of a wrapped object is empty unless it is a SentenceTransformer. Raise a ``UsageError`` for a class,
    or for an object without ``encode``.
    """
    has_fingerprint = isinstance(getattr(model, "fingerprint", None), str)
    if has_fingerprint and isinstance(model, Encoder):
        return model
    if isinstance(model, type):
        raise UsageError(
            f"{model.__name__} is a class, not an encoder",
            f"Pass an object: {model.__name__}().",
        )
    if not callable(getattr(model, "encode", None)):
        raise UsageError(
            f"a {type(model).__name__} is not an encoder: it has no encode(texts)",
            "Give a spec, what mirrorbench.load returns, or a SentenceTransformer.",
        )
    # Compared by name, since sentence-transformers need not be installed.
    if any(class_.__name__ == "SentenceTransformer" for class_ in type(model).__mro__):
        return _OpenSentenceTransformer(model)

    def encode(inputs: list[TextInput]) -> Any:
        return model.encode([item.text for item in inputs])

    # There is nothing to load.
    return LazyEncoder(fingerprint="", load=lambda: encode)


class _OpenSentenceTransformer:
    """A SentenceTransformer that the user has opened, with its own prompt, window and batches."""

    def __init__(self, model: Any) -> None:
        self.model = model
        self.fingerprint = _object_fingerprint(model)

    def encode(self, inputs: Sequence[TextInput | str]) -> Any:
        """Return the vectors of texts, shape (n, dimensions)."""
        texts = [item.text for item in as_inputs(inputs)]
        return self.model.encode(texts, show_progress_bar=False)

    def count_cut(self, inputs: Sequence[TextInput], pooling: Any = None) -> Truncation | None:
        """Count the inputs that are longer than the model reads with its default prompt; ``None`` if it cuts none."""
        from mirrorbench.models.input_modules import InputModule

        reader = InputModule.of(self.model, "", None)
        return reader.count_cut([item.text for item in inputs])


def _object_fingerprint(model: Any) -> str:
    """Return a digest of a SentenceTransformer's weights, modules, tokenizer, prompts and settings."""
    weights_hash = hashlib.sha256()
    for name, tensor in model.state_dict().items():
        weights_hash.update(f"{name} {tuple(tensor.shape)}".encode())
        weights_hash.update(tensor.detach().cpu().contiguous().float().numpy().tobytes())
    setting_names = ("max_seq_length", "default_prompt_name", "prompts", "truncate_dim")
    settings = [str(getattr(model, name, "")) for name in setting_names]
    backend = getattr(model.tokenizer, "backend_tokenizer", None)
    tokenizer = backend.to_str() if backend else ""
    identity = {
        "weights": weights_hash.hexdigest(),
        "modules": str(model),
        "settings": settings,
        "tokenizer": hashlib.sha256(tokenizer.encode()).hexdigest(),
    }
    return digest(identity)


@dataclass(repr=False, eq=False)
class TextEncoder:
    """An encoder of strings and of words in context, as ``load`` returns it.

    ``mirrorbench.load``, ``Session.load`` and ``load_encoder`` make it, and commands and analyses of plugins call its
    ``encode``. A plugin may wrap an encoder of its own, ``TextEncoder(encoder)``, to have strings accepted and vectors
    checked; it is not meant to be subclassed.

    ``encode(texts)`` takes strings and ``TextInput`` objects, and returns float32 vectors of shape (len(texts),
    dimensions). It gives a ``TruncationWarning`` once if texts are longer than the encoder reads.

    Attributes:
        encoder: the ``Encoder`` inside (required).
        name: the spec of its row in tables (default ``encoder``).
        truncation: counts of the texts that were cut, over all calls (attributes ``cut`` and ``texts``); ``None``
            before the first call, and for an encoder that cuts none.
        typed: the spec or path as the user wrote it; by default empty.
        corpus: the corpus on which ``load`` tuned it; empty for an untuned encoder.
        fingerprint: a text that changes whenever the vectors change.
        n_parameters: number of parameters of the model; ``None`` if unknown.
        max_length: most tokens that it reads of a text; ``None`` if unknown.

    Raises:
        UsageError: from ``encode``: ``texts`` is a single string, or one of them is not a text.
        EncodingError: from ``encode``: the encoder did not return one finite vector for each text.

    Example:
        >>> import mirrorbench
        >>> from mirrorbench.plugin import TextInput
        >>> encoder = mirrorbench.load("tiny", level="wic", device="cpu")
        >>> encoder.encode(["a cat", "the dog"]).dtype
        dtype('float32')
        >>> word = TextInput("She sat on the river bank.", spans=((21, 25),))
        >>> encoder.encode([word]).shape
        (1, 256)
    """

    encoder: Encoder
    name: str = "encoder"
    truncation: Truncation | None = None
    typed: str = ""
    corpus: str = ""

    def __repr__(self) -> str:
        return f"<mirrorbench encoder {self.name}>"

    @property
    def fingerprint(self) -> str:
        """Identity of the vectors, from weights, pooling and precision."""
        pooling = getattr(self.encoder, "pooling", None)
        if not isinstance(pooling, Pooling):
            return self.encoder.fingerprint
        identity = {
            "encoder": self.encoder.fingerprint,
            "readout": str(pooling),
            "precision": getattr(self.encoder, "precision", ""),
        }
        return digest(identity)

    @property
    def transformer(self) -> Transformer | None:
        """The model of its encoder; ``None`` for an encoder of another kind."""
        transformer: Transformer | None = getattr(self.encoder, "transformer", None)
        return transformer

    @property
    def n_parameters(self) -> int | None:
        """Number of parameters of its model; ``None`` if its encoder does not state them."""
        return None if self.transformer is None else self.transformer.n_parameters

    @property
    def max_length(self) -> int | None:
        """Most tokens of a text that it reads; ``None`` if its encoder does not state them."""
        pooling = getattr(self.encoder, "pooling", None)
        return pooling.max_length if isinstance(pooling, Pooling) else None

    def count_cut(
        self, inputs: Sequence[str | TextInput], pooling: Any = None
    ) -> Truncation | None:
        """Count the texts that are longer than the encoder reads; ``None`` for an encoder that cuts none."""
        return truncation_of(self.encoder, as_inputs(inputs), pooling)

    def count_words(self, inputs: Sequence[str | TextInput]) -> list[tuple[int, int]] | None:
        """Return for each text the number of its words and of those with a vector; ``None`` if all words are read."""
        return count_words(self.encoder, as_inputs(inputs))

    @checks_keywords()
    def encode(self, texts: Iterable[str | TextInput]) -> Array:
        """Return one vector per string or input with a target word, float32 of shape (len(texts), dimensions).

        The first call with texts that are longer than the encoder reads gives a ``TruncationWarning``.

        Raises:
            UsageError: ``texts`` is a single string, or one of them is not a text.
            EncodingError: the encoder returned an array of another shape, or numbers that are not finite.
        """
        inputs = as_inputs(as_text_list(texts))
        vectors = check_vectors(self.encoder.encode(inputs), len(inputs), "the encoder")
        # Warn at the first texts that are cut, and count all.
        warned = self.truncation is not None and self.truncation.sentence != ""
        self.truncation = Truncation.total([self.truncation, truncation_of(self.encoder, inputs)])
        if self.truncation is not None and self.truncation.sentence and not warned:
            warnings.warn(f"{self.name}: {self.truncation.sentence}", TruncationWarning, 2)
        return vectors
