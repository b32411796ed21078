"""The runner: load or tune, encode, score, store, for each group of cells that share their model.

A failing cell does not stop the others. Stored results are not computed again; tuned models and vectors come from the
cache.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from mirrorbench.core.errors import StorageError, TuningError
from mirrorbench.core.files import POLL_SECONDS
from mirrorbench.core.identity import COMPUTATION, digest
from mirrorbench.core.inputs import Encoder, PoolingEncoder, TextInput, VocabularyEncoder, check_vectors
from mirrorbench.core.specs import EncoderSpec
from mirrorbench.data.corpora import Contamination, Corpus, find_contamination
from mirrorbench.models.backbones import foreign_languages
from mirrorbench.models.encoder import Cost, LanguageRouter
from mirrorbench.models.pooling import Pooling
from mirrorbench.models.systems import EncoderContext, create_encoder
from mirrorbench.runs.cells import Cell, CellGroup, CellOutcome, CorpusRef, ModelRef, failed
from mirrorbench.runs.environment import describe_environment
from mirrorbench.runs.results import Result
from mirrorbench.tasks.base import Task, Vectors, score_task
from mirrorbench.training.augmentations import Augmentation
from mirrorbench.training.recipes import Recipe

if TYPE_CHECKING:
    import torch

    from mirrorbench.models.transformer import Transformer
    from mirrorbench.runs.cache import EmbeddingCache
    from mirrorbench.runs.workspace import Workspace

WRITE_EVERY = 8192
"""Texts encoded between two writes to the cache, the most that a killed run encodes again."""


class _Reading(NamedTuple):
    """The name of a task, and by what it reads its data."""

    task: str
    protocol: str
    of_target: bool

    @classmethod
    def of(cls, cell: Cell) -> _Reading:
        return cls(cell.task, cell.protocol, cell.pooling is not None and cell.pooling.of_target)


@dataclass(frozen=True)
class _TaskInputs:
    """A task, its items, the inputs to encode, and the checksums of its files."""

    task: Task
    items: Any
    inputs: list[TextInput]
    data: tuple[tuple[str, str], ...]


class Runner:
    """Computes cells in this process; ``corpora`` holds the strings that they are tuned on."""

    def __init__(self, workspace: Workspace, corpora: Mapping[CorpusRef, Corpus]) -> None:
        self.workspace, self.corpora = workspace, corpora
        self.tasks, self.results = workspace.plugins.tasks, workspace.results
        self._read: dict[_Reading, _TaskInputs] = {}
        self._fitted: dict[_Reading, _TaskInputs] = {}  # the same, adapted to an encoder with a vocabulary of its own
        self._environment: dict[str, Any] = {}

    def compute(self, groups: Sequence[CellGroup]) -> Iterator[CellOutcome]:
        """Compute groups of cells, first those that no other process computes."""
        waiting, passed_over, told = deque(groups), 0, False
        while waiting:
            cells = waiting.popleft()
            outcomes = self.attempt(cells)
            if outcomes is not None:
                yield from outcomes
                passed_over = 0
                continue
            waiting.append(cells)
            passed_over += 1
            if passed_over == len(waiting):
                if not told:
                    holder = self.results.leases.holder(cells[0].model.key) or "another process"
                    self.workspace.reporter.note(f"{cells[0].spec}: {holder} is at work on it; waiting for its results")
                told, passed_over = True, 0
                time.sleep(POLL_SECONDS)

    def attempt(self, cells: CellGroup) -> Iterator[CellOutcome] | None:
        """Compute one group, or return ``None`` if another process has its lease."""
        try:
            lease = self.results.leases.take(cells[0].model.key)
        except StorageError as error:
            return iter(failed(cells, error))
        return None if lease is None else self._leased(lease, cells)

    def _leased(self, lease: AbstractContextManager[Any], cells: CellGroup) -> Iterator[CellOutcome]:
        with lease:
            pending = []
            self.results.sweep(*cells)
            for cell in cells:
                if stored := self.results.find(cell):  # by another process, since the run began
                    yield CellOutcome(cell, stored, computed=False)
                    continue
                try:
                    self._read_task(_Reading.of(cell))
                    pending.append(cell)
                except (Exception, SystemExit) as error:  # plugins may raise anything
                    yield from failed([cell], error)
            if pending:
                yield from self._group(pending)

    def _read_task(self, reading: _Reading) -> None:
        if reading not in self._read:
            task, data = self.tasks[reading.task].reading(reading.protocol, reading.of_target), self.workspace.data
            items = task.load(data)
            # Files without a published checksum are hashed when they are read: perhaps others than at planning.
            checksums = tuple(sorted(task.identity(data).items()))
            self._read[reading] = _TaskInputs(task, items, task.inputs(items), checksums)

    def _group(self, cells: list[Cell]) -> Iterator[CellOutcome]:
        """The cells of one model, which is loaded once and encodes each text once."""
        first = cells[0]
        try:
            encoder, tuning = self.workspace.loader.load(first.model, first.pooling, first.precision, self.corpora)
        except (Exception, SystemExit) as error:  # models and plugins may raise anything; the run goes on
            yield from failed(cells, error)
            return
        parts = [cells]
        while parts:
            part = parts.pop(0)
            try:
                vectors, encoding = self._encode(encoder, part)
            except (Exception, SystemExit) as error:  # as above
                names = dict.fromkeys(cell.task for cell in part)
                if len(names) > 1 and not isinstance(error, StorageError):
                    # One by one: a task may need what the encoder lacks (vectors of some language).
                    parts = [[cell for cell in part if cell.task == name] for name in names]
                else:
                    yield from failed(part, error)
                continue
            for cell in part:
                try:
                    result = self._score(cell, vectors[cell.pooling], encoder, {"train": tuning, "encode": encoding})
                except (Exception, SystemExit) as error:
                    yield from failed([cell], error)
                else:
                    yield CellOutcome(cell, result)

    def _encode(self, encoder: Encoder, cells: list[Cell]) -> tuple[dict[Pooling | None, Vectors], float]:
        """Vectors of all inputs of the cells' tasks, by pooling, and the seconds that encoding took."""
        cache, first = self.workspace.cache, cells[0]
        wanted: dict[tuple[Pooling | None, ...], dict[TextInput, None]] = {}
        inputs: dict[Pooling | None, dict[TextInput, None]] = {}
        for reading in dict.fromkeys(map(_Reading.of, cells)):
            self._fitted[reading] = self._fit(encoder, self._read[reading])
            poolings = tuple(dict.fromkeys(cell.pooling for cell in cells if _Reading.of(cell) == reading))
            for bag in (wanted.setdefault(poolings, {}), *(inputs.setdefault(p, {}) for p in poolings)):
                bag.update(dict.fromkeys(self._fitted[reading].inputs))
        stored = {pooling: cache.embeddings(_embeddings_key(encoder, pooling, first)) for pooling in inputs}
        started = time.perf_counter()
        for poolings, bag in wanted.items():  # texts with the same poolings are encoded together
            missing = {item for pooling in poolings for item in stored[pooling].missing(list(bag))}
            if missing:
                # Sorted, so that the same texts make the same batches in whatever order the cells are.
                self._fill(encoder, sorted(missing, key=TextInput.key), {p: stored[p] for p in poolings}, first)
        seconds, device = time.perf_counter() - started, str(self.workspace.torch_device)
        return {p: Vectors(inputs[p], stored[p].get(list(inputs[p])), device) for p in inputs}, seconds

    def _fit(self, encoder: Encoder, read: _TaskInputs) -> _TaskInputs:
        """A task's items and inputs for an encoder; the task may use the encoder's own vocabulary."""
        if isinstance(encoder, VocabularyEncoder):
            items = read.task.with_vocabulary(read.items, encoder.vocabulary)
            if items is not read.items:
                return replace(read, items=items, inputs=read.task.inputs(items))
        return read

    def _fill(
        self, encoder: Encoder, missing: list[TextInput], stored: dict[Pooling | None, EmbeddingCache], cell: Cell
    ) -> None:
        reporter, spec = self.workspace.reporter, cell.model.spec
        reporter.stage(f"encode {spec}", len(missing), "texts")
        poolings = [pooling for pooling in stored if pooling is not None]
        for start in range(0, len(missing), WRITE_EVERY):
            chunk = missing[start : start + WRITE_EVERY]
            if poolings:
                assert isinstance(encoder, PoolingEncoder)  # only backbones have poolings
                arrays = encoder.encode_pooled(chunk, poolings, reporter.advance)
                for pooling, array in zip(poolings, arrays, strict=True):
                    stored[pooling].put(chunk, array)
            else:
                stored[None].put(chunk, check_vectors(encoder.encode(chunk), len(chunk), f"the encoder {spec}"))
                reporter.advance(len(chunk))

    def _spent(self, encoder: Encoder, cell: Cell) -> dict[str, Any]:
        """What encoding cost now, and what tuning cost when it was done."""
        cost, cache, key = getattr(encoder, "cost", None), self.workspace.cache, cell.model.key
        spent = {"encoding": cost.to_json()} if isinstance(cost, Cost) and cost.texts else {}
        if cell.model.recipe is not None and cache.model(key):
            spent["tuning"] = cache.describe_model(key).get("cost", {})
        return spent

    def _score(self, cell: Cell, vectors: Vectors, encoder: Encoder, seconds: dict[str, float]) -> Result:
        fitted = self._fitted[_Reading.of(cell)]
        task, started = fitted.task, time.perf_counter()
        scores = score_task(task, fitted.items, vectors, cell.protocol, self.workspace.plugins.metrics)
        seconds["score"] = time.perf_counter() - started
        overlap = self._contamination(cell, fitted)
        if overlap:
            scores = replace(scores, extra={**scores.extra, "overlap": overlap.flags(scores.ids)})
        distinct = list(dict.fromkeys(fitted.inputs))
        lost: dict[str, int] = {}
        if cell.pooling is not None and cell.pooling.of_target:
            assert isinstance(encoder, PoolingEncoder)  # counted here, since vectors may come from the cache
            lost = encoder.lost_targets(distinct, cell.pooling)._asdict()
        cell = replace(cell, data=fitted.data)
        self._environment = self._environment or describe_environment(self.workspace.torch_device)
        result = Result(
            cell=cell.to_json(),
            cell_id=cell.id,
            metrics=scores.metrics,
            main_metric=task.main_metric,
            main_score=scores.metrics[task.main_metric],
            n_items=len(scores.ids),
            coverage=scores.coverage,
            seconds={name: round(value, 4) for name, value in seconds.items()},
            data={"version": task.version, "files": dict(cell.data)},
            encoder=_description(encoder, cell.pooling, vectors.array.shape[1])
            | {"weights": cell.model.fingerprint, "revision": cell.spec.revision, "texts": len(distinct)}
            | lost,
            environment=self._environment,
            created=datetime.now(UTC).isoformat(timespec="seconds"),
            notes=[*scores.notes, *_notes(cell, task.languages, **lost)],
            cost=self._spent(encoder, cell),
            overlap=overlap.to_json() if overlap else None,
        )
        self.results.write(cell, result, scores)
        return result

    def _contamination(self, cell: Cell, fitted: _TaskInputs) -> Contamination | None:
        """Which items hold texts that the encoder was tuned on; ``None`` if it was not tuned."""
        tuned_on = dict.fromkeys(model.corpus for model in cell.model.with_members() if model.corpus)
        strings = [text for corpus in tuned_on for text in self.corpora[corpus].texts]
        return find_contamination(fitted.task.texts(fitted.items), strings) if strings else None


