"""The plan: the cells of a run, and the models that they share.

Planning reads configurations, checksums and corpora, but loads no backbone and computes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import NamedTuple

from mirrorbench.core import checksums
from mirrorbench.core.encoder_protocol import reads_pairs
from mirrorbench.core.errors import MirrorbenchError, UsageError, unknown_name
from mirrorbench.core.identity import digest
from mirrorbench.core.plugins import Plugins
from mirrorbench.core.specs import PROTOCOLS, EncoderSpec
from mirrorbench.data.corpora import Corpus, check_corpus, default_corpus, read_corpus
from mirrorbench.data.readers.line_parts import have_parts, pairs_of
from mirrorbench.models import backbones
from mirrorbench.models.fingerprints import fingerprint
from mirrorbench.models.pooling import STATED, Pooling
from mirrorbench.models.transformations import STORED, Transformation, split_post
from mirrorbench.runs.cells import Cell, CorpusRef, ModelRef, PostRef
from mirrorbench.runs.compute import Compute
from mirrorbench.runs.encoder_loading import EncoderLoader, planned_traits
from mirrorbench.runs.folders import Folders
from mirrorbench.runs.ladder import (
    BackboneFiles,
    Lookups,
    expand_ladder,
    untuned_row,
    with_baselines,
    with_pairs,
)
from mirrorbench.runs.opened_systems import OpenedSystems
from mirrorbench.runs.outcomes import Failure, Reporter
from mirrorbench.runs.recipe_resolution import check_lines, recipe_and_readout
from mirrorbench.tasks.base import Task


@dataclass(frozen=True)
class Request:
    """The encoders, tasks and settings that a user asked for.

    Attributes:
        encoders: specs as written; a bare backbone becomes a ladder.
        tasks: task names in the order of the columns, suites expanded.
        seeds: seeds of tuned encoders.
        corpus: corpus name or path for all tunings, empty for each task's own.
        protocol: ``paper`` or ``released``.
        precision, eval_precision: ``fp32``, ``bf16``, ``fp16``, or ``auto`` for the run's.
        baselines: whether ladders have rows of what else needs no labels: transformed or static vectors, other methods.
        limit: how many items of each task are scored, from the first on; 0 for all.
    """

    encoders: tuple[EncoderSpec, ...]
    tasks: tuple[str, ...]
    seeds: tuple[int, ...] = (0,)
    corpus: str = ""
    protocol: str = "paper"
    precision: str = "auto"
    eval_precision: str = "auto"
    baselines: bool = False
    limit: int = 0
    optional: frozenset[EncoderSpec] = frozenset()
    """Encoders that are left out, with a note, on tasks for which they cannot be planned."""
    names: Mapping[EncoderSpec, str] = field(default_factory=dict)
    """What the user calls encoders, such as ``./my-encoder``; where one is a ladder, its rows have no such name."""

    def __post_init__(self) -> None:
        if self.protocol not in PROTOCOLS:
            raise unknown_name("protocol", self.protocol, list(PROTOCOLS))
        if not self.encoders or not self.seeds:
            raise UsageError("a run needs at least one encoder and one seed")


@dataclass(frozen=True)
class Plan:
    """The cells of a run in a stable order, and what could not be planned."""

    cells: tuple[Cell, ...]
    """Ordered by encoder, task, seed."""
    failures: tuple[Failure, ...]
    corpora: dict[CorpusRef, Corpus] = field(repr=False)
    """The strings of each corpus that a model is tuned on, or a transformation fitted on."""
    rows: tuple[EncoderSpec, ...]
    """The encoders in the order of the table, ladders expanded."""
    tasks: tuple[str, ...]
    """The columns of the table."""
    title: str = ""
    """The title of the table."""
    names: Mapping[EncoderSpec, str] = field(default_factory=dict)
    """What the user calls the row of an encoder; other rows have the papers' names."""
    systems: OpenedSystems = field(default_factory=OpenedSystems, repr=False, compare=False)
    """The encoder systems that were opened for their fingerprints."""

    @cached_property
    def groups(self) -> dict[str, list[Cell]]:
        """Cells by model key, in the order of their first cells."""
        groups: dict[str, list[Cell]] = {}
        for cell in self.cells:
            groups.setdefault(cell.model.key, []).append(cell)
        return groups


