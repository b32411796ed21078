"""The encoder ``endpoint``: the vectors that a server returns, and the identity of the model behind it.

Keys of its spec:

- ``url``: address of the API, most often ending in ``/v1``.
- ``model``: name of the model on the server.
- ``key_env``: name of the environment variable that holds the server's key.
- ``prompt``: a text before each text, or a template with ``{text}``.
- ``batch``: texts in a request (32), halved while the server refuses them.
- ``requests``: requests at a time (4).
- ``timeout``: seconds to wait for an answer (300; the first one may load the model).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence

import numpy as np

from mirrorbench.plugin import (
    EncoderContext,
    EncoderSpec,
    EncodingError,
    TextInput,
    Truncation,
    UsageError,
)
from mirrorbench_endpoint.address import parse_address
from mirrorbench_endpoint.service import RefusedError, Service, Vectors
from mirrorbench_endpoint.window import Window, n_bytes


def _long_text(sentences: Sequence[str]) -> str:
    """Return a text in which each sentence is repeated until the text is twice as long as before.

    So its vector changes with the number of tokens that a server reads, whatever that is.
    """
    text = ""
    for sentence in sentences:
        text += f"{sentence} " * (1 + len(text) // len(sentence))
    return text[:20_000]


_SHORT_TEXTS = (
    "a cat",
    "The committee postponed its decision until spring.",
    "Paris",
    "How do I reset my password?",
    "0.25 mg twice daily",
    "def add(a, b): return a + b",
    "Der Hund schläft unter dem Tisch.",
    "Le train part à huit heures.",
    "El agua hierve a cien grados.",
    "今天的天气很好。",
    "京都は静かな町です。",
    "Москва готовится к зиме.",
    "القطة على السرير",
    "आज बाज़ार बंद है।",
    "한국어 문장입니다.",
    "!?...",
    "UPPER CASE AND lower case",
    "Insulin lowers the concentration of glucose in the blood.",
    "The river rose two metres in a night, and by morning the lower bridge was under water.",
)
REFERENCE_TEXTS = (*_SHORT_TEXTS, _long_text([text for text in _SHORT_TEXTS if text.isascii()]))
"""Twenty texts, whose vectors identify the model behind a name. The last one, of some 5,000 tokens, shows how much of a
text the server reads."""
TOLERANCE = 1e-3
"""Largest difference from 1 of the cosine between two vectors of one text by one model. Half precision and other texts
in a batch change it by less, another model or another revision by more."""
LENGTH_TOLERANCE = 0.05
"""Largest difference between the lengths of two vectors of one text by one model, as a share. A server that makes unit
vectors of a model's differs by more; whitening depends on lengths."""
_ANNOUNCED_HOSTS: set[str] = set()
"""Hosts of which the user was told that texts leave for them."""


