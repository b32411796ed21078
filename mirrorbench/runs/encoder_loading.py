"""Load models onto the device: open them, check them, take them from the cache, or tune them now."""

from __future__ import annotations

import copy
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mirrorbench.core.devices import cpu_threads, enter_gpu
from mirrorbench.core.encoder_protocol import Encoder
from mirrorbench.core.errors import ModelUnavailableError, TuningError, UsageError
from mirrorbench.core.identity import checksum, digest
from mirrorbench.core.plugins import Plugins
from mirrorbench.core.specs import EncoderSpec
from mirrorbench.data.corpora import Corpus, naming_lines
from mirrorbench.models.encoder_systems import EncoderContext, create_encoder
from mirrorbench.models.families import not_telling_apart
from mirrorbench.models.fingerprints import unchanged_backbone
from mirrorbench.models.opening import reads_tokenizer_file
from mirrorbench.models.pooling import POOLINGS, Pooling, PoolingFunction
from mirrorbench.models.sentence_transformer_files import MAX_STATED_LENGTH, length_note
from mirrorbench.models.tokenizer_files import FILE_TOKENIZER_NOTE
from mirrorbench.models.traits import ModelTraits, traits_of
from mirrorbench.models.transformations import TransformedEncoder
from mirrorbench.runs.cells import CorpusRef, ModelRef
from mirrorbench.runs.compute import Compute
from mirrorbench.runs.embedding import Embedder
from mirrorbench.runs.folders import Folders
from mirrorbench.runs.half_precision import progress_callback
from mirrorbench.runs.opened_systems import OpenedSystems
from mirrorbench.runs.outcomes import Reporter
from mirrorbench.runs.reference_vectors import identified
from mirrorbench.storage.cache import CHECKPOINTS, ENCODERS, Cache
from mirrorbench.training.augmentations import Augmentation
from mirrorbench.training.checkpoints import Checkpoint, checkpoint_fault
from mirrorbench.training.recipes import Recipe

if TYPE_CHECKING:
    import torch

    from mirrorbench.models.transformer import Transformer
    from mirrorbench.training.loop import TuningReport
    from mirrorbench.training.trajectory import Trajectory


def opening_notes(model: ModelRef, pooling: Pooling | None) -> Iterator[str]:
    """Yield notes on tokens and length of a backbone that differ from its files; none for an encoder system."""
    if model.path is None:
        return
    if reads_tokenizer_file(model.path):
        yield f"{model.spec}: {FILE_TOKENIZER_NOTE}"
    if pooling is None:
        return
    note = length_note(model.path, pooling.max_length)
    if note:
        yield f"{model.spec}: {note}"


def set_and_check_traits(
    transformer: Transformer, model: ModelRef, weights_key: str, precision: str, cache: Cache
) -> None:
    """Set the traits of an opened model, measured now or taken from the cache; raise if it cannot be used as planned.

    ``weights_key`` names its weights: ``model.key`` after the tuning, else the backbone's fingerprint. ``precision`` is
    that of the computation that follows.

    Raises:
        TuningError: all vectors of the tuned model are the same.
        ModelUnavailableError: all vectors of an untuned model are the same, its tokenizer is that of another model, or
            its attention cannot be made bidirectional.
        UsageError: the model cannot be used in this precision.
    """
    attention = model.attention
    # What the traits depend on: they are measured once for each of these identities.
    identity = {
        "weights": weights_key,
        "attention": attention,
        "device": transformer.device.type,
        "kept": transformer.matrix_precision,
    }
    traits = cache.traits(identity, lambda: traits_of(transformer), ModelTraits)
    transformer.traits = traits
    name = f"the {transformer.model.config.model_type} model in {transformer.path}"
    # Vectors must differ between texts.
    is_tuned = weights_key == model.key
    if not traits.varies:
        if model.recipe and is_tuned:
            raise TuningError(
                f"{model.spec} returns the same vector for every text after its tuning",
                f"Try a lower lr than {model.recipe.lr:g}.",
            )
        raise not_telling_apart(name, "its weights and tokenizer")
    # The tokenizer's token types, which are not used here, must change no vector.
    if traits.typed:
        raise ModelUnavailableError(
            f"the tokenizer in {transformer.path} returns token types, which change the vectors of {name}: it is the "
            "tokenizer of another model",
            "Use the model's own, or take token_type_ids out of the model_input_names in tokenizer_config.json.",
        )
    # Under ``attention=bidirectional`` the model must not be causal any more.
    if attention and traits.causal:
        raise ModelUnavailableError(
            f"attention={attention} changes nothing in {transformer.path.name}: its first tokens do not see those that "
            "follow",
            "Leave it out of the encoder spec; pooling=mean and pooling=last read a causal model.",
        )
    # ``halves`` are the half precisions in which the vectors are near those in fp32.
    if precision not in ("fp32", *traits.halves):
        raise UsageError(
            f"{model.spec}: in {precision} the numbers of {name} are not finite, or far from those in fp32",
            "Compute in another precision: --precision fp32 for tuning, --eval-precision fp32 for evaluation.",
        )


