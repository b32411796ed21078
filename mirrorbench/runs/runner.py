"""The runner: load or tune, encode, score, store, for each group of cells that share their model.

A failing cell does not stop the others. Stored results are not computed again; tuned models and vectors come from the
cache.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

from mirrorbench.core.devices import cpu_threads
from mirrorbench.core.encoder_protocol import Encoder, TextInput, VocabularyEncoder, reads_pairs
from mirrorbench.core.errors import StorageError, UnreadableTextError, changed_while_read
from mirrorbench.core.plugins import Plugins
from mirrorbench.data.corpora import (
    Contamination,
    Corpus,
    content_digests,
    find_contamination,
    shared_codes,
)
from mirrorbench.models.pooling import Pooling
from mirrorbench.models.transformations import transform
from mirrorbench.models.transformer_encoder import Cost
from mirrorbench.runs.cells import Cell, CellGroup, CorpusRef
from mirrorbench.runs.compute import Compute
from mirrorbench.runs.embedding import Encoded
from mirrorbench.runs.encoder_loading import EncoderLoader
from mirrorbench.runs.environment import describe_environment
from mirrorbench.runs.folders import Folders
from mirrorbench.runs.opened_systems import OpenedSystems
from mirrorbench.runs.outcomes import CellOutcome, Reporter, failed, predictions_of
from mirrorbench.runs.reference_vectors import IdentifiedEncoder
from mirrorbench.runs.result_details import InputCounts, encoder_details, encoder_notes
from mirrorbench.storage.leases import POLL_SECONDS
from mirrorbench.storage.results import Result
from mirrorbench.tasks.base import Scores, Task, Vectors, inputs_of, score_task

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class _Reading(NamedTuple):
    """A task and the settings that determine its items and inputs."""

    task: str
    protocol: str
    of_target: bool
    limit: int
    data: tuple[tuple[str, str], ...]

    @classmethod
    def of(cls, cell: Cell) -> _Reading:
        return cls(
            cell.task,
            cell.protocol,
            cell.pooling is not None and cell.pooling.of_target,
            cell.limit,
            cell.data,
        )


class _ItemCodes(NamedTuple):
    """Codes of a task's items, kept since those of a million items take seconds, and are the same for all encoders."""

    ids: Sequence[str]
    codes: NDArray[Any] | None
    """One for each id; ``None`` if the task has nothing to code."""


@dataclass
class _TaskInputs:
    """A task, its items, the inputs to encode, and the checksums of its files."""

    task: Task
    items: Any
    inputs: list[TextInput]
    data: tuple[tuple[str, str], ...]
    _shared: _ItemCodes = field(default=_ItemCodes((), None), init=False)
    """Codes of what items share, for the ids that were scored last."""
    _contents: _ItemCodes = field(default=_ItemCodes((), None), init=False)
    """Digests of the contents of items, for the ids that were scored last."""

    def shared_codes(self, ids: Sequence[str]) -> NDArray[np.int32] | None:
        """Return codes of what items share; ``None`` for a task whose items share nothing."""
        if self._shared.ids != ids:
            shared = self.task.shared(self.items)
            codes = None
            if shared:
                codes = shared_codes(shared, ids)
            self._shared = _ItemCodes(ids, codes)
        return self._shared.codes

    def content_digests(self, ids: Sequence[str], salt: str) -> NDArray[np.uint64] | None:
        """Return digests of the contents of items; ``None`` if the task does not name those of every item."""
        if self._contents.ids != ids:
            contents = self.task.contents(self.items)
            digests = None
            if all(contents.get(item_id) for item_id in ids):
                digests = content_digests(contents, ids, salt)
            self._contents = _ItemCodes(ids, digests)
        return self._contents.codes