class EndpointEncoder:
    """An encoder behind an OpenAI-compatible ``/embeddings``.

    Attributes:
        fingerprint: identity of the model's name, of what the server states of it, and of the prompt; not the address.
        notes: what readers of the results must know: how much text left this machine.
        texts_per_call: number of texts of one call of ``encode``, after which vectors are stored.

    Raises:
        UsageError: the spec or the environment is wrong.
        ModelUnavailableError: there is no such server, or it has no such model.
    """

    def __init__(self, spec: EncoderSpec, context: EncoderContext) -> None:
        for key in ("url", "model"):
            if not spec.get(key):
                raise UsageError(
                    f"the encoder endpoint needs {key}=",
                    "Write endpoint:url=http://HOST:PORT/v1,model=NAME",
                )
        if spec.revision:
            raise UsageError(
                f"an endpoint has no revisions, but is given {spec.revision!r}",
                "Leave it out; the server determines the revision of its model.",
            )
        batch = spec.get("batch", 32)
        n_requests = spec.get("requests", 4)
        timeout = spec.get("timeout", 300.0)
        for key, value in (("batch", batch), ("requests", n_requests), ("timeout", timeout)):
            if value <= 0:
                raise UsageError(f"{key}={value} of an endpoint must be positive")
        prompt = str(spec.get("prompt", ""))
        if prompt and "{text}" not in prompt:
            prompt += "{text}"
        self._prompt = prompt
        self._batch = int(batch)
        address = parse_address(str(spec.get("url")), context.offline)
        if not address.is_local and address.host not in _ANNOUNCED_HOSTS:
            _ANNOUNCED_HOSTS.add(address.host)
            context.note(f"texts for {spec.get('model')} leave this machine for {address.host}")
        key_env = str(spec.get("key_env", ""))
        self._service = Service(
            address, str(spec.get("model")), key_env, int(n_requests), float(timeout)
        )
        self._reference: Vectors | None = None
        self._n_sent = 0
        self._n_refused = 0
        self.texts_per_call = max(128, self._batch * int(n_requests))
        stated = self._service.stated()
        identity = {"model": self._service.model, "stated": stated, "prompt": prompt}
        canonical = json.dumps(identity, sort_keys=True, ensure_ascii=False)
        self.fingerprint = hashlib.sha256(canonical.encode()).hexdigest()
        remembered = context.folder / f"{self.fingerprint}.txt" if context.folder else None
        self._window = Window(self._service, remembered)

    def __repr__(self) -> str:
        return f"<endpoint {self._service.model} at {self._service.address.host}>"

    def reference_vectors(self) -> Vectors:
        """Return the vectors of ``REFERENCE_TEXTS``, shape (20, dimensions); the server is asked once."""
        if self._reference is None:
            *short, long = [self._prompted(text) for text in REFERENCE_TEXTS]
            of_short = self._in_batches(short)
            if self._n_refused:
                raise EncodingError(
                    f"{self!r} refuses texts of a few words", "Look at the server's log."
                )
            # Alone, so that a server that refuses long texts refuses no other with it.
            of_long = self._in_batches([long])
            self._reference = np.concatenate([of_short, of_long])
        return self._reference

    def matches(self, stored: Vectors) -> bool:
        """Return whether stored reference vectors are those of the model that the server has now."""
        own = self.reference_vectors()
        if stored.shape != own.shape:
            return False
        own = own.astype(np.float64)
        stored = stored.astype(np.float64)
        own_lengths = np.linalg.norm(own, axis=1)
        lengths = np.linalg.norm(stored, axis=1)
        # A vector of zeros, such as static vectors of unknown words have, has no cosine; it is like another one.
        are_near = (own * stored).sum(axis=1) >= (1 - TOLERANCE) * own_lengths * lengths
        are_as_long = np.abs(own_lengths - lengths) <= LENGTH_TOLERANCE * lengths
        return bool((are_near & are_as_long).all())

    def encode(self, inputs: Sequence[TextInput]) -> Vectors:
        """Return the vectors of texts, shape (n, dimensions).

        Raises:
            UsageError: an input is a word in a text, whose vector no endpoint returns.
            EncodingError: the server's answer is not one vector for each text.
            ModelUnavailableError: the server is not there, or gave up.
        """
        if any(item.spans for item in inputs):
            raise UsageError(
                "an endpoint returns vectors of whole texts, and this task needs those of a word in a text",
                "Choose another task, or the model itself.",
            )
        if not inputs:
            return self.reference_vectors()[:0]
        texts = [self._prompted(item.text) for item in inputs]
        self._n_sent += len(texts)
        self._window.measure(max(texts, key=n_bytes))
        alone = [row for row, text in enumerate(texts) if self._window.may_cut(text)]
        together = [row for row, text in enumerate(texts) if not self._window.may_cut(text)]
        # The number of dimensions is that of the reference vectors, which were asked for when the run was planned.
        vectors = np.empty((len(texts), self.reference_vectors().shape[1]), dtype=np.float32)
        for rows, one_by_one in ((together, False), (alone, True)):
            if rows:
                vectors[rows] = self._in_batches([texts[row] for row in rows], one_by_one)
        return vectors

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes on the texts that were sent since the encoder was opened."""
        host = self._service.address.host
        notes = []
        if self._n_sent and not self._service.address.is_local:
            tokens = "tokens not stated"
            if self._service.tokens is not None:
                tokens = f"{self._service.tokens:,} tokens"
            notes.append(f"its texts left this machine for {host} ({tokens})")
        return tuple(notes)

    def count_cut(self, inputs: Sequence[TextInput], pooling: object = None) -> Truncation:
        """Return how many texts the server refused for their length, or cut, as far as it tells."""
        return self._window.truncation([self._prompted(item.text) for item in inputs])

    def _prompted(self, text: str) -> str:
        return self._prompt.replace("{text}", text) if self._prompt else text

    def _in_batches(self, texts: Sequence[str], one_by_one: bool = False) -> Vectors:
        """Return the vectors of texts in their order; what is refused is asked for again in halves.

        Of texts that are sent ``one_by_one``, those that were cut are remembered.
        """
        size = 1 if one_by_one else self._batch
        n_refused_before = self._n_refused
        batches = [texts[start : start + size] for start in range(0, len(texts), size)]
        answers = self._service.embed(batches)
        parts = []
        was_batch_refused = False
        for batch, answer in zip(batches, answers, strict=True):
            if isinstance(answer, RefusedError):
                if len(batch) > 1:
                    was_batch_refused = True
                parts.append(self._in_halves(batch, answer))
                continue
            if one_by_one:
                self._window.note_answer(batch[0], answer)
            parts.append(answer.vectors)
        if was_batch_refused and self._n_refused == n_refused_before:
            # No single text was refused, so the batches are too large for the server.
            self._batch = max(1, self._batch // 2)
        return np.concatenate(parts)

    def _in_halves(self, texts: Sequence[str], refusal: RefusedError) -> Vectors:
        """Return the vectors of texts that were refused together; of a single one, those of its beginning."""
        if len(texts) == 1:
            self._n_refused += 1
            self._window.note_part(texts[0])
            return self._of_beginning(texts[0], refusal)
        middle = len(texts) // 2
        halves = [texts[:middle], texts[middle:]]
        parts = []
        for half, answer in zip(halves, self._service.embed(halves), strict=True):
            if isinstance(answer, RefusedError):
                parts.append(self._in_halves(half, answer))
            else:
                parts.append(answer.vectors)
        return np.concatenate(parts)

    def _of_beginning(self, text: str, refusal: RefusedError) -> Vectors:
        """Return the vector of the longest beginning, by halves, that the server takes; in the end that of a space."""
        beginning = text
        while beginning != " ":
            beginning = beginning[: len(beginning) // 2] or " "
            (answer,) = self._service.embed([[beginning]])
            if not isinstance(answer, RefusedError):
                return answer.vectors
            refusal = answer
        raise EncodingError(
            f"{self!r} refuses a text of {len(text):,} characters, and its beginning too: {refusal}",
            "Look at the server's log.",
        )
