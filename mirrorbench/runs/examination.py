"""Examine models before planning: where they are, how they are read, and what a trial shows.

Planning uses only the outcome. Models are located, and fetched if they are missing; their tokenizers and, if no
list contains their type, their first layers are tried; encoder systems are opened.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import NamedTuple

from mirrorbench.core.encoder_protocol import reads_pairs
from mirrorbench.core.errors import UsageError
from mirrorbench.core.identity import digest
from mirrorbench.core.plugins import Plugins
from mirrorbench.core.specs import EncoderSpec
from mirrorbench.models.fingerprints import fingerprint
from mirrorbench.models.pooling import Pooling
from mirrorbench.models.transformations import split_post
from mirrorbench.runs.backbone_files import BackboneFiles, Lookups
from mirrorbench.runs.cells import ModelRef
from mirrorbench.runs.compute import Compute
from mirrorbench.runs.encoder_loading import EncoderLoader
from mirrorbench.runs.folders import Folders
from mirrorbench.runs.model_trials import planned_traits
from mirrorbench.runs.opened_systems import OpenedSystems
from mirrorbench.runs.outcomes import Reporter
from mirrorbench.runs.recipe_resolution import recipe_and_readout
from mirrorbench.runs.reference_vectors import identified
from mirrorbench.runs.requests import Purpose, Request
from mirrorbench.runs.rows import RequestedRows
from mirrorbench.runs.tuning_corpora import TuningCorpora
from mirrorbench.tasks.base import Task
from mirrorbench.training.recipes import Recipe


@dataclass(frozen=True)
class ExaminedModel:
    """The model of a row for texts of one language, before seeds, corpora and transformations.

    Attributes:
        untuned: the backbone as it is, or the encoder system.
        pooling: the pooling of its vectors; ``None`` for an encoder system.
        recipe: the recipe of its tuning; ``None`` if nothing is tuned.
        reads_pairs: whether it scores pairs of texts, and has no vectors.
    """

    untuned: ModelRef
    pooling: Pooling | None = None
    recipe: Recipe | None = None
    reads_pairs: bool = False


class ModelKey(NamedTuple):
    """A row, and the properties of its texts that determine its model."""

    row: EncoderSpec
    level: str
    language: str
    max_length: int


@dataclass(frozen=True)
class Examined:
    """The outcome of the examination of a request's models.

    Attributes:
        models: the model of each row and kind of text, or the error that its examination raised.
        systems: encoder systems that were opened, for the run.
        rows: rows of the table, each with the levels of the tasks on which it is evaluated.
        names: the user's names of some of the rows.
    """

    models: Mapping[ModelKey, ExaminedModel | BaseException]
    systems: OpenedSystems
    rows: Mapping[EncoderSpec, set[str]] = field(default_factory=dict)
    names: Mapping[EncoderSpec, str] = field(default_factory=dict)

    def model(self, row: EncoderSpec, purpose: Purpose, language: str) -> ExaminedModel:
        """Return the model of a row for texts of a language, or raise the error of its examination."""
        outcome = self.models[ModelKey(row, purpose.level, language, purpose.max_length)]
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome


class Examiner:
    """Examines models for planning.

    Args:
        plugins: with encoders, methods, poolings, tasks.
        folders: the cache, which keeps the outcomes of trials, and whether models may be fetched.
        compute: device and precisions.
        reporter: receives progress.
        corpora: the corpora of the plan.

    Attributes:
        files: files of backbones.
        systems: encoder systems opened so far.
    """

    def __init__(
        self,
        plugins: Plugins,
        folders: Folders,
        compute: Compute,
        reporter: Reporter,
        corpora: TuningCorpora,
    ) -> None:
        self.plugins = plugins
        self.folders = folders
        self.compute = compute
        self.reporter = reporter
        self.corpora = corpora
        self.files = BackboneFiles(folders.offline, partial(planned_traits, cache=folders.cache))
        self.systems = OpenedSystems()
        self._lookups = Lookups()

    @cached_property
    def _loader(self) -> EncoderLoader:
        """The loader of encoder systems. It is created for the first system, since it enters the GPU."""
        return EncoderLoader(self.plugins, self.folders, self.compute, self.reporter, self.systems)

    def examine(self, request: Request, tasks: Sequence[Task]) -> Examined:
        """Examine the models of all rows of a request.

        Raises:
            UsageError: a row that must be in the table is wrong. The models after it are not examined.
        """
        requested = RequestedRows(request, tasks, self.plugins, self.files, self.corpora)
        rows = requested.levels()
        keys: dict[ModelKey, None] = {}
        for row, levels in rows.items():
            for task in tasks:
                if task.level in levels:
                    keys.update(dict.fromkeys(_keys_of(row, Purpose.of(task))))
        models = {key: self._outcome(request, key) for key in keys}
        return Examined(models, self.systems, rows, requested.names())

    def examine_row(self, request: Request, row: EncoderSpec, purpose: Purpose) -> Examined:
        """Examine the models of one row for texts of a purpose, without tasks; errors are those of ``examine``."""
        models = {key: self._outcome(request, key) for key in _keys_of(row, purpose)}
        return Examined(models, self.systems)

    def _outcome(self, request: Request, key: ModelKey) -> ExaminedModel | BaseException:
        """Examine a model; return it, or the error that its examination raised.

        Raises:
            UsageError: a row that must be in the table is wrong.
        """
        try:
            return self._examine_model(request, key)
        except (Exception, SystemExit) as error:  # plugins may raise anything
            if isinstance(error, UsageError) and not request.may_lack(key.row):
                raise
            return error

    def _examine_model(self, request: Request, key: ModelKey) -> ExaminedModel:
        if key.row in request.objects:
            return self._examine_object(request, key.row)
        is_tuned = bool(key.row.method) and self.plugins.methods[key.row.method].tunes
        spec, _ = split_post(key.row, is_tuned)
        if spec.backbone in self.plugins.encoders or self.plugins.methods[spec.method].create:
            return self._examine_system(request, spec, key.language)
        return self._examine_transformer(request, spec, key)

    def _examine_object(self, request: Request, spec: EncoderSpec) -> ExaminedModel:
        """Examine an encoder that the caller passed as an object."""
        precision = request.precision_of("encoding", self.compute.precisions)
        encoder = identified(request.objects[spec], self.folders)
        self.systems.keep((spec, None, precision), encoder)
        untuned = ModelRef(spec, encoder.fingerprint)
        return ExaminedModel(untuned, reads_pairs=reads_pairs(encoder))

    def _examine_system(self, request: Request, spec: EncoderSpec, language: str) -> ExaminedModel:
        """Examine an encoder system, or the encoder that a method creates from a backbone without tuning.

        It is opened for its fingerprint, and kept open for the run.
        """
        precision = request.precision_of("encoding", self.compute.precisions)
        path: Path | None = None
        if spec.backbone in self.plugins.encoders:
            if "{lang}" in str(spec.get("path")) and spec.get("language") is None:
                # There is a file of vectors for each language.
                spec = spec.with_params(language=language)
            plugin_checksum = self._plugin_checksum([("register_encoders", spec.backbone)])
        else:
            path = self.files.locate(spec, language)
            plugin_checksum = self._plugin_checksum([("register_methods", spec.method)])
        key = (spec, path, precision)
        system = self._lookups.once(key, lambda: self._loader.system(*key))
        untuned = ModelRef(
            spec, system.fingerprint, path, spec.method, plugin_checksum=plugin_checksum
        )
        return ExaminedModel(untuned, reads_pairs=reads_pairs(system))

    def _examine_transformer(
        self, request: Request, spec: EncoderSpec, key: ModelKey
    ) -> ExaminedModel:
        """Examine a backbone that is read as it is, or tuned."""
        path = self.files.locate(spec, key.language)
        method = self.plugins.methods[spec.method]
        recipe, pooling = recipe_and_readout(
            spec, key.level, request.protocol, self.plugins, self.files, path, key.max_length
        )
        # The registered parts that determine the vectors: a change of a plugin's file changes the model.
        registered_parts = [
            ("register_methods", spec.method),
            ("register_poolings", pooling.mode),
        ]
        if method.tunes:
            registered_parts.append(("register_losses", recipe.loss))
            for augmentation, _ in recipe.augment:
                registered_parts.append(("register_augmentations", augmentation))
        untuned = ModelRef(
            spec,
            fingerprint(path),
            path,
            spec.method,
            attention=recipe.attention,
            traits=self.files.family(path).traits,
            plugin_checksum=self._plugin_checksum(registered_parts),
        )
        return ExaminedModel(untuned, pooling, recipe if method.tunes else None)

    def _plugin_checksum(self, registered_parts: Sequence[tuple[str, str]]) -> str:
        """Return the checksum of the plugin files that registered some parts; empty if no file did.

        ``registered_parts``: the hook and the name of each part.
        """
        checksums = {self.plugins.checksum_of_file(hook, name) for hook, name in registered_parts}
        checksums.discard("")
        return digest({"files": sorted(checksums)}) if checksums else ""


def _keys_of(row: EncoderSpec, purpose: Purpose) -> list[ModelKey]:
    """Return the keys of a row's models: one for each language that has its own backbone."""
    return [
        ModelKey(row, purpose.level, language, purpose.max_length)
        for language in purpose.languages_of_models(row)
    ]
