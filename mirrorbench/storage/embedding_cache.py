"""The vectors of an encoder on disk, by input."""

from __future__ import annotations

import hashlib
import logging
import re
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mirrorbench.core.encoder_protocol import Array, TextInput
from mirrorbench.core.errors import StorageError
from mirrorbench.core.identity import COMPUTATION
from mirrorbench.storage.cache import STATEMENT
from mirrorbench.storage.files import writing

KEY_BYTES = 16
"""Bytes of the key of an input (``TextInput.key``)."""
SHARD = re.compile(r"[0-9a-f]{64}")
"""The name of a shard of vectors."""
_logger = logging.getLogger(__name__)


class EmbeddingCache:
    """Vectors of one encoder (weights, pooling, precision) by input, in shards that are memory-mapped.

    A shard is two files: vectors, and the keys of their inputs. The keys are written last, so that a shard without keys
    is incomplete. A shard's name is the hash of both files; it shows damage, and lets processes share a folder.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        # By the input's key: the number of its shard, which is its place in ``_shards``, and its row there.
        self._rows: dict[bytes, tuple[int, int]] = {}
        self._shards: list[Array] = []
        # By number: names of the shards that are not verified yet, which is done when their vectors are first needed.
        self._unchecked: dict[int, str] = {}
        for keys_file in sorted(folder.glob("*.keys.npy")):
            name = keys_file.name.removesuffix(".keys.npy")
            if not SHARD.fullmatch(name):
                continue
            try:
                keys = np.load(keys_file)
                vectors = np.load(folder / f"{name}.npy", mmap_mode="r")
            except (OSError, ValueError, EOFError):
                self._drop(name)
            else:
                self._unchecked[len(self._shards)] = name
                self._add(keys, vectors)
        if self._shards:
            # An earlier version may have stored the shards without a statement.
            self._write_statement()

    def _write_statement(self) -> None:
        """Write the file that states the computation of the vectors, unless it is there or cannot be written."""
        statement = self.folder / STATEMENT
        if not statement.is_file():
            with suppress(StorageError), writing(statement, flush=False) as sink:
                sink.write(str(COMPUTATION).encode())

    def _add(self, keys: NDArray[np.uint8], vectors: Array) -> None:
        """Add the keys and vectors of a shard."""
        key_bytes = keys.tobytes()
        shard = len(self._shards)
        self._shards.append(vectors)
        for row in range(len(keys)):
            key = key_bytes[row * KEY_BYTES : (row + 1) * KEY_BYTES]
            self._rows[key] = (shard, row)

    def _drop(self, name: str) -> None:
        """Remove the files of a damaged shard, with a warning."""
        _logger.warning(
            "Vectors in %s are damaged (%s); they are computed again.", self.folder, name
        )
        for suffix in (".keys.npy", ".npy"):
            (self.folder / f"{name}{suffix}").unlink(missing_ok=True)

    def missing(self, inputs: Sequence[TextInput]) -> list[TextInput]:
        """Return the inputs that have no undamaged vectors here, in their order; damaged shards are removed."""
        keys = [input_.key() for input_ in inputs]
        shards = {self._rows[key][0] for key in keys if key in self._rows}
        for shard in sorted(shards & self._unchecked.keys()):
            name = self._unchecked.pop(shard)
            if not is_undamaged(self.folder, name, self._shards[shard]):
                self._rows = {
                    key: position for key, position in self._rows.items() if position[0] != shard
                }
                self._drop(name)
        return [input_ for input_, key in zip(inputs, keys, strict=True) if key not in self._rows]

    def put(self, inputs: Sequence[TextInput], vectors: Array) -> None:
        """Store the vectors of inputs, shape (len(inputs), dimensions)."""
        key_bytes = b"".join(input_.key() for input_ in inputs)
        keys = np.frombuffer(key_bytes, dtype=np.uint8).reshape(-1, KEY_BYTES)
        name = shard_name(keys, vectors)
        for suffix, array in ((".npy", vectors), (".keys.npy", keys)):
            with writing(self.folder / f"{name}{suffix}", self.folder.parent, flush=False) as sink:
                np.save(sink, array)
        self._write_statement()
        self._add(keys, vectors)

    @property
    def dimensions(self) -> int | None:
        """Dimensions of the stored vectors; ``None`` without any."""
        return int(self._shards[-1].shape[1]) if self._shards else None

    def get(self, inputs: Sequence[TextInput]) -> Array:
        """Return the vectors of inputs that are all stored, float32 of shape (len(inputs), dimensions)."""
        if not inputs:
            return np.empty((0, 0), dtype=np.float32)
        positions = np.array([self._rows[input_.key()] for input_ in inputs])
        shards = positions[:, 0]
        rows = positions[:, 1]
        # Take the dimensions from a shard in use: the first shard may have been dropped as damaged.
        dimensions = self._shards[shards[0]].shape[1]
        result = np.empty((len(inputs), dimensions), dtype=np.float32)
        for shard in np.unique(shards):
            in_shard = shards == shard
            result[in_shard] = self._shards[shard][rows[in_shard]]
        return result


def shard_name(keys: NDArray[np.uint8], vectors: Array) -> str:
    """Return the hash of keys and vectors, which names their shard."""
    digest = hashlib.blake2b(keys.tobytes(), digest_size=32)
    digest.update(f"{vectors.dtype.str} {vectors.shape}".encode())
    digest.update(np.ascontiguousarray(vectors).view(np.uint8).data)
    return digest.hexdigest()


def is_undamaged(folder: Path, name: str, vectors: Array | None = None) -> bool:
    """Return whether a shard's keys and vectors match its name; vectors that are not given are read."""
    try:
        keys = np.load(folder / f"{name}.keys.npy")
        if vectors is None:
            vectors = np.load(folder / f"{name}.npy")
        return shard_name(keys, vectors) == name
    except (OSError, ValueError, EOFError):
        return False
