"""One encoder a language: for tasks across languages with monolingual backbones (paper 1, section 4.3, BLI)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from mirrorbench.core.errors import EncodingError
from mirrorbench.core.inputs import Array, Encoder, LostTargets, PoolingEncoder, TextInput
from mirrorbench.models.cost import Cost
from mirrorbench.models.pooling import Pooling


class LanguageRouter:
    """Sends each input to the encoder of its language.

    Args:
        encoders: by ISO code; their vectors have the same number of dimensions.
        fingerprint: identity of all of them together.
    """

    def __init__(self, encoders: Mapping[str, Encoder], fingerprint: str) -> None:
        self.encoders = encoders
        self.fingerprint = fingerprint

    def encode(self, inputs: Sequence[TextInput]) -> Array:
        """Vectors of inputs, each by the encoder of its language, float32 of shape (n, dimensions)."""
        return self._scatter(inputs, lambda encoder, own: [encoder.encode(own)])[0]

    def encode_pooled(
        self, inputs: Sequence[TextInput], poolings: Sequence[Pooling], advance: Callable[[int], None] = lambda n: None
    ) -> list[Array]:
        """As ``encode``, under several poolings: one array a pooling."""

        def encode(encoder: Encoder, own: Sequence[TextInput]) -> list[Array]:
            assert isinstance(encoder, PoolingEncoder)  # only backbones are opened with poolings
            return encoder.encode_pooled(own, poolings, advance)

        return self._scatter(inputs, encode)

    def lost_targets(self, inputs: Sequence[TextInput], pooling: Pooling) -> LostTargets:
        """What is not seen, over all languages."""
        found = []
        for language, encoder in self.encoders.items():
            assert isinstance(encoder, PoolingEncoder)
            found.append(encoder.lost_targets([item for item in inputs if item.language == language], pooling))
        return LostTargets(*map(sum, zip(*found, strict=True)))

    @property
    def cost(self) -> Cost:
        """Of all the encoders that count theirs."""
        return sum((getattr(encoder, "cost", Cost()) for encoder in self.encoders.values()), Cost())

    def _scatter(
        self, inputs: Sequence[TextInput], encode: Callable[[Encoder, Sequence[TextInput]], list[Array]]
    ) -> list[Array]:
        results: list[Array] = []
        for language in dict.fromkeys(item.language for item in inputs):
            if language not in self.encoders:
                raise EncodingError(
                    f"a text of language {language!r} has no encoder here; there are: {', '.join(self.encoders)}"
                )
            rows = np.array([row for row, item in enumerate(inputs) if item.language == language])
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
