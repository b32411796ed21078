"""What analyses are made of: encoders from specs, texts of a task or a file, stored predictions."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from mirrorbench.analysis.layers import Layer, Words, measure
from mirrorbench.analysis.projection import Contexts, contexts_of, read_contexts
from mirrorbench.core.errors import DataUnavailableError, EncodingError, MirrorbenchError, UsageError
from mirrorbench.core.inputs import Array, Encoder, PoolingEncoder, TextInput, encode_checked
from mirrorbench.core.plugins import Plugins
from mirrorbench.core.progress import Reporter, Silent
from mirrorbench.core.specs import EncoderSpec
from mirrorbench.data.corpora import read_corpus
from mirrorbench.data.items import Disambiguation
from mirrorbench.data.store import DataStore
from mirrorbench.models.pooling import Pooling
from mirrorbench.reports.build import row_label
from mirrorbench.runs.cache import Cache
from mirrorbench.runs.cells import Cell, Failure
from mirrorbench.runs.plan import Plan, Request, expand_tasks
from mirrorbench.runs.results import Result, ResultStore, read_result
from mirrorbench.runs.workspace import Workspace
from mirrorbench.tasks import Vectors
from mirrorbench.tasks.base import score_task

if TYPE_CHECKING:
    import torch

T = TypeVar("T")

CHUNK = 1024
"""Texts between two signs of progress, for encoders that give none themselves."""


@dataclass(frozen=True)
class Opened:
    """An encoder in memory, as a row of a table.

    Attributes:
        label: how the papers would call it.
        cell: what it was planned as.
        encoder: what encodes.
    """

    label: str
    cell: Cell
    encoder: Encoder

    def pooling(self) -> Pooling:
        """How its vectors are read.

        Raises:
            UsageError: it has its own way (an encoder system), and its layers cannot be looked into.
        """
        if self.cell.pooling is None or not isinstance(self.encoder, PoolingEncoder):
            raise UsageError(
                f"{self.cell.spec} is an encoder of its own; its layers cannot be read",
                "Name a backbone, such as tiny, bert or ./my-model.",
            )
        return self.cell.pooling

    def n_layers(self) -> int:
        """Layers of its model, the embeddings not counted."""
        self.pooling()
        transformer = getattr(self.encoder, "transformer", None)
        if transformer is None:
            raise UsageError(f"{self.cell.spec} stands for several models here", "Name a task in one language.")
        return int(transformer.model.config.num_hidden_layers)


@dataclass(frozen=True)
class Texts:
    """What is encoded.

    Attributes:
        inputs: distinct texts, perhaps with targets.
        source: the task's, corpus's or file's name.
    """

    inputs: tuple[TextInput, ...]
    source: str

    def describe(self) -> dict[str, Any]:
        """What results say about them: source, number, and one checksum over texts and targets."""
        checksum = hashlib.sha256(b"".join(item.key() for item in self.inputs)).hexdigest()
        return {"source": self.source, "n": len(self.inputs), "sha256": checksum}


@dataclass(frozen=True)
class Predictions:
    """What an encoder left on a task.

    Attributes:
        label: how the papers would call the encoder.
        result: the stored result.
        arrays: ``ids``, ``scores``, ``gold`` and what else the task stored.
    """

    label: str
    result: Result
    arrays: Mapping[str, NDArray[Any]]


@dataclass
class Session:
    """Encoders, a task and where to compute.

    Attributes:
        plugins: what is registered.
        data: where data files are.
        device: where to compute.
        encoders: specs as written; a bare backbone is the ladder of the task's level.
        task: name of the task: picks level, language and tuning corpus.
        corpus: tune on this instead; empty for the task's own.
        seed: of tuned encoders, and of whatever an analysis draws.
        protocol: ``paper`` or ``released``.
        offline: open no socket.
        reporter: whom to tell.
    """

    plugins: Plugins
    data: DataStore
    device: torch.device
    encoders: tuple[EncoderSpec, ...]
    task: str
    corpus: str = ""
    seed: int = 0
    protocol: str = "paper"
    offline: bool = False
    reporter: Reporter = field(default_factory=Silent)
    failures: list[Failure] = field(default_factory=list)
    _plan: Plan | None = None

    def __post_init__(self) -> None:
        expand_tasks([self.task], self.plugins)  # the error for a name that is none
        if self.task not in self.plugins.tasks:
            raise UsageError(f"{self.task} is a suite; an analysis is of one task", "mirrorbench list suites")

    def plan(self) -> Plan:
        """One cell for each row; what cannot be planned is among ``failures``."""
        if self._plan is None:
            request = Request(self.encoders, (self.task,), (self.seed,), self.corpus, self.protocol)
            self._plan = self.workspace().plan(request)
            self.failures += self._plan.failures
        return self._plan

    def workspace(self, results: ResultStore | None = None) -> Workspace:
        """Where encoders are planned, loaded and run."""
        return Workspace(
            self.plugins, self.data, results or ResultStore(Path("results")), Cache(), str(self.device),
            offline=self.offline, reporter=self.reporter,
        )  # fmt: skip

    def label(self, spec: EncoderSpec) -> str:
        """How the papers would call an encoder; its spec where several rows would be called that."""
        labels = [row_label(row, self.plugins) for row in self.plan().rows]
        own = row_label(spec, self.plugins)
        return own if labels.count(own) == 1 else str(spec)

    def items(self) -> Any:
        """The task's items."""
        return self.plugins.tasks[self.task].load(self.data)

    def of_each(self, measure: Callable[[Opened], T]) -> dict[str, T]:
        """What is found of each encoder, by its label; one that cannot be opened or encode is among ``failures``."""
        found = {}
        for one in self._opened():
            try:
                found[one.label] = measure(one)
            except UsageError:
                raise
            except MirrorbenchError as error:
                self.failures.append(Failure.of(error, one.cell.spec, one.cell.task, one.cell.seed))
        return found

    def _opened(self) -> Iterator[Opened]:
        plan, loader = self.plan(), self.workspace().loader
        for cell in plan.cells:
            try:
                encoder, _ = loader.load(cell.model, cell.pooling, cell.precision, plan.corpora)
                yield Opened(self.label(cell.spec), cell, encoder)
            except UsageError:
                raise
            except Exception as error:  # whatever a model or plugin raises is this encoder's failure
                self.failures.append(Failure.of(error, cell.spec, cell.task, cell.seed))

    def texts(self, source: str = "", limit: int = 0) -> Texts:
        """Texts of the task, or of a corpus or text file, one a line.

        Args:
            source: a corpus's name or a file's path; empty for the task's texts, with their targets.
            limit: draw this many at random (by the seed) where there are more; 0 for all.
        """
        if source:
            known = {entry.name: entry.value for entry in self.plugins.corpora}
            inputs = [TextInput(text) for text in read_corpus(source, self.data, known).texts]
        else:
            inputs = list(dict.fromkeys(self.plugins.tasks[self.task].inputs(self.items())))
        if 0 < limit < len(inputs):
            rng = np.random.default_rng(self.seed)
            inputs = [inputs[row] for row in sorted(rng.choice(len(inputs), limit, replace=False))]
        return Texts(tuple(inputs), source or self.task)

    def encode(self, opened: Opened, inputs: Sequence[TextInput]) -> Array:
        """Vectors of inputs, as the encoder's row reads them: shape (n, dimensions)."""
        if opened.cell.pooling is not None:
            return self.encode_pooled(opened, inputs, [opened.cell.pooling])[0]
        self.reporter.stage(f"encode {opened.cell.spec}", len(inputs), "texts")
        arrays = []
        for start in range(0, len(inputs), CHUNK):
            chunk = inputs[start : start + CHUNK]
            arrays.append(encode_checked(opened.encoder, chunk, f"the encoder {opened.cell.spec}"))
            self.reporter.advance(len(chunk))
        return np.concatenate(arrays)

    def encode_pooled(self, opened: Opened, inputs: Sequence[TextInput], poolings: Sequence[Pooling]) -> list[Array]:
        """Vectors of inputs under several poolings, all from one pass: for each shape (n, dimensions)."""
        if not isinstance(opened.encoder, PoolingEncoder):
            raise EncodingError(f"the encoder {opened.cell.spec} has no layers to read")
        self.reporter.stage(f"encode {opened.cell.spec}", len(inputs), "texts")
        return opened.encoder.encode_pooled(inputs, poolings, self.reporter.advance)

    def contexts(self, word: str = "", file: str = "") -> Contexts:
        """Contexts of known senses: of a word of the task, of a file, or the examples inside the package.

        Raises:
            UsageError: both or neither fit: a word needs a task of disambiguation; or there is no such file.
        """
        if word and file:
            raise UsageError("--word is looked up in a task, --texts is a file", "Give one of them.")
        if file and not os.path.isfile(file):  # unlike Path.is_file, it takes a name that is too long
            raise UsageError(f"there is no file {file}", "Each line holds a sense, a tab, and a <t>marked</t> text.")
        if not word:
            return read_contexts(Path(file) if file else None)
        items = self.items()
        if not isinstance(items, Disambiguation):
            raise UsageError(f"the task {self.task} has no senses of {word!r}", "Take --task wsd.")
        return contexts_of(word, items, self.task)

    def predictions(self, store: ResultStore) -> list[Predictions]:
        """What each encoder left on the task, from the store; what is not there yet is computed and stored.

        Raises:
            DataUnavailableError: a result's predictions are not beside it.
        """
        plan = self.plan()
        outcome = self.workspace(store).execute(plan)
        self.failures[:] = outcome.failures
        cells = {str(cell.spec): cell for cell in plan.cells}
        return [
            Predictions(self.label(cells[r.spec].spec), r, read_predictions(store, cells[r.spec], r))
            for r in outcome.results
        ]


