"""Tune an encoder on a user's texts and write it as a directory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from os.path import abspath, expanduser, isdir
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from mirrorbench.core.encoder_protocol import TextInput
from mirrorbench.core.errors import (
    MirrorbenchError,
    UnreadableTextError,
    UsageError,
    unknown_name,
)
from mirrorbench.core.identity import __version__, checksum
from mirrorbench.core.quoting import printable, without_texts
from mirrorbench.core.specs import LEVELS, EncoderSpec
from mirrorbench.data.corpora import Corpus, GeneratedCorpus
from mirrorbench.data.readers.rows import read_rows
from mirrorbench.models.adapters import merge_adapter
from mirrorbench.models.backbones import locate
from mirrorbench.models.opening import reads_tokenizer_file
from mirrorbench.models.pooling import Pooling
from mirrorbench.models.sentence_transformer_files import stored_readout
from mirrorbench.models.transformations import DIMS, FirstDimensions, TransformedEncoder, split_post
from mirrorbench.models.transformer import checked_tokenizer
from mirrorbench.models.transformer_encoder import TransformerEncoder
from mirrorbench.runs.cells import CorpusRef
from mirrorbench.runs.encoder_loading import EncoderLoader
from mirrorbench.runs.ladder import CONTEXT_METHOD, PAIRS_METHOD, TEXTS_METHOD
from mirrorbench.runs.planning import PlanMaker
from mirrorbench.runs.requests import Purpose, Request
from mirrorbench.texts.export import check_exportable, check_output, replacing, write_encoder
from mirrorbench.texts.model_card import TunedEncoder, write_card
from mirrorbench.texts.reopening import Sample
from mirrorbench.texts.tuning_texts import TuningTexts, read_tuning_texts
from mirrorbench.training.held_out import positive_pairs
from mirrorbench.training.recipes import Recipe
from mirrorbench.training.trajectory import Progress, Trajectory

if TYPE_CHECKING:
    from mirrorbench.core.encoder_protocol import Encoder
    from mirrorbench.core.plugins import Plugins
    from mirrorbench.runs.cells import ModelRef
    from mirrorbench.runs.compute import Compute
    from mirrorbench.runs.folders import Folders
    from mirrorbench.runs.outcomes import Reporter

OWN_TEXTS = "own texts"
"""The name of a user's corpus in what is published with an encoder."""

_OTHER_TOKENIZER = (
    "other libraries open another tokenizer for this type of model than its tokenizer.json describes: give them "
    "transformers.PreTrainedTokenizerFast.from_pretrained(DIR)"
)
"""Note on a tuned directory that other libraries tokenize differently, whatever its files say."""


@dataclass(frozen=True)
class TuningJob:
    """A tuning on a user's texts, before it is computed.

    Attributes:
        spec: spec of the encoder, with its method.
        texts: the texts to tune on, and the held-out ones.
        seed: seed of the tuning.
        output: the directory to write.
        force: whether an encoder in ``output`` may be replaced.
        merge: whether an adapter is merged into its backbone.
        model: the tuned model.
        recipe: all hyper-parameters.
        pooling: pooling of the encoder.
        precision: precision of the encoding that checks the model.
        corpora: the strings of the model's corpora.
    """

    spec: EncoderSpec
    texts: TuningTexts
    seed: int
    output: Path
    force: bool
    merge: bool
    model: ModelRef
    recipe: Recipe
    pooling: Pooling
    precision: str
    corpora: dict[CorpusRef, Corpus]


