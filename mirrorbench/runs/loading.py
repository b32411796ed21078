"""Loads encoders: systems through their hook, backbones from files, tuned ones from the cache or by tuning."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from mirrorbench.core.errors import TuningError
from mirrorbench.core.inputs import Encoder
from mirrorbench.core.specs import EncoderSpec
from mirrorbench.data.corpora import Corpus
from mirrorbench.models.encoder import LanguageRouter
from mirrorbench.models.pooling import Pooling
from mirrorbench.models.systems import EncoderContext, create_encoder
from mirrorbench.runs.cells import CorpusRef, ModelRef
from mirrorbench.training.augmentations import Augmentation
from mirrorbench.training.recipes import Recipe

if TYPE_CHECKING:
    import torch

    from mirrorbench.models.transformer import Transformer
    from mirrorbench.runs.workspace import Workspace


class EncoderLoader:
    """Loads the encoders of model references onto a workspace's device."""

    def __init__(self, workspace: Workspace) -> None:
        self.workspace = workspace
        self._systems: dict[tuple[EncoderSpec, str], Encoder] = {}

    def system(self, spec: EncoderSpec, precision: str) -> Encoder:
        """An encoder system, kept until the next ``load``: planning needs its fingerprint."""
        if (spec, precision) not in self._systems:
            context = EncoderContext(str(self.workspace.torch_device), precision, self.workspace.offline)
            self._systems[spec, precision] = create_encoder(spec, self.workspace.plugins, context)
        return self._systems[spec, precision]

    def load(
        self, model: ModelRef, pooling: Pooling | None, precision: str, corpora: Mapping[CorpusRef, Corpus]
    ) -> tuple[Encoder, float]:
        """An encoder, tuned now or found in the cache, and the seconds that its tuning took (0 if nothing is tuned)."""
        workspace = self.workspace
        if model.members:
            loaded = {lang: self.load(member, pooling, precision, corpora) for lang, member in model.members}
            encoders = {language: encoder for language, (encoder, _) in loaded.items()}
            return LanguageRouter(encoders, model.key), sum(seconds for _, seconds in loaded.values())
        if model.path is None or pooling is None:
            system = self.system(model.spec, precision)
            del self._systems[model.spec, precision]  # so that it is freed after its cells
            return system, 0.0
        from mirrorbench.models.encoder import TransformerEncoder
        from mirrorbench.models.transformer import load_transformer

        path, seconds = model.path, 0.0
        if model.corpus is not None:
            path, seconds = self._tuned(model, corpora[model.corpus])
        transformer = load_transformer(path, workspace.torch_device)
        return TransformerEncoder(transformer, pooling, precision, model.key), seconds

    def _tuned(self, model: ModelRef, corpus: Corpus) -> tuple[Path, float]:
        """The tuned model in the cache; a lease keeps two processes from tuning the same one."""
        cache = self.workspace.cache
        if found := self._cached(model.key):
            return found
        with cache.leases.wait(model.key):
            if found := self._cached(model.key):
                return found
            cache.sweep_model(model.key)
            return tune_model(model, corpus.texts, self.workspace)

    def _cached(self, key: str) -> tuple[Path, float] | None:
        cache = self.workspace.cache
        path = cache.model(key)
        return (path, float(cache.describe_model(key)["tuning"]["seconds"])) if path else None


def tune_model(model: ModelRef, texts: Sequence[str], workspace: Workspace) -> tuple[Path, float]:
    """Tune a model on strings and store it in the cache: its directory, and the seconds of the tuning loop."""
    import torch

    from mirrorbench.models.transformer import quiet_transformers
    from mirrorbench.training.loop import tune_backbone

    recipe, plugins, device, reporter = model.recipe, workspace.plugins, workspace.torch_device, workspace.reporter
    if recipe is None or model.path is None:
        raise TuningError(f"{model.spec} is nothing to tune")
    if len(texts) < recipe.batch_size and model.corpus:
        reporter.note(
            f"{model.spec}: {model.corpus.name} has {len(texts)} distinct strings, fewer than one batch of "
            f"{recipe.batch_size}; each step sees all of them"
        )
    reporter.stage(f"tune {model.spec} seed {model.seed}", len(texts) * recipe.epochs, "strings")
    registered: dict[str, Augmentation] = {entry.name: entry.value for entry in plugins.augmentations}
    transformer = open_for_tuning(model.path, recipe, registered, device)
    pairs = plugins.methods[model.method].pairs
    report = tune_backbone(
        transformer, texts, recipe, model.seed, registered, model.protocol, model.precision, reporter.advance, pairs
    )
    description = {
        "spec": str(model.spec),
        "seed": model.seed,
        "recipe": recipe.to_json(),
        "corpus": asdict(model.corpus) if model.corpus else None,
        "identity": model.identity(),
        "cost": report.cost,
        "tuning": asdict(report) | {"device": str(device), "torch": torch.__version__},
    }
    with quiet_transformers():
        return workspace.cache.save_model(model.key, transformer, description), report.seconds


def open_for_tuning(
    path: Path, recipe: Recipe, registered: dict[str, Augmentation], device: torch.device
) -> Transformer:
    """A backbone configured by the recipe's model augmentations."""
    from mirrorbench.models.transformer import load_transformer
    from mirrorbench.training.augmentations import model_augmentations

    def configure(config: object) -> None:
        for augmentation, rate in model_augmentations(recipe, registered):
            augmentation.configure(config, rate)

    return load_transformer(path, device, configure)