class EncoderLoader:
    """Loads the encoders of model references onto a device.

    Args:
        plugins: with methods, poolings, losses, augmentations, encoders and corpora.
        folders: the cache, and whether models may be fetched.
        compute: the device.
        reporter: receives progress and notes.
        systems: encoder systems that planning has opened; by default none.
    """

    def __init__(
        self,
        plugins: Plugins,
        folders: Folders,
        compute: Compute,
        reporter: Reporter,
        systems: OpenedSystems | None = None,
    ) -> None:
        enter_gpu(compute.device, compute.share)
        self.plugins = plugins
        self.folders = folders
        self.compute = compute
        self.reporter = reporter
        self.cache = folders.cache
        self.embedder = Embedder(folders.cache, compute, plugins, reporter)
        self.systems = systems or OpenedSystems()
        self.from_cache: set[str] = set()
        """Keys of the tuned models that were taken from the cache."""

    def system(self, spec: EncoderSpec, path: Path | None, precision: str) -> Encoder:
        """Open an encoder system, or the encoder that a method creates from the backbone in ``path`` without tuning.

        The encoder is kept until ``load`` takes it.
        """
        opening = partial(self._open_system, spec, path, precision)
        return self.systems.get((spec, path, precision), opening)

    def _open_system(self, spec: EncoderSpec, path: Path | None, precision: str) -> Encoder:
        context = EncoderContext(
            device=str(self.compute.device),
            precision=precision,
            offline=self.folders.offline,
            poolings=self.plugins.poolings.by_name(),
            begin=partial(self.reporter.stage, "loading", str(spec)),
            advance=self.reporter.advance,
            note=self.reporter.note,
            folder=self.cache.root / ENCODERS / digest({"encoder": spec.backbone}),
        )
        if path:
            create = self.plugins.methods[spec.method].create
            if create:
                created: Encoder = create(spec, path, context)
                return created
        return identified(create_encoder(spec, self.plugins, context), self.folders)

    def load_transformed(
        self,
        model: ModelRef,
        pooling: Pooling | None,
        precision: str,
        corpora: Mapping[CorpusRef, Corpus],
    ) -> tuple[Encoder, float]:
        """Load an encoder with the model's transformation; return it and the seconds of its tuning, or 0."""
        encoder, seconds = self.load(model, pooling, precision, corpora)
        if model.posts:
            affines = self.embedder.fitted_posts(encoder, model, pooling, precision, corpora)
            encoder = TransformedEncoder(encoder, affines)
        return encoder, seconds

    def load(
        self,
        model: ModelRef,
        pooling: Pooling | None,
        precision: str,
        corpora: Mapping[CorpusRef, Corpus],
    ) -> tuple[Encoder, float]:
        """Load an encoder, tuned now if the cache lacks it; return it and the seconds that its tuning took.

        The seconds of a model from the cache are those of its earlier tuning, and 0 if nothing is tuned. The encoder's
        vectors are those before the model's transformation. A model that is tuned now is stored.

        Raises:
            ModelUnavailableError: the model has changed since it was planned.
        """
        from mirrorbench.models.transformer_encoder import LanguageRouter, TransformerEncoder

        # A model for each language.
        if model.members:
            encoders = {}
            total_seconds = 0.0
            for language, member in model.members:
                encoder, seconds = self.load(member, pooling, precision, corpora)
                encoders[language] = encoder
                total_seconds += seconds
            return LanguageRouter(encoders, model.key), total_seconds
        # An encoder system, which planning may have opened; ``take`` forgets it, so that it is freed after its cells.
        if model.path is None or pooling is None:
            key = (model.spec, model.path, precision)
            system = self.systems.take(key, partial(self._open_system, *key))
            if system.fingerprint != model.fingerprint:
                raise ModelUnavailableError(
                    f"{model.spec} changed after it was planned", "Run it again."
                )
            return system, 0.0
        # A backbone, tuned or as it is.
        if model.corpus is not None:
            transformer, seconds = self._tuned(model, corpora[model.corpus], precision)
        else:
            seconds = 0.0
            with unchanged_backbone(model.path, model.fingerprint):
                transformer = self._opened(model, model.path, precision, model.fingerprint)
        return TransformerEncoder(transformer, pooling, precision, model.key), seconds

    def _tuned(self, model: ModelRef, corpus: Corpus, precision: str) -> tuple[Transformer, float]:
        """Return a tuned model from the cache, or tune it now and store it; and the seconds that its tuning took.

        A lease keeps other processes from tuning the same model at the same time.
        """
        cache = self.cache
        cached = self._cached(model, precision)
        if cached:
            return cached
        with cache.leases.wait(model.key):
            # Another process may have stored it meanwhile.
            cached = self._cached(model, precision)
            if cached:
                return cached
            # Remove what a killed process left of the model, except its checkpoint.
            cache.sweep_model(model.key)
            checkpoint = self._checkpoint(model)
            with (
                naming_lines(corpus, self.plugins.corpora.by_name()),
                _note_on_interrupt(checkpoint),
            ):
                transformer, description = tune_model(
                    model,
                    corpus,
                    checkpoint,
                    self.plugins,
                    self.cache,
                    self.compute,
                    self.reporter,
                )
            # The frozen backbone of an adapter was tuned in half precision, and is evaluated in another precision.
            if transformer.matrix_precision not in ("fp32", precision):
                transformer.adaptable_model.float()
                transformer.matrix_precision = "fp32"
            # Saving changes the tokenizer, so a copy of it is saved.
            stored = replace(transformer, tokenizer=copy.deepcopy(transformer.tokenizer))
            cache.save_model(model.key, stored, description)
            shutil.rmtree(checkpoint, ignore_errors=True)
            # The weights are other ones than before the tuning, so the traits are measured again.
            set_and_check_traits(transformer, model, model.key, precision, cache)
        return transformer, float(description["tuning"]["seconds"])

    def _checkpoint(self, model: ModelRef) -> Path:
        return self.cache.root / CHECKPOINTS / model.key

    def _cached(self, model: ModelRef, precision: str) -> tuple[Transformer, float] | None:
        """Return a tuned model from the cache and the seconds of its tuning; ``None`` if it is not there.

        Remember that it came from the cache, and remove its checkpoint.
        """
        cache = self.cache
        path = cache.model(model.key)
        if not path:
            return None
        self.from_cache.add(model.key)
        # The process that stored the model may have been killed before it removed the checkpoint.
        shutil.rmtree(self._checkpoint(model), ignore_errors=True)
        if model.path and model.recipe and model.recipe.lora:
            # The adapter is stored alone; its backbone may have moved since then.
            with unchanged_backbone(model.path, model.fingerprint):
                transformer = self._opened(model, path, precision, model.key, model.path)
        else:
            transformer = self._opened(model, path, precision, model.key)
        return transformer, float(cache.describe_model(model.key)["tuning"]["seconds"])

    def _opened(
        self,
        model: ModelRef,
        path: Path,
        precision: str,
        weights_key: str,
        base: Path | None = None,
    ) -> Transformer:
        """Open and check a model.

        Args:
            model: the reference of the model.
            path: the directory of its files.
            precision: the precision in which it will encode.
            weights_key: as in ``set_and_check_traits``.
            base: for a stored adapter, the directory of its backbone.
        """
        from mirrorbench.models.transformer import load_transformer

        # The configuration of a tuned model that was stored as a whole says in which direction it reads.
        attention = "" if model.recipe and not base else model.attention
        transformer = load_transformer(
            path,
            self.compute.device,
            poolings=self.plugins.poolings.by_name(),
            attention=attention,
            precision=precision,
            base=base,
        )
        self.reporter.stage("checking", str(model.spec))
        set_and_check_traits(transformer, model, weights_key, precision, self.cache)
        return transformer


