"""The cache of tuned models, vectors, corpora, transformations and traits.

Entries are addressed by content. Each has a checksum that a process verifies at first use. All entries can be made
again; a damaged entry is, with a warning. Word vectors and the checksums of their files are kept by
``storage.checksums``.

Environment:
    MIRRORBENCH_CACHE: the folder; by default the user's cache directory of the platform.
"""

from __future__ import annotations

import json
import logging
import shutil
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar
from zipfile import BadZipFile

import msgspec
import numpy as np
from numpy.typing import NDArray

from mirrorbench.core.errors import StorageError
from mirrorbench.core.identity import DESCRIPTION, checksum, digest
from mirrorbench.storage.checksums import damaged_files, store_folder
from mirrorbench.storage.files import TEMPORARY, cache_root, writing
from mirrorbench.storage.leases import Leases
from mirrorbench.storage.reference_vectors import REFERENCES

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

_T = TypeVar("_T", bound="DataclassInstance")

CHECKPOINTS = "checkpoints"
"""Folder of the cache with a folder for each unfinished tuning, named by the model's key."""
ENCODERS = "encoders"
"""Folder of the cache with a folder for each encoder of a plugin, which keeps there what it must remember."""
EMBEDDINGS = "embeddings"
"""Folder of the cache with a folder of vectors for each encoder."""
STATEMENT = "computation.txt"
"""File beside vectors that states their computation."""
TRAITS_FOLDER = "traits"
_TRAITS_VERSION = 5
"""Version of the forward passes that measure traits, raised when they change; part of the key of traits."""
CACHE_FOLDERS = (
    "models",
    CHECKPOINTS,
    EMBEDDINGS,
    ENCODERS,
    "vectors",
    "corpora",
    "transformations",
    "checksums",
    TRAITS_FOLDER,
    REFERENCES,
)
"""Folders of the cache, each with its entries."""
_logger = logging.getLogger(__name__)


class StorableModel(Protocol):
    """A model that can be stored: ``models.transformer.Transformer``."""

    def save(self, folder: Path) -> None:
        """Write the model into a folder."""

    def check_saved(self, folder: Path) -> None:
        """Raise an error if the folder does not hold this model."""


class Cache:
    """A folder of tuned models, embeddings and corpora; by default ``cache_root()``."""

    def __init__(self, root: Path | None = None) -> None:
        self.root = cache_root() if root is None else root
        self.leases = Leases(self.root / "leases")

    def model(self, key: str) -> Path | None:
        """Return the directory of a tuned model; ``None`` if it is missing, incomplete or damaged."""
        path = self.root / "models" / key
        if not path.is_dir():
            return None
        damaged = damaged_files(path)
        if damaged:
            _logger.warning("The tuned model %s is damaged (%s); it is tuned again.", path, damaged)
            return None
        return path

    def save_model(self, key: str, model: StorableModel, description: dict[str, Any]) -> Path:
        """Store a tuned model in the format of transformers, with ``description`` as ``mirrorbench.json``."""

        def write(folder: Path) -> None:
            model.save(folder)
            model.check_saved(folder)
            text = json.dumps(description, indent=2, ensure_ascii=False)
            (folder / DESCRIPTION).write_text(text, encoding="utf-8")

        return store_folder(self.root / "models" / key, write, "the tuned model")

    def sweep_model(self, key: str) -> None:
        """Remove folders that a killed process left of a model; the caller must hold the model's lease."""
        for leftover in (self.root / "models").glob(f"{TEMPORARY}{key}-*"):
            shutil.rmtree(leftover, ignore_errors=True)

    def save_corpus(self, sha256: str, texts: Sequence[str]) -> None:
        """Store a corpus under its checksum, for workers that cannot read its source."""
        if self.corpus(sha256) is None:
            # ASCII, since texts may hold halves of surrogate pairs.
            content = json.dumps(list(texts), ensure_ascii=True).encode("ascii")
            with writing(self._corpus_path(sha256), self.root, flush=False) as sink:
                sink.write(content)

    def corpus(self, sha256: str) -> tuple[str, ...] | None:
        """Return the texts stored under a checksum; ``None`` if there are none, or they do not match it."""
        path = self._corpus_path(sha256)
        try:
            texts = json.loads(path.read_bytes())
            if checksum("\n".join(texts)) == sha256:
                return tuple(texts)
        except FileNotFoundError:
            return None
        except (ValueError, TypeError):
            pass
        _logger.warning("The corpus %s is damaged; it is written again.", path)
        return None

    def _corpus_path(self, sha256: str) -> Path:
        return self.root / "corpora" / f"{sha256}.json"

    def save_transformation(self, key: str, matrix: NDArray[Any], bias: NDArray[Any]) -> None:
        """Store a fitted transformation of vectors."""
        with writing(self._transformation_path(key), self.root, flush=False) as sink:
            np.savez(sink, matrix=matrix, bias=bias)

    def transformation(self, key: str) -> tuple[NDArray[Any], NDArray[Any]] | None:
        """Return matrix and bias of a fitted transformation; ``None`` if it is missing or damaged."""
        path = self._transformation_path(key)
        try:
            # Reading the arrays verifies the checksums of the archive.
            with np.load(path) as arrays:
                return arrays["matrix"], arrays["bias"]
        except FileNotFoundError:
            return None
        except (OSError, ValueError, EOFError, KeyError, BadZipFile):
            _logger.warning("The transformation %s is damaged; it is fitted again.", path)
        return None

    def _transformation_path(self, key: str) -> Path:
        return self.root / "transformations" / f"{key}.npz"

    def describe_model(self, key: str) -> dict[str, Any]:
        """Return the ``mirrorbench.json`` of a stored model."""
        text = (self.root / "models" / key / DESCRIPTION).read_text(encoding="utf-8")
        return dict(json.loads(text))

    def traits(self, identity: dict[str, Any], measure: Callable[[], _T], kind: type[_T]) -> _T:
        """Return the stored traits of the model that ``identity`` names; else measure them and store them.

        Traits are a dataclass of type ``kind``. Their key includes the versions of torch and transformers. If the cache
        cannot be written, traits are not stored.
        """
        libraries = {name: version(name) for name in ("torch", "transformers")}
        key = digest({**identity, **libraries, "trial": _TRAITS_VERSION})
        path = self.root / TRAITS_FOLDER / f"{key}.json"
        stored = _stored_traits(path, kind)
        if stored is not None:
            return stored
        traits = measure()
        as_json = msgspec.to_builtins(asdict(traits))
        content = json.dumps({"traits": as_json, "checksum": digest({key: as_json})})
        with suppress(StorageError), writing(path, self.root, flush=False) as sink:
            sink.write(content.encode())
        return traits


def _stored_traits(path: Path, kind: type[_T]) -> _T | None:
    """Return the traits in a file; ``None`` if it is missing or damaged."""
    # msgspec's errors are ValueErrors.
    with suppress(OSError, ValueError, KeyError, TypeError, RecursionError):
        stored = json.loads(path.read_bytes())
        if stored["checksum"] == digest({path.stem: stored["traits"]}):
            return msgspec.convert(stored["traits"], kind)
    return None
