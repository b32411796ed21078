"""The cache of tuned models, embeddings, corpora and transformations, addressed by content, and its maintenance.

Every entry has a checksum that a process verifies at first use; a damaged entry is made again, with a warning. All
entries can be made again. Word vectors and the checksums of their files are kept by ``core.checksums``.

Environment:
    MIRRORBENCH_CACHE: the folder; by default the user's cache directory of the platform.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import re
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from mirrorbench.core.checksums import ABOUT, CHECKSUMS, damaged_files, noted, store_folder
from mirrorbench.core.errors import StorageError
from mirrorbench.core.files import TEMPORARY, Leases, cache_root, unwritable, writing
from mirrorbench.core.identity import COMPUTATION
from mirrorbench.core.inputs import Array, TextInput
from mirrorbench.data.corpora import corpus_checksum
from mirrorbench.models.transformations import Affine
from mirrorbench.runs.kinds import KINDS, stored_kind
from mirrorbench.training.checkpoints import CHECKPOINTS, damaged

if TYPE_CHECKING:
    from mirrorbench.models.transformer import Transformer

KEY_BYTES = 16
SHARD = re.compile(r"[0-9a-f]{64}")
"""The name of a shard of vectors."""
STATEMENT = "computation.txt"
"""File in a folder of vectors that states the computation by which they are found."""
LEFTOVER_AGE = 86_400.0
"""Seconds after which a temporary file counts as abandoned."""
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

    def save_transformation(self, key: str, affine: Affine, what: str) -> None:
        """Store a fitted transformation; ``what`` says in listings what it is."""
        with writing(self._transformation_path(key), self.root, flush=False) as sink:
            np.savez(sink, matrix=affine.matrix, bias=affine.bias, what=np.array(what))

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
                self._rows = {key: place for key, place in self._rows.items() if place[0] != shard}
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


@dataclass(frozen=True, slots=True)
class CacheEntry:
    """An entry of the cache."""

    kind: str
    """``models``, ``checkpoints`` of tunings, ``embeddings``, ``vectors`` of words and tokens, ``corpora``,
    ``transformations``, ``checksums`` of files of word vectors, ``kinds`` of models, or ``leftovers`` of killed
    processes and earlier versions."""
    key: str
    path: Path
    size: int
    """Bytes."""
    used: float
    """Time of the last write or, where the file system records it, the last read; seconds since 1970."""
    what: str
    """A description: encoder spec and seed of a model, number and dimensions of vectors."""
    earlier: bool = False
    """Whether another computation made it, or none that it states: no run of this version has read it."""


_FILES = {"corpora": ".json", "transformations": ".npz", "checksums": ".json", KINDS: ".json"}
"""Kinds of which each entry is one file."""
_KINDS = ("models", CHECKPOINTS, "embeddings", "vectors", *_FILES)


def entries(cache: Cache) -> list[CacheEntry]:
    """All entries of the cache, the largest first."""
    found = [entry for kind in _KINDS for entry in _of_kind(cache, kind)]
    return sorted(found, key=lambda entry: (-entry.size, entry.key))


def damage(cache: Cache, entry: CacheEntry) -> str:
    """What is wrong with an entry, found by hashing it; empty if it is whole. Changes nothing."""
    with _access_times_kept(entry.path):
        if entry.kind in ("models", "vectors"):
            return damaged_files(entry.path)
        if entry.kind == "checksums":
            return "" if noted(entry.path) else "its checksum is not the one that was written"
        if entry.kind == KINDS:
            return "" if stored_kind(entry.path) else "its checksum is not the one that was written"
        if entry.kind == CHECKPOINTS:
            return damaged(entry.path)
        if entry.kind == "corpora":
            return "" if cache.corpus(entry.key) is not None else "its strings are not those of its checksum"
        if entry.kind == "transformations":
            return "" if cache.transformation(entry.key) else "its numbers are not those that were written"
        if entry.kind == "embeddings":
            broken = [name[:12] for name in _shards(entry.path) if not is_whole(entry.path, name)]
            return f"{len(broken)} of its files ({', '.join(broken)})" if broken else ""
    return "an unfinished file"


def prunable(
    cache: Cache, older_than: float | None = None, everything: bool = False, earlier: bool = False
) -> list[CacheEntry]:
    """What may be removed: leftovers, entries not used for ``older_than`` days, those ``earlier``, or ``everything``.

    Entries that a running process holds are left out.
    """
    now, chosen = time.time(), []
    for entry in entries(cache):
        age = now - entry.used
        if entry.kind == "leftovers":
            chosen += [entry] if age > LEFTOVER_AGE else []
            continue
        asked = everything or (earlier and entry.earlier) or (older_than is not None and age > older_than * 86_400)
        if asked and (lease := cache.leases.take(entry.key)):
            with lease:
                chosen.append(entry)
    return chosen


def remove(entry: CacheEntry) -> None:
    """Remove an entry, or raise ``StorageError``. A folder is renamed first, so that no process opens part of it."""
    try:
        if not entry.path.is_dir():
            entry.path.unlink()
            return
        # A new name each time: an earlier removal may have been killed.
        doomed = Path(tempfile.mkdtemp(prefix=f"{TEMPORARY}gone-", dir=entry.path.parent))
        try:
            entry.path.rename(doomed / "entry")
        finally:
            shutil.rmtree(doomed)
    except FileNotFoundError:  # removed by another process
        return
    except OSError as error:
        raise unwritable(f"{entry.path} cannot be removed", error, "have its owner remove it") from error


def _of_kind(cache: Cache, kind: str) -> Iterator[CacheEntry]:
    folder = cache.root / kind
    for path in sorted(folder.iterdir()) if folder.is_dir() else []:
        if path.name.startswith(TEMPORARY):
            yield _entry("leftovers", path.name, path)
        elif kind == "vectors" and not (path / CHECKSUMS).is_file():
            if path.is_dir() or path.suffix in (".npy", ".sha256"):
                yield _entry("leftovers", path.name, path, "word vectors of an earlier version")
        elif path.suffix == _FILES[kind] if kind in _FILES else path.is_dir():  # others are not ours (.DS_Store)
            for left in sorted(path.glob(f"{TEMPORARY}*")) if kind in ("embeddings", CHECKPOINTS) else ():
                yield _entry("leftovers", left.name, left)
            with _access_times_kept(path):
                what, earlier = _what(kind, path), _computation(kind, path) != COMPUTATION
            yield _entry(kind, path.name.removesuffix(_FILES.get(kind, "")), path, what, earlier)


def _computation(kind: str, path: Path) -> object:
    """The computation that a model or vectors state, ``None`` where they state none; of other kinds today's."""
    with suppress(OSError, ValueError, KeyError, TypeError, RecursionError):
        if kind == "models":
            return json.loads((path / "mirrorbench.json").read_text(encoding="utf-8"))["identity"]["computation"]
        return int((path / STATEMENT).read_text(encoding="utf-8")) if kind == "embeddings" else COMPUTATION
    return None