def merged(plans: Sequence[Plan]) -> Plan:
    """Return one plan of several by one planner, without repeated cells.

    Raises:
        UsageError: their results cannot be one table.
    """
    if len(plans) == 1:
        return plans[0]
    cells = list(dict.fromkeys(cell for plan in plans for cell in plan.cells))
    if len(precisions := sorted({cell.precision for cell in cells})) > 1:
        problem = f"blocks are evaluated in {' and '.join(precisions)}, and results of one table share one precision"
        raise UsageError(problem, "Use two files and two --output folders.")
    ids: dict[tuple[str, str, str, int], str] = {}
    for cell in cells:
        key = (str(cell.spec), cell.protocol, cell.task, cell.seed)
        if ids.setdefault(key, cell.id) != cell.id:
            raise UsageError(
                f"two blocks ask for {cell.spec} on {cell.task}, seed {cell.seed}, with another corpus or precision",
                "Write the corpus into the encoder spec (corpus: NAME), or use two files and two --output folders.",
            )
    return Plan(
        tuple(cells),
        tuple(dict.fromkeys(failure for plan in plans for failure in plan.failures)),
        {ref: corpus for plan in plans for ref, corpus in plan.corpora.items()},
        tuple(dict.fromkeys(row for plan in plans for row in plan.rows)),
        tuple(dict.fromkeys(task for plan in plans for task in plan.tasks)),
        names={row: name for plan in plans for row, name in plan.names.items()},
        systems=plans[0].systems,
    )


class PlannedModel(NamedTuple):
    """A model, and the pooling of its vectors; ``None`` for an encoder system."""

    model: ModelRef
    pooling: Pooling | None


@dataclass(frozen=True)
class Purpose:
    """The texts that an encoder is planned for.

    Attributes:
        level: picks the recipe.
        languages: the first picks the backbone, all of them the corpus.
        corpus: the task's own corpus, if it has one.
        max_length: tokens that the task reads; 0 for the default, and ``STATED``, which texts of the user's own have, for
            as many as the model's files state.
    """

    level: str
    languages: tuple[str, ...] = ("en",)
    corpus: str = ""
    max_length: int = STATED

    @classmethod
    def of(cls, task: Task) -> Purpose:
        """Return the purpose that a task states."""
        return cls(task.level, tuple(task.languages), task.corpus, task.max_length)


