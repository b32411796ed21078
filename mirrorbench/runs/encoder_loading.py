"""Models onto the device: opened, tried, taken from the cache, or tuned now."""

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
from mirrorbench.core.identity import checksum
from mirrorbench.core.plugins import Plugins
from mirrorbench.core.specs import EncoderSpec
from mirrorbench.data.corpora import Corpus, naming_lines
from mirrorbench.models.encoder_systems import EncoderContext, create_encoder
from mirrorbench.models.families import not_telling_apart
from mirrorbench.models.fingerprints import unchanged_backbone
from mirrorbench.models.opening import reads_file
from mirrorbench.models.pooling import POOLINGS, Pooling, PoolingFunction
from mirrorbench.models.sentence_transformer_files import MOST_STATED, length_note
from mirrorbench.models.tokenizer_files import TOKENS_OF_FILE
from mirrorbench.models.traits import ModelTraits, traits_of
from mirrorbench.models.transformations import TransformedEncoder
from mirrorbench.runs.cells import CorpusRef, ModelRef
from mirrorbench.runs.compute import Compute
from mirrorbench.runs.embedding import Embedder
from mirrorbench.runs.folders import Folders
from mirrorbench.runs.half_precision import advancing
from mirrorbench.runs.opened_systems import OpenedSystems
from mirrorbench.runs.outcomes import Reporter
from mirrorbench.storage.cache import CHECKPOINTS, Cache
from mirrorbench.training.augmentations import Augmentation
from mirrorbench.training.checkpoints import Checkpoint, damaged
from mirrorbench.training.recipes import Recipe

if TYPE_CHECKING:
    import torch

    from mirrorbench.models.transformer import Transformer
    from mirrorbench.training.loop import TuningReport
    from mirrorbench.training.trajectory import Trajectory


def opening_notes(model: ModelRef, pooling: Pooling | None) -> Iterator[str]:
    """Yield what was decided about a backbone's tokens and length where its files say otherwise."""
    if model.path is None:
        return
    if reads_file(model.path):
        yield f"{model.spec}: {TOKENS_OF_FILE}"
    if pooling and (note := length_note(model.path, pooling.max_length)):
        yield f"{model.spec}: {note}"


