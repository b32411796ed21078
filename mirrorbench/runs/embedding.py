"""Vectors through the cache: those stored, those encoded now, and transformations fitted on them."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import NamedTuple

import numpy as np

from mirrorbench.core.devices import device_type
from mirrorbench.core.encoder_protocol import (
    Encoder,
    TextInput,
    check_inputs,
    check_vectors,
)
from mirrorbench.core.errors import EncodingError
from mirrorbench.core.foreign_errors import defined_at
from mirrorbench.core.identity import COMPUTATION, digest
from mirrorbench.core.plugins import Plugins
from mirrorbench.data.corpora import Corpus, naming_lines
from mirrorbench.models.pooling import Pooling, PoolingEncoder
from mirrorbench.models.transformations import Affine, Taken, fit
from mirrorbench.runs.cells import CorpusRef, ModelRef, PostRef
from mirrorbench.runs.compute import Compute
from mirrorbench.runs.half_precision import advancing
from mirrorbench.runs.outcomes import Reporter
from mirrorbench.storage import checksums
from mirrorbench.storage.cache import EMBEDDINGS, Cache
from mirrorbench.storage.embedding_cache import EmbeddingCache
from mirrorbench.training.methods import OF_TWO, PairMaker, base_preset, words_in_context

WRITE_EVERY = {"cpu": 8_192, "mps": 8_192, "cuda": 65_536}
"""Texts encoded between two writes to the cache, by device: some seconds of work, which a killed run does again."""
ONE_CALL = 1_024
"""Texts in one call of an encoder system on a CPU, which says nothing of its progress before it ends."""


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


@dataclass(frozen=True)
class Embedder:
    """Encodes what the cache does not have yet.

    Attributes:
        cache: holds vectors and fitted transformations.
        compute: the device.
        plugins: with corpora and methods.
        reporter: receives progress.
    """

    cache: Cache
    compute: Compute
    plugins: Plugins
    reporter: Reporter

    def encode_missing(
        self,
        encoder: Encoder,
        wanted: Mapping[Pooling | None, Iterable[TextInput]],
        model: ModelRef,
        precision: str,
    ) -> Encoded:
        """Encode the inputs that have no vectors yet under a pooling.

        ``wanted`` holds inputs by pooling. An input that several poolings miss is read once for all of them.
        """
        stored = {pooling: self._stored(encoder, pooling, model, precision) for pooling in wanted}
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
            into = {pooling: stored[pooling] for pooling in together}
            self._encode(encoder, inputs, into, model, precision)
        return Encoded(stored, sum(map(len, passes.values())), time.perf_counter() - started)

    def _stored(
        self, encoder: Encoder, pooling: Pooling | None, model: ModelRef, precision: str
    ) -> EmbeddingCache:
        key = _vectors_key(encoder, pooling, model, precision)
        return EmbeddingCache(self.cache.root / EMBEDDINGS / key)

    def _encode(
        self,
        encoder: Encoder,
        inputs: Sequence[TextInput],
        stored: Mapping[Pooling | None, EmbeddingCache],
        model: ModelRef,
        precision: str,
    ) -> None:
        """Encode inputs under some poolings in one pass, and store their vectors."""
        # Sorted, so that the same texts make the same batches in whatever order they come.
        inputs = sorted(inputs, key=TextInput.key)
        spec = model.spec
        self.reporter.stage("encoding", str(spec), len(inputs), "texts")
        poolings = [pooling for pooling in stored if pooling is not None]
        check_inputs(encoder, inputs, poolings)
        advance = advancing(self.compute, self.reporter, "encoding", precision, len(inputs))
        size = WRITE_EVERY[device_type(self.compute.device)]
        if not poolings and device_type(self.compute.device) == "cpu":
            size = ONE_CALL
        named = f"the encoder {spec}{defined_at(encoder.encode)}"
        for start in range(0, len(inputs), size):
            chunk = inputs[start : start + size]
            if poolings:
                assert isinstance(encoder, PoolingEncoder)  # only backbones have poolings
                arrays = encoder.encode_pooled(chunk, poolings, advance)
            else:
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
        self,
        encoder: Encoder,
        model: ModelRef,
        pooling: Pooling | None,
        precision: str,
        corpora: Mapping[CorpusRef, Corpus],
    ) -> dict[str, Affine | Taken]:
        """Return the transformations of a model by language: stored with it, cached, or fitted now on their corpora.

        ``encoder`` returns the vectors before the transformation.
        """

        def fitted(language: str, post: PostRef, corpus: CorpusRef) -> Affine:
            vectors_key = _vectors_key(encoder, pooling, model, precision)
            key = digest({"vectors": vectors_key, "language": language, "post": post.identity()})
            stored = self.cache.transformation(key)
            if stored is not None:
                affine = Affine(*stored)
            else:
                fitted_on = corpora[corpus]
                inputs = fit_inputs(fitted_on.texts, model, pooling, self.plugins)
                inputs = [replace(item, language=language) for item in inputs]
                with naming_lines(fitted_on, self.plugins.corpora.by_name()):
                    encoded = self.encode_missing(encoder, {pooling: inputs}, model, precision)
                affine = fit(encoded.vectors[pooling].get(inputs), post.transformation)
                self.cache.save_transformation(key, affine.matrix, affine.bias)
            return affine

        transformations: dict[str, Affine | Taken] = {}
        for language, post in model.posts:
            if file := post.stored:
                with checksums.unchanged(partial(list, [("", file)]), post.checksum, str(file)):
                    transformations[language] = Affine.read(file)
            elif post.corpus is None:
                transformations[language] = Taken(
                    post.transformation.number, post.transformation.type
                )
            else:
                affine = fitted(language, post, post.corpus)
                transformations[language] = replace(affine, type=post.transformation.type)
        return transformations


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


def fit_inputs(
    texts: Sequence[str], model: ModelRef, pooling: Pooling | None, plugins: Plugins
) -> list[TextInput]:
    """Distinct inputs of a corpus: texts, both texts of a pair, or a random word of each text in its context."""
    of_target = pooling is not None and pooling.of_target
    pairs = plugins.methods[model.method].pairs if model.recipe else None
    if not of_target and pairs not in OF_TWO:
        return [TextInput(text) for text in dict.fromkeys(texts)]
    plain = replace(model.recipe or base_preset("", "", ""), augment=(), sides=1)
    maker = PairMaker(plain, np.random.default_rng(0), "", "paper", {})
    made = (
        pairs(texts, maker) if pairs in OF_TWO else words_in_context(texts, maker)
    )  # as MirrorWiC: paper 2, 3.1
    return list(dict.fromkeys([*made.left, *made.right]))
