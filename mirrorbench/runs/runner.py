"""The runner: load, encode, score, store, for each group of cells that share their model.

A failing cell does not stop the others. Stored results are not computed again; tuned models and vectors come from the
cache.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from mirrorbench.core.errors import StorageError
from mirrorbench.core.identity import COMPUTATION, digest
from mirrorbench.core.inputs import Encoder, PoolingEncoder, TextInput, VocabularyEncoder, check_vectors
from mirrorbench.core.locks import POLL_SECONDS
from mirrorbench.data.contamination import Contamination, find_contamination
from mirrorbench.data.corpora import Corpus
from mirrorbench.models.backbones import foreign_languages
from mirrorbench.models.encoder import Cost
from mirrorbench.models.pooling import Pooling
from mirrorbench.runs.cells import Cell, CellGroup, CellOutcome, CorpusRef, failed
from mirrorbench.runs.environment import describe_environment
from mirrorbench.runs.results import Result
from mirrorbench.tasks.base import Vectors, score_task

if TYPE_CHECKING:
    from mirrorbench.runs.cache import EmbeddingCache
    from mirrorbench.runs.workspace import Workspace

WRITE_EVERY = 8192
"""Texts encoded between two writes to the cache, the most that a killed run encodes again."""


@dataclass(frozen=True)
class _Encoded:
    """Vectors under one pooling, and what results say about them."""

    vectors: Vectors
    seconds: float
    description: dict[str, Any]
    cost: dict[str, Any]


@dataclass(frozen=True)
class _TaskInputs:
    """A task's items, and the inputs to encode."""

    items: Any
    inputs: list[TextInput]


