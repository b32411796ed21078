"""The vectors of an encoder on disk, by input."""

from __future__ import annotations

import hashlib
import logging
import re
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from mirrorbench.core.encoder_protocol import (
    Array,
    TextInput,
)
from mirrorbench.core.errors import StorageError
from mirrorbench.core.identity import COMPUTATION
from mirrorbench.storage.cache import STATEMENT
from mirrorbench.storage.files import writing

if TYPE_CHECKING:
    pass

KEY_BYTES = 16
SHARD = re.compile(r"[0-9a-f]{64}")
"""The name of a shard of vectors."""
_logger = logging.getLogger(__name__)


class EmbeddingCache:
    """Vectors of one encoder (weights, pooling, precision) by input, in shards that are memory-mapped.

    A shard is two files: vectors, and the keys of their inputs, written last: a shard without keys is incomplete.
    The hash of both is its name, which shows damage and keeps processes that fill one folder apart.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._rows: dict[bytes, tuple[int, int]] = {}  # shard and row by the input's key
        self._shards: list[Array] = []
        self._unchecked: dict[int, str] = {}  # names of shards not verified yet, by number
        for keys_file in sorted(folder.glob("*.keys.npy")):
            name = keys_file.name.removesuffix(".keys.npy")
            if not SHARD.fullmatch(name):
                continue
            try:
                keys, vectors = np.load(keys_file), np.load(folder / f"{name}.npy", mmap_mode="r")
            except (OSError, ValueError, EOFError):
                self._drop(name)
            else:
                self._unchecked[len(self._shards)] = name
                self._add(keys, vectors)
        if self._shards:  # perhaps of a version that stated nothing
            self._state()

    def _state(self) -> None:
        if not (self.folder / STATEMENT).is_file():
            with suppress(StorageError), writing(self.folder / STATEMENT, flush=False) as sink:
                sink.write(str(COMPUTATION).encode())

    def _add(self, keys: NDArray[np.uint8], vectors: Array) -> None:
        data, shard = keys.tobytes(), len(self._shards)
        self._shards.append(vectors)
        for row in range(len(keys)):
            self._rows[data[row * KEY_BYTES : (row + 1) * KEY_BYTES]] = (shard, row)

    def _drop(self, name: str) -> None:
        _logger.warning(
            "Vectors in %s are damaged (%s); they are computed again.", self.folder, name
        )
        for suffix in (".keys.npy", ".npy"):
            (self.folder / f"{name}{suffix}").unlink(missing_ok=True)

    def missing(self, inputs: Sequence[TextInput]) -> list[TextInput]:
        """Return the inputs that have no undamaged vectors here, in their order."""
        keys = [item.key() for item in inputs]
        for shard in sorted(
            {self._rows[key][0] for key in keys if key in self._rows} & self._unchecked.keys()
        ):
            name = self._unchecked.pop(shard)  # verified once
            if not is_whole(self.folder, name, self._shards[shard]):
                self._rows = {
                    key: position for key, position in self._rows.items() if position[0] != shard
                }
                self._drop(name)
        return [item for item, key in zip(inputs, keys, strict=True) if key not in self._rows]

    def put(self, inputs: Sequence[TextInput], vectors: Array) -> None:
        """Store the vectors of inputs, shape (len(inputs), dimensions)."""
        keys = np.frombuffer(b"".join(item.key() for item in inputs), dtype=np.uint8).reshape(
            -1, KEY_BYTES
        )
        name = shard_name(keys, vectors)
        for suffix, array in ((".npy", vectors), (".keys.npy", keys)):
            with writing(self.folder / f"{name}{suffix}", self.folder.parent, flush=False) as sink:
                np.save(sink, array)
        self._state()
        self._add(keys, vectors)

    @property
    def dimensions(self) -> int | None:
        """Dimensions of the stored vectors; ``None`` without any."""
        return int(self._shards[-1].shape[1]) if self._shards else None

    def get(self, inputs: Sequence[TextInput]) -> Array:
        """Vectors of inputs that are all stored, float32 of shape (len(inputs), dimensions)."""
        places = np.array([self._rows[item.key()] for item in inputs]).reshape(-1, 2)
        if not len(places):
            return np.empty((0, 0), dtype=np.float32)
        # Dimensions of a shard in use: the first shard may have been dropped as damaged.
        result = np.empty((len(places), self._shards[places[0, 0]].shape[1]), dtype=np.float32)
        for shard in np.unique(places[:, 0]):
            here = places[:, 0] == shard
            result[here] = self._shards[shard][places[here, 1]]
        return result


def shard_name(keys: NDArray[np.uint8], vectors: Array) -> str:
    """Return the hash of keys and vectors, which names their shard."""
    digest = hashlib.blake2b(keys.tobytes(), digest_size=32)
    digest.update(f"{vectors.dtype.str} {vectors.shape}".encode())
    digest.update(np.ascontiguousarray(vectors).view(np.uint8).data)
    return digest.hexdigest()


def is_whole(folder: Path, name: str, vectors: Array | None = None) -> bool:
    """Whether a shard's keys and vectors (read unless given) match its name."""
    try:
        keys = np.load(folder / f"{name}.keys.npy")
        return (
            shard_name(keys, np.load(folder / f"{name}.npy") if vectors is None else vectors)
            == name
        )
    except (OSError, ValueError, EOFError):
        return False
