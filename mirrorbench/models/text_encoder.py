"""What ``mirrorbench.load`` returns: any encoder, asked with plain strings."""

from __future__ import annotations

from collections.abc import Sequence

from mirrorbench.core.errors import UsageError
from mirrorbench.core.identity import digest
from mirrorbench.core.inputs import Array, Encoder, TextInput, check_vectors


class TextEncoder:
    """An encoder as ``load`` gives it: plain strings, or words in context, to vectors.

    Args:
        encoder: what does the work.
        name: what it was loaded as.
    """

    def __init__(self, encoder: Encoder, name: str = "encoder") -> None:
        self.encoder = encoder
        self.name = name

    def __repr__(self) -> str:
        return f"<mirrorbench encoder {self.name}>"

    @property
    def fingerprint(self) -> str:
        """Changes whenever the vectors of some text would: with the weights, the pooling or the precision."""
        pooling = getattr(self.encoder, "pooling", None)
        if pooling is None:
            return self.encoder.fingerprint
        precision = getattr(self.encoder, "precision", "")
        return digest({"encoder": self.encoder.fingerprint, "readout": str(pooling), "precision": precision})

    def encode(self, texts: Sequence[str | TextInput]) -> Array:
        """One vector a text: float32 of shape (len(texts), dimensions).

        Raises:
            UsageError: ``texts`` is a single string.
            EncodingError: the encoder gave anything else.
        """
        if isinstance(texts, str):
            raise UsageError("encode() takes a list of texts, and got one string", "Write encode([text]).")
        inputs = [TextInput(text) if isinstance(text, str) else text for text in texts]
        return check_vectors(self.encoder.encode(inputs), len(inputs), "the encoder")