class Runner:
    """Computes cells in this process."""

    def __init__(self, workspace: Workspace) -> None:
        self.workspace = workspace
        self.tasks, self.results = workspace.plugins.tasks, workspace.results
        self._read: dict[str, _TaskInputs] = {}  # by name of the task
        self._fitted: dict[str, _TaskInputs] = {}  # the same, adapted to an encoder with a vocabulary of its own
        self._data: dict[str, tuple[tuple[str, str], ...]] = {}
        self._environment: dict[str, Any] = {}

    def compute(self, groups: Sequence[CellGroup], corpora: Mapping[CorpusRef, Corpus]) -> Iterator[CellOutcome]:
        """Compute groups of cells, first those that no other process computes."""
        waiting = deque(groups)
        passed_over = 0
        told = False
        while waiting:
            cells = waiting.popleft()
            outcomes = self.attempt(cells, corpora)
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

    def attempt(self, cells: CellGroup, corpora: Mapping[CorpusRef, Corpus]) -> Iterator[CellOutcome] | None:
        """Compute one group, or return ``None`` if another process has its lease."""
        try:
            lease = self.results.leases.take(cells[0].model.key)
        except StorageError as error:
            return iter(failed(cells, error))
        return None if lease is None else self._leased(lease, cells, corpora)

    def _leased(
        self, lease: AbstractContextManager[Any], cells: CellGroup, corpora: Mapping[CorpusRef, Corpus]
    ) -> Iterator[CellOutcome]:
        with lease:
            pending = []
            self.results.sweep(*cells)
            for cell in cells:
                if stored := self.results.find(cell):  # by another process, since the run began
                    yield CellOutcome(cell, stored, computed=False)
                    continue
                try:
                    self._read_task(cell.task)
                    pending.append(cell)
                except (Exception, SystemExit) as error:  # plugins may raise anything
                    yield from failed([cell], error)
            if pending:
                yield from self._group(pending, corpora)

    def _read_task(self, name: str) -> None:
        if name not in self._read:
            items = self.tasks[name].load(self.workspace.data)
            self._read[name] = _TaskInputs(items, self.tasks[name].inputs(items))

    def _group(self, cells: list[Cell], corpora: Mapping[CorpusRef, Corpus]) -> Iterator[CellOutcome]:
        """The cells of one model, which is loaded once and encodes each text once."""
        first = cells[0]
        try:
            encoder, seconds = self.workspace.loader.load(first.model, first.pooling, first.precision, corpora)
        except (Exception, SystemExit) as error:  # models and plugins may raise anything; the run goes on
            yield from failed(cells, error)
            return
        for part, encoded in self._encoded_parts(encoder, cells):
            if isinstance(encoded, BaseException):
                yield from failed(part, encoded)
                continue
            for cell in part:
                try:
                    result = self._score(cell, encoded[cell.pooling], encoder, seconds, corpora)
                except (Exception, SystemExit) as error:
                    yield from failed([cell], error)
                else:
                    yield CellOutcome(cell, result)

    def _encoded_parts(
        self, encoder: Encoder, cells: list[Cell]
    ) -> Iterator[tuple[list[Cell], dict[Pooling | None, _Encoded] | BaseException]]:
        """All cells with their vectors; if encoding fails, each task's cells with vectors or error.

        So a task that needs what the encoder lacks (vectors of some language) does not stop the others.
        """
        parts = [cells]
        while parts:
            part = parts.pop(0)
            encoded: dict[Pooling | None, _Encoded] | BaseException
            try:
                encoded = self._encode(encoder, part)
            except (Exception, SystemExit) as error:  # as above
                names = dict.fromkeys(cell.task for cell in part)
                if len(names) > 1 and not isinstance(error, StorageError):
                    parts = [[cell for cell in part if cell.task == name] for name in names]
                    continue
                encoded = error
            yield part, encoded

    def _encode(self, encoder: Encoder, cells: list[Cell]) -> dict[Pooling | None, _Encoded]:
        """Vectors of all inputs of the cells' tasks, by pooling."""
        cache, first = self.workspace.cache, cells[0]
        wanted: dict[tuple[Pooling | None, ...], dict[TextInput, None]] = {}
        inputs: dict[Pooling | None, dict[TextInput, None]] = {}
        for name in dict.fromkeys(cell.task for cell in cells):
            self._fitted[name] = self._fit(encoder, name)
            poolings = tuple(dict.fromkeys(cell.pooling for cell in cells if cell.task == name))
            for bag in (wanted.setdefault(poolings, {}), *(inputs.setdefault(p, {}) for p in poolings)):
                bag.update(dict.fromkeys(self._fitted[name].inputs))
        stored = {pooling: cache.embeddings(_embeddings_key(encoder, pooling, first)) for pooling in inputs}
        started = time.perf_counter()
        for poolings, bag in wanted.items():  # texts with the same poolings are encoded together
            missing = {item for pooling in poolings for item in stored[pooling].missing(list(bag))}
            if missing:
                # Sorted, so that the same texts make the same batches in whatever order the cells are.
                self._fill(encoder, sorted(missing, key=TextInput.key), {p: stored[p] for p in poolings}, first)
        seconds = time.perf_counter() - started
        spent = self._spent(encoder, first)
        encoded = {}
        for pooling, embeddings in stored.items():
            array = embeddings.get(list(inputs[pooling]))
            vectors = Vectors(inputs[pooling], array, str(self.workspace.torch_device))
            encoded[pooling] = _Encoded(vectors, seconds, _description(encoder, pooling, array.shape[1]), spent)
        return encoded

    def _fit(self, encoder: Encoder, name: str) -> _TaskInputs:
        """A task's items and inputs for an encoder; the task may use the encoder's own vocabulary."""
        read, task = self._read[name], self.tasks[name]
        if isinstance(encoder, VocabularyEncoder):
            items = task.with_vocabulary(read.items, encoder.vocabulary)
            if items is not read.items:
                return _TaskInputs(items, task.inputs(items))
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
        spent: dict[str, Any] = {}
        cost, cache, key = getattr(encoder, "cost", None), self.workspace.cache, cell.model.key
        if isinstance(cost, Cost) and cost.texts:
            spent["encoding"] = cost.to_json()
        if cell.model.recipe is not None and cache.model(key):
            spent["tuning"] = cache.describe_model(key).get("cost", {})
        return spent

    def _score(
        self, cell: Cell, encoded: _Encoded, encoder: Encoder, train_seconds: float, corpora: Mapping[CorpusRef, Corpus]
    ) -> Result:
        task, fitted = self.tasks[cell.task], self._fitted[cell.task]
        started = time.perf_counter()
        scores = score_task(task, fitted.items, encoded.vectors, cell.protocol, self.workspace.plugins.metrics)
        seconds = {"train": train_seconds, "encode": encoded.seconds, "score": time.perf_counter() - started}
        overlap = self._contamination(cell, corpora)
        if overlap:
            scores = replace(scores, extra={**scores.extra, "overlap": overlap.flags(scores.ids)})
        distinct = list(dict.fromkeys(fitted.inputs))
        lost: dict[str, int] = {}
        if cell.pooling is not None and cell.pooling.mode == "target":
            assert isinstance(encoder, PoolingEncoder)  # counted here, since vectors may come from the cache
            lost = encoder.lost_targets(distinct, cell.pooling)._asdict()
        if cell.task not in self._data:  # again, since files without a published checksum are only hashed once read
            self._data[cell.task] = tuple(sorted(task.identity(self.workspace.data).items()))
        cell = replace(cell, data=self._data[cell.task])
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
            encoder=encoded.description
            | {"weights": cell.model.fingerprint, "revision": cell.spec.revision, "texts": len(distinct)}
            | lost,
            environment=self._environment,
            created=datetime.now(UTC).isoformat(timespec="seconds"),
            notes=[*scores.notes, *_notes(cell, task.languages, **lost)],
            cost=encoded.cost,
            overlap=overlap.to_json() if overlap else None,
        )
        self.results.write(cell, result, scores)
        return result

    def _contamination(self, cell: Cell, corpora: Mapping[CorpusRef, Corpus]) -> Contamination | None:
        """Which items hold texts that the encoder was tuned on; ``None`` if it was not tuned."""
        tuned_on = dict.fromkeys(model.corpus for model in cell.model.with_members() if model.corpus)
        strings = [text for corpus in tuned_on for text in corpora[corpus].texts]
        texts = self.tasks[cell.task].texts(self._fitted[cell.task].items)
        return find_contamination(texts, strings) if strings else None


def _notes(
    cell: Cell, languages: Sequence[str], texts_cut: int = 0, targets_cut: int = 0, targets_missing: int = 0
) -> Iterator[str]:
    """Notes on the encoder for readers of a result: languages that it lacks, and texts or targets that were cut."""
    spec, tokens = cell.spec, cell.pooling.max_length if cell.pooling else 0
    if foreign := foreign_languages(spec, languages):
        yield f"{spec} has no model of {', '.join(foreign)}, and reads it with its English one"
    if texts_cut:
        yield f"{spec} reads a window of {tokens} tokens around the target of longer texts ({texts_cut})"
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