def _notes(
    cell: Cell, languages: Sequence[str], texts_cut: int = 0, targets_cut: int = 0, targets_missing: int = 0
) -> Iterator[str]:
    """Notes on the encoder for readers of a result: languages that it lacks, and texts or targets that were cut."""
    spec, tokens = cell.spec, cell.pooling.max_length if cell.pooling else 0
    if foreign := foreign_languages(spec, languages):
        yield f"{spec} has no model of {', '.join(foreign)}, and reads it with its English one"
    if texts_cut:
        lost = cell.pooling is not None and cell.pooling.marked
        what = "targets that a cut at the end would lose" if lost else "the target of longer texts"
        yield f"{spec} reads a window of {tokens} tokens around {what} ({texts_cut})"
    if targets_cut:
        yield f"{spec} reads {targets_cut} targets in part, being longer than {tokens} tokens"
    if targets_missing:
        yield f"{spec} has no token for {targets_missing} targets and reads their whole text"


def _embeddings_key(encoder: Encoder, pooling: Pooling | None, cell: Cell) -> str:
    read = [pooling.mode, pooling.layers, pooling.max_length] if pooling else cell.model.spec.backbone
    parts = {"encoder": encoder.fingerprint, "readout": read, "precision": cell.precision, "computation": COMPUTATION}
    return digest(parts)