def layers_of(session: Session, opened: Opened, words: Words) -> list[Layer]:
    """The measures of every layer of a model, its task's texts and the words read in one pass each for all layers.

    Args:
        session: has the task.
        opened: the encoder; on the task each layer is pooled as its row is.
        words: on which the space is measured.
    """
    task, items = session.plugins.tasks[session.task], session.items()
    inputs = list(dict.fromkeys(task.inputs(items)))
    own = opened.pooling()
    poolings = [replace(own, layers=str(layer)) for layer in range(opened.n_layers() + 1)]
    scores = [
        score_task(task, items, Vectors(inputs, array), session.protocol, session.plugins.metrics).metrics[
            task.main_metric
        ]
        for array in session.encode_pooled(opened, inputs, poolings)
    ]
    targets = [replace(pooling, mode="target") for pooling in poolings]
    arrays = session.encode_pooled(opened, words.inputs, targets)
    return [
        measure(layer, array, words, value, session.seed)
        for layer, (array, value) in enumerate(zip(arrays, scores, strict=True))
    ]


def read_predictions(store: ResultStore, cell: Cell, result: Result) -> dict[str, NDArray[Any]]:
    """The arrays that lie beside a cell's result.

    Raises:
        DataUnavailableError: they are not there.
    """
    path = store.path(cell)
    if not path.is_file() or read_result(path).cell_id != result.cell_id:  # a later one of another identity lies there
        path = path.with_name(f"{path.stem}.{result.cell_id[:12]}.json")
    arrays = path.with_suffix(".npz")
    if not arrays.is_file():
        raise DataUnavailableError(
            f"the predictions of {cell.spec} on {cell.task} are not beside their result: there is no {arrays}",
            f"Move {path} away and run again.",
        )
    with np.load(arrays, allow_pickle=False) as stored:
        return {name: stored[name] for name in stored.files}


