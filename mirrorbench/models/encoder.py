"""The encoder behind ``base``, ``mirror`` and their kin: a transformers model with a readout."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from mirrorbench.core.inputs import Array, Lost, TextInput, checked
from mirrorbench.models.backbones import fingerprint
from mirrorbench.models.cost import Cost
from mirrorbench.models.inference import Pass, read
from mirrorbench.models.pooling import Readout
from mirrorbench.models.transformer import Transformer


class TransformerEncoder:
    """A ``Transformer`` with a readout: the encoder behind ``base``, ``mirror`` and their kin.

    Args:
        transformer: the model.
        readout: what ``encode`` returns; ``encode_readouts`` gives several from the same passes.
        precision: ``fp32``, or ``bf16`` for autocast.
        fingerprint: identity of the weights; by default a checksum of the model's directory.

    Attributes:
        cost: of all that it has encoded.
    """

    def __init__(
        self, transformer: Transformer, readout: Readout, precision: str = "fp32", fingerprint: str = ""
    ) -> None:
        self.transformer = transformer
        self.readout = readout
        self.precision = precision
        self.cost = Cost()
        self._fingerprint = fingerprint

    @property
    def fingerprint(self) -> str:
        """Checksum of the weights; the readout and the precision are identified beside it."""
        return self._fingerprint or fingerprint(self.transformer.path)

    def encode(self, inputs: Sequence[TextInput] | Sequence[str]) -> Array:
        """Vectors of texts, float32 of shape (n, dimensions)."""
        return self.encode_readouts([as_input(i) for i in inputs], [self.readout])[0]

    def encode_readouts(
        self,
        inputs: Sequence[TextInput],
        readouts: Sequence[Readout],
        advance: Callable[[int], None] = lambda n: None,
    ) -> list[Array]:
        """Vectors of texts under several readouts, in as few passes as their lengths and paddings allow.

        Args:
            inputs: n texts.
            readouts: what to read.
            advance: called with the number of texts done, in the units of ``len(inputs)`` for all passes together.

        Returns:
            For each readout float32 of shape (n, dimensions).
        """
        started = time.perf_counter()
        wanted: dict[int, list[Readout]] = {}
        for readout in dict.fromkeys(readouts):
            wanted.setdefault(readout.max_length, []).append(readout)
        results: dict[Readout, Array] = {}
        for number, group in enumerate(wanted.values()):
            results.update(self._vectors(inputs, group, advance if number == len(wanted) - 1 else lambda n: None))
        self.cost += Cost(seconds=time.perf_counter() - started)
        return [results[readout] for readout in readouts]

    def _vectors(
        self, inputs: Sequence[TextInput], readouts: list[Readout], advance: Callable[[int], None]
    ) -> dict[Readout, Array]:
        """Vectors under readouts that share their maximum length: one pass, and a second one over few texts.

        Around a target another part of a long text may be kept than at its start.
        """
        first = self._read(inputs, readouts, advance)
        plain = [r for r in readouts if r.pooling != "target"]
        if plain and len(first.moved):
            again = self._read([inputs[row] for row in first.moved], plain)
            for readout in plain:
                first.vectors[readout][first.moved] = again.vectors[readout]
        who = f"the model {self.transformer.path.name}"
        return {readout: checked(vectors, len(inputs), who) for readout, vectors in first.vectors.items()}

    def lost(self, inputs: Sequence[TextInput], readout: Readout) -> Lost:
        """What a ``target`` readout does not see of the inputs."""
        located = self.transformer.locate(inputs, readout.max_length)
        return Lost(len(located.moved), located.cut, located.missing)

    def _read(
        self, inputs: Sequence[TextInput], readouts: list[Readout], advance: Callable[[int], None] = lambda n: None
    ) -> Pass:
        found = read(self.transformer, inputs, readouts, self.precision, advance)
        self.cost += found.cost
        return found


def as_input(value: TextInput | str) -> TextInput:
    """A plain string as an input without a target."""
    return TextInput(value) if isinstance(value, str) else value
