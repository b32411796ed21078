"""The runner: train -> encode -> score -> store, for each group of cells that share their weights.

One failing cell stops no other. What is stored is never computed again; what was tuned or encoded before is found in
the cache.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from mirrorbench import environment
from mirrorbench.cache import Cache, EmbeddingShelf
from mirrorbench.cells import Cell, Failure
from mirrorbench.data.store import DataStore
from mirrorbench.encoding.inputs import Encoder, ReadoutEncoder, TextInput, checked
from mirrorbench.encoding.readout import Readout
from mirrorbench.identity import COMPUTATION, digest
from mirrorbench.opening import Opener
from mirrorbench.plan import Plan
from mirrorbench.plugins import Plugins
from mirrorbench.progress import Reporter, Silent
from mirrorbench.store import Result, ResultStore
from mirrorbench.tasks import Scores, Vectors

if TYPE_CHECKING:
    import torch

CHUNK = 8192
"""Texts encoded between two writes to the cache: what a killed run has to encode again at most."""


@dataclass(frozen=True)
class Outcome:
    """What a run left: results in the order of the plan, and what failed.

    Attributes:
        results: one for each cell that is done, computed now or before.
        failures: the others.
        computed: how many cells were computed now.
    """

    results: tuple[Result, ...]
    failures: tuple[Failure, ...]
    computed: int


@dataclass(frozen=True)
class _Encoded:
    """Vectors of one readout, with what the results say about them."""

    vectors: Vectors
    seconds: float
    description: dict[str, Any]


class Runner:
    """Runs plans.

    Args:
        plugins: what is registered.
        data: where data files are.
        results: where results go.
        cache: tuned models and embeddings.
        device: where to compute.
        offline: open no socket.
        reporter: whom to tell.
    """

    def __init__(
        self,
        plugins: Plugins,
        data: DataStore,
        results: ResultStore,
        cache: Cache,
        device: torch.device,
        offline: bool = False,
        reporter: Reporter | None = None,
    ) -> None:
        self.plugins = plugins
        self.data = data
        self.results = results
        self.cache = cache
        self.device = device
        self.reporter: Reporter = reporter or Silent()
        self.opener = Opener(plugins, cache, device, offline, self.reporter)
        self._items: dict[str, Any] = {}
        self._inputs: dict[str, list[TextInput]] = {}
        self._environment: dict[str, Any] = {}

    def run(self, plan: Plan) -> Outcome:
        """Compute what is not stored yet."""
        done: dict[Cell, Result] = {}  # not by id: two specs may mean the same, and each has a row of its own
        failures = list(plan.failures)
        for failure in failures:
            self.reporter.failure(failure)
        computed = 0
        for cells in plan.groups.values():
            pending = []
            for cell in cells:
                stored = self.results.find(cell)
                if stored:
                    done[cell] = stored
                    self.reporter.cell(cell, stored.main_score, cached=True)
                else:
                    pending.append(cell)
            for cell, outcome in self._group(pending, plan) if pending else []:
                if isinstance(outcome, Result):
                    done[cell] = outcome
                    computed += 1
                    self.reporter.cell(cell, outcome.main_score, cached=False)
                else:
                    failures.append(outcome)
                    self.reporter.failure(outcome)
        results = tuple(done[cell] for cell in plan.cells if cell in done)
        return Outcome(results, tuple(failures), computed)

    def _group(self, cells: list[Cell], plan: Plan) -> Iterator[tuple[Cell, Result | Failure]]:
        """The cells of one set of weights: one load, one training, each text encoded once."""
        loadable, failed = self._load_tasks(cells)
        yield from failed
        if not loadable:
            return
        first = loadable[0]
        try:
            encoder, train_seconds = self.opener.open(first.weights, first.readout, first.precision, plan.corpora)
            encoded = self._encode(encoder, loadable)
        except Exception as error:  # whatever a model or plugin raises is these cells' failure, not the run's
            yield from ((cell, Failure.of(error, cell.spec, cell.task, cell.seed)) for cell in loadable)
            return
        for cell in loadable:
            outcome: Result | Failure
            try:
                outcome = self._score(cell, encoded[cell.readout], encoder, train_seconds)
            except Exception as error:
                outcome = Failure.of(error, cell.spec, cell.task, cell.seed)
            yield cell, outcome

    def _load_tasks(self, cells: list[Cell]) -> tuple[list[Cell], list[tuple[Cell, Result | Failure]]]:
        loadable: list[Cell] = []
        failed: list[tuple[Cell, Result | Failure]] = []
        for cell in cells:
            try:
                if cell.task not in self._inputs:
                    task = self.plugins.tasks[cell.task]
                    self._items[cell.task] = task.load(self.data)
                    self._inputs[cell.task] = task.inputs(self._items[cell.task])
                loadable.append(cell)
            except Exception as error:
                failed.append((cell, Failure.of(error, cell.spec, cell.task, cell.seed)))
        return loadable, failed

    def _encode(self, encoder: Encoder, cells: Sequence[Cell]) -> dict[Readout | None, _Encoded]:
        """Vectors of everything that the cells' tasks want, by readout."""
        wanted: dict[tuple[Readout | None, ...], dict[TextInput, None]] = {}
        inputs: dict[Readout | None, dict[TextInput, None]] = {}
        for name in dict.fromkeys(cell.task for cell in cells):
            readouts = tuple(dict.fromkeys(cell.readout for cell in cells if cell.task == name))
            for bag in (wanted.setdefault(readouts, {}), *(inputs.setdefault(r, {}) for r in readouts)):
                bag.update(dict.fromkeys(self._inputs[name]))
        shelves = {r: self.cache.embeddings(_shelf_key(encoder, r, cells[0].precision)) for r in inputs}
        started = time.perf_counter()
        texts_encoded = 0
        for readouts, bag in wanted.items():  # texts that are read alike share their passes
            own = {r: shelves[r] for r in readouts}
            missing = list(dict.fromkeys(item for shelf in own.values() for item in shelf.missing(list(bag))))
            if missing:
                self.reporter.stage(f"encode {cells[0].weights.spec}", len(missing), "texts")
                self._fill(encoder, missing, own, f"the encoder {cells[0].weights.spec}")
                texts_encoded += len(missing)
        seconds = time.perf_counter() - started
        encoded = {}
        for readout, shelf in shelves.items():
            array = shelf.get(list(inputs[readout]))
            description = _describe(encoder, readout, array.shape[1])
            description["texts"], description["texts_encoded"] = len(inputs[readout]), texts_encoded
            encoded[readout] = _Encoded(Vectors(inputs[readout], array), seconds, description)
        return encoded

    def _fill(
        self, encoder: Encoder, missing: list[TextInput], shelves: dict[Readout | None, EmbeddingShelf], who: str
    ) -> None:
        for start in range(0, len(missing), CHUNK):
            chunk = missing[start : start + CHUNK]
            wanted = [r for r in shelves if r is not None]
            if wanted:
                assert isinstance(encoder, ReadoutEncoder)  # only backbones have readouts
                arrays = dict(zip(wanted, encoder.encode_readouts(chunk, wanted, self.reporter.advance), strict=True))
                for readout, array in arrays.items():
                    shelves[readout].put(chunk, array)
            else:
                shelves[None].put(chunk, checked(encoder.encode(chunk), len(chunk), who))
                self.reporter.advance(len(chunk))

    def _score(self, cell: Cell, encoded: _Encoded, encoder: Encoder, train_seconds: float) -> Result:
        task = self.plugins.tasks[cell.task]
        started = time.perf_counter()
        scores: Scores = task.score(self._items[cell.task], encoded.vectors, cell.protocol)
        seconds = {"train": train_seconds, "encode": encoded.seconds, "score": time.perf_counter() - started}
        lost = self._lost_targets(cell, encoder)
        # What a file is may only be certain once it was read (files without a published checksum).
        cell = replace(cell, data=tuple(sorted(task.identity(self.data).items())))
        self._environment = self._environment or environment.describe(self.device)
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
            encoder=encoded.description | {"weights": cell.weights.fingerprint, "revision": cell.spec.revision} | lost,
            environment=self._environment,
            created=datetime.now(UTC).isoformat(timespec="seconds"),
            notes=[*scores.notes, *_target_notes(cell, lost)],
        )
        self.results.write(cell, result, scores)
        return result

    def _lost_targets(self, cell: Cell, encoder: Encoder) -> dict[str, int]:
        """How many targets were read in part and not at all; counted anew, since vectors may come from the cache."""
        if cell.readout is None or cell.readout.pooling != "target":
            return {}
        assert isinstance(encoder, ReadoutEncoder)  # only backbones have readouts
        cut, missing = encoder.lost_targets(list(dict.fromkeys(self._inputs[cell.task])), cell.readout)
        return {"targets_cut": cut, "targets_missing": missing}


def _target_notes(cell: Cell, lost: dict[str, int]) -> list[str]:
    notes = []
    if lost.get("targets_cut") and cell.readout:
        tokens = cell.readout.max_length
        notes.append(f"{cell.spec} reads {lost['targets_cut']} targets in part, being longer than {tokens} tokens")
    if lost.get("targets_missing"):
        notes.append(f"{cell.spec} has no token for {lost['targets_missing']} targets and reads their whole text")
    return notes


def _shelf_key(encoder: Encoder, readout: Readout | None, precision: str) -> str:
    where = [readout.pooling, readout.layers, readout.max_length] if readout else None
    return digest(
        {"encoder": encoder.fingerprint, "readout": where, "precision": precision, "computation": COMPUTATION}
    )


def _describe(encoder: Encoder, readout: Readout | None, dimensions: int) -> dict[str, Any]:
    description: dict[str, Any] = {"fingerprint": encoder.fingerprint, "dimensions": dimensions}
    if readout:
        description |= {
            "pooling": readout.pooling,
            "layers": readout.layers,
            "max_length": readout.max_length,
        }
    transformer = getattr(encoder, "transformer", None)
    if transformer is not None:
        description["parameters"] = transformer.n_parameters
    return description
