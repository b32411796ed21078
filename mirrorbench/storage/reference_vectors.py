"""Reference vectors of encoders, stored beside the results and vectors that were computed with them.

An encoder behind a service has no checksum: its vectors of some fixed texts identify it. They vary by rounding, so they
cannot be hashed, and the encoder says itself whether stored ones are its own.
"""

from __future__ import annotations

import hashlib
import logging
from pathlib import Path

import numpy as np

from mirrorbench.core.encoder_protocol import Array
from mirrorbench.core.identity import digest
from mirrorbench.storage.files import writing

REFERENCES = "references"
"""Folder of reference vectors in the cache, and, with a dot before it, in a folder of results."""
_logger = logging.getLogger(__name__)


class ReferenceVectors:
    """The stored reference vectors of one encoder: an array for each model that was seen under its fingerprint.

    Args:
        root: the folder of all encoders' reference vectors.
        fingerprint: what the encoder states of itself.
    """

    def __init__(self, root: Path, fingerprint: str) -> None:
        self._folder = root / digest({"fingerprint": fingerprint})

    def stored(self) -> dict[str, Array]:
        """Return the stored arrays by name, which is their checksum; damaged files are left out, with a warning."""
        arrays: dict[str, Array] = {}
        for file in sorted(self._folder.glob("*.npy")):
            try:
                vectors: Array = np.load(file)
            except (OSError, ValueError, EOFError):
                vectors = np.empty((0, 0), dtype=np.float32)
            if _name(vectors) == file.stem:
                arrays[file.stem] = vectors
            else:
                _logger.warning("Reference vectors in %s are damaged, and are ignored.", file)
        return arrays

    def store(self, vectors: Array) -> str:
        """Write an array unless it is stored undamaged, and return its name.

        Raises:
            StorageError: the folder cannot be written.
        """
        name = _name(vectors)
        if name not in self.stored():
            with writing(self._folder / f"{name}.npy", self._folder.parent) as sink:
                np.save(sink, vectors)
        return name


def _name(vectors: Array) -> str:
    """Return the checksum of an array, its shape included."""
    content = f"{vectors.shape} ".encode() + np.ascontiguousarray(vectors).tobytes()
    return hashlib.sha256(content).hexdigest()
