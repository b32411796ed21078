"""``mirrorbench tune``: from a user's texts to an encoder directory."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import mirrorbench
from mirrorbench.core.errors import UsageError
from mirrorbench.core.progress import Reporter, Silent
from mirrorbench.core.registry import unknown_name
from mirrorbench.core.specs import LEVELS, EncoderSpec
from mirrorbench.data.corpora import GeneratedCorpus
from mirrorbench.data.store import DataStore
from mirrorbench.models.pooling import Pooling
from mirrorbench.runs.cache import Cache
from mirrorbench.runs.loading import Opener
from mirrorbench.runs.plan import Planner, Request
from mirrorbench.texts.export import check_output, check_pooling, replacing, write_encoder
from mirrorbench.texts.held_out import Probe
from mirrorbench.texts.model_card import write_card
from mirrorbench.texts.report import Tuned
from mirrorbench.texts.tuning_texts import Texts

if TYPE_CHECKING:
    import torch

    from mirrorbench.core.plugins import Plugins
    from mirrorbench.models.encoder import TransformerEncoder
    from mirrorbench.runs.cells import Weights

PAIRS, SINGLE, IN_CONTEXT = "pairs", "mirror", "mirrorwic"
"""The methods of a spec that names none: for pairs, for texts, and for texts at the level of words in context."""


@dataclass(frozen=True)
class Job:
    """What is to be tuned, and where it goes.

    Attributes:
        texts: what to tune on, and what is held out.
        spec: the encoder; without a method it is the one that suits the texts.
        output: the directory.
        level: picks the recipe.
        seed: of the tuning.
        precision: ``fp32`` or ``bf16``.
        force: replace an encoder that is there already.
    """

    texts: Texts
    spec: EncoderSpec
    output: Path
    level: str = "sentence"
    seed: int = 0
    precision: str = "fp32"
    force: bool = False


def reads_lines(spec: EncoderSpec) -> bool:
    """Whether lines like ``text1||text2`` are left to the spec's method, which has a form of its own or wants none."""
    return spec.method not in ("", PAIRS)


def resolve_method(spec: EncoderSpec, level: str, pairs: bool | None, plugins: Plugins) -> EncoderSpec:
    """The spec with its method.

    Args:
        spec: as written.
        level: picks the method where the spec names none.
        pairs: whether the texts are pairs, ``None`` where that is not known yet.
        plugins: what is registered.

    Raises:
        UsageError: the spec is nothing that can be tuned, names a corpus of its own, or does not suit the texts.
    """
    if level not in LEVELS:
        raise unknown_name("level", level, list(LEVELS))
    if spec.backbone in plugins.encoders:
        raise UsageError(
            f"{spec}: {spec.backbone} is an encoder of its own and is not tuned", "Name a backbone: roberta, ./model"
        )
    if spec.get("corpus") is not None:
        raise UsageError(f"{spec}: the texts to tune on are those of the file", "Leave corpus= out of the spec.")
    if not spec.method:
        spec = spec.with_method(PAIRS if pairs else IN_CONTEXT if level == "wic" else SINGLE)
    if not plugins.methods[spec.method].tunes:
        raise UsageError(f"{spec}: +{spec.method} tunes nothing", f"Write {spec.with_method(SINGLE)}")
    if pairs is False and spec.method == PAIRS:
        raise UsageError(
            f"{spec} tunes on pairs, but the lines are no pairs", "Write text1||text2, or name two columns."
        )
    if pairs and spec.method in (SINGLE, IN_CONTEXT):
        raise UsageError(f"{spec} tunes on single texts, but these are pairs", f"Write {spec.with_method(PAIRS)}")
    return spec


def tune_texts(
    job: Job,
    plugins: Plugins,
    device: torch.device,
    offline: bool = False,
    reporter: Reporter | None = None,
    cache: Cache | None = None,
) -> Tuned:
    """Tune a backbone on texts and write the encoder directory; the same job again finds the model in the cache.

    Args:
        job: what to tune.
        plugins: what is registered.
        device: where to compute.
        offline: open no socket.
        reporter: whom to tell.
        cache: where tuned models are.

    Raises:
        UsageError: the spec, or an output that is not empty.
        ModelUnavailableError: the backbone cannot be had.
        TuningError: too few texts, or a loss that is not finite.
        StorageError: the output cannot be written.
    """
    reporter = reporter or Silent()
    output = job.output.expanduser()
    check_output(output, job.force)
    spec = resolve_method(job.spec, job.level, job.texts.are_pairs, plugins)
    own = plugins.extended("register_corpora", GeneratedCorpus(job.texts.name, "a user's texts", job.texts.lines))
    request = Request((spec,), (), seeds=(job.seed,), corpus=job.texts.name, precision=job.precision)
    planner = Planner(request, own, DataStore(offline=True), offline=offline)
    weights, pooling = planner.weights(spec, job.level)[0]
    assert pooling is not None  # a backbone with a method that tunes has both
    assert weights.recipe is not None
    check_pooling(pooling)
    opener = Opener(own, cache or Cache(), device, offline, reporter)
    probe = Probe(job.texts.probe(job.seed)) if job.texts.held_out else None
    before = None
    if probe:
        reporter.stage(f"look at {spec.backbone}", 1, "encoder")
        before = probe.ask(_backbone(planner, opener, spec, pooling))
        reporter.advance(1)
    opened, seconds = opener.open(weights, pooling, planner.precision(weights), planner.corpora)
    encoder: TransformerEncoder = opened  # type: ignore[assignment]  # what a backbone opens as
    sanity = probe.compare(before, probe.ask(encoder)) if probe and before else None
    tuned = Tuned(output, spec, weights.recipe, pooling, _corpus(weights, job.texts), sanity, seconds)
    with replacing(output) as folder:
        write_encoder(folder, encoder.transformer, pooling, _description(tuned, weights))
        write_card(folder, tuned, weights)
    return tuned


def _backbone(planner: Planner, opener: Opener, spec: EncoderSpec, pooling: Pooling) -> Any:
    """The backbone as it comes, read out as the tuned model will be."""
    base = replace(spec, method="base", params=()).with_params(
        pooling=pooling.mode, layers=pooling.layers, max_length=pooling.max_length
    )
    weights, same = planner.weights(base, "sentence")[0]
    return opener.open(weights, same, planner.precision(weights), {})[0]


def _corpus(weights: Weights, texts: Texts) -> dict[str, Any]:
    assert weights.corpus is not None  # it is tuned on one
    return {
        "name": texts.name,
        "sha256": weights.corpus.sha256,
        "n": weights.corpus.n,
        "pairs": texts.are_pairs,
        "lines": texts.n_read,
        "duplicates": texts.n_duplicates,
        "held_out": len(texts.held_out),
    }


def _description(tuned: Tuned, weights: Weights) -> dict[str, Any]:
    sanity = tuned.sanity
    return {
        "spec": str(tuned.spec),
        "recipe": tuned.recipe.to_json(),
        "corpus": tuned.corpus,
        "seed": weights.seed,
        "identity": weights.identity(),
        "scores": {"before": sanity.before, "after": sanity.after} if sanity else None,
        "mirrorbench": mirrorbench.__version__,
    }
