"""``mirrorbench tune``: from a user's texts to an encoder directory."""

from __future__ import annotations

import html
from collections.abc import Sequence
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
from mirrorbench.runs.plan import Planner, Request
from mirrorbench.runs.results import ResultStore
from mirrorbench.runs.workspace import Workspace
from mirrorbench.texts.export import check_exportable, check_output, replacing, write_encoder
from mirrorbench.texts.held_out import HeldOutReport, evaluate_held_out, positive_pairs
from mirrorbench.texts.model_card import write_card
from mirrorbench.texts.tuning_texts import TuningTexts, read_tuning_texts
from mirrorbench.training.recipes import Recipe

if TYPE_CHECKING:
    import torch

    from mirrorbench.core.plugins import Plugins
    from mirrorbench.models.encoder import TransformerEncoder
    from mirrorbench.runs.cells import ModelRef

PAIRS, SINGLE, IN_CONTEXT = "pairs", "mirror", "mirrorwic"
"""The methods of a spec that names none: for pairs, for texts, and for texts at the level of words in context."""


@dataclass(frozen=True)
class TunedEncoder:
    """A tuned encoder.

    Attributes:
        folder: the directory; ``mirrorbench.load(folder)`` opens it.
        spec: the encoder spec with its method.
        recipe: every hyper-parameter.
        pooling: how the encoder's vectors are pooled.
        corpus: name, checksum and number of the strings that it was tuned on.
        held_out: the report on the held-out texts, ``None`` where none were held out.
        seconds: that the tuning took, now or when it was first done.
    """

    folder: Path
    spec: EncoderSpec
    recipe: Recipe
    pooling: Pooling
    corpus: dict[str, Any]
    held_out: HeldOutReport | None
    seconds: float

    def _repr_html_(self) -> str:
        """The report as a small table for notebooks."""
        caption = html.escape(f"{self.spec}, tuned on {self.corpus['n']:,} lines: {self.folder}")
        if self.held_out is None:
            return f"<p>{caption}</p>"
        rows = "".join(
            f"<tr><th>{title} ({better})</th><td>{before:.3f}</td><td>{after:.3f}</td></tr>"
            for title, before, after, better in self.held_out.rows()
        )
        head = "<tr><th></th><th>before</th><th>after</th></tr>"
        return f"<table><caption>{caption}</caption>{head}{rows}</table>"


def tune_texts(
    texts: str | Path | Sequence[str] | Sequence[tuple[str, str]],
    spec: EncoderSpec,
    output: Path,
    *,
    plugins: Plugins,
    device: torch.device,
    level: str = "sentence",
    columns: Sequence[str] = (),
    seed: int = 0,
    held_out: int | None = None,
    precision: str = "fp32",
    force: bool = False,
    offline: bool = False,
    reporter: Reporter | None = None,
    cache: Cache | None = None,
) -> TunedEncoder:
    """Tune a backbone on texts and write the encoder directory; the same job again finds the model in the cache.

    Args:
        texts: a file, ``-``, a list of texts, or a list of pairs of texts.
        spec: the encoder; without a method it is the one that suits the texts.
        output: the directory.
        plugins: what is registered.
        device: where to compute.
        level: picks the recipe.
        columns: of a file with columns: one for texts, two for pairs.
        seed: of the tuning, and of what is held out.
        held_out: lines to report on instead of tuning on them; by default 500, at most a tenth.
        precision: ``fp32`` or ``bf16``.
        force: replace an encoder that is there already.
        offline: open no socket.
        reporter: receives the progress.
        cache: where tuned models are.

    Raises:
        UsageError: the spec, the texts' form, or an output that is not empty.
        ModelUnavailableError: the backbone cannot be had.
        TuningError: too few texts, or a loss that is not finite.
        DataUnavailableError, DataFormatError: the file cannot be read.
        StorageError: the output cannot be written.
    """
    output, reporter = output.expanduser(), reporter or Silent()
    check_output(output, force)
    resolve_method(spec, level, None, plugins)  # a mistake in the spec is told before a large file is read
    # A method that is named has a form of lines of its own, or wants none.
    read = read_tuning_texts(texts, columns, held_out, seed, raw=spec.method not in ("", PAIRS))
    source = texts if isinstance(texts, str | Path) else read.name
    reporter.note(
        f"{source}: {read.n_read:,} {'pairs' if read.are_pairs else 'texts'}, {read.n_duplicates:,} of them repeated; "
        f"{len(read.train):,} to tune on, {len(read.held_out):,} held out"
    )
    spec = resolve_method(spec, level, read.are_pairs, plugins)
    own = plugins.extended("register_corpora", GeneratedCorpus(read.name, "a user's texts", read.corpus))
    request = Request((spec,), (), seeds=(seed,), corpus=read.name, precision=precision)
    workspace = Workspace(
        own, DataStore(offline=True), ResultStore(output), cache or Cache(), str(device), precision, offline,
        reporter=reporter,
    )  # fmt: skip
    planner, loader = Planner(workspace), workspace.loader
    weights, pooling = planner.models(request, spec, level)[0]
    assert pooling is not None  # a backbone with a method that tunes has a pooling, a recipe and a corpus
    assert weights.recipe is not None
    check_exportable(pooling)
    pairs = positive_pairs(read.held_out, seed)
    if pairs:
        reporter.stage(f"look at {spec.backbone}", 1, "encoder")
        base, same = planner.models(request, _as_backbone(spec, pooling), "sentence")[0]
        before = evaluate_held_out(loader.load(base, same, planner.precision(request, base), {})[0], pairs)
        reporter.advance(1)
    opened, seconds = loader.load(weights, pooling, planner.precision(request, weights), planner.corpora)
    encoder: TransformerEncoder = opened  # type: ignore[assignment]  # what a backbone opens as
    report = None
    if pairs:
        after = evaluate_held_out(encoder, pairs)
        shown = [first for first, _ in pairs]
        report = HeldOutReport(
            len(pairs), before[0], after[0], tuple(zip(shown, before[1], after[1], strict=False))
        )  # fmt: skip
    tuned = TunedEncoder(output, spec, weights.recipe, pooling, _corpus(weights, read), report, seconds)
    with replacing(output) as folder:
        write_encoder(folder, encoder.transformer, pooling, _description(tuned, weights))
        write_card(folder, tuned, weights)
    return tuned


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


def _as_backbone(spec: EncoderSpec, pooling: Pooling) -> EncoderSpec:
    """The backbone as it comes, pooled as the tuned model will be."""
    return replace(spec, method="base", params=()).with_params(
        pooling=pooling.mode, layers=pooling.layers, max_length=pooling.max_length
    )


def _corpus(weights: ModelRef, texts: TuningTexts) -> dict[str, Any]:
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


def _description(tuned: TunedEncoder, weights: ModelRef) -> dict[str, Any]:
    report = tuned.held_out
    return {
        "spec": str(tuned.spec),
        "recipe": tuned.recipe.to_json(),
        "corpus": tuned.corpus,
        "seed": weights.seed,
        "identity": weights.identity(),
        "scores": {"before": report.before, "after": report.after} if report else None,
        "mirrorbench": mirrorbench.__version__,
    }
