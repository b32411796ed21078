"""The plan: the cells of a run, and the models that they share.

Planning reads configurations, checksums and corpora, but loads no backbone and computes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

from mirrorbench.core import checksums
from mirrorbench.core.errors import MirrorbenchError, UsageError, unknown_name
from mirrorbench.core.specs import PROTOCOLS, EncoderSpec, Value
from mirrorbench.data.corpora import Corpus, check_corpus, default_corpus, read_corpus
from mirrorbench.data.formats.lines import have_parts, pairs_of
from mirrorbench.models import backbones, families, modules
from mirrorbench.models import pooling as poolings
from mirrorbench.models.pooling import Pooling
from mirrorbench.models.transformations import STORED, Transformation, split_post
from mirrorbench.runs.cells import Cell, CorpusRef, ModelRef, PostRef
from mirrorbench.runs.outcomes import Failure
from mirrorbench.runs.rows import check_lines, check_runs, expand_ladder, resolve_recipe, with_baselines, with_pairs
from mirrorbench.runs.traits import planned_traits
from mirrorbench.tasks.base import Task
from mirrorbench.training.methods import Method

if TYPE_CHECKING:
    from mirrorbench.runs.workspace import Workspace

_T = TypeVar("_T")


@dataclass(frozen=True)
class Request:
    """The encoders, tasks and settings that a user asked for.

    Attributes:
        encoders: specs as written; a bare backbone becomes a ladder.
        tasks: task names in the order of the columns, suites expanded.
        seeds: seeds of tuned encoders.
        corpus: corpus name or path for all tunings, empty for each task's own.
        protocol: ``paper`` or ``released``.
        precision, eval_precision: ``fp32``, ``bf16``, ``fp16``, or ``auto`` for the workspace's.
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

    @cached_property
    def groups(self) -> dict[str, list[Cell]]:
        """Cells by model key, in the order of their first cells."""
        groups: dict[str, list[Cell]] = {}
        for cell in self.cells:
            groups.setdefault(cell.model.key, []).append(cell)
        return groups


def merged(plans: Sequence[Plan]) -> Plan:
    """One plan of several, without repeated cells; a ``UsageError`` if their results cannot be one table."""
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
    )


