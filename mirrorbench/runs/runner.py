"""The runner: train -> encode -> score -> store, for each group of cells that share their weights.

One failing cell stops no other. What is stored is never computed again; what was tuned or encoded before is found in
the cache.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from mirrorbench.core.devices import computing_on
from mirrorbench.core.errors import StorageError
from mirrorbench.core.identity import COMPUTATION, digest
from mirrorbench.core.inputs import Encoder, PoolingEncoder, TextInput, VocabularyEncoder, check_vectors
from mirrorbench.core.locks import POLL_SECONDS
from mirrorbench.data.contamination import Contamination, find_contamination
from mirrorbench.data.corpora import Corpus
from mirrorbench.models.backbones import foreign_languages
from mirrorbench.models.cost import Cost
from mirrorbench.models.pooling import Pooling
from mirrorbench.runs import environment
from mirrorbench.runs.cache import EmbeddingCache
from mirrorbench.runs.cells import Cell, CellGroup, CellOutcome, CorpusRef, ModelRef, failed
from mirrorbench.runs.results import Result
from mirrorbench.tasks import Vectors
from mirrorbench.tasks.base import score_task

if TYPE_CHECKING:
    from mirrorbench.runs.workspace import Workspace

WRITE_EVERY = 8192
"""Texts encoded between two writes to the cache: what a killed run has to encode again at most."""


@dataclass(frozen=True)
class _Encoded:
    """Vectors of one pooling, with what the results say about them."""

    vectors: Vectors
    seconds: float
    description: dict[str, Any]
    cost: dict[str, Any]


@dataclass(frozen=True)
class _TaskInputs:
    """What a task read, and what it wants encoded."""

    items: Any
    inputs: list[TextInput]


class Runner:
    """Computes cells in this process.

    Args:
        workspace: where everything is.
    """

    def __init__(self, workspace: Workspace) -> None:
        self.workspace = workspace
        self.plugins, self.data, self.results = workspace.plugins, workspace.data, workspace.results
        self._loaded: dict[str, _TaskInputs] = {}
        self._fitted: dict[str, _TaskInputs] = {}  # the same, or what suits the encoder at work
        self._environment: dict[str, Any] = {}

    def compute(self, groups: Sequence[CellGroup], corpora: Mapping[CorpusRef, Corpus]) -> Iterator[CellOutcome]:
        """Groups of cells that share their weights, those first that no other process is at work on.

        Args:
            groups: cells that were not stored when last looked.
            corpora: the strings to tune on.
        """
        waiting = deque(groups)
        passed_over = 0
        told = False
        while waiting:
            cells = waiting.popleft()
            done = self.attempt(cells, corpora)
            if done is not None:
                yield from done
                passed_over = 0
                continue
            waiting.append(cells)
            passed_over += 1
            if passed_over == len(waiting):
                if not told:
                    who = self.results.leases.holder(cells[0].model.key) or "another process"
                    self.workspace.reporter.note(f"{cells[0].spec}: {who} is at work on it; waiting for its results")
                told, passed_over = True, 0
                time.sleep(POLL_SECONDS)

    def attempt(self, cells: CellGroup, corpora: Mapping[CorpusRef, Corpus]) -> Iterator[CellOutcome] | None:
        """One group, or ``None`` if another process is at work on it.

        What another process has stored by now is taken from the store.
        """
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
            for cell in cells:
                self.results.sweep(cell)
                if stored := self.results.find(cell):
                    yield CellOutcome(cell, stored, computed=False)
                else:
                    pending.append(cell)
            if pending:
                yield from self._group(pending, corpora)

    def _group(self, cells: list[Cell], corpora: Mapping[CorpusRef, Corpus]) -> Iterator[CellOutcome]:
        """The cells of one set of weights: one load, one training, each text encoded once."""
        loadable, unread = self._load_tasks(cells)
        yield from unread
        if not loadable:
            return
        first = loadable[0]
        try:
            encoder, train_seconds = self.workspace.loader.load(first.model, first.pooling, first.precision, corpora)
        except (Exception, SystemExit) as error:  # whatever a model or plugin raises fails these cells, not the run
            yield from failed(loadable, error)
            return
        for part, encoded in self._parts(encoder, loadable):
            if isinstance(encoded, BaseException):
                yield from failed(part, encoded)
                continue
            for cell in part:
                try:
                    result = self._score(cell, encoded[cell.pooling], encoder, train_seconds, corpora)
                except (Exception, SystemExit) as error:
                    yield from failed([cell], error)
                else:
                    yield CellOutcome(cell, result)

    def _parts(
        self, encoder: Encoder, cells: list[Cell]
    ) -> Iterator[tuple[list[Cell], dict[Pooling | None, _Encoded] | BaseException]]:
        """CellGroup with their vectors, or with what went wrong: all together; where that fails, each task alone.

        What one task wants of an encoder (vectors of a language that it has none of) so stops no other task.
        """
        together = self._attempted(encoder, cells)
        names = dict.fromkeys(cell.task for cell in cells)
        if len(names) == 1 or not isinstance(together, BaseException) or isinstance(together, StorageError):
            yield cells, together
            return
        for name in names:
            own = [cell for cell in cells if cell.task == name]
            yield own, self._attempted(encoder, own)

    def _attempted(self, encoder: Encoder, cells: list[Cell]) -> dict[Pooling | None, _Encoded] | BaseException:
        try:
            self._fit(encoder, cells)
            return self._encode(encoder, cells)
        except (Exception, SystemExit) as error:  # as above
            return error

    def _load_tasks(self, cells: list[Cell]) -> tuple[list[Cell], list[CellOutcome]]:
        loadable: list[Cell] = []
        unread: list[CellOutcome] = []
        for cell in cells:
            try:
                if cell.task not in self._loaded:
                    task = self.plugins.tasks[cell.task]
                    items = task.load(self.data)
                    self._loaded[cell.task] = _TaskInputs(items, task.inputs(items))
                loadable.append(cell)
            except (Exception, SystemExit) as error:
                unread += failed([cell], error)
        return loadable, unread

    def _fit(self, encoder: Encoder, cells: Sequence[Cell]) -> None:
        """Let tasks ask an encoder that knows a list of words for those words, and every other for what they read."""
        for name in dict.fromkeys(cell.task for cell in cells):
            loaded = self._loaded[name]
            self._fitted[name] = loaded
            if isinstance(encoder, VocabularyEncoder):
                task = self.plugins.tasks[name]
                items = task.with_vocabulary(loaded.items, encoder.vocabulary)
                if items is not loaded.items:
                    self._fitted[name] = _TaskInputs(items, task.inputs(items))

    def _encode(self, encoder: Encoder, cells: Sequence[Cell]) -> dict[Pooling | None, _Encoded]:
        """Vectors of everything that the cells' tasks want, by pooling."""
        wanted: dict[tuple[Pooling | None, ...], dict[TextInput, None]] = {}
        inputs: dict[Pooling | None, dict[TextInput, None]] = {}
        for name in dict.fromkeys(cell.task for cell in cells):
            poolings = tuple(dict.fromkeys(cell.pooling for cell in cells if cell.task == name))
            for bag in (wanted.setdefault(poolings, {}), *(inputs.setdefault(r, {}) for r in poolings)):
                bag.update(dict.fromkeys(self._fitted[name].inputs))
        shelves = {r: self.workspace.cache.embeddings(_shelf_key(encoder, r, cells[0])) for r in inputs}
        started = time.perf_counter()
        for poolings, bag in wanted.items():  # texts that are read alike share their passes
            own = {r: shelves[r] for r in poolings}
            wanting = {item for shelf in own.values() for item in shelf.missing(list(bag))}
            # In an order of their own: the same texts make the same batches, whatever the order of the cells.
            missing = sorted(wanting, key=TextInput.key)
            if missing:
                self.workspace.reporter.stage(f"encode {cells[0].model.spec}", len(missing), "texts")
                self._fill(encoder, missing, own, f"the encoder {cells[0].model.spec}")
        seconds = time.perf_counter() - started
        spent = self._spent(encoder, cells[0].model)
        encoded = {}
        for pooling, shelf in shelves.items():
            array = shelf.get(list(inputs[pooling]))
            description = _describe(encoder, pooling, array.shape[1])
            encoded[pooling] = _Encoded(Vectors(inputs[pooling], array), seconds, description, spent)
        return encoded

    def _spent(self, encoder: Encoder, model: ModelRef) -> dict[str, Any]:
        """What encoding cost now, and tuning when it was done; nothing of what was found in the cache."""
        spent: dict[str, Any] = {}
        cost = getattr(encoder, "cost", None)
        if isinstance(cost, Cost) and cost.texts:
            spent["encoding"] = cost.to_json()
        if model.recipe is not None and self.workspace.cache.model(model.key):
            spent["tuning"] = self.workspace.cache.describe_model(model.key).get("cost", {})
        return spent

    def _fill(
        self, encoder: Encoder, missing: list[TextInput], shelves: dict[Pooling | None, EmbeddingCache], who: str
    ) -> None:
        for start in range(0, len(missing), WRITE_EVERY):
            chunk = missing[start : start + WRITE_EVERY]
            wanted = [r for r in shelves if r is not None]
            if wanted:
                assert isinstance(encoder, PoolingEncoder)  # only backbones have poolings
                arrays = dict(
                    zip(wanted, encoder.encode_pooled(chunk, wanted, self.workspace.reporter.advance), strict=True)
                )
                for pooling, array in arrays.items():
                    shelves[pooling].put(chunk, array)
            else:
                shelves[None].put(chunk, check_vectors(encoder.encode(chunk), len(chunk), who))
                self.workspace.reporter.advance(len(chunk))

    def _score(
        self, cell: Cell, encoded: _Encoded, encoder: Encoder, train_seconds: float, corpora: Mapping[CorpusRef, Corpus]
    ) -> Result:
        task = self.plugins.tasks[cell.task]
        started = time.perf_counter()
        with computing_on(self.workspace.torch_device):
            items = self._fitted[cell.task].items
            scores = score_task(task, items, encoded.vectors, cell.protocol, self.plugins.metrics)
        seconds = {"train": train_seconds, "encode": encoded.seconds, "score": time.perf_counter() - started}
        found = self._contamination(cell, corpora)
        if found:
            scores = replace(scores, extra={**scores.extra, "overlap": found.flags(scores.ids)})
        lost = self._lost_targets(cell, encoder)
        read = {"texts": len(set(self._fitted[cell.task].inputs))} | lost
        # What a file is may only be certain once it was read (files without a published checksum).
        cell = replace(cell, data=tuple(sorted(task.identity(self.data).items())))
        self._environment = self._environment or environment.describe(self.workspace.torch_device)
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
            encoder=encoded.description | {"weights": cell.model.fingerprint, "revision": cell.spec.revision} | read,
            environment=self._environment,
            created=datetime.now(UTC).isoformat(timespec="seconds"),
            notes=[*scores.notes, *_language_notes(cell, task.languages), *_target_notes(cell, lost)],
            cost=encoded.cost,
            overlap=found.to_json() if found else None,
        )
        self.results.write(cell, result, scores)
        return result

    def _contamination(self, cell: Cell, corpora: Mapping[CorpusRef, Corpus]) -> Contamination | None:
        """Which items hold texts that the encoder was tuned on; ``None``: it was not tuned, or nobody knows."""
        tuned = [model.corpus for model in (cell.model, *dict(cell.model.members).values()) if model.corpus]
        texts = [text for corpus in dict.fromkeys(tuned) for text in corpora[corpus].texts]
        task = self.plugins.tasks[cell.task]
        return find_contamination(task.texts(self._fitted[cell.task].items), texts) if texts else None

    def _lost_targets(self, cell: Cell, encoder: Encoder) -> dict[str, int]:
        """What was not read of texts with targets; counted anew, since vectors may come from the cache."""
        if cell.pooling is None or cell.pooling.mode != "target":
            return {}
        assert isinstance(encoder, PoolingEncoder)  # only backbones have poolings
        return encoder.lost_targets(list(dict.fromkeys(self._fitted[cell.task].inputs)), cell.pooling)._asdict()


