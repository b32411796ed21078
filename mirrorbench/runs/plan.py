"""The plan: the cells of a run, and the models that they share.

Planning computes nothing and opens no model: ``runs.examination`` has examined the models before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple, TypeVar

from mirrorbench.core.errors import MirrorbenchError, UsageError
from mirrorbench.core.plugins import Plugins
from mirrorbench.core.specs import EncoderSpec
from mirrorbench.data.corpora import Corpus, default_corpus
from mirrorbench.data.store import DataStore
from mirrorbench.models import backbones
from mirrorbench.models.pooling import Pooling
from mirrorbench.models.transformations import DIMS, STORED, Transformation, split_post
from mirrorbench.runs.backbone_files import Lookups
from mirrorbench.runs.cells import Cell, CorpusRef, ModelRef, PostRef
from mirrorbench.runs.compute import Compute
from mirrorbench.runs.examination import Examined, ExaminedModel
from mirrorbench.runs.opened_systems import OpenedSystems
from mirrorbench.runs.outcomes import Failure
from mirrorbench.runs.recipe_resolution import check_lines
from mirrorbench.runs.requests import Purpose, Request
from mirrorbench.runs.tuning_corpora import TuningCorpora
from mirrorbench.storage import checksums
from mirrorbench.tasks.base import Task

_T = TypeVar("_T")


@dataclass(frozen=True)
class Plan:
    """The cells of a run in a stable order, and what could not be planned.

    ``make_plan`` makes it of requests. A grid returns it, and mirrorbench computes it; an analysis computes it by
    ``execute_plan``. Nothing is computed before. A grid may set the title of its table:
    ``dataclasses.replace(plan, title="Layers")``.

    Attributes:
        cells: one for each encoder, task and seed, in this order; a cell has ``spec``, ``task``, ``level``, ``seed``,
            ``protocol``, ``limit`` and ``id``.
        failures: rows that could not be planned on a task, for instance for lack of its data; a failure has ``spec``,
            ``task``, ``reason`` and ``hint``.
        corpora: the strings of each corpus that a model is tuned on, or a transformation fitted on.
        rows: the encoders in the order of the table, with the rows that a bare backbone stands for.
        tasks: the columns of the table: names of tasks.
        title: the title of the table.
        names: the user's names of rows; other rows have the papers' names.
        systems: the encoder systems that were opened for their fingerprints.

    Example:
        >>> from mirrorbench import Session
        >>> from mirrorbench.plugin import Request, make_plan, parse_spec
        >>> workspace = Session("results", device="cpu").workspace
        >>> encoders = (parse_spec("tiny+base:pooling=mean"), parse_spec("tiny+base:pooling=cls"))
        >>> plan = make_plan(workspace, Request(encoders, ("quick-sts", "quick-simlex")))
        >>> [str(row) for row in plan.rows], plan.tasks
        (['tiny+base:pooling=mean', 'tiny+base:pooling=cls'], ('quick-sts', 'quick-simlex'))
        >>> len(plan.cells), plan.failures
        (4, ())
    """

    cells: tuple[Cell, ...]
    failures: tuple[Failure, ...]
    corpora: dict[CorpusRef, Corpus] = field(repr=False)
    rows: tuple[EncoderSpec, ...]
    tasks: tuple[str, ...]
    title: str = ""
    names: Mapping[EncoderSpec, str] = field(default_factory=dict)
    systems: OpenedSystems = field(default_factory=OpenedSystems, repr=False, compare=False)

    @cached_property
    def groups(self) -> dict[str, list[Cell]]:
        """Cells by model key, in the order of their first cells."""
        groups: dict[str, list[Cell]] = {}
        for cell in self.cells:
            groups.setdefault(cell.model.key, []).append(cell)
        return groups


def merged(plans: Sequence[Plan]) -> Plan:
    """Merge plans of one planner into a single plan, without repeated cells.

    Raises:
        UsageError: the results do not fit in one table.
    """
    if len(plans) == 1:
        return plans[0]
    cells: list[Cell] = []
    failures: list[Failure] = []
    rows: list[EncoderSpec] = []
    tasks: list[str] = []
    corpora: dict[CorpusRef, Corpus] = {}
    names: dict[EncoderSpec, str] = {}
    for plan in plans:
        cells += plan.cells
        failures += plan.failures
        rows += plan.rows
        tasks += plan.tasks
        corpora.update(plan.corpora)
        names.update(plan.names)
    distinct_cells = _distinct(cells)
    _check_one_table(distinct_cells)
    return Plan(
        distinct_cells,
        _distinct(failures),
        corpora,
        _distinct(rows),
        _distinct(tasks),
        names=names,
        systems=plans[0].systems,
    )


def _distinct(elements: Iterable[_T]) -> tuple[_T, ...]:
    return tuple(dict.fromkeys(elements))


def _check_one_table(cells: Sequence[Cell]) -> None:
    """Raise a ``UsageError`` where a table would mix precisions, or have two scores in one place."""
    precisions = sorted({cell.precision for cell in cells})
    if len(precisions) > 1:
        listing = " and ".join(precisions)
        raise UsageError(
            f"blocks are evaluated in {listing}, and results of one table share one precision",
            "Use two files and two --output folders.",
        )
    ids: dict[tuple[str, str, str, int], str] = {}
    for cell in cells:
        place = (str(cell.spec), cell.protocol, cell.task, cell.seed)
        if ids.setdefault(place, cell.id) != cell.id:
            raise UsageError(
                f"two blocks ask for {cell.spec} on {cell.task}, seed {cell.seed}, with another corpus or precision",
                "Write the corpus into the encoder spec (corpus: NAME), or use two files and two --output folders.",
            )


class PlannedModel(NamedTuple):
    """A model, and the pooling of its vectors; ``None`` for an encoder system."""

    model: ModelRef
    pooling: Pooling | None


class Planner:
    """Turns requests into plans.

    Args:
        plugins: with tasks, methods and corpora.
        data: holds the files of tasks.
        corpora: reads the corpora to tune on.
        compute: device and precisions.
        note: receives remarks.
        fetch: whether to download missing data (not in a dry run).
    """

    def __init__(
        self,
        plugins: Plugins,
        data: DataStore,
        corpora: TuningCorpora,
        compute: Compute,
        note: Callable[[str], None],
        fetch: bool = True,
    ) -> None:
        self.plugins = plugins
        self.data = data
        self.corpora = corpora
        self.compute = compute
        self.note = note
        self.fetch = fetch
        self._lookups = Lookups()

    def plan(self, request: Request, tasks: Sequence[Task], examined: Examined) -> Plan:
        """Plan every cell; what cannot be planned becomes a failure of the plan.

        Raises:
            UsageError: a row that must be in the table is wrong.
        """
        cells: list[Cell] = []
        failures: list[Failure] = []
        for spec, levels in examined.rows.items():
            for task in tasks:
                if task.level not in levels:
                    continue
                try:
                    cells += self._cells(request, spec, task, examined)
                except (Exception, SystemExit) as error:
                    # Plugins may raise anything; the other cells go on.
                    if isinstance(error, UsageError) and spec in request.optional:
                        self.note(f"{spec} is left out on {task.title}: {error.message}")
                        continue
                    # The user asked for this row by name, and has to correct it.
                    if isinstance(error, UsageError) and not request.may_lack(spec):
                        raise
                    failures.append(self._failure(error, request, spec, task, examined))
        # An optional row is shown only if it has cells.
        specs_with_cells = {cell.spec for cell in cells}
        rows = [
            row for row in examined.rows if row in specs_with_cells or row not in request.optional
        ]
        return Plan(
            tuple(cells),
            tuple(failures),
            dict(self.corpora.by_ref),
            tuple(rows),
            request.tasks,
            names=examined.names,
            systems=examined.systems,
        )

    def _failure(
        self,
        error: BaseException,
        request: Request,
        spec: EncoderSpec,
        task: Task,
        examined: Examined,
    ) -> Failure:
        """Return the failure of a row on a task; if data are missing, look for missing models too, and name both."""
        failure = Failure.of(error, spec, task.name)
        if not failure.lacks:
            return failure
        try:
            self.models(request, spec, Purpose.of(task), examined)
        except MirrorbenchError as model_error:
            lacks = _distinct([*failure.lacks, *model_error.lacks])
            return replace(failure, lacks=lacks)
        return failure

    def _cells(
        self, request: Request, spec: EncoderSpec, task: Task, examined: Examined
    ) -> list[Cell]:
        """Return the cells of a row on a task: one for each seed."""
        purpose = Purpose.of(task)
        if spec.is_path and spec.backbone not in self.plugins.encoders:
            # Report a missing directory before anything is fetched.
            examined.model(spec, purpose, task.languages[0])
        data = self._lookups.once(("data", task.name), lambda: self._data_checksums(task))
        planned_models = self.models(request, spec, purpose, examined)
        precision = request.precision_of("encoding", self.compute.precisions)
        name = examined.names.get(spec, "")
        cells = []
        for model, pooling in planned_models:
            cell = Cell(
                spec=spec,
                task=task.name,
                level=task.level,
                seed=model.seed,
                model=model,
                pooling=pooling,
                precision=precision,
                protocol=request.protocol,
                data=data,
                task_version=task.version,
                limit=request.limit,
                name=name,
            )
            cells.append(cell)
        return cells

    def _data_checksums(self, task: Task) -> tuple[tuple[str, str], ...]:
        """Return the checksums of a task's files by name; fetch them first if this planner fetches."""
        if self.fetch:
            task.fetch(self.data)
        return tuple(sorted(task.identity(self.data).items()))

    def models(
        self, request: Request, spec: EncoderSpec, purpose: Purpose, examined: Examined
    ) -> list[PlannedModel]:
        """Return the models of an encoder, with its transformation: one for each seed, or one if nothing is tuned."""
        languages = purpose.languages_of_models(spec)
        if len(languages) > 1:
            return self._models_by_language(request, spec, purpose, examined)
        model = examined.model(spec, purpose, languages[0])
        # The corpus of the spec, else of the run, else of the task. If all are empty, level and languages determine it.
        corpus_of_spec = spec.get("corpus")
        if corpus_of_spec:
            purpose = replace(purpose, corpus=str(corpus_of_spec))
        elif request.corpus:
            purpose = replace(purpose, corpus=request.corpus)
        # Plan the model before its transformation.
        is_tuned = model.recipe is not None
        if is_tuned:
            planned = self._tuned(request, model, purpose)
        else:
            planned = [PlannedModel(model.untuned, model.pooling)]
        # Add the transformation. Keys of a corpus belong to the tuning if there is one.
        spec_without_post, transformation = split_post(spec, tuned=is_tuned)
        if transformation is None:
            return planned
        if model.reads_pairs:
            raise UsageError(
                f"{spec}: {spec.backbone} has scores of pairs, and no vectors to transform",
                f"Write {spec_without_post}",
            )
        # It is the same for all seeds, which are tuned on one corpus.
        posts = self._posts(spec, transformation, planned[0].model, purpose, is_tuned)
        return [PlannedModel(replace(ref, posts=posts), pooling) for ref, pooling in planned]

    def _models_by_language(
        self, request: Request, spec: EncoderSpec, purpose: Purpose, examined: Examined
    ) -> list[PlannedModel]:
        """Return a model for each seed, whose members are the models of the languages for that seed."""
        # For each language, its models: one for each seed.
        by_language = {}
        for language in purpose.languages:
            purpose_of_language = replace(purpose, languages=(language,))
            by_language[language] = self.models(request, spec, purpose_of_language, examined)
        models = []
        for models_of_seed in zip(*by_language.values(), strict=True):
            members = []
            posts = []
            for language, planned in zip(by_language, models_of_seed, strict=True):
                members.append((language, planned.model))
                # The transformation of a single language is stored under "".
                for _, post in planned.model.posts:
                    posts.append((language, post))
            # The combined model is a copy of the first language's, with the models of all languages as members.
            first, pooling = models_of_seed[0]
            model = replace(first, members=tuple(members), posts=tuple(posts))
            models.append(PlannedModel(model, pooling))
        return models

    def _tuned(
        self, request: Request, model: ExaminedModel, purpose: Purpose
    ) -> list[PlannedModel]:
        """Plan the tuning of a backbone, once for each seed."""
        assert model.recipe is not None
        spec = model.untuned.spec
        # Some methods use recipe and corpus of another level: Mirror those of sentences for ``wic``.
        level = self.plugins.methods[spec.method].levels.get(purpose.level, purpose.level)
        name = purpose.corpus or default_corpus(level, purpose.languages, request.protocol)
        ref = self.corpora.read(spec, name, model.recipe.clean_corpus)
        check_lines(spec, name, self.corpora.by_ref[ref].texts)
        # On a CPU all algorithms are deterministic.
        deterministic = self.compute.deterministic and self.compute.planned_device != "cpu"
        tuned = replace(
            model.untuned,
            recipe=model.recipe,
            corpus=ref,
            protocol=request.protocol,
            deterministic=deterministic,
            precision=request.precision_of("tuning", self.compute.precisions),
        )
        return [PlannedModel(replace(tuned, seed=seed), model.pooling) for seed in request.seeds]

    def _posts(
        self,
        spec: EncoderSpec,
        transformation: Transformation,
        model: ModelRef,
        purpose: Purpose,
        is_tuned: bool,
    ) -> tuple[tuple[str, PostRef], ...]:
        """Return the transformation of a model under ``""``, or one for each language if each has a file of vectors."""
        has_file_by_language = "{lang}" in str(spec.get("path"))
        is_one_model = is_tuned or transformation.name == STORED
        if is_one_model or not has_file_by_language:
            return (("", self._post(spec, transformation, model, purpose)),)
        languages = purpose.languages
        corpora = [purpose.corpus]
        if len(languages) > 1 and isinstance(purpose.corpus, str):
            corpora = [*purpose.corpus.split("+")]
        # Languages without a named corpus have their default one.
        corpora += [""] * (len(languages) - len(corpora))
        posts = []
        for language, corpus in zip(languages, corpora, strict=False):
            purpose_of_language = replace(purpose, languages=(language,), corpus=corpus)
            posts.append((language, self._post(spec, transformation, model, purpose_of_language)))
        return tuple(posts)

    def _post(
        self, spec: EncoderSpec, transformation: Transformation, model: ModelRef, purpose: Purpose
    ) -> PostRef:
        """Return the reference of a transformation: with its stored file, alone, or with the corpus to fit it on.

        The corpus is that of the tuning, else of the purpose, else the default.

        Raises:
            UsageError: the vectors have too few dimensions, or the corpus too few texts.
        """
        # Stored with the model.
        if transformation.name == STORED:
            file = backbones.stored_transformation(model.spec)
            return PostRef(transformation, stored=file, checksum=checksums.content([("", file)]))
        # Check the number of dimensions or axes now, before anything is encoded. If the dimensions of the vectors are
        # unknown, assume that there are enough.
        dimensions: int | None = None
        if model.path:
            hidden_size = backbones.configuration(model.path).get("hidden_size")
            if isinstance(hidden_size, int):
                dimensions = hidden_size
        # Not fitted: it needs as many dimensions as it keeps.
        if not transformation.is_fitted:
            enough = transformation.number
            transformation.check(enough if dimensions is None else dimensions, n_texts=0)
            return PostRef(transformation)
        # Fitted on a corpus: n texts have fewer than n axes, so n dimensions are enough; the first dimensions are kept
        # before numbers of a type are fitted.
        name = purpose.corpus or default_corpus(purpose.level, purpose.languages, "paper")
        ref = model.corpus or self.corpora.read(spec, name, for_fitting=True)
        enough = transformation.number if transformation.name == DIMS else ref.n
        transformation.check(enough if dimensions is None else dimensions, ref.n)
        return PostRef(transformation, ref)