class Planner:
    """Turns requests into plans, and remembers what it read or could not find.

    Without ``fetch`` missing data are not downloaded (dry run); ``corpora`` are the strings read so far.
    """

    def __init__(self, workspace: Workspace, fetch: bool = True) -> None:
        self.workspace, self.plugins, self.fetch = workspace, workspace.plugins, fetch
        self.corpora: dict[CorpusRef, Corpus] = {}
        self._found: dict[tuple[Any, ...], Any] = {}
        workspace.systems.clear()  # of an earlier plan, whose files may have changed

    def plan(self, request: Request) -> Plan:
        """Plan every cell; what cannot be planned becomes a failure, a wrong request is a ``UsageError``."""
        tasks: list[Task] = [self.plugins.tasks[name] for name in request.tasks]
        if request.corpus:  # also if nothing is tuned, to report mistakes
            check_corpus(request.corpus, self.plugins.corpora)
        rows: dict[EncoderSpec, set[str]] = {}  # with the levels of their tasks
        has_baselines, untuned = False, not request.baselines and {task.untuned for task in tasks} == {True}
        for spec in request.encoders:
            for level in dict.fromkeys(task.level for task in tasks):
                ladder = (self.untuned(spec),) if untuned else self._of_corpus(spec, level, request)
                if request.baselines and len(ladder) > 1 and spec.get("post") is None:
                    ladder = with_baselines(spec, ladder, level, self.plugins, self._dimensions(spec))
                    has_baselines = True
                for row in ladder:
                    rows.setdefault(row, set()).add(level)
        if request.baselines and not has_baselines:
            problem = "baselines are rows beside the ladder of a bare backbone, and none is among the encoders"
            raise UsageError(problem, "Name one without method, pooling and post, such as tiny, or no baselines.")
        cells: list[Cell] = []
        failures: list[Failure] = []
        for spec, levels in rows.items():
            for task in tasks:
                if task.level not in levels:
                    continue
                try:
                    cells += self._cells(request, spec, task)
                except (Exception, SystemExit) as error:  # plugins may raise anything; the other cells go on
                    if isinstance(error, UsageError) and not (request.baselines and spec not in request.encoders):
                        raise  # but what nobody wrote may not suit a small model or corpus
                    failures.append(self._failure(error, request, spec, task))
        return Plan(tuple(cells), tuple(failures), dict(self.corpora), tuple(rows), request.tasks)

    def _of_corpus(self, spec: EncoderSpec, level: str, request: Request) -> tuple[EncoderSpec, ...]:
        """A ladder that tunes on pairs where a corpus holds them; what keeps it from being read the rows report."""
        ladder, corpus = self.ladder(spec, level, request.protocol), request.corpus
        try:
            pairs = len(ladder) > 1 and corpus and pairs_of(self.corpora[self._corpus(spec, corpus)].texts, corpus)
        except Exception as error:
            if isinstance(error, UsageError):
                raise
            return ladder
        return with_pairs(ladder, self.plugins) if pairs else ladder

    def _failure(self, error: BaseException, request: Request, spec: EncoderSpec, task: Task) -> Failure:
        """The failure of a row on a task; where its data are lacking, also whether its model is."""
        failure = Failure.of(error, spec, task.name)
        if failure.lacks:
            try:
                self._task_models(request, spec, task)
            except MirrorbenchError as model_error:
                return replace(failure, lacks=tuple(dict.fromkeys((*failure.lacks, *model_error.lacks))))
        return failure

    def ladder(self, spec: EncoderSpec, level: str, protocol: str = "paper") -> tuple[EncoderSpec, ...]:
        """``expand_ladder``, which is another one for causal models and for models of sentence-transformers."""
        rows = expand_ladder(spec, level, self.plugins, protocol, of_files=modules.own_readout(spec))
        known = backbones.BACKBONES.get(spec.backbone)
        if len(rows) == 1 or (known and known.by_language):  # BERTs, of which no other than the task's is to be fetched
            return rows
        try:
            of_files = self._of_files(spec)
            causal = self.family(self._located(spec, "en")).traits.causal
        except modules.NoPoolingError:
            return expand_ladder(modules.as_system(spec), level, self.plugins, protocol)
        except MirrorbenchError:  # reported where the rows are planned
            return rows
        return expand_ladder(spec, level, self.plugins, protocol, causal, of_files)

    def untuned(self, spec: EncoderSpec) -> EncoderSpec:
        """The row of a spec on own data: a bare backbone is its untuned row, read as the model's files say.

        A model with prompts of its own for queries or documents is read by sentence-transformers (``sbert``).
        """
        row, *others = self.ladder(spec, "sentence")
        if spec.method or row.backbone in self.plugins.encoders:
            return row
        try:
            folder = self._located(spec, "en")
        except MirrorbenchError:  # reported where the row is planned
            return row
        if not spec.params and any(poolings.own_prompts(folder).get(name) for name in poolings.ROLES):
            return modules.as_system(spec)
        keys = modules.keys_of_files(spec, folder) if others else {}  # of a short name
        return spec.with_method("base").with_params(**keys | dict(spec.params)) if others else row

    def _of_files(self, spec: EncoderSpec) -> dict[str, Value]:
        """Keys of the readout that the files of sentence-transformers say; none for short names and our own files."""
        if spec.backbone in backbones.BACKBONES or modules.own_readout(spec):
            return {}
        local = Path(spec.backbone).expanduser()
        folder = local if spec.is_path or local.is_dir() else self._located(spec, "en")
        try:
            return modules.keys_of_files(spec, folder)
        except modules.NoPoolingError:
            if spec.get("pooling") is None:  # else it is read by that, as a plain transformer
                raise
            return {}

    def family(self, path: Path) -> families.Family:
        """The family of the backbone in a folder.

        Types that read as BERT does are known; of others the first layers are opened and tried, which is remembered.
        """
        look = partial(planned_traits, cache=self.workspace.cache.root)
        return self._once(("family", path), lambda: families.family(path, look))

    def _dimensions(self, spec: EncoderSpec) -> int:
        """The dimensions of a backbone's vectors; 0 if not known, as where each language has a model of its own."""
        known = backbones.BACKBONES.get(spec.backbone)
        if known and known.by_language:
            return 0
        try:
            size = backbones.configuration(self._located(spec, "en"))["hidden_size"]
        except (MirrorbenchError, KeyError):
            return 0
        return size if isinstance(size, int) else 0

    def _located(self, spec: EncoderSpec, language: str) -> Path:
        key = ("backbone", spec.backbone, spec.revision, language)
        return self._once(key, lambda: backbones.locate(spec, language, self.workspace.offline))

    def _cells(self, request: Request, spec: EncoderSpec, task: Task) -> list[Cell]:
        if spec.is_path and spec.backbone not in self.plugins.encoders:  # before anything is fetched
            self._located(spec, task.languages[0])
        data = self._once(("data", task.name), lambda: self._identified(task))
        return [
            Cell(
                spec, task.name, task.level, model.seed, model, pooling,
                self.precision(request, "encoding"), request.protocol, data, task.version,
                request.limit,
            )
            for model, pooling in self._task_models(request, spec, task)
        ]  # fmt: skip

    def _once(self, key: tuple[Any, ...], find: Callable[[], _T]) -> _T:
        """Call ``find`` once for each key, and return or raise the same again."""
        if key not in self._found:
            try:
                self._found[key] = find()
            except Exception as error:
                self._found[key] = error
        if isinstance(outcome := self._found[key], Exception):
            raise outcome
        return cast("_T", outcome)

    def _identified(self, task: Task) -> tuple[tuple[str, str], ...]:
        """Checksums of a task's data, after fetching it."""
        if self.fetch:
            task.fetch(self.workspace.data)
        return tuple(sorted(task.identity(self.workspace.data).items()))

    def _task_models(self, request: Request, spec: EncoderSpec, task: Task) -> list[tuple[ModelRef, Pooling | None]]:
        """Plan one model of all the languages of a task, or of each where they have backbones of their own."""
        known = backbones.BACKBONES.get(spec.backbone)
        own = (task.corpus, task.max_length)
        if known is None or not any(language in known.by_language for language in task.languages[1:]):
            return self.models(request, spec, task.level, task.languages, *own)
        by_language = [self.models(request, spec, task.level, (language,), *own) for language in task.languages]
        joint = []
        for entries in zip(*by_language, strict=True):  # one entry a seed
            members = tuple((language, model) for language, (model, _) in zip(task.languages, entries, strict=True))
            first, pooling = entries[0]
            posts = tuple((language, post) for language, model in members for _, post in model.posts)
            joint.append((replace(first, members=members, posts=posts), pooling))
        return joint

    def models(
        self, request: Request, spec: EncoderSpec, level: str, languages: Sequence[str] = ("en",), corpus: str = "",
        max_length: int = 0,
    ) -> list[tuple[ModelRef, Pooling | None]]:  # fmt: skip
        """Models and poolings of an encoder: one entry for each seed, one in all if nothing is tuned.

        ``level`` picks the recipe, the first of ``languages`` the backbone, all of them the corpus; ``corpus`` and
        ``max_length`` are the task's own, if it has them.
        """
        tuned = bool(spec.method) and self.plugins.methods[spec.method].tunes
        plain, transformation = split_post(spec, tuned)
        named = str(spec.get("corpus") or request.corpus or corpus)
        # the spec's corpus, the run's, the task's, or that of level and languages
        entries = self._models(request, plain, level, languages, named, max_length)
        if transformation is None:
            return entries
        if tuned or transformation.name == STORED or "{lang}" not in str(spec.get("path")):
            posts = [("", self._post(spec, transformation, entries[0][0], level, languages, named))]
        else:  # vectors of each language from a file of its own
            parts = dict(zip(languages, named.split("+") if len(languages) > 1 else [named], strict=False))
            posts = [
                (lang, self._post(spec, transformation, entries[0][0], level, (lang,), parts.get(lang, "")))
                for lang in languages
            ]
        return [(replace(model, posts=tuple(posts)), pooling) for model, pooling in entries]

    def _post(
        self, spec: EncoderSpec, transformation: Transformation, model: ModelRef, level: str, languages: Sequence[str],
        named: str,
    ) -> PostRef:  # fmt: skip
        """The corpus that a model's transformation is fitted on: that of its tuning, or of a tuning at that level."""
        if transformation.name == STORED:
            file = backbones.stored_transformation(model.spec)
            return PostRef(transformation, stored=file, checksum=checksums.content([("", file)]))
        size = backbones.configuration(model.path).get("hidden_size") if model.path else None
        if not transformation.is_fitted:
            transformation.check(size if isinstance(size, int) else transformation.number, 0)
            return PostRef(transformation)
        ref = model.corpus or self._corpus(spec, named or default_corpus(level, languages, "paper"), fitted=True)
        transformation.check(size if isinstance(size, int) else ref.n, ref.n)
        return PostRef(transformation, ref)

    def _models(
        self, request: Request, spec: EncoderSpec, level: str, languages: Sequence[str], corpus: str, max_length: int
    ) -> list[tuple[ModelRef, Pooling | None]]:
        """Plan models before any transformation."""
        from mirrorbench.runs.loading import EncoderLoader

        language = languages[0]
        if spec.backbone in self.plugins.encoders:
            if "{lang}" in str(spec.get("path")) and spec.get("language") is None:
                spec = spec.with_params(language=language)
            system = EncoderLoader(self.workspace).system(spec, None, self.precision(request, "encoding"))
            return [(ModelRef(spec, system.fingerprint), None)]
        method: Method = self.plugins.methods[spec.method]
        level = method.levels.get(level, level)
        of_files = {} if method.create else self._of_files(spec)
        path = self._located(spec, language)
        if method.create:
            system = EncoderLoader(self.workspace).system(spec, path, self.precision(request, "encoding"))
            return [(ModelRef(spec, system.fingerprint, path, spec.method), None)]
        settings, family = backbones.configuration(path), self.family(path)
        architecture = str(settings.get("model_type", ""))
        recipe = resolve_recipe(spec, level, architecture, request.protocol, self.plugins, family, of_files)
        check_runs(spec, recipe, family, method.tunes, settings)
        positions = backbones.max_positions(settings.get)
        if positions and spec.get("train_max_length") is None:  # a method's preset, within what the model can take
            recipe = replace(recipe, train_max_length=min(recipe.train_max_length, positions))
        recipe = replace(recipe, prompt=recipe.prompt and poolings.template(recipe.prompt, path))
        if recipe.pooling.startswith("target"):
            of_files = {}
        pooling = recipe.readout(modules.max_length({**of_files, **dict(spec.params)}, path, max_length))
        base = ModelRef(
            spec, backbones.fingerprint(path), path, spec.method, attention=recipe.attention, traits=family.traits
        )
        if not method.tunes:
            return [(base, pooling)]
        name = corpus or default_corpus(level, languages, request.protocol)
        ref = self._corpus(spec, name, recipe.clean_corpus)
        check_lines(spec, name, self.corpora[ref].texts)
        precision = self.precision(request, "tuning")
        repeats = self.workspace.deterministic and self.workspace.planned_device != "cpu"
        tuned = replace(
            base, recipe=recipe, corpus=ref, protocol=request.protocol, precision=precision, deterministic=repeats
        )
        return [(replace(tuned, seed=seed), pooling) for seed in request.seeds]

    def precision(self, request: Request, of: str) -> str:
        """The precision of ``tuning`` or ``encoding``."""
        asked = request.precision if of == "tuning" else request.eval_precision
        return self.workspace.numeric_precision[of] if asked == "auto" else asked

    def _corpus(self, spec: EncoderSpec, name: str, clean: bool = True, fitted: bool = False) -> CorpusRef:
        """The strings of a corpus that a spec is tuned on, or fitted on without a tuning: then each text alone."""
        size, sample = (spec.get(key, 0) for key in ("corpus_size", "corpus_sample"))
        for key, value in (("corpus_size", size), ("corpus_sample", sample)):
            if type(value) is not int or value < 0:
                raise UsageError(f"{key}={value} is not a whole number from 0 on")
        check_corpus(name, self.plugins.corpora)
        read = partial(read_corpus, name, self.workspace.data, self.plugins.corpora.by_name(), size=size, sample=sample)
        corpus = self._once(("corpus", name, size, sample, clean), partial(read, deduplicate=clean, strip=clean))
        corpus = corpus.alone() if fitted else corpus
        ref = CorpusRef(corpus.name, size, corpus.sha256, len(corpus.texts), have_parts(corpus.texts))
        self.corpora[ref] = corpus
        return ref
