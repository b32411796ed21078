"""The cache of tuned models, embeddings, corpora and transformations, addressed by content.

Every entry has a checksum that a process verifies at first use; a damaged entry is made again, with a warning. All
entries can be made again. Word vectors and the checksums of their files are kept by ``core.checksums``.

Environment:
    MIRRORBENCH_CACHE: the folder; by default the user's cache directory of the platform.
"""

from __future__ import annotations

import hashlib
import json
import logging
import re
import shutil
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from mirrorbench.core.checksums import damaged_files, store_folder
from mirrorbench.core.errors import StorageError
from mirrorbench.core.files import TEMPORARY, Leases, cache_root, writing
from mirrorbench.core.identity import COMPUTATION
from mirrorbench.core.inputs import Array, TextInput
from mirrorbench.data.corpora import corpus_checksum
from mirrorbench.models.transformations import Affine

if TYPE_CHECKING:
    from mirrorbench.models.transformer import Transformer

KEY_BYTES = 16
SHARD = re.compile(r"[0-9a-f]{64}")
"""The name of a shard of vectors."""
STATEMENT = "computation.txt"
"""File in a folder of vectors that states the computation by which they are found."""
_logger = logging.getLogger(__name__)


class Cache:
    """A folder of tuned models, embeddings and corpora; by default ``cache_root()``."""

    def __init__(self, root: Path | None = None) -> None:
        self.root = cache_root() if root is None else root
        self.leases = Leases(self.root / "leases")

    def model(self, key: str) -> Path | None:
        """The directory of a tuned model, if it is complete and undamaged."""
        path = self.root / "models" / key
        if not path.is_dir():
            return None
        if wrong := damaged_files(path):
            _logger.warning("The tuned model %s is damaged (%s); it is tuned again.", path, wrong)
            return None
        return path

    def save_model(self, key: str, transformer: Transformer, description: dict[str, Any]) -> Path:
        """Store a tuned model in the format of transformers, with ``description`` as ``mirrorbench.json``."""

        def write(folder: Path) -> None:
            transformer.save(folder)
            transformer.check_saved(folder)
            text = json.dumps(description, indent=2, ensure_ascii=False)
            (folder / "mirrorbench.json").write_text(text, encoding="utf-8")

        return store_folder(self.root / "models" / key, write, "the tuned model")

    def sweep_model(self, key: str) -> None:
        """Remove what a killed process left of a model; the caller must hold its lease."""
        for left in (self.root / "models").glob(f"{TEMPORARY}{key}-*"):
            shutil.rmtree(left, ignore_errors=True)

    def save_corpus(self, sha256: str, texts: Sequence[str]) -> None:
        """Store a corpus under its checksum, for workers that cannot read its source."""
        if self.corpus(sha256) is None:
            with writing(self._corpus_path(sha256), self.root, flush=False) as sink:
                sink.write(json.dumps(list(texts), ensure_ascii=True).encode("ascii"))

    def corpus(self, sha256: str) -> tuple[str, ...] | None:
        """The strings stored under a checksum, if they are there and match it."""
        try:
            texts = json.loads(self._corpus_path(sha256).read_bytes())
            if corpus_checksum(texts) == sha256:
                return tuple(texts)
        except FileNotFoundError:
            return None
        except (ValueError, TypeError):
            pass
        _logger.warning("The corpus %s is damaged; it is written again.", self._corpus_path(sha256))
        return None

    def _corpus_path(self, sha256: str) -> Path:
        return self.root / "corpora" / f"{sha256}.json"

    def save_transformation(self, key: str, affine: Affine) -> None:
        """Store a fitted transformation."""
        with writing(self._transformation_path(key), self.root, flush=False) as sink:
            np.savez(sink, matrix=affine.matrix, bias=affine.bias)

    def transformation(self, key: str) -> Affine | None:
        """A fitted transformation, if it is stored and undamaged."""
        try:
            with np.load(self._transformation_path(key)) as arrays:  # verifies the checksums of the archive
                return Affine(arrays["matrix"], arrays["bias"])
        except FileNotFoundError:
            return None
        except (OSError, ValueError, EOFError, KeyError, BadZipFile):
            _logger.warning("The transformation %s is damaged; it is fitted again.", self._transformation_path(key))
        return None

    def _transformation_path(self, key: str) -> Path:
        return self.root / "transformations" / f"{key}.npz"

    def describe_model(self, key: str) -> dict[str, Any]:
        """The ``mirrorbench.json`` of a stored model."""
        text = (self.root / "models" / key / "mirrorbench.json").read_text(encoding="utf-8")
        return dict(json.loads(text))

    def embeddings(self, key: str) -> EmbeddingCache:
        """The vectors stored under one encoder's key."""
        return EmbeddingCache(self.root / "embeddings" / key)


class EmbeddingCache:
    """Vectors of one encoder (weights, pooling, precision) by input, in shards that are memory-mapped.

    A shard is two files: the vectors, and the keys of their inputs, written last, so that a shard without keys is
    incomplete. Its name is the hash of both, so that processes filling the same folder do not conflict, and damage
    shows.
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
        _logger.warning("Vectors in %s are damaged (%s); they are computed again.", self.folder, name)
        for suffix in (".keys.npy", ".npy"):
            (self.folder / f"{name}{suffix}").unlink(missing_ok=True)

    def missing(self, inputs: Sequence[TextInput]) -> list[TextInput]:
        """The inputs that have no undamaged vectors here, in their order."""
        keys = [item.key() for item in inputs]
        for shard in sorted({self._rows[key][0] for key in keys if key in self._rows} & self._unchecked.keys()):
            name = self._unchecked.pop(shard)  # verified once
            if not is_whole(self.folder, name, self._shards[shard]):
                self._rows = {key: position for key, position in self._rows.items() if position[0] != shard}
                self._drop(name)
        return [item for item, key in zip(inputs, keys, strict=True) if key not in self._rows]

    def put(self, inputs: Sequence[TextInput], vectors: Array) -> None:
        """Store the vectors of inputs, shape (len(inputs), dimensions)."""
        keys = np.frombuffer(b"".join(item.key() for item in inputs), dtype=np.uint8).reshape(-1, KEY_BYTES)
        name = shard_name(keys, vectors)
        for suffix, array in ((".npy", vectors), (".keys.npy", keys)):
            with writing(self.folder / f"{name}{suffix}", self.folder.parent, flush=False) as sink:
                np.save(sink, array)
        self._state()
        self._add(keys, vectors)

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
    """The hash of keys and vectors, which names their shard."""
    digest = hashlib.blake2b(keys.tobytes(), digest_size=32)
    digest.update(f"{vectors.dtype.str} {vectors.shape}".encode())
    digest.update(np.ascontiguousarray(vectors).view(np.uint8).data)
    return digest.hexdigest()


def is_whole(folder: Path, name: str, vectors: Array | None = None) -> bool:
    """Whether a shard's keys and vectors (read unless given) match its name."""
    try:
        keys = np.load(folder / f"{name}.keys.npy")
        return shard_name(keys, np.load(folder / f"{name}.npy") if vectors is None else vectors) == name
    except (OSError, ValueError, EOFError):
        return False