def _entry(kind: str, key: str, path: Path, what: str = "", earlier: bool = False) -> CacheEntry:
    stats = [found for _, found in _stats(path)]
    used = max((max(found.st_mtime, found.st_atime) for found in stats), default=0.0)
    return CacheEntry(kind, key, path, sum(found.st_size for found in stats), used, what, earlier)


def _stats(path: Path) -> list[tuple[Path, os.stat_result]]:
    """The regular files of a folder, or the file itself, with their sizes and times."""
    found = []
    for file in path.rglob("*") if path.is_dir() else [path]:
        with suppress(FileNotFoundError):  # removed or renamed by another process
            if stat.S_ISREG((now := file.stat()).st_mode):
                found.append((file, now))
    return found


@contextmanager
def _access_times_kept(path: Path) -> Iterator[None]:
    """Restore access times after reading files inside: listing or verifying an entry does not count as use."""
    before = _stats(path)
    yield
    for file, then in before:
        with suppress(OSError):
            os.utime(file, ns=(then.st_atime_ns, then.st_mtime_ns))


def _what(kind: str, path: Path) -> str:
    if kind == "corpora":
        return "strings of a corpus"
    if kind == "vectors":
        with suppress(OSError, UnicodeDecodeError):
            return (path / ABOUT).read_text(encoding="utf-8")
        return "unreadable"
    if kind == "checksums":
        return "of a file of word vectors" if noted(path) else "unreadable"
    if kind == KINDS:
        return "what was seen of a model that was tried" if stored_kind(path) else "unreadable"
    if kind == CHECKPOINTS:
        return "a tuning that was interrupted, or goes on"
    if kind == "transformations":
        try:
            with np.load(path) as arrays:
                return str(arrays["what"])
        except (OSError, ValueError, EOFError, KeyError, BadZipFile):
            return "unreadable"
    if kind == "models":
        try:
            made = json.loads((path / "mirrorbench.json").read_text(encoding="utf-8"))
            return f"{made['spec']} seed {made['seed']}"
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            return "unreadable"
    shapes = []
    for name in _shards(path):
        with suppress(OSError, ValueError, EOFError):
            shapes.append(np.load(path / f"{name}.npy", mmap_mode="r").shape)
    n = sum(shape[0] for shape in shapes)
    return f"{n:,} vectors of {shapes[-1][1]} dimensions" if n else "nothing that this version reads"


def _shards(folder: Path) -> list[str]:
    return sorted(path.stem for path in folder.glob("*.npy") if SHARD.fullmatch(path.stem))
