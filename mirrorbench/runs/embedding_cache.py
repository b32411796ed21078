"""Vectors through the cache: those stored, those encoded now, and transformations fitted on them."""

from __future__ import annotations

import hashlib
import logging
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mirrorbench.core import checksums
from mirrorbench.core.devices import device_type
from mirrorbench.core.encoder_protocol import (
    Array,
    Encoder,
    TextInput,
    check_inputs,
    check_vectors,
)
from mirrorbench.core.errors import EncodingError, StorageError
from mirrorbench.core.files import writing
from mirrorbench.core.foreign_errors import defined_at
from mirrorbench.core.identity import COMPUTATION, digest
from mirrorbench.data.corpora import Corpus, naming_lines
from mirrorbench.models.pooling import Pooling, PoolingEncoder
from mirrorbench.models.transformations import Affine, Taken, fit
from mirrorbench.runs.cache import EMBEDDINGS, STATEMENT
from mirrorbench.runs.cells import CorpusRef, ModelRef, PostRef
from mirrorbench.runs.half_precision import advancing
from mirrorbench.training.methods import OF_TWO, PairMaker, base_preset, words_in_context

if TYPE_CHECKING:
    from mirrorbench.runs.workspace import Workspace

KEY_BYTES = 16
SHARD = re.compile(r"[0-9a-f]{64}")
"""The name of a shard of vectors."""
WRITE_EVERY = {"cpu": 8_192, "mps": 8_192, "cuda": 65_536}
"""Texts encoded between two writes to the cache, by device: some seconds of work, which a killed run does again."""
ONE_CALL = 1_024
"""Texts in one call of an encoder system on a CPU, which says nothing of its progress before it ends."""
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


class Encoded(NamedTuple):
    """Stored vectors by pooling, and the work that was done for them now."""

    vectors: dict[Pooling | None, EmbeddingCache]
    texts: int
    """Number of inputs that had no vectors yet."""
    seconds: float
    """Wall-clock time of their encoding, with writing."""

    def to_json(self) -> dict[str, float]:
        """Return counts and speed as results store them; empty where nothing was encoded."""
        if not self.texts:
            return {}
        speed = self.texts / max(self.seconds, 1e-9)
        return {
            "texts": self.texts,
            "seconds": round(self.seconds, 4),
            "texts_per_second": round(speed, 1),
        }


def encode_missing(
    encoder: Encoder,
    wanted: Mapping[Pooling | None, Iterable[TextInput]],
    model: ModelRef,
    precision: str,
    workspace: Workspace,
) -> Encoded:
    """Encode the inputs that have no vectors yet under a pooling.

    ``wanted`` holds inputs by pooling. An input that several poolings miss is read once for all of them.
    """
    stored = {pooling: _stored(encoder, pooling, model, precision, workspace) for pooling in wanted}
    missing = {
        pooling: dict.fromkeys(stored[pooling].missing(list(inputs)))
        for pooling, inputs in wanted.items()
    }
    passes: dict[tuple[Pooling | None, ...], list[TextInput]] = {}
    for item in dict.fromkeys(chain.from_iterable(missing.values())):
        together = tuple(pooling for pooling, items in missing.items() if item in items)
        passes.setdefault(together, []).append(item)
    started = time.perf_counter()
    for together, inputs in passes.items():
        _encode(
            encoder,
            inputs,
            {pooling: stored[pooling] for pooling in together},
            model,
            precision,
            workspace,
        )
    return Encoded(stored, sum(map(len, passes.values())), time.perf_counter() - started)


def _vectors_key(encoder: Encoder, pooling: Pooling | None, model: ModelRef, precision: str) -> str:
    """Return the name in the cache of the vectors of an encoder."""
    read = pooling.identity if pooling else model.spec.backbone
    parts = {
        "encoder": encoder.fingerprint,
        "readout": read,
        "precision": precision,
        "computation": COMPUTATION,
    }
    if model.code:
        parts["plugin_files"] = model.code
    return digest(parts)


def _stored(
    encoder: Encoder, pooling: Pooling | None, model: ModelRef, precision: str, workspace: Workspace
) -> EmbeddingCache:
    key = _vectors_key(encoder, pooling, model, precision)
    return EmbeddingCache(workspace.cache.root / EMBEDDINGS / key)


