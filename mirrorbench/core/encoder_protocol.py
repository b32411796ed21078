"""The input and output of encoders."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from mirrorbench.core.errors import EncodingError, MirrorbenchError
from mirrorbench.core.foreign_errors import describe

Array = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class TextInput:
    """A text, a word in a text, or a pair of texts: the input of encoders.

    Tasks of plugins make inputs, in ``inputs`` and to look vectors up; mirrorbench passes them to ``encode`` of
    encoders, which may read ``text`` alone. An input is immutable and hashable. Inputs that are equal in all fields
    share one cached vector.

    Attributes:
        text: the whole text.
        spans: character spans ``(start, end)`` of the target word, several for a discontinuous one; empty for the whole
            text.
        language: ISO code, for tasks of several languages that may have an encoder each; empty otherwise.
        role: ``query`` or ``document``, for models that have a prompt for each; empty otherwise.
        second: the second text of a pair, for encoders that score pairs; empty otherwise.

    All but ``text`` are optional. The property ``target`` is the target word, its parts joined by spaces; or the whole
    text without ``spans``. The method ``key()`` returns sixteen bytes that identify the input.

    Example:
        >>> from mirrorbench.plugin import TextInput
        >>> sentence = "She turned the light off."
        >>> start = sentence.index("turned")
        >>> TextInput(sentence, spans=((start, start + 6), (21, 24))).target
        'turned off'
        >>> TextInput(sentence).target
        'She turned the light off.'
    """

    text: str
    spans: tuple[tuple[int, int], ...] = ()
    language: str = ""
    role: str = ""
    second: str = ""

    @property
    def target(self) -> str:
        """The target word, or the whole text."""
        return " ".join(self.text[start:end] for start, end in self.spans) or self.text

    def key(self) -> bytes:
        """Return sixteen bytes that identify this input (BLAKE2b of all its fields)."""
        data = f"{self.text}\0{self.spans}{self.language}"
        if self.role:
            data += f"\0{self.role}"
        if self.second:
            data += f"\0pair with {len(self.text)}\0{self.second}"
        return hashlib.blake2b(data.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def as_inputs(texts: Sequence[TextInput | str]) -> list[TextInput]:
    """Return texts as inputs; a string becomes an input without a target word."""
    return [TextInput(text) if isinstance(text, str) else text for text in texts]


@runtime_checkable
class Encoder(Protocol):
    """The protocol of encoders: ``encode`` for vectors, ``fingerprint`` for identity.

    Any object with both is an encoder; it need not be a subclass. A plugin registers a function ``(EncoderSpec,
    EncoderContext) -> Encoder`` by ``register_encoders``; mirrorbench calls it, and encodes the inputs that have no
    cached vectors. ``mirrorbench.evaluate`` accepts an encoder too.

    Required:
        fingerprint: a text, as attribute or property, that changes whenever the vectors of some text change, such as a
            checksum of the weights and all settings. Vectors and results are stored under it and under the name of the
            encoder, and are reused as long as both are the same.
        encode(inputs): takes a list of n ``TextInput`` objects, in a run at most 1,024 of them on a CPU, all different,
            in any order. Returns an array of numbers of shape (n, dimensions) in the order of ``inputs``, the same
            number of dimensions in each call; it is converted to float32. The vector of a text must not depend on the
            other texts. With ``spans`` it should be that of the target word in its context.

    Optional:
        notes: texts in a tuple that are stored with the results and printed below tables.
        texts_per_call: number of inputs of one call of ``encode``, after which vectors are stored and progress is shown
            (default on a CPU 1,024); fewer for an encoder whose calls are slow.
        count_cut(inputs, pooling): returns a ``Truncation``, how many of these inputs it reads in part; ``pooling`` is
            ``None``.
        vocabulary(language): returns the distinct words of a language (ISO code) that have vectors, the most frequent
            first; for encoders of single words, such as static vectors.
        reads_pairs: true for an encoder that scores pairs of texts (``text`` and ``second`` of each input); ``encode``
            then returns the scores in the shape (n, 1).

    Raises:
        EncodingError: from mirrorbench, if ``encode`` returned anything but one finite vector for each input. The
            method itself may raise it for inputs that it cannot read. Any other error is reported with its line.

    Example:
        >>> import mirrorbench
        >>> import numpy as np
        >>> from mirrorbench.plugin import Encoder, TextInput
        >>> class LetterCounts:
        ...     fingerprint = "letter-counts-1"
        ...     def encode(self, inputs):
        ...         rows = [[item.text.count(letter) for letter in "aeiou"] for item in inputs]
        ...         return np.array(rows, dtype=np.float32) + 1
        >>> isinstance(LetterCounts(), Encoder)
        True
        >>> LetterCounts().encode([TextInput("a banana"), TextInput("the dog")]).shape
        (2, 5)
        >>> board = mirrorbench.evaluate(LetterCounts(), "quick-sts", name="letters")
        >>> [row.label for row in board.table.rows]
        ['letters']
    """

    @property
    def fingerprint(self) -> str:
        """The key of cached vectors and of results, a text that changes whenever the vectors of some text change."""

    def encode(self, inputs: Sequence[TextInput]) -> Array:
        """Return the vectors of n texts, or words in texts: shape (n, dimensions), in the order of ``inputs``."""


@runtime_checkable
class VocabularyEncoder(Encoder, Protocol):
    """An encoder with a list of words, such as static vectors; other encoders read any text."""

    def vocabulary(self, language: str) -> Sequence[str]:
        """Return the encoder's distinct words of a language (ISO code), the most frequent first."""