@contextmanager
def _note_on_interrupt(folder: Path) -> Iterator[None]:
    """Note on a ``KeyboardInterrupt`` raised inside that the next run continues, if there is a checkpoint."""
    try:
        yield
    except KeyboardInterrupt as interrupt:
        if not checkpoint_fault(folder):
            interrupt.add_note("The tuning goes on from its last checkpoint.")
        raise


def tune_model(
    model: ModelRef,
    corpus: Corpus,
    folder: Path,
    plugins: Plugins,
    cache: Cache,
    compute: Compute,
    reporter: Reporter,
) -> tuple[Transformer, dict[str, Any]]:
    """Tune a model on a corpus, from its checkpoint if there is one; return it and the description to store with it.

    Args:
        model: what is tuned, and how.
        corpus: the texts to tune on, and those held out to monitor the tuning; without any, ``stop=auto`` holds out
            some of the texts.
        folder: the folder of the model's checkpoint.
        plugins: with augmentations, poolings, losses and methods.
        cache: holds the outcomes of trials of models.
        compute: the device.
        reporter: receives progress and notes.
    """
    import torch

    from mirrorbench.training.held_out import hold_out, positive_pairs
    from mirrorbench.training.loop import check_strings

    recipe = model.recipe
    device = compute.device
    texts: Sequence[str] = corpus.texts
    held_out: Sequence[str] = corpus.held_out
    if recipe is None or model.path is None:
        raise TuningError(f"{model.spec} cannot be tuned")
    # Hold out texts. Without any, there are no pairs, and the tuning is not monitored.
    if recipe.stop == "auto" and not held_out:
        texts, held_out = hold_out(texts, model.seed)
    held_out_pairs = positive_pairs(held_out, model.seed, plugins.methods[model.method].pairs)

    # Open and check the backbone.
    checkpoint = Checkpoint(folder, _checkpoint_origin(device, held_out_pairs), reporter.note)
    with unchanged_backbone(model.path, model.fingerprint):
        transformer = open_for_tuning(
            model.path,
            recipe,
            plugins.augmentations.by_name(),
            device,
            model.protocol,
            plugins.poolings.by_name(),
            model.seed,
            model.precision,
        )
    reporter.stage("checking", str(model.spec))
    set_and_check_traits(transformer, model, model.fingerprint, model.precision, cache)
    embeddings_note = transformer.missing_embeddings.note
    if embeddings_note:
        reporter.note(f"{model.spec}: {embeddings_note}")
        # Fail now, and not in the middle of the tuning, if a string has such a token.
        check_strings(transformer, [*texts, *held_out], recipe.train_max_length)
    truncation_note = _truncation_note(transformer, recipe, texts)
    if truncation_note:
        reporter.note(f"{model.spec}: {truncation_note}")

    # Tune it, and describe the tuning.
    report, trajectory = _tune(
        transformer, model, recipe, texts, held_out_pairs, checkpoint, plugins, compute, reporter
    )
    for warning in _warnings(model, recipe, report):
        reporter.note(warning)
    transformer.model.zero_grad()  # frees the memory of the gradients
    tuning = {**asdict(report), "device": str(device), "torch": torch.__version__}
    description = {
        "spec": str(model.spec),
        "seed": model.seed,
        "recipe": recipe.to_json(),
        "corpus": asdict(model.corpus) if model.corpus else None,
        "identity": model.identity(),
        "cost": report.cost,
        "held_out": asdict(trajectory) if trajectory else None,
        "tuning": tuning,
    }
    return transformer, description


