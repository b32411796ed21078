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

import msgspec

from mirrorbench.core.devices import cpu_threads
from mirrorbench.core.encoder_protocol import Encoder, TextInput, VocabularyEncoder, reads_pairs
from mirrorbench.core.errors import StorageError, UnreadableTextError, changed_while_read
from mirrorbench.core.identity import DESCRIPTION
from mirrorbench.core.plugins import Plugins
from mirrorbench.core.truncation import Truncation, truncation_of
from mirrorbench.core.unknown_words import UnknownWords, unknown_words_of
from mirrorbench.data.corpora import (
    Contamination,
    Corpus,
    content_digests,
    find_contamination,
    shared_codes,
)
from mirrorbench.models.backbones import foreign_languages
from mirrorbench.models.pooling import Pooling, PoolingEncoder
from mirrorbench.models.transformations import transform
from mirrorbench.models.transformer_encoder import Cost
from mirrorbench.runs.cells import Cell, CellGroup, CorpusRef
from mirrorbench.runs.compute import Compute
from mirrorbench.runs.embedding import Encoded
from mirrorbench.runs.encoder_loading import EncoderLoader, opening_notes
from mirrorbench.runs.environment import describe_environment
from mirrorbench.runs.folders import Folders
from mirrorbench.runs.opened_systems import OpenedSystems
from mirrorbench.runs.outcomes import CellOutcome, Reporter, failed, predictions_of
from mirrorbench.storage.leases import POLL_SECONDS
from mirrorbench.storage.results import ZERO_VECTORS, Result
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
        self._environment: dict[str, Any] = {}

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
        adapted = self._adapted[_Reading.of(cell)]
        task, started = adapted.task, time.perf_counter()
        scores = score_task(task, adapted.items, vectors, cell.protocol, self.plugins.metrics)
        seconds = {
            "train": tuned,
            "encode": encoded.seconds,
            "score": time.perf_counter() - started,
        }
        overlap = self._contamination(cell, adapted)
        if overlap:
            scores = replace(scores, extra={**scores.extra, "overlap": overlap.flags(scores.ids)})
        codes = adapted.shared_codes(scores.ids)
        if codes is not None:
            scores = replace(scores, extra={**scores.extra, "shared": codes})
        contents = adapted.content_digests(scores.ids, self.results.salt if task.private else "")
        if contents is not None:
            scores = replace(scores, extra={**scores.extra, "content": contents})
        distinct = list(dict.fromkeys(adapted.inputs))
        lost: dict[str, int] = {}
        if cell.pooling is not None and cell.pooling.of_target:
            assert isinstance(
                encoder, PoolingEncoder
            )  # counted here, since vectors may come from the cache
            lost = encoder.lost_targets(distinct, cell.pooling)._asdict()
        truncation = None if lost else truncation_of(encoder, distinct, cell.pooling)
        counted: dict[str, Mapping[str, Any]] = {}
        if truncation and truncation.cut:
            counted["truncation"] = truncation.to_json()
        unknown = unknown_words_of(encoder, distinct, task.texts(adapted.items))
        if unknown and unknown.items:
            counted["unknown_words"] = unknown.to_json()
        remarks = list(task.remarks(adapted.items))
        cell, tuning = replace(cell, data=adapted.data), self._tuning(cell)
        with cpu_threads(self.compute_settings.threads):
            self._environment = self._environment or describe_environment(
                self.compute_settings.device
            )
        result = Result(
            cell=cell.to_json(),
            cell_id=cell.id,
            metrics=scores.metrics,
            main_metric=task.main_metric,
            main_score=scores.metrics[task.main_metric],
            n_items=len(scores.ids),
            coverage=scores.coverage,
            seconds={name: round(value, 4) for name, value in seconds.items()},
            data={"version": task.version, "files": dict(cell.data)}
            | ({"limit": cell.limit} if cell.limit else {}),
            encoder=_description(encoder, cell.pooling, vectors.array.shape[1])
            | ({ZERO_VECTORS: True} if _are_zero(encoder, vectors) else {})
            | {
                "weights": cell.model.weights,
                "revision": cell.spec.revision,
                "texts": len(distinct),
            }
            | lost
            | counted
            | _of_directory(cell),
            environment=self._environment,
            created=datetime.now(UTC).isoformat(timespec="seconds"),
            remarks=remarks,
            notes=[
                *remarks,
                *scores.notes,
                *_notes(cell, task.languages, **lost),
                *_truncation_notes(cell, truncation),
                *_unknown_words_notes(cell, task, unknown),
                *(f"{_name(cell)}: {note}" for note in getattr(encoder, "notes", ())),
                *_progress(cell, tuning),
            ],
            cost=self._cost(cell, encoder, encoded, tuning),
            overlap=overlap.to_json() if overlap else None,
            held_out=tuning.get("held_out"),
        )
        return result, scores

    def _contamination(self, cell: Cell, adapted: _TaskInputs) -> Contamination | None:
        """Items with texts of the corpora of the encoder; ``None`` if it has no corpus."""
        strings = [text for corpus in cell.model.corpora for text in self.corpora[corpus].texts]
        return find_contamination(adapted.task.texts(adapted.items), strings) if strings else None


