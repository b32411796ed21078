"""Opening encoders: encoder systems through their hook, backbones from their weights, tuned first where that is due."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from mirrorbench.core.inputs import Encoder
from mirrorbench.core.plugins import Plugins
from mirrorbench.core.progress import Reporter, Silent
from mirrorbench.data.corpora import Corpus
from mirrorbench.models.pooling import Pooling
from mirrorbench.models.routing import LanguageRouter
from mirrorbench.models.systems import EncoderContext, create_encoder
from mirrorbench.runs.cache import Cache
from mirrorbench.runs.cells import CorpusRef, Weights
from mirrorbench.training.recipes import Recipe

if TYPE_CHECKING:
    import torch


class Opener:
    """Turns weights into encoders.

    Args:
        plugins: what is registered.
        cache: where tuned models are.
        device: where to compute.
        offline: open no socket.
        reporter: whom to tell.
    """

    def __init__(
        self,
        plugins: Plugins,
        cache: Cache,
        device: torch.device,
        offline: bool = False,
        reporter: Reporter | None = None,
    ) -> None:
        self.plugins = plugins
        self.cache = cache
        self.device = device
        self.offline = offline
        self.reporter: Reporter = reporter or Silent()

    def open(
        self, weights: Weights, pooling: Pooling | None, precision: str, corpora: Mapping[CorpusRef, Corpus]
    ) -> tuple[Encoder, float]:
        """The encoder of some weights, tuned now or found in the cache.

        Args:
            weights: what must be in memory.
            pooling: what its ``encode`` returns; ``None`` for an encoder system.
            precision: of the encoding.
            corpora: the strings to tune on.

        Returns:
            The encoder, and the seconds that its tuning took (now or when it was cached; 0 where nothing is tuned).

        Raises:
            ModelUnavailableError: the weights cannot be opened.
            TuningError: they cannot be tuned.
        """
        if weights.members:
            opened = {lang: self.open(member, pooling, precision, corpora) for lang, member in weights.members}
            encoders = {language: encoder for language, (encoder, _) in opened.items()}
            return LanguageRouter(encoders, weights.key), sum(seconds for _, seconds in opened.values())
        if weights.path is None or pooling is None:
            context = EncoderContext(str(self.device), precision, self.offline)
            return create_encoder(weights.spec, self.plugins, context), 0.0
        from mirrorbench.models.encoder import TransformerEncoder
        from mirrorbench.models.transformer import load_transformer

        path, seconds = weights.path, 0.0
        if weights.recipe is not None and weights.corpus is not None:
            path, seconds = self._tuned(weights, weights.recipe, weights.corpus, corpora)
        transformer = load_transformer(path, self.device)
        return TransformerEncoder(transformer, pooling, precision, weights.key), seconds

    def _tuned(
        self, weights: Weights, recipe: Recipe, ref: CorpusRef, corpora: Mapping[CorpusRef, Corpus]
    ) -> tuple[Path, float]:
        """The tuned model in the cache; a lease keeps two processes from tuning the same one."""
        if found := self._cached(weights.key):
            return found
        with self.cache.leases.wait(weights.key):
            return self._cached(weights.key) or self._tune(weights, recipe, corpora[ref])

    def _cached(self, key: str) -> tuple[Path, float] | None:
        path = self.cache.model(key)
        return (path, float(self.cache.describe_model(key)["tuning"]["seconds"])) if path else None

    def _tune(self, weights: Weights, recipe: Recipe, corpus: Corpus) -> tuple[Path, float]:
        from mirrorbench.runs.tuning import tune_weights

        self.cache.sweep_model(weights.key)
        n = len(corpus.texts)
        if n < recipe.batch_size:
            self.reporter.note(
                f"{weights.spec}: {corpus.name} has {n} distinct strings, fewer than one batch of "
                f"{recipe.batch_size}; each step sees all of them"
            )
        self.reporter.stage(f"tune {weights.spec} seed {weights.seed}", n * recipe.epochs, "strings")
        return tune_weights(weights, corpus.texts, self.plugins, self.device, self.cache, self.reporter.advance)
