"""Tuned models and embeddings, content-addressed: computed once, found again by what they are.

Environment:
    MIRRORBENCH_CACHE: the folder; by default the platform's cache directory of the user.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from mirrorbench.atomic import writing
from mirrorbench.encoding.inputs import Array, TextInput
from mirrorbench.errors import StorageError

if TYPE_CHECKING:
    from mirrorbench.encoding.transformer import Transformer

KEY_BYTES = 16


def default_root() -> Path:
    """The cache folder: ``MIRRORBENCH_CACHE``, or else the platform's cache directory of the user."""
    if configured := os.environ.get("MIRRORBENCH_CACHE"):
        return Path(configured).expanduser()
    import platformdirs

    return Path(platformdirs.user_cache_dir("mirrorbench", appauthor=False))


class Cache:
    """A folder of tuned models and embeddings.

    Args:
        root: the folder; ``None`` for ``default_root()``.
    """

    def __init__(self, root: Path | None = None) -> None:
        self.root = default_root() if root is None else root

    def model(self, key: str) -> Path | None:
        """The directory of a tuned model, if it is complete."""
        path = self.root / "models" / key
        return path if (path / "mirrorbench.json").is_file() else None

    def save_model(self, key: str, transformer: Transformer, description: dict[str, Any]) -> Path:
        """Store a tuned model: loadable by transformers, with ``mirrorbench.json`` saying what it is.

        Raises:
            StorageError: the folder cannot be written, or the disk is full.
        """
        from safetensors import SafetensorError  # what a full disk raises under safetensors

        target = self.root / "models" / key
        temporary = ""
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            temporary = tempfile.mkdtemp(prefix=".part-", dir=target.parent)
            transformer.model.save_pretrained(temporary)
            transformer.tokenizer.save_pretrained(temporary)
            text = json.dumps(description, indent=2, ensure_ascii=False)
            Path(temporary, "mirrorbench.json").write_text(text, encoding="utf-8")
            os.chmod(temporary, 0o755)
            if self.model(key):  # another process was faster: its model is the same, and may be open already
                return target
            shutil.rmtree(target, ignore_errors=True)  # half a model, however it came there
            os.replace(temporary, target)
        except (OSError, SafetensorError) as error:
            raise StorageError(
                f"the tuned model cannot be written to {target}: {getattr(error, 'strerror', None) or error}",
                "Free some space, or name another folder: MIRRORBENCH_CACHE=DIR",
            ) from error
        finally:
            shutil.rmtree(temporary, ignore_errors=True)  # still there only if it did not become the target
        return target

    def describe_model(self, key: str) -> dict[str, Any]:
        """The ``mirrorbench.json`` of a stored model."""
        text = (self.root / "models" / key / "mirrorbench.json").read_text(encoding="utf-8")
        description: dict[str, Any] = json.loads(text)
        return description

    def embeddings(self, key: str) -> EmbeddingShelf:
        """The vectors stored under one encoder's key."""
        return EmbeddingShelf(self.root / "embeddings" / key)


class EmbeddingShelf:
    """Vectors of one encoder (weights, readout, precision) by input, in shards that are memory-mapped.

    A shard is two files: the vectors, and the keys of their inputs, written last, so that a shard without keys is
    one that died half-written. Its name is a hash of its keys: two processes that fill one shelf write either different
    files or twice the same.

    Args:
        folder: the encoder's folder.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._where: dict[bytes, tuple[int, int]] = {}
        self._shards: list[Array] = []
        for keys_file in sorted(folder.glob("*.keys.npy")):
            vectors = np.load(keys_file.with_name(keys_file.name.replace(".keys", "")), mmap_mode="r")
            self._add(np.load(keys_file), vectors)

    def _add(self, keys: NDArray[np.uint8], vectors: Array) -> None:
        data = keys.tobytes()
        shard = len(self._shards)
        self._shards.append(vectors)
        for row in range(len(keys)):
            self._where[data[row * KEY_BYTES : (row + 1) * KEY_BYTES]] = (shard, row)

    def missing(self, inputs: Sequence[TextInput]) -> list[TextInput]:
        """Those inputs whose vectors are not here, in their order."""
        return [item for item in inputs if item.key() not in self._where]

    def put(self, inputs: Sequence[TextInput], vectors: Array) -> None:
        """Add the vectors of inputs, shape (len(inputs), dimensions).

        Raises:
            StorageError: the folder cannot be written, or the disk is full.
        """
        keys = np.frombuffer(b"".join(item.key() for item in inputs), dtype=np.uint8).reshape(-1, KEY_BYTES)
        name = hashlib.blake2b(keys.tobytes(), digest_size=KEY_BYTES).hexdigest()
        with writing(self.folder / f"{name}.npy") as sink:
            np.save(sink, vectors)
        with writing(self.folder / f"{name}.keys.npy") as sink:
            np.save(sink, keys)
        self._add(keys, vectors)

    def get(self, inputs: Sequence[TextInput]) -> Array:
        """Vectors of inputs that are all here, float32 of shape (len(inputs), dimensions)."""
        places = [self._where[item.key()] for item in inputs]
        result = np.empty((len(places), self._shards[0].shape[1]), dtype=np.float32)
        shards = np.array([shard for shard, _ in places])
        rows = np.array([row for _, row in places])
        for shard in np.unique(shards):
            here = shards == shard
            result[here] = self._shards[shard][rows[here]]
        return result