def try_opened(
    transformer: Transformer, model: ModelRef, key: str, precision: str, cache: Cache
) -> None:
    """Set the traits of an opened model, measured or cached; raise if it cannot be used as planned.

    ``key`` names its weights; ``precision`` is that of what is computed next.
    """
    attention, device = model.attention, transformer.device.type
    identity = {"weights": key, "attention": attention, "device": device, "kept": transformer.kept}
    traits = transformer.traits = cache.traits(
        identity, lambda: traits_of(transformer), ModelTraits
    )
    name = f"the {transformer.model.config.model_type} model in {transformer.path}"
    if not traits.varies and model.recipe and key == model.key:
        raise TuningError(
            f"{model.spec} returns the same vector for every text after its tuning",
            f"Try a lower lr than {model.recipe.lr:g}.",
        )
    if not traits.varies:
        raise not_telling_apart(name, "its weights and tokenizer")
    if traits.typed:
        raise ModelUnavailableError(
            f"the tokenizer in {transformer.path} returns token types, which change the vectors of {name}: it is the "
            "tokenizer of another model",
            "Use the model's own, or take token_type_ids out of the model_input_names in tokenizer_config.json.",
        )
    if attention and traits.causal:
        raise ModelUnavailableError(
            f"attention={attention} changes nothing in {transformer.path.name}: its first tokens do not see those that "
            "follow",
            "Leave it out of the encoder spec; pooling=mean and pooling=last read a causal model.",
        )
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
        """Open an encoder system, or create what a method makes of the backbone in ``path`` instead of tuning it.

        It is kept until the next ``load``.
        """
        opening = partial(self._open_system, spec, path, precision)
        return self.systems.get((spec, path, precision), opening)

    def _open_system(self, spec: EncoderSpec, path: Path | None, precision: str) -> Encoder:
        context = EncoderContext(
            str(self.compute.device),
            precision,
            self.folders.offline,
            self.plugins.poolings.by_name(),
            partial(self.reporter.stage, "loading", str(spec)),
            self.reporter.advance,
        )
        create = self.plugins.methods[spec.method].create if path else None
        if create and path:
            created: Encoder = create(spec, path, context)
            return created
        return create_encoder(spec, self.plugins, context)

    def load_transformed(
        self,
        model: ModelRef,
        pooling: Pooling | None,
        precision: str,
        corpora: Mapping[CorpusRef, Corpus],
    ) -> tuple[Encoder, float]:
        """Load an encoder with the model's transformation."""
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
        """Load an encoder, tuned now or found in the cache; return it and the seconds of its tuning, or 0.

        Its vectors are those before the model's transformation. A model that was tuned now is stored.
        """
        from mirrorbench.models.transformer_encoder import LanguageRouter, TransformerEncoder

        if model.members:
            loaded = {
                lang: self.load(member, pooling, precision, corpora)
                for lang, member in model.members
            }
            encoders = {language: encoder for language, (encoder, _) in loaded.items()}
            return LanguageRouter(encoders, model.key), sum(
                seconds for _, seconds in loaded.values()
            )
        if model.path is None or pooling is None:
            key = (model.spec, model.path, precision)
            system = self.systems.take(key, partial(self._open_system, *key))
            if system.fingerprint != model.fingerprint:
                raise ModelUnavailableError(
                    f"{model.spec} changed after it was planned", "Run it again."
                )
            return system, 0.0
        if model.corpus is not None:
            transformer, seconds = self._tuned(model, corpora[model.corpus], precision)
        else:
            with unchanged_backbone(model.path, model.fingerprint):
                transformer, seconds = (
                    self._opened(model, model.path, precision, model.fingerprint),
                    0.0,
                )
        return TransformerEncoder(transformer, pooling, precision, model.key), seconds

    def _tuned(self, model: ModelRef, corpus: Corpus, precision: str) -> tuple[Transformer, float]:
        """Return the tuned model; until it is stored, a lease keeps other processes from tuning it too."""
        cache = self.cache
        assert model.corpus is not None
        if cached := self._cached(model, precision):
            return cached
        with cache.leases.wait(model.key):
            if cached := self._cached(model, precision):
                return cached
            cache.sweep_model(model.key)
            with (
                naming_lines(corpus, self.plugins.corpora.by_name()),
                _naming_checkpoint(self._checkpoint(model)),
            ):
                transformer, description = tune_model(
                    model,
                    corpus,
                    self._checkpoint(model),
                    self.plugins,
                    self.cache,
                    self.compute,
                    self.reporter,
                )
            if transformer.kept not in (
                "fp32",
                precision,
            ):  # an adapter's backbone, tuned in less than it is read in
                transformer.adapted.float()
                transformer.kept = "fp32"
            # A copy of the tokenizer: saving changes it.
            stored = replace(transformer, tokenizer=copy.deepcopy(transformer.tokenizer))
            cache.save_model(model.key, stored, description)
            shutil.rmtree(self._checkpoint(model), ignore_errors=True)
            try_opened(transformer, model, model.key, precision, cache)
        return transformer, float(description["tuning"]["seconds"])

    def _checkpoint(self, model: ModelRef) -> Path:
        return self.cache.root / CHECKPOINTS / model.key

    def _cached(self, model: ModelRef, precision: str) -> tuple[Transformer, float] | None:
        cache = self.cache
        if not (path := cache.model(model.key)):
            return None
        self.from_cache.add(model.key)
        shutil.rmtree(
            self._checkpoint(model), ignore_errors=True
        )  # whoever stored the model may have been killed then
        if (
            model.path and model.recipe and model.recipe.lora
        ):  # its backbone may be elsewhere than when it was stored
            with unchanged_backbone(model.path, model.fingerprint):
                opened = self._opened(model, path, precision, model.key, model.path)
        else:
            opened = self._opened(model, path, precision, model.key)
        return opened, float(cache.describe_model(model.key)["tuning"]["seconds"])

    def _opened(
        self, model: ModelRef, path: Path, precision: str, key: str, base: Path | None = None
    ) -> Transformer:
        from mirrorbench.models.transformer import load_transformer

        poolings, device = self.plugins.poolings.by_name(), self.compute.device
        # The configuration of a tuned model that was stored as a whole says in which direction it reads.
        attention = "" if model.recipe and not base else model.attention
        opened = load_transformer(
            path, device, poolings=poolings, attention=attention, precision=precision, base=base
        )
        self.reporter.stage("checking", str(model.spec))
        try_opened(opened, model, key, precision, self.cache)
        return opened


