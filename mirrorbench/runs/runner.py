"""The runner: load or tune, encode, score, store, for each group of cells that share their model.

A failing cell does not stop the others. Stored results are not computed again; tuned models and vectors come from the
cache.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property
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
from mirrorbench.runs.result_details import InputCounts, encoder_details, encoder_notes
from mirrorbench.storage.leases import POLL_SECONDS
from mirrorbench.storage.results import Result
from mirrorbench.tasks.base import Scores, Task, Vectors, inputs_of, score_task

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class _Reading(NamedTuple):
    """The settings that determine the items and inputs of a task."""

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


@dataclass
class _TaskInputs:
    """A task, its items, the inputs to encode, and the checksums of its files."""

    task: Task
    items: Any
    inputs: list[TextInput]
    data: tuple[tuple[str, str], ...]
    _shared: tuple[Sequence[str], NDArray[np.int32] | None] = field(default=((), None), init=False)
    """Ids of items, and what they share: the same for all encoders, and seconds of work for a million."""
    _contents: tuple[Sequence[str], NDArray[np.uint64] | None] = field(
        default=((), None), init=False
    )
    """Ids of items, and numbers of their contents, likewise."""

    def shared_codes(self, ids: Sequence[str]) -> NDArray[np.int32] | None:
        """Return the numbers of what items share; ``None`` for a task that names nothing."""
        if self._shared[0] != ids:
            shared = self.task.shared(self.items)
            self._shared = ids, shared_codes(shared, ids) if shared else None
        return self._shared[1]

    def content_digests(self, ids: Sequence[str], salt: str) -> NDArray[np.uint64] | None:
        """Return numbers of the contents of items; ``None`` for a task that names none."""
        if self._contents[0] != ids:
            contents = self.task.contents(self.items)
            known = all(contents.get(item) for item in ids)
            self._contents = ids, content_digests(contents, ids, salt) if known else None
        return self._contents[1]


class Runner:
    """Computes cells in this process.

    Args:
        plugins: with tasks, metrics, and all that encoders are made of.
        folders: results, data and cache.
        compute: the device.
        reporter: receives progress and notes.
        corpora: the strings that cells are tuned on.
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
        self._read: dict[_Reading, _TaskInputs] = {}
        # The same, adapted to an encoder with a vocabulary of its own.
        self._adapted: dict[_Reading, _TaskInputs] = {}

    @cached_property
    def loader(self) -> EncoderLoader:
        """Loads encoders onto the device."""
        return EncoderLoader(
            self.plugins, self.folders, self.compute_settings, self.reporter, self.systems
        )

    def compute(self, groups: Sequence[CellGroup]) -> Iterator[CellOutcome]:
        """Compute groups of cells; a group that another process has leased is tried again after the others."""
        waiting, passed_over, noted = deque(groups), 0, False
        readings = dict.fromkeys(_Reading.of(cell) for cells in groups for cell in cells)
        self.reporter.stage("loading", "data", len(readings), "tasks")
        for reading in readings:
            with suppress(Exception, SystemExit):  # its cells fail with it in their turn
                self._read_task(reading)
            self.reporter.advance(1)
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
                if not noted:
                    holder = self.results.leases.holder(cells[0].model.key) or "another process"
                    self.reporter.note(
                        f"{cells[0].spec}: {holder} is at work on it; waiting for its results"
                    )
                noted, passed_over = True, 0
                time.sleep(POLL_SECONDS)

    def attempt(self, cells: CellGroup) -> Iterator[CellOutcome] | None:
        """Compute one group, or return ``None`` if another process has its lease."""
        try:
            lease = self.results.leases.take(cells[0].model.key)
        except StorageError as error:
            return iter(failed(cells, error))
        return None if lease is None else self._leased(lease, cells)

    def _leased(
        self, lease: AbstractContextManager[Any], cells: CellGroup
    ) -> Iterator[CellOutcome]:
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
            registered, data = self.plugins.tasks[reading.task], self.folders.data
            task = registered.reading(reading.protocol, reading.of_target)
            items = task.load(data)
            checksums = task.identity_of(items, data)
            if task is registered:  # which was identified at planning
                _check_unchanged(task, dict(reading.data), checksums)
            if reading.limit:
                items = task.first(items, reading.limit)
            inputs = inputs_of(task, items)
            self._read[reading] = _TaskInputs(task, items, inputs, tuple(sorted(checksums.items())))

    def _group(self, cells: list[Cell]) -> Iterator[CellOutcome]:
        """Load the model of some cells once, encode each text once, and score the cells."""
        first = cells[0]
        self.reporter.stage("loading", str(first.spec))
        try:
            loaded = self.loader.load(first.model, first.pooling, first.precision, self.corpora)
        except (
            Exception,
            SystemExit,
        ) as error:  # models and plugins may raise anything; the run goes on
            yield from failed(cells, error)
        else:
            yield from self._scored(cells, *loaded)

    def _scored(self, cells: list[Cell], encoder: Encoder, tuning: float) -> Iterator[CellOutcome]:
        """Encode and score the cells of an encoder; ``tuning``: its seconds."""
        parts = [cells]
        while parts:
            part = parts.pop(0)
            try:
                vectors, encoded = self._encode(encoder, part)
            except (Exception, SystemExit) as error:  # as above
                failures, names = failed(part, error), dict.fromkeys(cell.task for cell in part)
                if len(names) > 1 and not isinstance(error, StorageError):
                    # One by one: a task may need what the encoder lacks (vectors of some language).
                    parts = [[cell for cell in part if cell.task == name] for name in names]
                else:
                    yield from failures
                continue
            self.reporter.stage("scoring", str(part[0].spec), len(part), "cells")
            after: dict[Any, Vectors] = {}
            for cell in part:
                try:
                    own = after.get(key := (cell.pooling, cell.model.posts))
                    if own is None:
                        own = after[key] = self._transformed(encoder, cell, vectors[cell.pooling])
                    result, scores = self._score(cell, own, encoder, encoded, tuning)
                except (Exception, SystemExit) as error:
                    yield from failed([cell], error)
                else:
                    yield self._store(cell, result, scores)

    def _encode(
        self, encoder: Encoder, cells: list[Cell]
    ) -> tuple[dict[Pooling | None, Vectors], Encoded]:
        """Vectors of all inputs of the cells' tasks, by pooling, and what was encoded for them."""
        wanted: dict[Pooling | None, dict[TextInput, None]] = {}
        for reading in dict.fromkeys(map(_Reading.of, cells)):
            self._adapted[reading] = self._adapt(encoder, self._read[reading])
        for cell in cells:
            wanted.setdefault(cell.pooling, {}).update(
                dict.fromkeys(self._adapted[_Reading.of(cell)].inputs)
            )
        try:
            encoded = self.loader.embedder.encode_missing(
                encoder, wanted, cells[0].model, cells[0].precision
            )
        except UnreadableTextError as error:
            place = self._place(error.text, cells)
            if not place:
                raise
            raise error.at(place) from error
        device = str(self.compute_settings.device)
        return {
            pooling: Vectors(inputs, encoded.vectors[pooling].get(list(inputs)), device)
            for pooling, inputs in wanted.items()
        }, encoded

    def _place(self, text: str, cells: Sequence[Cell]) -> str:
        """Return the task and the item or document that has a text; empty for none."""
        for reading in dict.fromkeys(map(_Reading.of, cells)):
            read = self._adapted[reading]
            if place := read.task.place(read.items, text):
                return f"{reading.task}, {place}"
        return ""

    def _transformed(self, encoder: Encoder, cell: Cell, vectors: Vectors) -> Vectors:
        """Return the vectors of a cell's pooling after its transformation; as they are without one."""
        if not cell.model.posts:
            return vectors
        affines = self.loader.embedder.fitted_posts(
            encoder, cell.model, cell.pooling, cell.precision, self.corpora
        )
        return Vectors(
            vectors.inputs, transform(vectors.array, vectors.inputs, affines), vectors.device
        )

    def _adapt(self, encoder: Encoder, read: _TaskInputs) -> _TaskInputs:
        """Return a task's items and inputs for an encoder: in pairs, or with the encoder's own vocabulary if the task uses it."""
        if reads_pairs(encoder):
            items = read.task.as_pairs(read.items)
            return replace(read, items=items, inputs=read.task.inputs(items))
        if isinstance(encoder, VocabularyEncoder):
            items = read.task.with_vocabulary(read.items, encoder.vocabulary)
            if items is not read.items:
                return replace(read, items=items, inputs=read.task.inputs(items))
        return read

    def _tuning(self, cell: Cell) -> dict[str, Any]:
        """Return the description that is stored with a tuned model."""
        cache, key = self.folders.cache, cell.model.key
        return (
            cache.describe_model(key) if cell.model.recipe is not None and cache.model(key) else {}
        )

    def _cost(
        self, cell: Cell, encoder: Encoder, encoded: Encoded, tuning: dict[str, Any]
    ) -> dict[str, Any]:
        """Return the ``cost`` of a result, from what was encoded and the description of its tuning."""
        cost, kept = getattr(encoder, "cost", None), self.loader.from_cache
        # Only our own encoders count tokens too.
        counts = cost if isinstance(cost, Cost) and cost.texts else encoded
        spent = {"encoding": counts.to_json()} if counts.to_json() else {}
        if any(model.key in kept for model in cell.model.with_members()):
            return spent | {"tuning": {**tuning.get("cost", {}), "from_cache": True}}
        return spent | ({"tuning": tuning.get("cost", {})} if tuning else {})

    def _store(self, cell: Cell, result: Result, scores: Scores) -> CellOutcome:
        try:
            predictions = predictions_of(scores)
            stored = self.results.write(cell, result, predictions, scores.submission)
            return CellOutcome(cell, stored, predictions=predictions)
        except Exception as error:
            return failed([cell], error)[0]

    def _score(
        self, cell: Cell, vectors: Vectors, encoder: Encoder, encoded: Encoded, tuned: float
    ) -> tuple[Result, Scores]:
        """Score the vectors of a cell; return its result, and the scores of its items. ``tuned``: seconds of the tuning."""
        adapted = self._adapted[_Reading.of(cell)]
        task = adapted.task
        started = time.perf_counter()
        scores = score_task(task, adapted.items, vectors, cell.protocol, self.plugins.metrics)
        seconds = {
            "train": tuned,
            "encode": encoded.seconds,
            "score": time.perf_counter() - started,
        }
        overlap = self._contamination(cell, adapted)
        scores = self._with_item_arrays(scores, adapted, overlap)
        # The checksums of the files as they were read.
        cell = replace(cell, data=adapted.data)
        tuning = self._tuning(cell)
        counts = InputCounts.of(encoder, cell, task, adapted.items, adapted.inputs)
        remarks = list(task.remarks(adapted.items))
        notes = [
            *remarks,
            *scores.notes,
            *encoder_notes(encoder, cell, task, counts, tuning),
        ]
        data: dict[str, Any] = {"version": task.version, "files": dict(cell.data)}
        if cell.limit:
            data["limit"] = cell.limit
        result = Result(
            cell=cell.to_json(),
            cell_id=cell.id,
            metrics=scores.metrics,
            main_metric=task.main_metric,
            main_score=scores.metrics[task.main_metric],
            n_items=len(scores.ids),
            coverage=scores.coverage,
            seconds={name: round(value, 4) for name, value in seconds.items()},
            data=data,
            encoder=encoder_details(encoder, cell, vectors, counts),
            environment=self._environment,
            created=datetime.now(UTC).isoformat(timespec="seconds"),
            remarks=remarks,
            notes=notes,
            cost=self._cost(cell, encoder, encoded, tuning),
            overlap=overlap.to_json() if overlap else None,
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
        """Return scores with what comparisons need to know of items: overlap, what they share, their contents."""
        extra = dict(scores.extra)
        if overlap:
            extra["overlap"] = overlap.flags(scores.ids)
        shared = adapted.shared_codes(scores.ids)
        if shared is not None:
            extra["shared"] = shared
        # With a secret of the folder, numbers of private texts can be compared in it alone.
        salt = self.results.salt if adapted.task.private else ""
        contents = adapted.content_digests(scores.ids, salt)
        if contents is not None:
            extra["content"] = contents
        return replace(scores, extra=extra)

    def _contamination(self, cell: Cell, adapted: _TaskInputs) -> Contamination | None:
        """Items with texts of the corpora of the encoder; ``None`` if it has no corpus."""
        strings = [text for corpus in cell.model.corpora for text in self.corpora[corpus].texts]
        return find_contamination(adapted.task.texts(adapted.items), strings) if strings else None


def _check_unchanged(task: Task, planned: Mapping[str, str], now: Mapping[str, str]) -> None:
    """Raise a ``DataFormatError`` if the data of a task are others than when it was planned."""
    changed = [name for name, checksum in now.items() if planned.get(name, checksum) != checksum]
    if changed:
        raise changed_while_read(f"{task.title} ({', '.join(changed)})")