def _language_notes(cell: Cell, languages: Sequence[str]) -> list[str]:
    foreign = foreign_languages(cell.spec, languages)
    return [f"{cell.spec} has no model of {', '.join(foreign)}, and reads it with its English one"] if foreign else []


def _target_notes(cell: Cell, lost: dict[str, int]) -> list[str]:
    notes = []
    tokens = cell.pooling.max_length if cell.pooling else 0
    if lost.get("texts_cut"):
        notes.append(
            f"{cell.spec} reads a window of {tokens} tokens around the target of longer texts ({lost['texts_cut']})"
        )
    if lost.get("targets_cut"):
        notes.append(f"{cell.spec} reads {lost['targets_cut']} targets in part, being longer than {tokens} tokens")
    if lost.get("targets_missing"):
        notes.append(f"{cell.spec} has no token for {lost['targets_missing']} targets and reads their whole text")
    return notes


def _shelf_key(encoder: Encoder, pooling: Pooling | None, cell: Cell) -> str:
    where = [pooling.mode, pooling.layers, pooling.max_length] if pooling else cell.model.spec.backbone
    return digest(
        {"encoder": encoder.fingerprint, "readout": where, "precision": cell.precision, "computation": COMPUTATION}
    )


def _describe(encoder: Encoder, pooling: Pooling | None, dimensions: int) -> dict[str, Any]:
    description: dict[str, Any] = {"fingerprint": encoder.fingerprint, "dimensions": dimensions}
    if pooling:
        description |= {
            "pooling": pooling.mode,
            "layers": pooling.layers,
            "max_length": pooling.max_length,
        }
    transformer = getattr(encoder, "transformer", None)
    if transformer is not None:
        description["parameters"] = transformer.n_parameters
    return description
