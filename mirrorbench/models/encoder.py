"""From texts to vectors: the encoder behind ``base``, ``mirror`` and their kin, alone or one a language."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from mirrorbench.core.errors import EncodingError
from mirrorbench.core.inputs import Array, LostTargets, TextInput, as_inputs, check_vectors
from mirrorbench.models.backbones import fingerprint
from mirrorbench.models.inference import Cost, encode_once
from mirrorbench.models.pooling import Pooling
from mirrorbench.models.transformer import Transformer


def _unheard(n: int) -> None:
    """Progress that nobody is told of."""


class TransformerEncoder:
    """A ``Transformer`` with a pooling.

    Args:
        transformer: the model.
        pooling: of ``encode``; ``encode_pooled`` gives several from the same passes.
        precision: ``fp32``, or ``bf16`` for autocast.
        fingerprint: identity of the weights; by default a checksum of the model's directory.

    Attributes:
        cost: of all that it has encoded.
    """

    def __init__(
        self, transformer: Transformer, pooling: Pooling, precision: str = "fp32", fingerprint: str = ""
    ) -> None:
        self.transformer = transformer
        self.pooling = pooling
        self.precision = precision
        self.cost = Cost()
        self._fingerprint = fingerprint

    @property
    def fingerprint(self) -> str:
        """Checksum of the weights; the pooling and the precision are identified beside it."""
        return self._fingerprint or fingerprint(self.transformer.path)

    def encode(self, inputs: Sequence[TextInput | str]) -> Array:
        """Vectors of texts, float32 of shape (n, dimensions)."""
        return self.encode_pooled(as_inputs(inputs), [self.pooling])[0]

    def encode_pooled(
        self, inputs: Sequence[TextInput], poolings: Sequence[Pooling], advance: Callable[[int], None] = _unheard
    ) -> list[Array]:
        """Vectors of texts under several poolings, in as few passes as their lengths and paddings allow.

        Args:
            inputs: n texts.
            poolings: how to pool them.
            advance: called with the number of texts done, in the units of ``len(inputs)`` for all passes together.

        Returns:
            For each pooling float32 of shape (n, dimensions).
        """
        started = time.perf_counter()
        results: dict[Pooling, Array] = {}
        lengths = list(dict.fromkeys(pooling.max_length for pooling in poolings))
        for length in lengths:
            alike = list(dict.fromkeys(pooling for pooling in poolings if pooling.max_length == length))
            results |= self._vectors(inputs, alike, advance if length == lengths[-1] else _unheard)
        self.cost += Cost(seconds=time.perf_counter() - started)
        return [results[pooling] for pooling in poolings]

    def _vectors(
        self, inputs: Sequence[TextInput], poolings: list[Pooling], advance: Callable[[int], None]
    ) -> dict[Pooling, Array]:
        """Vectors under poolings that share their maximum length: one pass, and a second one over few texts.

        Around a target another part of a long text may be kept than at its start.
        """
        found, windowed, cost = encode_once(self.transformer, inputs, poolings, self.precision, advance)
        self.cost += cost
        plain = [pooling for pooling in poolings if pooling.mode != "target"]
        if plain and len(windowed):
            cut = [inputs[row] for row in windowed]
            again, _, cost = encode_once(self.transformer, cut, plain, self.precision, _unheard)
            self.cost += cost
            for pooling, vectors in again.items():
                found[pooling][windowed] = vectors
        who = f"the model {self.transformer.path.name}"
        return {pooling: check_vectors(vectors, len(inputs), who) for pooling, vectors in found.items()}

    def lost_targets(self, inputs: Sequence[TextInput], pooling: Pooling) -> LostTargets:
        """What a ``target`` pooling does not see of the inputs."""
        located = self.transformer.locate(inputs, pooling.max_length)
        return LostTargets(len(located.windowed), located.cut, located.missing)


class LanguageRouter:
    """One encoder a language: for tasks across languages with monolingual backbones (paper 1, section 4.3, BLI).

    Args:
        encoders: a ``PoolingEncoder`` for each ISO code; their vectors have the same number of dimensions.
        fingerprint: identity of all of them together.
    """

    def __init__(self, encoders: Mapping[str, Any], fingerprint: str) -> None:
        self.encoders = encoders
        self.fingerprint = fingerprint

    def encode(self, inputs: Sequence[TextInput]) -> Array:
        """Vectors of inputs, each by the encoder of its language, float32 of shape (n, dimensions)."""
        return self._routed(inputs, lambda encoder, own: [encoder.encode(own)])[0]

    def encode_pooled(
        self, inputs: Sequence[TextInput], poolings: Sequence[Pooling], advance: Callable[[int], None] = _unheard
    ) -> list[Array]:
        """As ``encode``, under several poolings: one array for each."""
        return self._routed(inputs, lambda encoder, own: encoder.encode_pooled(own, poolings, advance))

    def lost_targets(self, inputs: Sequence[TextInput], pooling: Pooling) -> LostTargets:
        """What is not seen, over all languages."""
        found = [
            encoder.lost_targets([item for item in inputs if item.language == language], pooling)
            for language, encoder in self.encoders.items()
        ]
        return LostTargets(*map(sum, zip(*found, strict=True)))

    @property
    def cost(self) -> Cost:
        """Of all the encoders that count theirs."""
        return sum((getattr(encoder, "cost", Cost()) for encoder in self.encoders.values()), Cost())

    def _routed(
        self, inputs: Sequence[TextInput], encode: Callable[[Any, Sequence[TextInput]], list[Array]]
    ) -> list[Array]:
        results: list[Array] = []
        for language in dict.fromkeys(item.language for item in inputs):
            if language not in self.encoders:
                raise EncodingError(
                    f"a text of language {language!r} has no encoder here; there are: {', '.join(self.encoders)}"
                )
            rows = [row for row, item in enumerate(inputs) if item.language == language]
            arrays = encode(self.encoders[language], [inputs[row] for row in rows])
            if not results:
                results = [np.empty((len(inputs), array.shape[1]), dtype=np.float32) for array in arrays]
            for result, array in zip(results, arrays, strict=True):
                if array.shape[1] != result.shape[1]:
                    raise EncodingError(
                        f"the encoder of {language!r} has {array.shape[1]} dimensions, others have {result.shape[1]}"
                    )
                result[rows] = array
        return results
