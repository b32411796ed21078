"""The encoder behind ``base``, ``mirror`` and their kin: a transformers model with a pooling."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from mirrorbench.core.inputs import Array, LostTargets, TextInput, check_vectors
from mirrorbench.models.backbones import fingerprint
from mirrorbench.models.cost import Cost
from mirrorbench.models.inference import Pass, read
from mirrorbench.models.pooling import Pooling
from mirrorbench.models.transformer import Transformer


class TransformerEncoder:
    """A ``Transformer`` with a pooling: the encoder behind ``base``, ``mirror`` and their kin.

    Args:
        transformer: the model.
        pooling: what ``encode`` returns; ``encode_pooled`` gives several from the same passes.
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

    def encode(self, inputs: Sequence[TextInput] | Sequence[str]) -> Array:
        """Vectors of texts, float32 of shape (n, dimensions)."""
        return self.encode_pooled([as_input(i) for i in inputs], [self.pooling])[0]

    def encode_pooled(
        self,
        inputs: Sequence[TextInput],
        poolings: Sequence[Pooling],
        advance: Callable[[int], None] = lambda n: None,
    ) -> list[Array]:
        """Vectors of texts under several poolings, in as few passes as their lengths and paddings allow.

        Args:
            inputs: n texts.
            poolings: what to read.
            advance: called with the number of texts done, in the units of ``len(inputs)`` for all passes together.

        Returns:
            For each pooling float32 of shape (n, dimensions).
        """
        started = time.perf_counter()
        wanted: dict[int, list[Pooling]] = {}
        for pooling in dict.fromkeys(poolings):
            wanted.setdefault(pooling.max_length, []).append(pooling)
        results: dict[Pooling, Array] = {}
        for number, group in enumerate(wanted.values()):
            results.update(self._vectors(inputs, group, advance if number == len(wanted) - 1 else lambda n: None))
        self.cost += Cost(seconds=time.perf_counter() - started)
        return [results[pooling] for pooling in poolings]

    def _vectors(
        self, inputs: Sequence[TextInput], poolings: list[Pooling], advance: Callable[[int], None]
    ) -> dict[Pooling, Array]:
        """Vectors under poolings that share their maximum length: one pass, and a second one over few texts.

        Around a target another part of a long text may be kept than at its start.
        """
        first = self._read(inputs, poolings, advance)
        plain = [r for r in poolings if r.mode != "target"]
        if plain and len(first.moved):
            again = self._read([inputs[row] for row in first.moved], plain)
            for pooling in plain:
                first.vectors[pooling][first.moved] = again.vectors[pooling]
        who = f"the model {self.transformer.path.name}"
        return {pooling: check_vectors(vectors, len(inputs), who) for pooling, vectors in first.vectors.items()}

    def lost_targets(self, inputs: Sequence[TextInput], pooling: Pooling) -> LostTargets:
        """What a ``target`` pooling does not see of the inputs."""
        located = self.transformer.locate(inputs, pooling.max_length)
        return LostTargets(len(located.moved), located.cut, located.missing)

    def _read(
        self, inputs: Sequence[TextInput], poolings: list[Pooling], advance: Callable[[int], None] = lambda n: None
    ) -> Pass:
        found = read(self.transformer, inputs, poolings, self.precision, advance)
        self.cost += found.cost
        return found


def as_input(value: TextInput | str) -> TextInput:
    """A plain string as an input without a target."""
    return TextInput(value) if isinstance(value, str) else value
