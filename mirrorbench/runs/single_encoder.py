"""A single encoder, loaded for its vectors, which may come from the cache."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mirrorbench.core.encoder_protocol import Array, Encoder, TextInput
from mirrorbench.core.errors import unknown_name
from mirrorbench.core.plugins import Plugins
from mirrorbench.core.specs import LEVELS, EncoderSpec
from mirrorbench.core.truncation import truncation_of
from mirrorbench.data.corpora import GeneratedCorpus
from mirrorbench.models.pooling import Pooling
from mirrorbench.models.transformations import TransformedEncoder, transform
from mirrorbench.runs.cells import ModelRef
from mirrorbench.runs.compute import Compute
from mirrorbench.runs.encoder_loading import EncoderLoader, opening_notes
from mirrorbench.runs.folders import Folders
from mirrorbench.runs.ladder import expand_ladder
from mirrorbench.runs.outcomes import Reporter
from mirrorbench.runs.planning import PlanMaker
from mirrorbench.runs.requests import Purpose, Request


@dataclass(frozen=True)
class LoadedEncoder:
    """An encoder in memory, and what it was loaded by."""

    encoder: Encoder
    spec: EncoderSpec
    """The spec of its row in a table, with the method that a bare backbone was read by."""
    corpus: str
    """Name of the corpus that it was tuned on in loading it, or before; empty if loading tunes nothing."""


@dataclass(frozen=True)
class EncodedTexts:
    """An encoder and its vectors of some texts."""

    encoder: Encoder
    spec: EncoderSpec
    """The spec of its row in a table."""
    vectors: Array
    """Shape (number of texts, dimensions)."""


@dataclass(frozen=True)
class _PlannedEncoder:
    """An encoder that is not loaded yet."""

    spec: EncoderSpec
    model: ModelRef
    pooling: Pooling | None


def load_encoder(
    spec: EncoderSpec,
    level: str,
    plugins: Plugins,
    folders: Folders,
    compute: Compute,
    reporter: Reporter,
) -> LoadedEncoder:
    """Load an encoder.

    A tuned encoder comes from the cache, or is tuned with seed 0. A bare backbone is read by mean pooling, or at level
    ``wic`` at the target word; a directory of ``mirrorbench tune`` is read as its files say.
    """
    maker = PlanMaker(plugins, folders, compute, reporter)
    planned = _planned(spec, level, plugins, maker)
    loader = EncoderLoader(plugins, folders, compute, reporter, maker.examiner.systems)
    encoder, _ = loader.load_transformed(
        planned.model, planned.pooling, compute.precisions["encoding"], maker.corpora.by_ref
    )
    for note in opening_notes(planned.model, planned.pooling):
        reporter.note(note)
    is_tuned_now = planned.model.corpus is not None and planned.model.key not in loader.from_cache
    if not is_tuned_now:  # otherwise the tuning has reported these notes
        for note in getattr(encoder, "notes", ()):
            reporter.note(f"{planned.spec}: {note}")
    corpus = planned.model.corpus.name if planned.model.corpus else ""
    return LoadedEncoder(encoder, planned.spec, corpus)


def encode_cached(
    spec: EncoderSpec,
    texts: Sequence[str],
    plugins: Plugins,
    folders: Folders,
    compute: Compute,
    reporter: Reporter,
) -> EncodedTexts:
    """Load an encoder as ``load_encoder`` does, and encode texts; those whose vectors are in the cache are not encoded.

    A tuning or a transformation of vectors uses these texts.

    Raises:
        EncodingError: the encoder returned an array of another shape, or numbers that are not finite.
    """
    maker = PlanMaker(plugins, folders, compute, reporter)
    corpus = GeneratedCorpus("texts", "the texts to encode", lambda: texts)
    planned = _planned(spec, "sentence", plugins, maker, corpus)
    model = planned.model
    pooling = planned.pooling
    precision = compute.precisions["encoding"]
    corpora = maker.corpora.by_ref
    loader = EncoderLoader(plugins, folders, compute, reporter, maker.examiner.systems)
    encoder, _ = loader.load(model, pooling, precision, corpora)
    inputs = [TextInput(text) for text in texts]
    encoded = loader.embedder.encode_missing(encoder, {pooling: inputs}, model, precision)
    vectors = encoded.caches[pooling].get(inputs)
    if model.posts:
        transformations = loader.embedder.fitted_posts(encoder, model, pooling, precision, corpora)
        vectors = transform(vectors, inputs, transformations)
        encoder = TransformedEncoder(encoder, transformations)
    for note in opening_notes(model, pooling):
        reporter.note(note)
    for note in getattr(encoder, "notes", ()):
        reporter.note(f"{planned.spec}: {note}")
    truncation = truncation_of(encoder, inputs, pooling)
    if truncation is not None and truncation.sentence:
        reporter.note(f"{planned.spec}: {truncation.sentence}")
    return EncodedTexts(encoder, planned.spec, vectors)


def _planned(
    spec: EncoderSpec,
    level: str,
    plugins: Plugins,
    maker: PlanMaker,
    corpus: str | GeneratedCorpus = "",
) -> _PlannedEncoder:
    """Return the row that a spec stands for, with its model and pooling; without a ``corpus``, the level's is used."""
    if level not in LEVELS:
        raise unknown_name("level", level, list(LEVELS))
    ladder = expand_ladder(spec, level, plugins, files=maker.examiner.files)  # checks the keys too
    # A bare backbone stands for several rows. At level ``wic``, the first one reads the target word; at other levels,
    # the untuned row without a pooling has mean pooling.
    if len(ladder) == 1 or level == "wic":
        spec = ladder[0]
    else:
        spec = spec.with_method("base")
    # By default a request has one seed, and so one model.
    request = Request((spec,), (), corpus=corpus)
    model, pooling = maker.models(request, spec, Purpose(level))[0]
    return _PlannedEncoder(spec, model, pooling)