@contextmanager
def _naming_checkpoint(folder: Path) -> Iterator[None]:
    """Add to an interrupt inside that the tuning goes on from its checkpoint, where there is one."""
    try:
        yield
    except KeyboardInterrupt as interrupt:
        if not damaged(folder):
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
    """Tune a model on a corpus; return it, ready to encode, and the description to store with it.

    Args:
        model: what is tuned, and how.
        corpus: its texts are tuned on, its held-out ones looked at along the tuning; without any, ``stop=auto`` takes
            some of the texts for that.
        folder: holds the checkpoint of a tuning that was interrupted, and receives those of this one.
        plugins: with augmentations, poolings, losses and methods.
        cache: of what trials of models showed.
        compute: the device.
        reporter: receives progress and notes.
    """
    import torch

    from mirrorbench.training.held_out import hold_out, positive_pairs
    from mirrorbench.training.loop import check_strings

    recipe, device = model.recipe, compute.device
    texts: Sequence[str] = corpus.texts
    held_out: Sequence[str] = corpus.held_out
    if recipe is None or model.path is None:
        raise TuningError(f"{model.spec} is nothing to tune")
    if recipe.stop == "auto" and not held_out:
        texts, held_out = hold_out(texts, model.seed)
    aside = positive_pairs(held_out, model.seed, plugins.methods[model.method].pairs)
    checkpoint = Checkpoint(folder, _origin(device, aside), reporter.note)
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
    try_opened(transformer, model, model.fingerprint, model.precision, cache)
    if note := transformer.missing_embeddings.note:
        reporter.note(f"{model.spec}: {note}")
        check_strings(transformer, [*texts, *held_out], recipe.train_max_length)
    if note := _untrained_note(transformer, recipe, texts):
        reporter.note(f"{model.spec}: {note}")
    report, trajectory = _tune(
        transformer, model, recipe, texts, aside, checkpoint, plugins, compute, reporter
    )
    for warning in _warnings(model, recipe, report):
        reporter.note(warning)
    transformer.model.zero_grad()  # frees the memory of the gradients
    return transformer, {
        "spec": str(model.spec),
        "seed": model.seed,
        "recipe": recipe.to_json(),
        "corpus": asdict(model.corpus) if model.corpus else None,
        "identity": model.identity(),
        "cost": report.cost,
        "held_out": asdict(trajectory) if trajectory else None,
        "tuning": asdict(report) | {"device": str(device), "torch": torch.__version__},
    }