def plan_tuning(
    texts: str | Path | Sequence[str] | Sequence[tuple[str, str]],
    spec: EncoderSpec,
    output: Path,
    plugins: Plugins,
    folders: Folders,
    compute: Compute,
    reporter: Reporter,
    *,
    level: str = "sentence",
    columns: Sequence[str] = (),
    seed: int = 0,
    held_out: int | None = None,
    force: bool = False,
    merge: bool = False,
) -> TuningJob:
    """Plan the work of ``Session.tune``, whose arguments it has: read the texts, and check all that can be checked.

    The backbone is downloaded if necessary, but its weights are not opened.
    """
    output = output.expanduser()
    check_output(output, force)
    # Errors in the spec are found before a large file is read.
    resolve_method(spec, level, None, plugins)
    source = texts
    # The name of a list; a file has its own.
    name = "texts"
    if isinstance(texts, str | Path) and isdir(expanduser(texts)):
        name = printable(f"./{Path(texts).name}")
        source = _documents(texts, plugins, folders)
    elif isinstance(texts, str | Path):
        # Opens the file: a missing one is an error before a model is downloaded.
        read_rows(str(texts), columns)
    tokenizer = checked_tokenizer(locate(spec, "en", folders.offline))
    tuning_texts = read_tuning_texts(
        source,
        columns,
        held_out,
        seed,
        raw=spec.method not in ("", PAIRS_METHOD),  # other methods get the lines as they are
        name=name,
        note=reporter.note,
    )
    shown_name = source if isinstance(source, str | Path) else tuning_texts.name
    reporter.note(f"{shown_name}: {tuning_texts.summary}")

    # The default method differs for texts and pairs, and only now it is known which these are.
    spec = resolve_method(spec, level, tuning_texts.are_pairs, plugins)
    # The model to tune, as ``run`` plans it for an encoder without a task.
    maker = PlanMaker(plugins, folders, compute, reporter)
    generated = GeneratedCorpus(tuning_texts.name, "a user's texts", tuning_texts.corpus)
    request = Request((spec,), (), seeds=(seed,), corpus=generated)
    model, pooling = maker.models(request, spec, Purpose(level))[0]
    # A tuned backbone has all three.
    assert pooling is not None
    assert model.recipe is not None
    assert model.corpus is not None
    # Everything that can be found wrong with the encoder is an error before it is tuned.
    _check_adapter(spec, model.recipe, merge)
    check_exportable(
        spec,
        pooling,
        has_decoder=model.path is not None
        and maker.examiner.files.family(model.path).needs_decoder,
        cuts_at_left=tokenizer.truncation_side == "left",
    )
    for note in _notes_on_model(spec, model):
        reporter.note(note)
    precision = compute.precisions["encoding"]
    if model.recipe.lora and not merge:
        # A frozen backbone keeps the precision of the tuning: it may not fit in memory as float32.
        precision = model.precision

    corpus = maker.corpora.by_ref[model.corpus]
    corpus_ref, corpus = _with_held_out(model.corpus, corpus, tuning_texts.held_out_corpus())
    return TuningJob(
        spec=spec,
        texts=tuning_texts,
        seed=seed,
        output=output,
        force=force,
        merge=merge,
        model=replace(model, corpus=corpus_ref),
        recipe=model.recipe,
        pooling=pooling,
        precision=precision,
        corpora={**maker.corpora.by_ref, corpus_ref: corpus},
    )


def _with_held_out(
    ref: CorpusRef, corpus: Corpus, held_out: tuple[str, ...]
) -> tuple[CorpusRef, Corpus]:
    """Return the reference and the corpus with held-out texts; the reference has their checksum, empty without any.

    The held-out texts are part of the corpus's identity, since the report depends on them.
    """
    digest = checksum("\n".join(held_out)) if held_out else ""
    return replace(ref, held_out=digest), replace(corpus, held_out=held_out)


def _documents(folder: str | Path, plugins: Plugins, folders: Folders) -> list[str]:
    """Return the documents of a folder of own data."""
    task = plugins.tasks[abspath(expanduser(folder))]
    return list(task.documents(task.load(folders.data)))


def _notes_on_model(spec: EncoderSpec, model: ModelRef) -> Iterator[str]:
    """Yield what a user should know of the model before it is tuned."""
    if stored_readout(spec).get("post") and not model.posts:
        yield (
            f"{spec}: the transformation of {spec.backbone} is for its untuned vectors, and is left out "
            "(post=whiten makes a new one)"
        )
    if model.traits.pads:
        hint = "other libraries compute its vectors from one text at a time (batch_size=1)"
        yield f"the vectors of {spec} depend on padding: {hint}"


