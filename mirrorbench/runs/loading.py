"""Models onto the device, loaded or tuned now; vectors through the cache, and transformations fitted on them."""

from __future__ import annotations

import copy
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from mirrorbench.core import checksums
from mirrorbench.core.devices import cpu_threads, device_type, enter_gpu
from mirrorbench.core.errors import ModelUnavailableError, TuningError
from mirrorbench.core.identity import COMPUTATION, checksum, digest
from mirrorbench.core.inputs import Encoder, TextInput, check_vectors
from mirrorbench.core.specs import EncoderSpec
from mirrorbench.data.corpora import Corpus
from mirrorbench.models.backbones import unchanged_backbone
from mirrorbench.models.encoder import LanguageRouter
from mirrorbench.models.pooling import POOLINGS, Pooling, PoolingEncoder, PoolingFunction
from mirrorbench.models.systems import EncoderContext, create_encoder
from mirrorbench.models.transformations import Affine, Taken, TransformedEncoder, fit
from mirrorbench.runs.cells import CorpusRef, ModelRef
from mirrorbench.runs.traits import try_opened
from mirrorbench.training.augmentations import Augmentation
from mirrorbench.training.checkpoints import CHECKPOINTS, Checkpoint
from mirrorbench.training.methods import OF_TWO, PairMaker, base_preset, words_in_context
from mirrorbench.training.recipes import Recipe

if TYPE_CHECKING:
    import torch

    from mirrorbench.models.transformer import Transformer
    from mirrorbench.runs.cache import EmbeddingCache
    from mirrorbench.runs.workspace import Workspace
    from mirrorbench.training.loop import TuningReport

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
    size = WRITE_EVERY[device_type(workspace.torch_device)]
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
    transformations: dict[str, Affine | Taken] = {}
    for language, post in model.posts:
        if file := post.stored:
            with checksums.unchanged(partial(list, [("", file)]), post.checksum, str(file)):
                transformations[language] = Affine.read(file)
            continue
        if post.corpus is None:
            transformations[language] = Taken(post.transformation.number, post.transformation.type)
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
        transformations[language] = replace(affine, type=post.transformation.type)
    return transformations


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


class EncoderLoader:
    """Loads the encoders of model references onto a workspace's device."""

    def __init__(self, workspace: Workspace) -> None:
        enter_gpu(workspace.torch_device, workspace.share)
        self.workspace = workspace
        self.from_cache: set[str] = set()
        """Keys of the tuned models that were taken from the cache."""

    def system(self, spec: EncoderSpec, path: Path | None, precision: str) -> Encoder:
        """An encoder system, or what a method makes of the backbone in ``path`` instead of tuning it.

        Kept until the next ``load`` or plan.
        """
        systems = self.workspace.systems
        if (spec, path, precision) not in systems:
            plugins = self.workspace.plugins
            poolings = plugins.poolings.by_name()
            reporter, device = self.workspace.reporter, str(self.workspace.torch_device)
            context = EncoderContext(
                device, precision, self.workspace.offline, poolings, partial(reporter.stage, "loading", str(spec)),
                reporter.advance,
            )  # fmt: skip
            create = plugins.methods[spec.method].create if path else None
            made = create(spec, path, context) if create and path else create_encoder(spec, plugins, context)
            systems[spec, path, precision] = made
        return systems[spec, path, precision]

    def load_transformed(
        self, model: ModelRef, pooling: Pooling | None, precision: str, corpora: Mapping[CorpusRef, Corpus]
    ) -> tuple[Encoder, float]:
        """Load an encoder with the model's transformation."""
        encoder, seconds = self.load(model, pooling, precision, corpora)
        if model.posts:
            affines = fitted_posts(encoder, model, pooling, precision, corpora, self.workspace)
            encoder = TransformedEncoder(encoder, affines)
        return encoder, seconds

    def load(
        self, model: ModelRef, pooling: Pooling | None, precision: str, corpora: Mapping[CorpusRef, Corpus]
    ) -> tuple[Encoder, float]:
        """An encoder, tuned now or found in the cache, and the seconds that its tuning took (0 if nothing is tuned).

        Its vectors are those before the model's transformation. A model that was tuned now is stored.
        """
        if model.members:
            loaded = {lang: self.load(member, pooling, precision, corpora) for lang, member in model.members}
            encoders = {language: encoder for language, (encoder, _) in loaded.items()}
            return LanguageRouter(encoders, model.key), sum(seconds for _, seconds in loaded.values())
        if model.path is None or pooling is None:
            system = self.system(model.spec, model.path, precision)
            del self.workspace.systems[model.spec, model.path, precision]  # so that it is freed after its cells
            if system.fingerprint != model.fingerprint:
                raise ModelUnavailableError(f"{model.spec} changed after it was planned", "Start it again.")
            return system, 0.0
        from mirrorbench.models.encoder import TransformerEncoder

        if model.corpus is not None:
            transformer, seconds = self._tuned(model, corpora[model.corpus], precision)
        else:
            with unchanged_backbone(model.path, model.fingerprint):
                transformer, seconds = self._opened(model, model.path, precision, model.fingerprint), 0.0
        return TransformerEncoder(transformer, pooling, precision, model.key), seconds

    def _tuned(self, model: ModelRef, corpus: Corpus, precision: str) -> tuple[Transformer, float]:
        """The tuned model; until it is stored, a lease keeps other processes from tuning the same one."""
        cache = self.workspace.cache
        if cached := self._cached(model, precision):
            return cached
        with cache.leases.wait(model.key):
            if cached := self._cached(model, precision):
                return cached
            cache.sweep_model(model.key)
            transformer, description = tune_model(
                model, corpus.texts, self.workspace, corpus.held_out, self._checkpoint(model)
            )
            if transformer.kept not in ("fp32", precision):  # an adapter's backbone, tuned in less than it is read in
                transformer.adapted.float()
                transformer.kept = "fp32"
            # A copy of the tokenizer: saving changes it.
            stored = replace(transformer, tokenizer=copy.deepcopy(transformer.tokenizer))
            cache.save_model(model.key, stored, description)
            shutil.rmtree(self._checkpoint(model), ignore_errors=True)
            try_opened(transformer, model, model.key, precision, cache.root)
        return transformer, float(description["tuning"]["seconds"])

    def _checkpoint(self, model: ModelRef) -> Path:
        return self.workspace.cache.root / CHECKPOINTS / model.key

    def _cached(self, model: ModelRef, precision: str) -> tuple[Transformer, float] | None:
        cache = self.workspace.cache
        if not (path := cache.model(model.key)):
            return None
        self.from_cache.add(model.key)
        shutil.rmtree(self._checkpoint(model), ignore_errors=True)  # whoever stored the model may have been killed then
        if model.path and model.recipe and model.recipe.lora:  # its backbone may be elsewhere than when it was stored
            with unchanged_backbone(model.path, model.fingerprint):
                opened = self._opened(model, path, precision, model.key, model.path)
        else:
            opened = self._opened(model, path, precision, model.key)
        return opened, float(cache.describe_model(model.key)["tuning"]["seconds"])

    def _opened(self, model: ModelRef, path: Path, precision: str, key: str, base: Path | None = None) -> Transformer:
        from mirrorbench.models.transformer import load_transformer

        poolings, device = self.workspace.plugins.poolings.by_name(), self.workspace.torch_device
        # The configuration of a tuned model that was stored as a whole says in which direction it reads.
        attention = "" if model.recipe and not base else model.attention
        opened = load_transformer(path, device, poolings=poolings, attention=attention, precision=precision, base=base)
        self.workspace.reporter.stage("checking", str(model.spec))
        try_opened(opened, model, key, precision, self.workspace.cache.root)
        return opened


