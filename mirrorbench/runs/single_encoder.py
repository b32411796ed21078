"""A single encoder, loaded for its vectors."""

from __future__ import annotations

from dataclasses import dataclass

from mirrorbench.core.encoder_protocol import Encoder
from mirrorbench.core.errors import unknown_name
from mirrorbench.core.plugins import Plugins
from mirrorbench.core.specs import LEVELS, EncoderSpec
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
    if level not in LEVELS:
        raise unknown_name("level", level, list(LEVELS))
    maker = PlanMaker(plugins, folders, compute, reporter)
    ladder = expand_ladder(spec, level, plugins, files=maker.examiner.files)  # checks the keys too
    # A bare backbone stands for several rows. At level ``wic``, the first one reads the target word; at other levels,
    # the untuned row without a pooling has mean pooling.
    if len(ladder) == 1 or level == "wic":
        spec = ladder[0]
    else:
        spec = spec.with_method("base")
    # By default a request has one seed, and so one model.
    request = Request((spec,), ())
    model, pooling = maker.models(request, spec, Purpose(level))[0]
    loader = EncoderLoader(plugins, folders, compute, reporter, maker.examiner.systems)
    encoder, _ = loader.load_transformed(
        model, pooling, compute.precisions["encoding"], maker.corpora.by_ref
    )
    for note in opening_notes(model, pooling):
        reporter.note(note)
    is_tuned_now = model.corpus is not None and model.key not in loader.from_cache
    if not is_tuned_now:  # otherwise the tuning has reported these notes
        for note in getattr(encoder, "notes", ()):
            reporter.note(f"{spec}: {note}")
    return LoadedEncoder(encoder, spec, model.corpus.name if model.corpus else "")
