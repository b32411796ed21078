"""Identity of encoders that state reference vectors: they are the encoder whose stored vectors they match."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mirrorbench.core.encoder_protocol import (
    Array,
    Encoder,
    ReferencedEncoder,
    TextInput,
    check_vectors,
)
from mirrorbench.core.identity import digest
from mirrorbench.runs.folders import Folders
from mirrorbench.storage.reference_vectors import REFERENCES, ReferenceVectors
from mirrorbench.storage.results import ResultStore


class IdentifiedEncoder:
    """An encoder with the identity of its reference vectors; all else is that of the encoder inside.

    Args:
        encoder: the encoder.
        vectors: the stored reference vectors that it matches, or its own.
        name: the name of these vectors in the store.
    """

    def __init__(self, encoder: Encoder, vectors: Array, name: str) -> None:
        self.encoder = encoder
        self.fingerprint = digest({"encoder": encoder.fingerprint, "reference": name})
        self._vectors = vectors

    def encode(self, inputs: Sequence[TextInput]) -> Any:
        """Return the vectors of texts, shape (n, dimensions)."""
        return self.encoder.encode(inputs)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.encoder, name)

    def store_beside(self, results: ResultStore) -> None:
        """Store the reference vectors in a folder of results, so that they are found without the cache."""
        ReferenceVectors(_folder(results), self.encoder.fingerprint).store(self._vectors)


def identified(encoder: Encoder, folders: Folders) -> Encoder:
    """Return an encoder with its identity: unchanged, unless it states reference vectors.

    Its reference vectors are compared with those that are stored beside results and in the cache, and stored in the
    cache if they are missing there.

    Raises:
        EncodingError: the reference vectors are not finite vectors.
        StorageError: they cannot be stored.
    """
    if isinstance(encoder, IdentifiedEncoder) or not isinstance(encoder, ReferencedEncoder):
        return encoder
    # Processes that start at the same time must find the same vectors, or each would compute everything.
    with folders.cache.leases.wait(digest({"references": encoder.fingerprint})):
        return _compared_with_stored(encoder, folders)


def _compared_with_stored(encoder: ReferencedEncoder, folders: Folders) -> IdentifiedEncoder:
    """Return an encoder with the identity of the stored vectors that it matches, or else of its own, stored now."""
    cached = ReferenceVectors(folders.cache.root / REFERENCES, encoder.fingerprint)
    beside_results = ReferenceVectors(_folder(folders.results), encoder.fingerprint)
    for vectors in (beside_results.stored() | cached.stored()).values():
        if encoder.matches(vectors):
            return IdentifiedEncoder(encoder, vectors, cached.store(vectors))
    own_vectors = encoder.reference_vectors()
    vectors = check_vectors(own_vectors, len(own_vectors), f"reference_vectors() of {encoder!r}")
    return IdentifiedEncoder(encoder, vectors, cached.store(vectors))


def _folder(results: ResultStore) -> Path:
    """Return the folder of reference vectors beside results."""
    return results.root / f".{REFERENCES}"