def scored(predictions: Predictions) -> dict[str, NDArray[Any]]:
    """The predictions behind the main score: those of its split, where a task has several, with known answers."""
    arrays = dict(predictions.arrays)
    n = len(arrays["ids"])
    keep = ~np.isnan(arrays["gold"])
    splits = arrays.get("splits")
    if splits is not None and (own := keep & (splits == predictions.result.main_metric.partition("_")[0])).any():
        keep = own
    return {name: array[keep] if len(array) == n else array for name, array in arrays.items()}


def shown(side: object) -> str:
    """A text, or a word in a text, as a reader sees it: the word stands in square brackets."""
    if not isinstance(side, TextInput):
        return str(side)
    pieces, done = [], 0
    for start, end in side.spans:
        pieces += [side.text[done:start], "[", side.text[start:end], "]"]
        done = end
    return "".join(pieces) + side.text[done:]


def texts_of_items(items: Any) -> dict[str, tuple[str, ...]]:
    """The texts of each item by its id, as far as items are pairs or words in context; others are not in it."""
    found: dict[str, tuple[str, ...]] = {}
    for item in getattr(items, "occurrences", items):
        sides = [getattr(item, name) for name in ("left", "right", "target") if hasattr(item, name)]
        if sides and hasattr(item, "id"):
            found[str(item.id)] = tuple(shown(side) for side in sides)
    return found