def _tune(
    transformer: Transformer,
    model: ModelRef,
    recipe: Recipe,
    texts: Sequence[str],
    aside: Sequence[tuple[str, str]],
    checkpoint: Checkpoint,
    plugins: Plugins,
    compute: Compute,
    reporter: Reporter,
) -> tuple[TuningReport, Trajectory | None]:
    """Tune from the checkpoint, or from the start, and look at the pairs ``aside`` along the way."""
    from mirrorbench.training.loop import tune_backbone
    from mirrorbench.training.trajectory import Progress

    stage = f"{model.spec} seed {model.seed}"
    saved = checkpoint.read()
    total, done = len(texts) * recipe.epochs, saved["progress"]["done"] if saved else 0
    if saved:
        reporter.note(f"{stage}: goes on from its checkpoint at {done / total:.0%}")
    reporter.stage("tuning", stage, total - done, "strings")
    with cpu_threads(compute.threads):
        advance = advancing(compute, reporter, "tuning", model.precision, total - done)
        progress = Progress(transformer, recipe, aside, total, advance)
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


def _untrained_note(transformer: Transformer, recipe: Recipe, strings: Sequence[str]) -> str:
    """Return a sentence on the texts that a tuning reads in part; empty if there are none.

    The texts of a pair are joined by a tab in ``strings``.
    """
    from mirrorbench.models.long_texts import count_longer

    texts = [text for string in strings for text in string.split("\t")]
    trained = transformer.window(recipe.readout(recipe.train_max_length))
    n = count_longer(texts, transformer.tokenizer, trained)
    if not n:
        return ""
    longer = f"{n:,} of {len(texts):,} texts are longer than {trained} tokens"
    more = min(transformer.most_of_text(recipe.prompt) or MOST_STATED, MOST_STATED)
    remedy = f"; train_max_length={more} uses more" if more > trained else ""
    return f"{longer}: trained on the first {trained}{remedy}"


def _warnings(model: ModelRef, recipe: Recipe, report: TuningReport) -> Iterator[str]:
    """Sentences on a tuning that did harm, or had fewer strings than a batch."""
    if report.rose:
        yield (
            f"{model.spec} seed {model.seed}: the loss rose from {report.first_loss:.2f} to {report.losses[-1]:.2f}. "
            f"The tuning did harm; try a lower lr than {recipe.lr:g}."
        )
    pairs = report.strings // recipe.epochs
    if model.corpus and pairs < recipe.batch_size and report.steps == recipe.epochs:
        yield (
            f"{model.spec}: {model.corpus.name} makes {pairs} pairs, fewer than one batch of {recipe.batch_size}; "
            "each step sees all of them"
        )


def _origin(device: torch.device, aside: Sequence[tuple[str, str]]) -> dict[str, str]:
    """Return what a checkpoint must match beside the model's key: device, version of torch, held-out pairs."""
    import torch

    looked = checksum("".join(f"{len(left)} {left}{right}" for left, right in aside))
    return {"device": str(device), "torch": str(torch.__version__), "held_out": looked}


def open_for_tuning(
    path: Path,
    recipe: Recipe,
    registered: dict[str, Augmentation],
    device: torch.device,
    protocol: str = "paper",
    poolings: Mapping[str, PoolingFunction] = POOLINGS,
    seed: int = 0,
    precision: str = "fp32",
) -> Transformer:
    """Return a backbone configured by the recipe's model augmentations; under ``released`` with that code's tokenizer.

    With ``lora`` the weights that do not learn stay in the ``precision`` of the tuning where their file has them in it.
    """
    from mirrorbench.models.adapters import add_adapter, is_adapted, merge_adapter
    from mirrorbench.models.transformer import load_transformer, lower_casing_tokenizer
    from mirrorbench.training.augmentations import in_use

    def configure(config: object) -> None:
        for augmentation, rate in in_use(recipe.augment, registered, "model"):
            augmentation.configure(config, rate)

    held = precision if recipe.lora else "fp32"
    transformer = load_transformer(path, device, configure, poolings, recipe.attention, held)
    if recipe.lora:
        add_adapter(transformer.adapted, path, recipe.lora, seed)
    elif is_adapted(transformer.adapted):
        merge_adapter(transformer.adapted)
    if protocol == "released":
        transformer.tokenizer = lower_casing_tokenizer(path)
    return transformer