@runtime_checkable
class ReferencedEncoder(Encoder, Protocol):
    """An encoder that is identified by vectors of some fixed texts, such as a model behind a service.

    Its ``fingerprint`` is what is known of the model without vectors, and two models may have the same. mirrorbench
    stores the reference vectors beside results and cached vectors, and reuses these only if the encoder says that its
    vectors match; otherwise it is another encoder.

    Example:
        >>> import numpy as np
        >>> from mirrorbench.plugin import ReferencedEncoder, TextInput
        >>> class Service:
        ...     fingerprint = "model-of-a-service"
        ...     def encode(self, inputs):
        ...         return np.array([[len(item.text), 1.0] for item in inputs])
        ...     def reference_vectors(self):
        ...         return self.encode([TextInput("a cat"), TextInput("the old bridge")])
        ...     def matches(self, stored):
        ...         vectors = self.reference_vectors()
        ...         return stored.shape == vectors.shape and np.allclose(stored, vectors, atol=1e-3)
        >>> service = Service()
        >>> isinstance(service, ReferencedEncoder), service.matches(service.reference_vectors())
        (True, True)
    """

    def reference_vectors(self) -> Array:
        """Return the vectors of n texts that never change, shape (n, dimensions)."""

    def matches(self, stored: Array) -> bool:
        """Return whether reference vectors, stored by an encoder of the same fingerprint, are those of this one.

        Vectors may differ by rounding. ``stored`` may have another shape.
        """


def reads_pairs(encoder: Encoder) -> bool:
    """Return whether an encoder scores pairs of texts instead of returning vectors (its attribute ``reads_pairs``)."""
    return bool(getattr(encoder, "reads_pairs", False))


def check_inputs(
    encoder: Encoder, inputs: Sequence[TextInput], poolings: Sequence[Any] = ()
) -> None:
    """Raise an ``UnreadableTextError`` for the first input that an encoder cannot read, before any is encoded.

    An encoder that refuses some inputs has a true attribute ``refuses_texts`` and a method ``check_inputs``; all other
    encoders read any text. ``poolings``: for a ``PoolingEncoder``, whose pooling decides how many tokens of a text are
    read; by default its own pooling.
    """
    if getattr(encoder, "refuses_texts", False):
        encoder.check_inputs(inputs, poolings)  # type: ignore[attr-defined]


def encode_checked(encoder: Encoder, inputs: Sequence[TextInput], who: str) -> Array:
    """Return the vectors of any encoder; ``who`` names it in messages.

    Raises:
        EncodingError: the encoder raised a foreign error, or did not return one finite vector for each input.
    """
    try:
        vectors = encoder.encode(inputs)
    except MirrorbenchError:
        raise
    except (Exception, SystemExit) as error:
        raise EncodingError(f"{who} failed: {describe(error)}") from error
    return check_vectors(vectors, len(inputs), who)


def check_vectors(vectors: object, n: int, who: str) -> Array:
    """Return vectors as float32; raise an ``EncodingError`` that names ``who`` unless they are n finite vectors."""
    if vectors is None:
        raise EncodingError(f"{who} returned None", "Let its encode() return the array.")
    try:
        array = np.asarray(vectors)
    # torch raises a RuntimeError for a tensor that requires gradients.
    except (TypeError, ValueError, RuntimeError) as error:
        raise EncodingError(f"{who} did not return an array of numbers: {error}") from error
    # Refuse complex numbers, text that looks like numbers, None and other objects.
    if array.dtype.kind not in "fiub":
        raise EncodingError(f"{who} did not return an array of numbers: its type is {array.dtype}")
    # Values outside the range of float32 become infinite, which is refused below.
    with np.errstate(over="ignore"):
        array = np.ascontiguousarray(array, dtype=np.float32)
    if array.ndim != 2 or array.shape[0] != n or array.shape[1] == 0:
        raise EncodingError(
            f"{who} returned an array of shape {array.shape} for {n} texts; expected ({n}, dimensions)"
        )
    finite = np.isfinite(array).all(axis=1)
    if not finite.all():
        n_wrong = int((~finite).sum())
        raise EncodingError(f"{who} returned NaN or infinite vectors for {n_wrong} of {n} texts")
    return array