def _encode(
    encoder: Encoder,
    inputs: Sequence[TextInput],
    stored: Mapping[Pooling | None, EmbeddingCache],
    model: ModelRef,
    precision: str,
    workspace: Workspace,
) -> None:
    """Encode inputs under some poolings in one pass, and store their vectors."""
    # Sorted, so that the same texts make the same batches in whatever order they come.
    inputs, reporter, spec = sorted(inputs, key=TextInput.key), workspace.reporter, model.spec
    reporter.stage("encoding", str(spec), len(inputs), "texts")
    poolings = [pooling for pooling in stored if pooling is not None]
    check_inputs(encoder, inputs, poolings)
    advance = advancing(workspace, "encoding", precision, len(inputs))
    size = WRITE_EVERY[device_type(workspace.torch_device)]
    if not poolings and device_type(workspace.torch_device) == "cpu":
        size = ONE_CALL
    for start in range(0, len(inputs), size):
        chunk = inputs[start : start + size]
        if poolings:
            assert isinstance(encoder, PoolingEncoder)  # only backbones have poolings
            arrays = encoder.encode_pooled(chunk, poolings, advance)
        else:
            named = f"the encoder {spec}{defined_at(encoder.encode)}"
            arrays = [check_vectors(encoder.encode(chunk), len(chunk), named)]
            advance(len(chunk))
        for cache, array in zip(stored.values(), arrays, strict=True):
            if cache.dimensions not in (None, array.shape[1]):
                problem = f"the encoder {spec} returned vectors of {array.shape[1]} dimensions"
                raise EncodingError(
                    f"{problem}, and before of {cache.dimensions}",
                    "An encoder whose vectors change needs another fingerprint.",
                )
            cache.put(chunk, array)


def fitted_posts(
    encoder: Encoder,
    model: ModelRef,
    pooling: Pooling | None,
    precision: str,
    corpora: Mapping[CorpusRef, Corpus],
    workspace: Workspace,
) -> dict[str, Affine | Taken]:
    """Transformations of a model by language: stored with it, cached, or fitted now on vectors of their corpora.

    ``encoder`` returns the vectors before the transformation.
    """

    def fitted(language: str, post: PostRef, corpus: CorpusRef) -> Affine:
        vectors_key = _vectors_key(encoder, pooling, model, precision)
        key = digest({"vectors": vectors_key, "language": language, "post": post.identity()})
        affine = workspace.cache.transformation(key)
        if affine is None:
            inputs = fit_inputs(corpora[corpus].texts, model, pooling, workspace)
            inputs = [replace(item, language=language) for item in inputs]
            with naming_lines(corpus.name, workspace.plugins.corpora.by_name()):
                encoded = encode_missing(encoder, {pooling: inputs}, model, precision, workspace)
            affine = fit(encoded.vectors[pooling].get(inputs), post.transformation)
            workspace.cache.save_transformation(key, affine)
        return affine

    transformations: dict[str, Affine | Taken] = {}
    for language, post in model.posts:
        if file := post.stored:
            with checksums.unchanged(partial(list, [("", file)]), post.checksum, str(file)):
                transformations[language] = Affine.read(file)
        elif post.corpus is None:
            transformations[language] = Taken(post.transformation.number, post.transformation.type)
        else:
            affine = fitted(language, post, post.corpus)
            transformations[language] = replace(affine, type=post.transformation.type)
    return transformations


def fit_inputs(
    texts: Sequence[str], model: ModelRef, pooling: Pooling | None, workspace: Workspace
) -> list[TextInput]:
    """Distinct inputs of a corpus: texts, both texts of a pair, or a random word of each text in its context."""
    of_target = pooling is not None and pooling.of_target
    pairs = workspace.plugins.methods[model.method].pairs if model.recipe else None
    if not of_target and pairs not in OF_TWO:
        return [TextInput(text) for text in dict.fromkeys(texts)]
    plain = replace(model.recipe or base_preset("", "", ""), augment=(), sides=1)
    maker = PairMaker(plain, np.random.default_rng(0), "", "paper", {})
    made = (
        pairs(texts, maker) if pairs in OF_TWO else words_in_context(texts, maker)
    )  # as MirrorWiC: paper 2, 3.1
    return list(dict.fromkeys([*made.left, *made.right]))