class Planner:
    """Turns requests into plans, and remembers lookups.

    Args:
        plugins: with tasks, encoders, methods and corpora.
        folders: data and cache.
        compute: device and precisions.
        reporter: receives notes.
        fetch: whether to download missing data (not in a dry run).

    Attributes:
        files: of backbones.
        corpora: the strings read so far.
        systems: the encoder systems opened so far.
    """

    def __init__(
        self,
        plugins: Plugins,
        folders: Folders,
        compute: Compute,
        reporter: Reporter,
        fetch: bool = True,
    ) -> None:
        self.plugins = plugins
        self.folders = folders
        self.compute = compute
        self.reporter = reporter
        self.fetch = fetch
        self.corpora: dict[CorpusRef, Corpus] = {}
        self.files = BackboneFiles(folders.offline, partial(planned_traits, cache=folders.cache))
        self._lookups = Lookups()
        self.systems = OpenedSystems()

    def plan(self, request: Request) -> Plan:
        """Plan every cell; what cannot be planned becomes a failure, a wrong request is a ``UsageError``."""
        tasks: list[Task] = [self.plugins.tasks[name] for name in request.tasks]
        if request.corpus:  # also if nothing is tuned, to report mistakes
            check_corpus(request.corpus, self.plugins.corpora)
        levels_of = self._rows(request, tasks)
        names = self._names(request, tasks)
        cells: list[Cell] = []
        failures: list[Failure] = []
        for spec, levels in levels_of.items():
            for task in tasks:
                if task.level not in levels:
                    continue
                try:
                    cells += self._cells(request, spec, task, names.get(spec, ""))
                except (
                    Exception,
                    SystemExit,
                ) as error:  # plugins may raise anything; the other cells go on
                    if isinstance(error, UsageError) and spec in request.optional:
                        left_out = f"{spec} is left out on {task.title}: {error.message}"
                        self.reporter.note(left_out)
                        continue
                    if isinstance(error, UsageError) and not (
                        request.baselines and spec not in request.encoders
                    ):
                        raise  # but what nobody wrote may not suit a small model or corpus
                    failures.append(self._failure(error, request, spec, task))
        planned = {cell.spec for cell in cells}
        rows = [row for row in levels_of if row in planned or row not in request.optional]
        return Plan(
            tuple(cells),
            tuple(failures),
            dict(self.corpora),
            tuple(rows),
            request.tasks,
            names=names,
            systems=self.systems,
        )

    def _rows(self, request: Request, tasks: Sequence[Task]) -> dict[EncoderSpec, set[str]]:
        """Return the rows of the table, with the levels of the tasks on which each is evaluated."""
        rows: dict[EncoderSpec, set[str]] = {}
        has_baselines = False
        for spec in request.encoders:
            for level in dict.fromkeys(task.level for task in tasks):
                ladder = self._steps(request, spec, level, tasks)
                if request.baselines and len(ladder) > 1 and spec.get("post") is None:
                    ladder = with_baselines(
                        spec, ladder, level, self.plugins, self.files.dimensions(spec)
                    )
                    has_baselines = True
                for row in ladder:
                    rows.setdefault(row, set()).add(level)
        if request.baselines and not has_baselines:
            problem = "baselines are added only to a bare backbone, and none is among the encoders"
            raise UsageError(
                problem,
                "Name one without method, pooling and post, such as tiny, or no --baselines.",
            )
        return rows

    def _steps(
        self, request: Request, spec: EncoderSpec, level: str, tasks: Sequence[Task]
    ) -> tuple[EncoderSpec, ...]:
        """Return the rows of an encoder, without baselines: a ladder, on own data alone its untuned row."""
        if not request.baselines and all(task.untuned for task in tasks):
            return (self.untuned(spec),)
        return self._ladder(spec, level, request)

    def _names(self, request: Request, tasks: Sequence[Task]) -> dict[EncoderSpec, str]:
        """Return the user's names of the encoders that are a single row."""
        names: dict[EncoderSpec, str] = {}
        for spec, name in request.names.items():
            levels = dict.fromkeys(task.level for task in tasks)
            rows = {row for level in levels for row in self._steps(request, spec, level, tasks)}
            if len(rows) == 1 and name:
                names[rows.pop()] = name
        return names

    def _ladder(self, spec: EncoderSpec, level: str, request: Request) -> tuple[EncoderSpec, ...]:
        """Return a ladder, which tunes on pairs where the request's corpus holds them."""
        ladder = expand_ladder(spec, level, self.plugins, request.protocol, self.files)
        if len(ladder) == 1 or not request.corpus:
            return ladder
        try:
            pairs = pairs_of(self.corpora[self._corpus(spec, request.corpus)].texts, request.corpus)
        except UsageError:
            raise
        except Exception:  # the corpus cannot be read, which its rows report
            return ladder
        return with_pairs(ladder, self.plugins) if pairs else ladder

    def untuned(self, spec: EncoderSpec) -> EncoderSpec:
        """Return the row of a spec on own data: ``untuned_row``."""
        return untuned_row(spec, self.plugins, self.files)

    def _failure(
        self, error: BaseException, request: Request, spec: EncoderSpec, task: Task
    ) -> Failure:
        """Return the failure of a row on a task; where its data are missing, also whether its model is."""
        failure = Failure.of(error, spec, task.name)
        if failure.lacks:
            try:
                self.models(request, spec, Purpose.of(task))
            except MirrorbenchError as model_error:
                return replace(
                    failure, lacks=tuple(dict.fromkeys((*failure.lacks, *model_error.lacks)))
                )
        return failure

    def _cells(self, request: Request, spec: EncoderSpec, task: Task, name: str) -> list[Cell]:
        if (
            spec.is_path and spec.backbone not in self.plugins.encoders
        ):  # before anything is fetched
            self.files.locate(spec, task.languages[0])
        data = self._lookups.once(("data", task.name), lambda: self._identified(task))
        precision = self.precision(request, "encoding")
        return [
            Cell(
                spec,
                task.name,
                task.level,
                model.seed,
                model,
                pooling,
                precision,
                request.protocol,
                data,
                task.version,
                request.limit,
                name,
            )
            for model, pooling in self.models(request, spec, Purpose.of(task))
        ]

    def _identified(self, task: Task) -> tuple[tuple[str, str], ...]:
        """Checksums of a task's data, after fetching it."""
        if self.fetch:
            task.fetch(self.folders.data)
        return tuple(sorted(task.identity(self.folders.data).items()))

    def models(self, request: Request, spec: EncoderSpec, purpose: Purpose) -> list[PlannedModel]:
        """Models of an encoder: one for each seed, a single one if nothing is tuned."""
        known = backbones.BACKBONES.get(spec.backbone)
        if known and any(language in known.by_language for language in purpose.languages[1:]):
            return self._joined(request, spec, purpose)
        tuned = bool(spec.method) and self.plugins.methods[spec.method].tunes
        plain, transformation = split_post(spec, tuned)
        # The corpus of the spec, of the run, or of the task; without any that of level and languages.
        purpose = replace(
            purpose, corpus=str(spec.get("corpus") or request.corpus or purpose.corpus)
        )
        if plain.backbone in self.plugins.encoders or self.plugins.methods[plain.method].create:
            planned = [PlannedModel(self._system(request, plain, purpose), None)]
        else:
            planned = self._transformers(request, plain, purpose)
        if transformation is None:
            return planned
        self._check_has_vectors(spec, plain, request)
        posts = self._posts(spec, transformation, planned[0].model, purpose, tuned)
        return [PlannedModel(replace(model, posts=posts), pooling) for model, pooling in planned]

    def _check_has_vectors(self, spec: EncoderSpec, plain: EncoderSpec, request: Request) -> None:
        """Raise a ``UsageError`` for a transformation of an encoder that scores pairs of texts."""
        if plain.backbone not in self.plugins.encoders:
            return
        system = self._loader().system(plain, None, self.precision(request, "encoding"))
        if reads_pairs(system):
            raise UsageError(
                f"{spec}: {plain.backbone} has scores of pairs, and no vectors to transform",
                f"Write {plain}",
            )

    def _loader(self) -> EncoderLoader:
        return EncoderLoader(self.plugins, self.folders, self.compute, self.reporter, self.systems)

    def _joined(self, request: Request, spec: EncoderSpec, purpose: Purpose) -> list[PlannedModel]:
        """Models of languages that have backbones of their own, joined into one for each seed."""
        by_language = {
            language: self.models(request, spec, replace(purpose, languages=(language,)))
            for language in purpose.languages
        }
        joined = []
        for of_seed in zip(*by_language.values(), strict=True):
            members = tuple(
                (lang, planned.model) for lang, planned in zip(by_language, of_seed, strict=True)
            )
            posts = tuple(
                (language, post) for language, model in members for _, post in model.posts
            )
            first, pooling = of_seed[0]
            joined.append(PlannedModel(replace(first, members=members, posts=posts), pooling))
        return joined

    def _system(self, request: Request, spec: EncoderSpec, purpose: Purpose) -> ModelRef:
        """Plan an encoder system, or the encoder that a method makes of a backbone without tuning it."""
        loader = self._loader()
        precision = self.precision(request, "encoding")
        if spec.backbone in self.plugins.encoders:
            if "{lang}" in str(spec.get("path")) and spec.get("language") is None:
                spec = spec.with_params(language=purpose.languages[0])
            code = self._code([("register_encoders", spec.backbone)])
            return ModelRef(spec, loader.system(spec, None, precision).fingerprint, code=code)
        path = self.files.locate(spec, purpose.languages[0])
        code = self._code([("register_methods", spec.method)])
        system = loader.system(spec, path, precision)
        return ModelRef(spec, system.fingerprint, path, spec.method, code=code)

    def _code(self, names: Sequence[tuple[str, str]]) -> str:
        """Return the checksum of the plugin files that registered names, each with its hook; empty without any."""
        found = {self.plugins.checksum_of_file(hook, name) for hook, name in names} - {""}
        return digest({"files": sorted(found)}) if found else ""

    def _transformers(
        self, request: Request, spec: EncoderSpec, purpose: Purpose
    ) -> list[PlannedModel]:
        """Plan a backbone as it is, or tuned once for each seed."""
        path, method = (
            self.files.locate(spec, purpose.languages[0]),
            self.plugins.methods[spec.method],
        )
        recipe, pooling = recipe_and_readout(
            spec,
            purpose.level,
            request.protocol,
            self.plugins,
            self.files,
            path,
            purpose.max_length,
        )
        traits = self.files.family(path).traits
        weights = fingerprint(path)
        parts = [("register_methods", spec.method), ("register_poolings", pooling.mode)]
        if method.tunes:
            parts.append(("register_losses", recipe.loss))
            parts += [("register_augmentations", name) for name, _ in recipe.augment]
        untuned = ModelRef(
            spec,
            weights,
            path,
            spec.method,
            attention=recipe.attention,
            traits=traits,
            code=self._code(parts),
        )
        if not method.tunes:
            return [PlannedModel(untuned, pooling)]
        level = method.levels.get(purpose.level, purpose.level)
        name = purpose.corpus or default_corpus(level, purpose.languages, request.protocol)
        ref = self._corpus(spec, name, recipe.clean_corpus)
        check_lines(spec, name, self.corpora[ref].texts)
        repeats = self.compute.deterministic and self.compute.planned_device != "cpu"
        tuned = replace(
            untuned,
            recipe=recipe,
            corpus=ref,
            protocol=request.protocol,
            deterministic=repeats,
            precision=self.precision(request, "tuning"),
        )
        return [PlannedModel(replace(tuned, seed=seed), pooling) for seed in request.seeds]

    def _posts(
        self,
        spec: EncoderSpec,
        transformation: Transformation,
        model: ModelRef,
        purpose: Purpose,
        tuned: bool,
    ) -> tuple[tuple[str, PostRef], ...]:
        """Return the transformation of a model, or of each language where each has a file of vectors."""
        if tuned or transformation.name == STORED or "{lang}" not in str(spec.get("path")):
            return (("", self._post(spec, transformation, model, purpose)),)
        languages, corpora = purpose.languages, [purpose.corpus]
        if len(languages) > 1:
            corpora = purpose.corpus.split("+")
        corpora += [""] * (len(languages) - len(corpora))
        return tuple(
            (
                language,
                self._post(
                    spec,
                    transformation,
                    model,
                    replace(purpose, languages=(language,), corpus=corpus),
                ),
            )
            for language, corpus in zip(languages, corpora, strict=False)
        )

    def _post(
        self, spec: EncoderSpec, transformation: Transformation, model: ModelRef, purpose: Purpose
    ) -> PostRef:
        """Return a transformation and its corpus: that of the tuning, else the requested one or the default."""
        if transformation.name == STORED:
            file = backbones.stored_transformation(model.spec)
            return PostRef(transformation, stored=file, checksum=checksums.content([("", file)]))
        size = backbones.configuration(model.path).get("hidden_size") if model.path else None
        if not transformation.is_fitted:
            transformation.check(size if isinstance(size, int) else transformation.number, 0)
            return PostRef(transformation)
        name = purpose.corpus or default_corpus(purpose.level, purpose.languages, "paper")
        ref = model.corpus or self._corpus(spec, name, fitted=True)
        transformation.check(size if isinstance(size, int) else ref.n, ref.n)
        return PostRef(transformation, ref)

    def precision(self, request: Request, of: str) -> str:
        """Return the precision of ``tuning`` or ``encoding``."""
        asked = request.precision if of == "tuning" else request.eval_precision
        return self.compute.precisions[of] if asked == "auto" else asked

    def _corpus(
        self, spec: EncoderSpec, name: str, clean: bool = True, fitted: bool = False
    ) -> CorpusRef:
        """Read a corpus for a tuning, or (``fitted``) for a transformation, with each text of a pair alone."""
        size, sample = (spec.get(key, 0) for key in ("corpus_size", "corpus_sample"))
        for key, value in (("corpus_size", size), ("corpus_sample", sample)):
            if type(value) is not int or value < 0:
                raise UsageError(f"{key}={value} is not a whole number from 0 on")
        check_corpus(name, self.plugins.corpora)
        read = partial(
            read_corpus,
            name,
            self.folders.data,
            self.plugins.corpora.by_name(),
            size=size,
            sample=sample,
            note=self.reporter.note,
        )
        lookup = ("corpus", name, size, sample, clean)
        corpus = self._lookups.once(lookup, partial(read, deduplicate=clean, strip=clean))
        corpus = corpus.alone() if fitted else corpus
        ref = CorpusRef(
            corpus.name, size, corpus.sha256, len(corpus.texts), have_parts(corpus.texts)
        )
        self.corpora[ref] = corpus
        return ref