def _tune(
    transformer: Transformer,
    model: ModelRef,
    recipe: Recipe,
    texts: Sequence[str],
    held_out_pairs: Sequence[tuple[str, str]],
    checkpoint: Checkpoint,
    plugins: Plugins,
    compute: Compute,
    reporter: Reporter,
) -> tuple[TuningReport, Trajectory | None]:
    """Tune from the checkpoint, or from the start, and monitor the held-out pairs along the way.

    The weights of ``transformer`` change in place. Return the report of the tuning, and the trajectory of the held-out
    pairs, ``None`` if there are none.
    """
    from mirrorbench.training.loop import tune_backbone
    from mirrorbench.training.trajectory import Progress

    stage = f"{model.spec} seed {model.seed}"
    saved = checkpoint.read()  # empty without a checkpoint
    total = len(texts) * recipe.epochs
    done = 0
    if saved:
        done = saved["progress"]["done"]
        reporter.note(f"{stage}: goes on from its checkpoint at {done / total:.0%}")
    remaining = total - done
    reporter.stage("tuning", stage, remaining, "strings")
    with cpu_threads(compute.threads):
        advance = progress_callback(compute, reporter, "tuning", model.precision, remaining)
        progress = Progress(transformer, recipe, held_out_pairs, total, advance)
        # Every checkpoint of the tuning will include the progress.
        checkpoint.parts["progress"] = progress
        if saved:
            progress.load_state_dict(saved["progress"])
        report = tune_backbone(
            transformer,
            texts,
            recipe,
            model.seed,
            plugins.augmentations.by_name(),
            model.protocol,
            model.precision,
            progress.advance,
            plugins.methods[model.method].pairs,
            plugins.losses.by_name(),
            checkpoint,
            saved.get("loop"),
        )
        return report, progress.finish()


