"""Vectors through the cache, and the transformations that are fitted on them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from mirrorbench.core import checksums
from mirrorbench.core.devices import kind
from mirrorbench.core.identity import COMPUTATION, digest
from mirrorbench.core.inputs import Encoder, TextInput, check_vectors
from mirrorbench.data.corpora import Corpus
from mirrorbench.models.pooling import Pooling, PoolingEncoder
from mirrorbench.models.transformations import Affine, Taken, fit
from mirrorbench.runs.cells import CorpusRef, ModelRef
from mirrorbench.training.methods import OF_TWO, PairMaker, base_preset, words_in_context

if TYPE_CHECKING:
    from mirrorbench.runs.cache import EmbeddingCache
    from mirrorbench.runs.workspace import Workspace

WRITE_EVERY = {"cpu": 8_192, "mps": 8_192, "cuda": 65_536}
"""Texts encoded between two writes to the cache, by device: some seconds of work, which a killed run does again."""


def embeddings_key(encoder: Encoder, pooling: Pooling | None, model: ModelRef, precision: str) -> str:
    """The cache's name for the vectors of an encoder."""
    read = pooling.identity if pooling else model.spec.backbone
    parts = {"encoder": encoder.fingerprint, "readout": read, "precision": precision, "computation": COMPUTATION}
    return digest(parts)


def fill(
    encoder: Encoder, missing: Sequence[TextInput], stored: Mapping[Pooling | None, EmbeddingCache], model: ModelRef,
    workspace: Workspace,
) -> None:  # fmt: skip
    """Encode inputs under some poolings, and store their vectors.

    The inputs are sorted, so that the same texts make the same batches in whatever order they come.
    """
    missing, reporter, spec = sorted(missing, key=TextInput.key), workspace.reporter, model.spec
    reporter.stage("encoding", str(spec), len(missing), "texts")
    poolings = [pooling for pooling in stored if pooling is not None]
    size = WRITE_EVERY[kind(workspace.torch_device)]
    for start in range(0, len(missing), size):
        chunk = missing[start : start + size]
        if poolings:
            assert isinstance(encoder, PoolingEncoder)  # only backbones have poolings
            arrays = encoder.encode_pooled(chunk, poolings, reporter.advance)
        else:
            arrays = [check_vectors(encoder.encode(chunk), len(chunk), f"the encoder {spec}")]
            reporter.advance(len(chunk))
        for cache, array in zip(stored.values(), arrays, strict=True):
            cache.put(chunk, array)


def fitted_posts(
    encoder: Encoder, model: ModelRef, pooling: Pooling | None, precision: str, corpora: Mapping[CorpusRef, Corpus],
    workspace: Workspace,
) -> dict[str, Affine | Taken]:  # fmt: skip
    """The transformations of a model by language, found in the cache or fitted now on vectors of their corpora.

    ``encoder`` gives the vectors before the transformation.
    """
    cache, vectors_key = workspace.cache, embeddings_key(encoder, pooling, model, precision)
    found: dict[str, Affine | Taken] = {}
    for language, post in model.posts:
        if file := post.stored:
            with checksums.unchanged(partial(list, [("", file)]), post.checksum, str(file)):
                found[language] = Affine.read(file)
            continue
        if post.corpus is None:
            found[language] = Taken(post.transformation.number, post.transformation.type)
            continue
        key = digest({"vectors": vectors_key, "language": language, "post": post.identity()})
        affine = cache.transformation(key)
        if affine is None:
            inputs = fit_inputs(corpora[post.corpus].texts, model, pooling, workspace)
            inputs = [replace(item, language=language) for item in inputs]
            stored = cache.embeddings(vectors_key)
            if missing := stored.missing(inputs):
                fill(encoder, missing, {pooling: stored}, model, workspace)
            affine = fit(stored.get(inputs), post.transformation)
            cache.save_transformation(key, affine)
        found[language] = replace(affine, type=post.transformation.type)
    return found


def fit_inputs(texts: Sequence[str], model: ModelRef, pooling: Pooling | None, workspace: Workspace) -> list[TextInput]:
    """The distinct texts of a corpus as an encoder reads them, in their order.

    Where it reads words in context, one random word of each text, as MirrorWiC draws it (paper 2, section 3.1); where
    lines hold two texts or names, both.
    """
    of_target = pooling is not None and pooling.of_target
    pairs = workspace.plugins.methods[model.method].pairs if model.recipe else None
    if not of_target and pairs not in OF_TWO:
        return [TextInput(text) for text in dict.fromkeys(texts)]
    plain = replace(model.recipe or base_preset("", "", ""), augment=(), sides=1)
    maker = PairMaker(plain, np.random.default_rng(0), "", "paper", {})
    made = pairs(texts, maker) if pairs in OF_TWO else words_in_context(texts, maker)
    return list(dict.fromkeys([*made.left, *made.right]))