def _description(encoder: Encoder, pooling: Pooling | None, dimensions: int) -> dict[str, Any]:
    """The part of a result's ``encoder`` that is the same for all tasks."""
    description: dict[str, Any] = {"fingerprint": encoder.fingerprint, "dimensions": dimensions}
    if pooling:
        description |= {"pooling": pooling.mode, "layers": pooling.layers, "max_length": pooling.max_length}
    transformer = getattr(encoder, "transformer", None)
    if transformer is not None:
        description["parameters"] = transformer.n_parameters
    return description


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
    registered: dict[str, Augmentation] = plugins.augmentations.by_name()
    transformer = open_for_tuning(model.path, recipe, registered, device, model.protocol)
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
    path: Path, recipe: Recipe, registered: dict[str, Augmentation], device: torch.device, protocol: str = "paper"
) -> Transformer:
    """A backbone configured by the recipe's model augmentations; under ``released`` with that code's tokenizer."""
    from mirrorbench.models.transformer import load_transformer, lower_casing_tokenizer
    from mirrorbench.training.augmentations import in_use

    def configure(config: object) -> None:
        for augmentation, rate in in_use(recipe, registered, "model"):
            augmentation.configure(config, rate)

    transformer = load_transformer(path, device, configure)
    if protocol == "released":
        transformer.tokenizer = lower_casing_tokenizer(path)
    return transformer