def _truncation_note(transformer: Transformer, recipe: Recipe, strings: Sequence[str]) -> str:
    """Return a sentence on the texts that are longer than the tuning reads; empty if there are none.

    ``strings``: texts, or pairs of texts joined by a tab.
    """
    from mirrorbench.models.long_texts import count_longer

    texts = [text for string in strings for text in string.split("\t")]
    window = transformer.window(recipe.readout(recipe.train_max_length))
    n_longer = count_longer(texts, transformer.tokenizer, window)
    if not n_longer:
        return ""
    sentence = f"{n_longer:,} of {len(texts):,} texts are longer than {window} tokens: trained on the first {window}"
    # 0 positions: no limit of the model.
    longest_window = min(
        transformer.max_text_tokens(recipe.prompt) or MAX_STATED_LENGTH, MAX_STATED_LENGTH
    )
    if longest_window > window:
        sentence += f"; train_max_length={longest_window} uses more"
    return sentence


def _warnings(model: ModelRef, recipe: Recipe, report: TuningReport) -> Iterator[str]:
    """Yield sentences on a tuning that did harm, or whose strings make fewer pairs than a batch."""
    if report.rose:
        yield (
            f"{model.spec} seed {model.seed}: the loss rose from {report.first_loss:.2f} to {report.losses[-1]:.2f}. "
            f"The tuning did harm; try a lower lr than {recipe.lr:g}."
        )
    n_pairs = report.strings // recipe.epochs
    has_one_step_per_epoch = report.steps == recipe.epochs
    if model.corpus and n_pairs < recipe.batch_size and has_one_step_per_epoch:
        yield (
            f"{model.spec}: {model.corpus.name} makes {n_pairs} pairs, fewer than one batch of {recipe.batch_size}; "
            "each step sees all of them"
        )


def _checkpoint_origin(
    device: torch.device, held_out_pairs: Sequence[tuple[str, str]]
) -> dict[str, str]:
    """Return what a checkpoint must match beside the model's key: device, version of torch, held-out pairs."""
    import torch

    # The length of the left text shows where the right one begins.
    pairs_text = "".join(f"{len(left)} {left}{right}" for left, right in held_out_pairs)
    return {
        "device": str(device),
        "torch": str(torch.__version__),
        "held_out": checksum(pairs_text),
    }


def open_for_tuning(
    path: Path,
    recipe: Recipe,
    augmentations: dict[str, Augmentation],
    device: torch.device,
    protocol: str = "paper",
    poolings: Mapping[str, PoolingFunction] = POOLINGS,
    seed: int = 0,
    precision: str = "fp32",
) -> Transformer:
    """Load a backbone for tuning, configured by the recipe's model augmentations, and with its adapter under ``lora``.

    Under the protocol ``released`` it has the tokenizer of the released code. With ``lora``, weights that do not learn
    stay in the ``precision`` of the tuning if their file stores them in it. ``augmentations``: those registered.
    """
    from mirrorbench.models.adapters import add_adapter, is_adapted, merge_adapter
    from mirrorbench.models.transformer import load_transformer, lower_casing_tokenizer
    from mirrorbench.training.augmentations import functions_and_rates

    def configure(config: object) -> None:
        for augmentation, rate in functions_and_rates(recipe.augment, augmentations, "model"):
            augmentation.configure(config, rate)

    loading_precision = precision if recipe.lora else "fp32"
    transformer = load_transformer(
        path,
        device,
        configure,
        poolings,
        attention=recipe.attention,
        precision=loading_precision,
    )
    if recipe.lora:
        add_adapter(transformer.adaptable_model, path, recipe.lora, seed)
    elif is_adapted(transformer.adaptable_model):
        # The backbone is itself stored as an adapter: without ``lora`` all its weights learn.
        merge_adapter(transformer.adaptable_model)
    if protocol == "released":
        transformer.tokenizer = lower_casing_tokenizer(path)
    return transformer
