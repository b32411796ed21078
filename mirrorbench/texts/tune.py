"""Tunes an encoder on a user's texts and writes it as a directory."""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import mirrorbench
from mirrorbench.core.errors import UsageError, unknown_name
from mirrorbench.core.specs import LEVELS, EncoderSpec
from mirrorbench.data.corpora import GeneratedCorpus
from mirrorbench.models.pooling import Pooling
from mirrorbench.runs.plan import Planner, Request
from mirrorbench.texts.export import check_exportable, check_output, replacing, write_card, write_encoder
from mirrorbench.texts.held_out import HeldOutReport, evaluate_held_out, positive_pairs
from mirrorbench.texts.reading import read_tuning_texts
from mirrorbench.training.recipes import Recipe

if TYPE_CHECKING:
    from mirrorbench.core.plugins import Plugins
    from mirrorbench.models.encoder import TransformerEncoder
    from mirrorbench.runs.workspace import Workspace

PAIRS, SINGLE, IN_CONTEXT = "pairs", "mirror", "mirrorwic"
"""Default methods for pairs, for texts, and for texts at the level of words in context."""


@dataclass(frozen=True)
class TunedEncoder:
    """A tuned encoder.

    Attributes:
        folder: the directory; ``mirrorbench.load(folder)`` loads it.
        spec: the encoder spec with its method.
        recipe: all hyper-parameters.
        pooling: how vectors are pooled.
        corpus: name, checksum and number of the strings that it was tuned on.
        held_out: the report on held-out texts; ``None`` where none were held out.
        seconds: duration of the tuning, also where the model came from the cache.
    """

    folder: Path
    spec: EncoderSpec
    recipe: Recipe
    pooling: Pooling
    corpus: dict[str, Any]
    held_out: HeldOutReport | None
    seconds: float

    def _repr_html_(self) -> str:
        """The report as a table for notebooks."""
        from tabulate import tabulate

        lines = f"{self.corpus['n']:,} lines"
        caption = f"<p>{html.escape(f'{self.spec}, tuned on {lines}: {self.folder}')}</p>"
        if self.held_out is None:
            return caption
        rows = [(f"{title} ({better})", f"{a:.3f}", f"{b:.3f}") for title, a, b, better in self.held_out.rows()]
        return caption + tabulate(rows, ("", "before", "after"), tablefmt="html", disable_numparse=True)


def tune_texts(
    texts: str | Path | Sequence[str] | Sequence[tuple[str, str]], spec: EncoderSpec, output: Path,
    workspace: Workspace, *, level: str = "sentence", columns: Sequence[str] = (), seed: int = 0,
    held_out: int | None = None, force: bool = False,
) -> TunedEncoder:  # fmt: skip
    """See ``Session.tune``; a repeated call takes the model from the cache."""
    output, plugins, reporter = output.expanduser(), workspace.plugins, workspace.reporter
    check_output(output, force)
    resolve_method(spec, level, None, plugins)  # finds errors in the spec before a large file is read
    # A named method other than ``pairs`` gets the lines as they are.
    read = read_tuning_texts(texts, columns, held_out, seed, raw=spec.method not in ("", PAIRS))
    reporter.note(f"{texts if isinstance(texts, str | Path) else read.name}: {read.summary}")
    spec = resolve_method(spec, level, read.are_pairs, plugins)
    own = plugins.extended("register_corpora", GeneratedCorpus(read.name, "a user's texts", read.corpus))
    workspace = replace(workspace, plugins=own)
    planner, loader = Planner(workspace), workspace.loader
    request = Request((spec,), (), seeds=(seed,), corpus=read.name)
    model, pooling = planner.models(request, spec, level)[0]
    assert pooling is not None  # a backbone with a tuning method has all three
    assert model.recipe is not None
    assert model.corpus is not None
    check_exportable(pooling)
    precision = planner.precision(request, "encoding", model.path)
    report, pairs = None, positive_pairs(read.held_out, seed)
    if pairs:
        reporter.stage(f"look at {spec.backbone}", 1, "encoder")
        plain = replace(spec, method="base", params=()).with_params(
            pooling=pooling.mode, layers=pooling.layers, max_length=pooling.max_length
        )
        base, _ = planner.models(request, plain, "sentence")[0]
        before = evaluate_held_out(loader.load_stored(base, pooling, precision, {})[0], pairs)
        reporter.advance(1)
    loaded, seconds = loader.load_stored(model, pooling, precision, planner.corpora)
    encoder: TransformerEncoder = loaded  # type: ignore[assignment]  # backbones are loaded as this class
    if pairs:
        after = evaluate_held_out(encoder, pairs)
        neighbours = zip((first for first, _ in pairs), before[1], after[1], strict=False)
        report = HeldOutReport(len(pairs), before[0], after[0], tuple(neighbours))
    corpus = {
        "name": read.name, "sha256": model.corpus.sha256, "n": model.corpus.n, "pairs": read.are_pairs,
        "lines": read.n_read, "duplicates": read.n_duplicates, "held_out": len(read.held_out),
    }  # fmt: skip
    description = {
        "spec": str(spec), "recipe": model.recipe.to_json(), "corpus": corpus, "seed": seed,
        "identity": model.identity(),
        "scores": {"before": report.before, "after": report.after} if report else None,
        "mirrorbench": mirrorbench.__version__,
    }  # fmt: skip
    tuned = TunedEncoder(output, spec, model.recipe, pooling, corpus, report, seconds)
    with replacing(output) as folder:
        write_encoder(folder, encoder.transformer, pooling, description)
        write_card(folder, tuned, model.path)
    return tuned


def resolve_method(spec: EncoderSpec, level: str, pairs: bool | None, plugins: Plugins) -> EncoderSpec:
    """The spec with its method; ``pairs``: whether the texts are pairs, ``None`` if not known yet."""
    if level not in LEVELS:
        raise unknown_name("level", level, list(LEVELS))
    if spec.backbone in plugins.encoders:
        problem = f"{spec}: {spec.backbone} is an encoder of its own and is not tuned"
        raise UsageError(problem, "Name a backbone: roberta, ./model")
    if spec.get("corpus") is not None:
        raise UsageError(f"{spec}: the texts to tune on are those of the file", "Leave corpus= out of the spec.")
    if not spec.method:
        spec = spec.with_method(PAIRS if pairs else IN_CONTEXT if level == "wic" else SINGLE)
    if not plugins.methods[spec.method].tunes:
        raise UsageError(f"{spec}: +{spec.method} tunes nothing", f"Write {spec.with_method(SINGLE)}")
    if pairs is False and spec.method == PAIRS:
        problem = f"{spec} tunes on pairs, but the lines are no pairs"
        raise UsageError(problem, "Write text1||text2, or name two columns.")
    if pairs and spec.method in (SINGLE, IN_CONTEXT):
        raise UsageError(f"{spec} tunes on single texts, but these are pairs", f"Write {spec.with_method(PAIRS)}")
    return spec
