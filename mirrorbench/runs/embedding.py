"""Vectors through the cache: read them, encode those that are missing, and fit transformations on them."""

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
from mirrorbench.models.transformations import Affine, FirstDimensions, fit
from mirrorbench.runs.cells import CorpusRef, ModelRef, PostRef
from mirrorbench.runs.compute import Compute
from mirrorbench.runs.half_precision import progress_callback
from mirrorbench.runs.outcomes import Reporter
from mirrorbench.storage import checksums
from mirrorbench.storage.cache import EMBEDDINGS, Cache
from mirrorbench.storage.embedding_cache import EmbeddingCache
from mirrorbench.training.methods import (
    TWO_TEXT_FUNCTIONS,
    PairMaker,
    base_preset,
    words_in_context,
)

WRITE_EVERY = {"cpu": 8_192, "mps": 8_192, "cuda": 65_536}
"""Texts encoded between two writes to the cache, by device: some seconds of work, which a killed run repeats."""
TEXTS_PER_CALL = 1_024
"""Texts in one call of an encoder system on a CPU, which reports progress only at its end."""


class Encoded(NamedTuple):
    """The vector caches of some poolings, and the cost of the inputs that were encoded now."""

    caches: dict[Pooling | None, EmbeddingCache]
    """The cache of each pooling, which has the vectors of all its inputs."""
    texts: int
    """Number of inputs that had no vectors yet."""
    seconds: float
    """Wall-clock time of their encoding, including writing."""

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
        inputs_by_pooling: Mapping[Pooling | None, Iterable[TextInput]],
        model: ModelRef,
        precision: str,
    ) -> Encoded:
        """Encode and store the inputs that have no vectors yet; return the caches of all poolings, and the cost.

        An input that lacks vectors of several poolings is encoded once for all of them.
        """
        caches: dict[Pooling | None, EmbeddingCache] = {}
        missing: dict[Pooling | None, dict[TextInput, None]] = {}
        for pooling, inputs in inputs_by_pooling.items():
            caches[pooling] = self._cache_of(encoder, pooling, model, precision)
            missing[pooling] = dict.fromkeys(caches[pooling].missing(list(inputs)))
        # One pass for each set of poolings that lack the same inputs.
        passes: dict[tuple[Pooling | None, ...], list[TextInput]] = {}
        distinct_inputs = dict.fromkeys(chain.from_iterable(missing.values()))
        for text_input in distinct_inputs:
            poolings = tuple(
                pooling for pooling, lacking in missing.items() if text_input in lacking
            )
            passes.setdefault(poolings, []).append(text_input)
        started = time.perf_counter()
        for poolings, inputs_of_pass in passes.items():
            caches_of_pass = {pooling: caches[pooling] for pooling in poolings}
            self._encode(encoder, inputs_of_pass, caches_of_pass, model, precision)
        seconds = time.perf_counter() - started
        return Encoded(caches, len(distinct_inputs), seconds)

    def _cache_of(
        self, encoder: Encoder, pooling: Pooling | None, model: ModelRef, precision: str
    ) -> EmbeddingCache:
        key = _vectors_key(encoder, pooling, model, precision)
        return EmbeddingCache(self.cache.root / EMBEDDINGS / key)

    def _encode(
        self,
        encoder: Encoder,
        inputs: Sequence[TextInput],
        caches: Mapping[Pooling | None, EmbeddingCache],
        model: ModelRef,
        precision: str,
    ) -> None:
        """Encode inputs in one pass under the poolings that are the keys of ``caches``, and store their vectors there.

        Raises:
            EncodingError: the vectors have other dimensions than those stored before.
        """
        # Sorted, so that the same texts make the same batches whatever their order.
        inputs = sorted(inputs, key=TextInput.key)
        spec = model.spec
        self.reporter.stage("encoding", str(spec), len(inputs), "texts")
        # Empty for an encoder system, whose only key is None.
        poolings = [pooling for pooling in caches if pooling is not None]
        check_inputs(encoder, inputs, poolings)
        advance = progress_callback(self.compute, self.reporter, "encoding", precision, len(inputs))
        device = device_type(self.compute.device)
        chunk_size = WRITE_EVERY[device]
        if not poolings:
            # An encoder system reports no progress within a call.
            default = TEXTS_PER_CALL if device == "cpu" else chunk_size
            chunk_size = getattr(encoder, "texts_per_call", default)
        encoder_name = f"the encoder {spec}{defined_at(encoder.encode)}"
        for start in range(0, len(inputs), chunk_size):
            chunk = inputs[start : start + chunk_size]
            if poolings:
                assert isinstance(encoder, PoolingEncoder)  # only backbones have poolings
                arrays = encoder.encode_pooled(chunk, poolings, advance)
            else:
                arrays = [check_vectors(encoder.encode(chunk), len(chunk), encoder_name)]
                advance(len(chunk))
            # The arrays are in the order of the poolings, which is that of the caches.
            for cache, array in zip(caches.values(), arrays, strict=True):
                # An empty cache has no dimensions (None).
                if cache.dimensions not in (None, array.shape[1]):
                    raise EncodingError(
                        f"the encoder {spec} returned vectors of {array.shape[1]} dimensions; those stored before have "
                        f"{cache.dimensions}",
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
    ) -> dict[str, Affine | FirstDimensions]:
        """Return the transformations of a model by language: stored with it, cached, or fitted now on their corpora.

        ``encoder`` must return the vectors before the transformation.
        """
        transformations: dict[str, Affine | FirstDimensions] = {}
        for language, post in model.posts:
            type_ = post.transformation.type
            file = post.stored
            if file:
                with checksums.unchanged(partial(list, [("", file)]), post.checksum, str(file)):
                    transformations[language] = Affine.read(file)
            elif post.corpus is None:
                # Keeping the first dimensions, or changing their type, needs no fit.
                transformations[language] = FirstDimensions(post.transformation.number, type_)
            else:
                corpus = corpora[post.corpus]
                affine = self._fitted(encoder, model, pooling, precision, language, post, corpus)
                transformations[language] = replace(affine, type=type_)
        return transformations

    def _fitted(
        self,
        encoder: Encoder,
        model: ModelRef,
        pooling: Pooling | None,
        precision: str,
        language: str,
        post: PostRef,
        corpus: Corpus,
    ) -> Affine:
        """Return the transformation of a language from the cache, or fit it on a corpus now."""
        vectors_key = _vectors_key(encoder, pooling, model, precision)
        key = digest({"vectors": vectors_key, "language": language, "post": post.identity()})
        stored = self.cache.transformation(key)
        if stored is not None:
            return Affine(*stored)
        inputs = fit_inputs(corpus.texts, model, pooling, self.plugins)
        inputs = [replace(item, language=language) for item in inputs]
        with naming_lines(corpus, self.plugins.corpora.by_name()):
            encoded = self.encode_missing(encoder, {pooling: inputs}, model, precision)
        affine = fit(encoded.caches[pooling].get(inputs), post.transformation)
        self.cache.save_transformation(key, affine.matrix, affine.bias)
        return affine