def _are_zero(encoder: Encoder, vectors: Vectors) -> bool:
    """Whether an encoder has found nothing in any text."""
    array = vectors.array
    return len(array) > 0 and not array.any() and not reads_pairs(encoder)


def _of_directory(cell: Cell) -> dict[str, bool]:
    """Whether the encoder is a directory that ``mirrorbench tune`` wrote."""
    path = cell.model.path
    if path is None or not (path / DESCRIPTION).is_file():
        return {}
    return {"tuned_directory": True}


def _check_unchanged(task: Task, planned: Mapping[str, str], now: Mapping[str, str]) -> None:
    """Raise a ``DataFormatError`` if the data of a task are others than when it was planned."""
    changed = [name for name, checksum in now.items() if planned.get(name, checksum) != checksum]
    if changed:
        raise changed_while_read(f"{task.title} ({', '.join(changed)})")


def _name(cell: Cell) -> str:
    """What the user calls the encoder, else the spec of its model."""
    return cell.name or str(cell.model.spec)


def _truncation_notes(cell: Cell, truncation: Truncation | None) -> Iterator[str]:
    """Note the texts that were cut, where no target decides which tokens are read."""
    if truncation is not None and truncation.cut:
        yield f"{_name(cell)}: {truncation.sentence}"


def _unknown_words_notes(cell: Cell, task: Task, unknown: UnknownWords | None) -> Iterator[str]:
    """Note the items with words for which the encoder has no vector."""
    if unknown is not None and unknown.items:
        yield f"{_name(cell)}: {unknown.sentence(getattr(task, 'items_name', 'items'))}"


def _notes(
    cell: Cell,
    languages: Sequence[str],
    texts_cut: int = 0,
    targets_cut: int = 0,
    targets_missing: int = 0,
) -> Iterator[str]:
    """Notes on the encoder for readers of a result: missing languages, and texts or targets that were cut."""
    name = _name(cell)
    tokens = cell.pooling.max_length if cell.pooling else 0
    if foreign := foreign_languages(cell.model.spec, languages):
        yield f"{name} has no model of {', '.join(foreign)}, and reads it with its English one"
    reads_once = (
        cell.pooling is not None and cell.pooling.of_target and not cell.pooling.is_repeated
    )
    yield from opening_notes(cell.model, cell.pooling)
    if cell.model.traits.pads:
        yield f"the vectors of {name} depend on padding: only texts of equal length were encoded in one batch"
    if reads_once and not cell.model.attention and cell.model.traits.causal:
        yield (
            f"{name} reads a target without the words that follow it; prompt=echo and attention=bidirectional read "
            "them too"
        )
    if texts_cut:
        lost = cell.pooling is not None and cell.pooling.marked
        what = "targets that a cut at the end would lose" if lost else "the target of longer texts"
        yield f"{name} reads a window of {tokens} tokens around {what} ({texts_cut})"
    if targets_cut:
        yield f"{name} reads {targets_cut} targets in part, being longer than {tokens} tokens"
    if targets_missing:
        yield f"{name} has no token for {targets_missing} targets and reads their whole text"


def _progress(cell: Cell, tuning: dict[str, Any]) -> Iterator[str]:
    """Return the verdict on a tuning with ``stop=auto``: the step that was kept, and whether it helped."""
    if cell.model.recipe and cell.model.recipe.stop == "auto" and tuning.get("held_out"):
        from mirrorbench.training.trajectory import Trajectory

        trajectory = msgspec.convert(tuning["held_out"], Trajectory)
        yield f"{cell.spec}, seed {cell.seed}: {trajectory.verdict}"


def _description(encoder: Encoder, pooling: Pooling | None, dimensions: int) -> dict[str, Any]:
    """Return the keys of a result's ``encoder`` that are the same for all tasks."""
    description: dict[str, Any] = {"fingerprint": encoder.fingerprint, "dimensions": dimensions}
    if reads_pairs(encoder):
        description["scores"] = "pairs"
    if pooling:
        description |= pooling.to_json()
    transformer = getattr(encoder, "transformer", None)
    if transformer is not None:
        description["parameters"] = transformer.n_parameters
    return description