class Runner:
    """Computes cells in this process.

    Args:
        plugins: with tasks, metrics, and the parts of encoders.
        folders: results, data and cache.
        compute: the device.
        reporter: receives progress and notes.
        corpora: the strings that models are tuned on.
        systems: encoder systems that planning opened in this process.
    """

    def __init__(
        self,
        plugins: Plugins,
        folders: Folders,
        compute: Compute,
        reporter: Reporter,
        corpora: Mapping[CorpusRef, Corpus],
        systems: OpenedSystems | None = None,
    ) -> None:
        self.plugins = plugins
        self.folders = folders
        self.compute_settings = compute
        self.reporter = reporter
        self.corpora = corpora
        self.systems = systems
        self.results = folders.results
        self._task_inputs: dict[_Reading, _TaskInputs] = {}
        # The same, adapted to the encoder that encoded last.
        self._adapted_inputs: dict[_Reading, _TaskInputs] = {}

    @cached_property
    def loader(self) -> EncoderLoader:
        """Loads encoders onto the device."""
        return EncoderLoader(
            self.plugins, self.folders, self.compute_settings, self.reporter, self.systems
        )

    def compute(self, groups: Sequence[CellGroup]) -> Iterator[CellOutcome]:
        """Read the data of all tasks, then compute groups of cells, and yield outcomes as they come.

        A group that another process has leased is tried again after the others.
        """
        # Read the data of each task once, before any model is loaded.
        readings = _readings(chain.from_iterable(groups))
        self.reporter.stage("loading", "data", len(readings), "tasks")
        for reading in readings:
            with suppress(Exception, SystemExit):  # the error is raised again for each cell
                self._read_task(reading)
            self.reporter.advance(1)
        waiting = deque(groups)
        n_held_elsewhere = 0  # consecutive groups that other processes have leased
        noted_waiting = False
        while waiting:
            cells = waiting.popleft()
            outcomes = self.attempt(cells)  # None: another process has leased the group
            if outcomes is not None:
                yield from outcomes
                n_held_elsewhere = 0
                continue
            waiting.append(cells)
            n_held_elsewhere += 1
            if n_held_elsewhere < len(waiting):
                continue
            # Other processes have leased all remaining groups: try each of them again, after a pause.
            if not noted_waiting:
                holder = self.results.leases.holder(cells[0].model.key) or "another process"
                self.reporter.note(
                    f"{cells[0].spec}: {holder} is at work on it; waiting for its results"
                )
                noted_waiting = True
            n_held_elsewhere = 0
            time.sleep(POLL_SECONDS)

    def attempt(self, cells: CellGroup) -> Iterator[CellOutcome] | None:
        """Compute one group as its outcomes are taken, or return ``None`` if another process has its lease."""
        try:
            lease = self.results.leases.take(cells[0].model.key)
        except StorageError as error:
            return iter(failed(cells, error))
        if lease is None:
            return None
        return self._compute_leased(lease, cells)

    def _compute_leased(
        self, lease: AbstractContextManager[Any], cells: CellGroup
    ) -> Iterator[CellOutcome]:
        """Yield the outcomes of a group, from the store or computed now, and release its lease at the end."""
        with lease:
            self.results.sweep(*cells)
            pending = []
            for cell in cells:
                stored = self.results.find(cell)
                if stored:  # by another process, since the run began
                    yield CellOutcome(cell, stored, computed=False)
                    continue
                try:
                    self._read_task(_Reading.of(cell))
                    pending.append(cell)
                except (Exception, SystemExit) as error:  # plugins may raise anything
                    yield from failed([cell], error)
            if pending:
                yield from self._compute_pending(pending)

    def _read_task(self, reading: _Reading) -> None:
        """Read a task's items and inputs, unless they have been read; its data must be those of the plan."""
        if reading in self._task_inputs:
            return
        registered = self.plugins.tasks[reading.task]
        store = self.folders.data
        task = registered.reading(reading.protocol, reading.of_target)
        items = task.load(store)
        checksums = task.identity_of(items, store)
        # Planning has stored the checksums of the registered task, not of another reading.
        if task is registered:
            _check_unchanged(task, dict(reading.data), checksums)
        if reading.limit:
            items = task.first(items, reading.limit)
        inputs = inputs_of(task, items)
        data = tuple(sorted(checksums.items()))
        self._task_inputs[reading] = _TaskInputs(task, items, inputs, data)

    def _compute_pending(self, cells: list[Cell]) -> Iterator[CellOutcome]:
        """Load the model of some cells once, encode each text once, and yield the outcome of each cell."""
        first = cells[0]
        self.reporter.stage("loading", str(first.spec))
        try:
            encoder, tuning_seconds = self.loader.load(
                first.model, first.pooling, first.precision, self.corpora
            )
            if isinstance(encoder, IdentifiedEncoder):
                encoder.store_beside(self.results)
        except (Exception, SystemExit) as error:
            # Models and plugins may raise anything; the run goes on.
            yield from failed(cells, error)
            return
        # The cells are encoded together, or task by task if that fails.
        parts = [cells]
        while parts:
            part = parts.pop(0)
            try:
                vectors, encoded = self._encode(encoder, part)
            except (Exception, SystemExit) as error:
                # Called first, since it raises an error if the process has lost its device.
                failures = failed(part, error)
                by_task = _by_task(part)
                if len(by_task) > 1 and not isinstance(error, StorageError):
                    # One task may need what the encoder lacks (vectors of some language): try each task by itself.
                    # Only the first part has several tasks, so no parts are left that this replaces.
                    parts = by_task
                else:
                    yield from failures
                continue
            yield from self._score_cells(part, encoder, vectors, encoded, tuning_seconds)

    def _score_cells(
        self,
        cells: list[Cell],
        encoder: Encoder,
        vectors: Mapping[Pooling | None, Vectors],
        encoded: Encoded,
        tuning_seconds: float,
    ) -> Iterator[CellOutcome]:
        """Score cells whose inputs have vectors, and store their results; a cell that fails does not stop the others.

        ``vectors``: those before the transformation, by pooling.
        """
        self.reporter.stage("scoring", str(cells[0].spec), len(cells), "cells")
        # Cells with the same readout and transformation share their vectors.
        transformed_vectors: dict[Any, Vectors] = {}
        for cell in cells:
            try:
                key = (cell.pooling, cell.model.posts)
                if key not in transformed_vectors:
                    transformed_vectors[key] = self._transformed(
                        encoder, cell, vectors[cell.pooling]
                    )
                result, scores = self._score(
                    cell, transformed_vectors[key], encoder, encoded, tuning_seconds
                )
            except (Exception, SystemExit) as error:
                yield from failed([cell], error)
            else:
                yield self._store(cell, result, scores)

    def _encode(
        self, encoder: Encoder, cells: list[Cell]
    ) -> tuple[dict[Pooling | None, Vectors], Encoded]:
        """Return the vectors of all inputs of the cells' tasks, by pooling; and the caches and cost of the encoding.

        Vectors that are not in the cache yet are encoded and stored. The tasks' inputs are kept as this encoder reads
        them, for the scoring.
        """
        for reading in _readings(cells):
            self._adapted_inputs[reading] = self._adapt(encoder, self._task_inputs[reading])
        inputs_by_pooling: dict[Pooling | None, dict[TextInput, None]] = {}
        for cell in cells:
            inputs = self._adapted_inputs[_Reading.of(cell)].inputs
            inputs_by_pooling.setdefault(cell.pooling, {}).update(dict.fromkeys(inputs))
        try:
            encoded = self.loader.embedder.encode_missing(
                encoder, inputs_by_pooling, cells[0].model, cells[0].precision
            )
        except UnreadableTextError as error:
            # Say in which task the text occurs.
            place = self._place_of_text(error.text, cells)
            if not place:
                raise
            raise error.at(place) from error
        device = str(self.compute_settings.device)
        vectors: dict[Pooling | None, Vectors] = {}
        for pooling, distinct_inputs in inputs_by_pooling.items():
            array = encoded.caches[pooling].get(list(distinct_inputs))
            vectors[pooling] = Vectors(distinct_inputs, array, device)
        return vectors, encoded

    def _place_of_text(self, text: str, cells: Sequence[Cell]) -> str:
        """Return the task and the item or document that has a text; empty if none has it."""
        for reading in _readings(cells):
            adapted = self._adapted_inputs[reading]
            place = adapted.task.place(adapted.items, text)
            if place:
                return f"{reading.task}, {place}"
        return ""

    def _transformed(self, encoder: Encoder, cell: Cell, vectors: Vectors) -> Vectors:
        """Return the vectors of a cell's pooling after the model's transformation, if there is one."""
        if not cell.model.posts:
            return vectors
        transformations = self.loader.embedder.fitted_posts(
            encoder, cell.model, cell.pooling, cell.precision, self.corpora
        )
        array = transform(vectors.array, vectors.inputs, transformations)
        return Vectors(vectors.inputs, array, vectors.device)

    def _adapt(self, encoder: Encoder, task_inputs: _TaskInputs) -> _TaskInputs:
        """Return a task's items and inputs for an encoder: as pairs, or with its vocabulary if the task uses that."""
        task = task_inputs.task
        if reads_pairs(encoder):
            items = task.as_pairs(task_inputs.items)
        elif isinstance(encoder, VocabularyEncoder):
            items = task.with_vocabulary(task_inputs.items, encoder.vocabulary)
            if items is task_inputs.items:
                return task_inputs
        else:
            return task_inputs
        return replace(task_inputs, items=items, inputs=task.inputs(items))

    def _tuning_description(self, cell: Cell) -> dict[str, Any]:
        """Return the description that is stored with a tuned model; empty for an untuned one."""
        cache = self.folders.cache
        key = cell.model.key
        if cell.model.recipe is None or not cache.model(key):
            return {}
        return cache.describe_model(key)

    def _cost(
        self, cell: Cell, encoder: Encoder, encoded: Encoded, tuning: dict[str, Any]
    ) -> dict[str, Any]:
        """Return the ``cost`` of a result: that of the encoding, and that of the tuning.

        ``tuning``: the description stored with a tuned model; empty for an untuned one.
        """
        costs: dict[str, Any] = {}
        # Backbones count tokens, too; other encoders only texts and seconds.
        encoder_cost = getattr(encoder, "cost", None)
        if isinstance(encoder_cost, Cost) and encoder_cost.texts:
            encoding = encoder_cost.to_json()
        else:
            encoding = encoded.to_json()
        if encoding:
            costs["encoding"] = encoding
        models = cell.model.with_members()
        if any(model.key in self.loader.from_cache for model in models):
            costs["tuning"] = {**tuning.get("cost", {}), "from_cache": True}
        elif tuning:
            costs["tuning"] = tuning.get("cost", {})
        return costs

    def _store(self, cell: Cell, result: Result, scores: Scores) -> CellOutcome:
        """Store a result and its predictions; return the outcome, a failure if they cannot be stored."""
        try:
            predictions = predictions_of(scores)
            stored = self.results.write(cell, result, predictions, scores.submission)
            return CellOutcome(cell, stored, predictions=predictions)
        except Exception as error:
            return failed([cell], error)[0]

    def _score(
        self,
        cell: Cell,
        vectors: Vectors,
        encoder: Encoder,
        encoded: Encoded,
        tuning_seconds: float,
    ) -> tuple[Result, Scores]:
        """Score the vectors of a cell; return its result, and the scores of its items."""
        adapted = self._adapted_inputs[_Reading.of(cell)]
        task = adapted.task
        # Score, and keep the time.
        started = time.perf_counter()
        scores = score_task(task, adapted.items, vectors, cell.protocol, self.plugins.metrics)
        scoring_seconds = time.perf_counter() - started
        seconds = {
            "train": round(tuning_seconds, 4),
            "encode": round(encoded.seconds, 4),
            "score": round(scoring_seconds, 4),
        }
        overlap = self._contamination(cell, adapted)
        scores = self._with_item_arrays(scores, adapted, overlap)
        # Record the checksums of the files as they were read, not as they were planned.
        cell = replace(cell, data=adapted.data)
        data: dict[str, Any] = {"version": task.version, "files": dict(cell.data)}
        if cell.limit:
            data["limit"] = cell.limit
        overlap_counts = overlap.to_json() if overlap else None
        tuning = self._tuning_description(cell)
        counts = InputCounts.of(encoder, cell, task, adapted.items, adapted.inputs)
        remarks = list(task.remarks(adapted.items))
        notes = [*remarks, *scores.notes]
        notes += encoder_notes(encoder, cell, task, counts, tuning)
        details = encoder_details(encoder, cell, vectors, counts)
        cost = self._cost(cell, encoder, encoded, tuning)
        created = datetime.now(UTC).isoformat(timespec="seconds")
        result = Result(
            cell=cell.to_json(),
            cell_id=cell.id,
            metrics=scores.metrics,
            main_metric=task.main_metric,
            main_score=scores.metrics[task.main_metric],
            n_items=len(scores.ids),
            coverage=scores.coverage,
            seconds=seconds,
            data=data,
            encoder=details,
            environment=self._environment,
            created=created,
            remarks=remarks,
            notes=notes,
            cost=cost,
            overlap=overlap_counts,
            held_out=tuning.get("held_out"),
        )
        return result, scores

    @cached_property
    def _environment(self) -> dict[str, Any]:
        """Versions and device, the same for all results."""
        with cpu_threads(self.compute_settings.threads):
            return describe_environment(self.compute_settings.device)

    def _with_item_arrays(
        self, scores: Scores, adapted: _TaskInputs, overlap: Contamination | None
    ) -> Scores:
        """Return scores with the arrays that comparisons need: overlap, shared parts and contents of items."""
        extra = dict(scores.extra)
        if overlap:
            extra["overlap"] = overlap.flags(scores.ids)
        shared = adapted.shared_codes(scores.ids)
        if shared is not None:
            extra["shared"] = shared
        # Digests of private texts are salted with a secret of the folder of results, so that they can be compared only
        # within that folder.
        salt = self.results.salt if adapted.task.private else ""
        digests = adapted.content_digests(scores.ids, salt)
        if digests is not None:
            extra["content"] = digests
        return replace(scores, extra=extra)

    def _contamination(self, cell: Cell, adapted: _TaskInputs) -> Contamination | None:
        """Return the items whose texts occur in the encoder's corpora; ``None`` if it has no corpus."""
        strings: list[str] = []
        for corpus in cell.model.corpora:
            strings += self.corpora[corpus].texts
        if not strings:
            return None
        return find_contamination(adapted.task.texts(adapted.items), strings)


def _readings(cells: Iterable[Cell]) -> list[_Reading]:
    """Return the readings of the tasks of some cells, each once."""
    return list(dict.fromkeys(_Reading.of(cell) for cell in cells))


def _by_task(cells: Iterable[Cell]) -> list[list[Cell]]:
    """Return the cells of each task, in the order of the tasks' first cells."""
    groups: dict[str, list[Cell]] = {}
    for cell in cells:
        groups.setdefault(cell.task, []).append(cell)
    return list(groups.values())


def _check_unchanged(task: Task, planned: Mapping[str, str], current: Mapping[str, str]) -> None:
    """Raise a ``DataFormatError`` if the data of a task have changed since it was planned."""
    changed = []
    for name, checksum in current.items():
        if planned.get(name, checksum) != checksum:
            changed.append(name)
    if changed:
        raise changed_while_read(f"{task.title} ({', '.join(changed)})")