def _vectors_key(encoder: Encoder, pooling: Pooling | None, model: ModelRef, precision: str) -> str:
    """Return the name in the cache of the vectors of an encoder."""
    readout = pooling.identity if pooling else model.spec.backbone
    parts = {
        "encoder": encoder.fingerprint,
        "readout": readout,
        "precision": precision,
        "computation": COMPUTATION,
    }
    if model.plugin_checksum:
        parts["plugin_files"] = model.plugin_checksum
    return digest(parts)


def fit_inputs(
    texts: Sequence[str], model: ModelRef, pooling: Pooling | None, plugins: Plugins
) -> list[TextInput]:
    """Return the distinct inputs of a corpus on which a transformation is fitted.

    These are both texts of each pair for a method tuned on pairs, a random word of each text in its context for a
    pooling of target words, and otherwise the texts.
    """
    pair_function = plugins.methods[model.method].pairs if model.recipe else None
    if pair_function not in TWO_TEXT_FUNCTIONS:
        if pooling is None or not pooling.of_target:
            return [TextInput(text) for text in dict.fromkeys(texts)]
        # Draw the words as MirrorWiC does (paper 2, section 3.1).
        pair_function = words_in_context
    # The pairs are made without augmentation, so the recipe of an untuned model can be any.
    unaugmented = replace(model.recipe or base_preset("", "", ""), augment=(), sides=1)
    rng = np.random.default_rng(0)
    maker = PairMaker(unaugmented, rng, mask_token="", protocol="paper", augmentations={})
    pairs = pair_function(texts, maker)
    return list(dict.fromkeys([*pairs.left, *pairs.right]))