def tune_model(
    model: ModelRef, texts: Sequence[str], workspace: Workspace, held_out: Sequence[str] = (),
    folder: Path | None = None,
) -> tuple[Transformer, dict[str, Any]]:  # fmt: skip
    """Tune a model on strings: it, ready to encode, and the description to store with it.

    ``held_out`` are looked at along the tuning; without any, ``stop=auto`` takes some of the strings for that.
    ``folder`` holds the checkpoint of a tuning that was interrupted, and gets those of this one.
    """
    import torch

    from mirrorbench.training.held_out import hold_out, positive_pairs
    from mirrorbench.training.loop import tune_backbone
    from mirrorbench.training.progress import Progress

    recipe, plugins, device, reporter = model.recipe, workspace.plugins, workspace.torch_device, workspace.reporter
    if recipe is None or model.path is None:
        raise TuningError(f"{model.spec} is nothing to tune")
    if recipe.stop == "auto" and not held_out:
        texts, held_out = hold_out(texts, model.seed)
    pairs = plugins.methods[model.method].pairs
    aside = positive_pairs(held_out, model.seed, pairs)
    checkpoint = None if folder is None else Checkpoint(folder, _origin(device, aside), reporter.note)
    saved = checkpoint.read() if checkpoint else {}
    total, done = len(texts) * recipe.epochs, saved["progress"]["done"] if saved else 0
    stage = f"{model.spec} seed {model.seed}"
    if saved:
        reporter.note(f"{stage}: goes on from its checkpoint at {done / total:.0%}")
    registered: dict[str, Augmentation] = plugins.augmentations.by_name()
    with unchanged_backbone(model.path, model.fingerprint):
        transformer = open_for_tuning(
            model.path, recipe, registered, device, model.protocol, plugins.poolings.by_name(), model.seed,
            model.precision,
        )  # fmt: skip
    reporter.stage("checking", str(model.spec))
    try_opened(transformer, model, model.fingerprint, model.precision, workspace.cache.root)
    reporter.stage("tuning", stage, total - done, "strings")
    with cpu_threads(workspace.threads):
        progress = Progress(transformer, recipe, aside, total, reporter.advance)
        if checkpoint:
            checkpoint.parts["progress"] = progress
        if saved:
            progress.load_state_dict(saved["progress"])
        report = tune_backbone(
            transformer, texts, recipe, model.seed, registered, model.protocol, model.precision, progress.advance,
            pairs, plugins.losses.by_name(), checkpoint, saved.get("loop"),
        )  # fmt: skip
        trajectory = progress.finish()
    for warning in _warnings(model, recipe, report):
        reporter.note(warning)
    description = {
        "spec": str(model.spec),
        "seed": model.seed,
        "recipe": recipe.to_json(),
        "corpus": asdict(model.corpus) if model.corpus else None,
        "identity": model.identity(),
        "cost": report.cost,
        "held_out": asdict(trajectory) if trajectory else None,
        "tuning": asdict(report) | {"device": str(device), "torch": torch.__version__},
    }
    transformer.model.zero_grad()  # frees the memory of the gradients
    return transformer, description


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
    """The origin of a checkpoint beside the model's key: where it was computed, and what was looked at."""
    import torch

    looked = checksum("".join(f"{len(left)} {left}{right}" for left, right in aside))
    return {"device": str(device), "torch": str(torch.__version__), "held_out": looked}


def open_for_tuning(
    path: Path, recipe: Recipe, registered: dict[str, Augmentation], device: torch.device, protocol: str = "paper",
    poolings: Mapping[str, PoolingFunction] = POOLINGS, seed: int = 0, precision: str = "fp32",
) -> Transformer:  # fmt: skip
    """A backbone configured by the recipe's model augmentations; under ``released`` with that code's tokenizer.

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