def tune_texts(
    job: TuningJob,
    workplace: Path,
    plugins: Plugins,
    folders: Folders,
    compute: Compute,
    reporter: Reporter,
) -> TunedEncoder:
    """Tune the encoder of a job, or take it from the cache, write it, and check that other libraries can read it.

    ``workplace`` is the hidden folder beside the output that ``claiming`` opened.

    Raises:
        ReadBackError: other libraries compute other vectors from the written files; nothing is at the output then.
        UnreadableTextError: the encoder cannot read one of the texts.
    """
    loader = EncoderLoader(plugins, folders, compute, reporter)
    try:
        loaded, tuned, description = _tune_and_measure(job, loader)
    except UnreadableTextError as error:
        # A text that is not the user's own has no place in the file.
        place = job.texts.place(error.text)
        if not place:
            raise
        raise error.at(place) from error
    try:
        with replacing(job.output, workplace, job.force) as folder:
            sample = _write(folder, loaded, tuned, description, job)
            # Frees memory for the encoder that is read from the folder.
            del loaded
            sample.check(folder)
            if reads_tokenizer_file(folder):
                reporter.note(_OTHER_TOKENIZER)
    except MirrorbenchError as error:
        error.hint += (
            "\nThe tuned model is in the cache: another call with these texts does not tune again."
        )
        raise
    return tuned


def _tune_and_measure(
    job: TuningJob, loader: EncoderLoader
) -> tuple[Encoder, TunedEncoder, dict[str, Any]]:
    """Tune the encoder of a job, unless it is in the cache, and measure it on the held-out texts.

    Returns:
        The encoder, its report, and the content of its ``mirrorbench.json``.
    """
    texts = job.texts
    model = job.model
    corpus_ref = model.corpus
    assert corpus_ref is not None
    loaded, seconds = loader.load_transformed(model, job.pooling, job.precision, job.corpora)
    loader.reporter.stage("checking", "the held-out lines")
    pair_function = loader.plugins.methods[job.spec.method].pairs
    pairs = positive_pairs(texts.held_out_corpus(), job.seed, pair_function)
    encoder = _without_transformation(loaded)
    # None without held-out texts.
    report = _measures_on_held_out(loader, model, job.pooling, encoder, pairs)
    report_object = None
    if report:
        report_object = {**asdict(report), "verdict": report.verdict}
    corpus = {
        "name": texts.name,
        "sha256": corpus_ref.sha256,
        "n": corpus_ref.n,
        "pairs": texts.are_pairs,
        "lines": texts.n_read,
        "duplicates": texts.n_duplicates,
        "held_out": len(texts.held_out),
    }
    # What ``mirrorbench.json`` says. It is published with the encoder, so it does not name the user's file.
    description = {
        "spec": str(job.spec),
        "recipe": job.recipe.to_json(),
        "corpus": corpus | {"name": OWN_TEXTS},
        "seed": job.seed,
        "identity": model.identity(),
        "held_out": report_object,
        "mirrorbench": __version__,
    }
    _note_window(texts, encoder, loader.reporter)
    neighbours = _neighbours(pairs, report)
    tuned = TunedEncoder(
        job.output,
        job.spec,
        job.recipe,
        job.pooling,
        corpus,
        report,
        neighbours,
        seconds,
        from_cache=model.key in loader.from_cache,
    )
    return loaded, tuned, description


def _note_window(texts: TuningTexts, encoder: TransformerEncoder, reporter: Reporter) -> None:
    """Report how many tokens of a text the tuned encoder reads, and how many texts are longer."""
    lines = (*texts.train, *texts.held_out)
    truncation = encoder.count_cut([TextInput(text) for line in lines for text in line])
    note = f"the encoder reads {truncation.window} tokens of a text"
    if truncation.cut:
        note += f": {truncation.sentence}"
    reporter.note(note)


def _without_transformation(loaded: Encoder) -> TransformerEncoder:
    """Return an encoder without its transformation."""
    encoder = loaded.encoder if isinstance(loaded, TransformedEncoder) else loaded
    return encoder  # type: ignore[return-value]  # backbones are loaded as this class


def _write(
    folder: Path,
    loaded: Encoder,
    tuned: TunedEncoder,
    description: dict[str, Any],
    job: TuningJob,
) -> Sample:
    """Write an encoder into a folder, and return a sample of the vectors that it computed in memory."""
    encoder = _without_transformation(loaded)
    path = job.model.path
    # Transformations have languages as keys; the one of a tuned encoder is for all languages.
    post = loaded.affines[""] if isinstance(loaded, TransformedEncoder) else None
    assert not isinstance(post, FirstDimensions)
    sample = Sample.of(encoder, post, [line[0] for line in job.texts.train[:100]])
    if job.merge:
        merge_adapter(encoder.transformer.adaptable_model)
    write_encoder(folder, encoder.transformer, tuned.pooling, description, post, path)
    write_card(folder, tuned, path, encoder.transformer)
    return sample


def _check_adapter(spec: EncoderSpec, recipe: Recipe, merge: bool) -> None:
    """Raise ``UsageError`` if there is no adapter to merge, or if an adapter cannot be written without its backbone."""
    if merge and not recipe.lora:
        raise UsageError(
            f"{spec} makes no adapter that --merge could merge",
            f"Write {spec.with_params(lora=16)}",
        )
    if recipe.lora and recipe.attention and not merge:
        problem = f"{spec}: an adapter cannot say that its backbone reads in both directions"
        raise UsageError(problem, "Add --merge, which writes a whole model.")


def _measures_on_held_out(
    loader: EncoderLoader,
    model: ModelRef,
    pooling: Pooling,
    encoder: TransformerEncoder,
    pairs: Sequence[tuple[str, str]],
) -> Trajectory | None:
    """Return the measures of a tuning on held-out pairs; ``None`` without such pairs.

    The tuning itself measured all of its states and stored them. A model that a run tuned without measuring is measured
    now, before and after its tuning only.
    """
    assert model.recipe is not None
    assert model.corpus is not None
    stored = loader.cache.describe_model(model.key)
    # The stored measures count only if they are those of the same held-out texts.
    if stored.get("held_out") and stored["corpus"].get("held_out", "") == model.corpus.held_out:
        return msgspec.convert(stored["held_out"], Trajectory)
    if not pairs:
        return None
    untuned = replace(model, recipe=None, corpus=None, posts=())
    backbone: Any = loader.load_transformed(untuned, pooling, encoder.precision, {})[0]
    progress = Progress(backbone.transformer, replace(model.recipe, stop="end"), pairs)
    progress.transformer = encoder.transformer
    return progress.finish()


def _neighbours(
    pairs: Sequence[tuple[str, str]], report: Trajectory | None
) -> tuple[tuple[str, str, str], ...]:
    """Return a few held-out texts, each with its nearest other text before and after the tuning.

    Empty without held-out texts, and if texts must not be shown (``NO_TEXTS``).
    """
    if not pairs or report is None or without_texts():
        return ()
    texts = [first for first, _ in pairs]
    nearest_before = report.states[0].nearest
    nearest_after = report.states[report.kept].nearest
    # Neighbours are known for the first few texts only.
    return tuple(
        (text, texts[before], texts[after])
        for text, before, after in zip(texts, nearest_before, nearest_after, strict=False)
    )


def resolve_method(
    spec: EncoderSpec, level: str, pairs: bool | None, plugins: Plugins
) -> EncoderSpec:
    """Return a spec with a tuning method, by default that for the level and for texts or ``pairs``.

    Args:
        spec: the spec as typed.
        level: level of the encoder.
        pairs: whether the texts are pairs; ``None`` if that is not known yet.
        plugins: the registered encoders and methods.

    Raises:
        UsageError: the spec cannot be tuned on a user's texts.
    """
    if level not in LEVELS:
        raise unknown_name("level", level, list(LEVELS))
    if spec.backbone in plugins.encoders:
        problem = (
            f"{spec}: {spec.backbone} is a complete encoder, not a backbone, and cannot be tuned"
        )
        raise UsageError(problem, "Name a backbone: roberta, ./model")
    if spec.get("corpus") is not None:
        raise UsageError(
            f"{spec}: the texts to tune on are those of the file", "Leave corpus= out of the spec."
        )
    _, post = split_post(spec, tuned=True)
    if post and (post.name == DIMS or post.type):
        problem = f"{spec}: {post} changes vectors after encoding and cannot be stored in the written encoder"
        raise UsageError(
            problem,
            "Leave it out, and add it to the spec of the written encoder: ./DIRECTORY:dims=256",
        )
    if not spec.method:
        if pairs:
            method = PAIRS_METHOD
        elif level == "wic":
            method = CONTEXT_METHOD
        else:
            method = TEXTS_METHOD
        spec = spec.with_method(method)
    if not plugins.methods[spec.method].tunes:
        raise UsageError(
            f"{spec}: +{spec.method} tunes nothing", f"Write {spec.with_method(TEXTS_METHOD)}"
        )
    return spec
