"""Cells, the models that they need, and what became of them: plain values between planning and running."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mirrorbench.core.errors import MirrorbenchError
from mirrorbench.core.identity import COMPUTATION, digest
from mirrorbench.core.specs import EncoderSpec
from mirrorbench.models.pooling import Pooling
from mirrorbench.training.recipes import Recipe

if TYPE_CHECKING:
    from mirrorbench.runs.results import Result


@dataclass(frozen=True, slots=True)
class CorpusRef:
    """Which strings a model is tuned on."""

    name: str
    """Name or path of the corpus, as given."""
    size: int
    """Keep the first this many strings, 0 for all."""
    sha256: str
    """Checksum of the strings that are used."""
    n: int
    """How many they are."""


@dataclass(frozen=True, slots=True)
class ModelRef:
    """What must be in memory for a group of cells: a backbone, perhaps tuned, or an encoder system."""

    spec: EncoderSpec
    """The encoder spec that names it."""
    fingerprint: str
    """Checksum of the backbone's files, or the system's own fingerprint."""
    path: Path | None = None
    """The backbone's directory, ``None`` for an encoder system."""
    method: str = ""
    """``base``, ``mirror`` ...; empty for an encoder system."""
    recipe: Recipe | None = None
    """How it is tuned; this and what follows is empty where nothing is tuned."""
    corpus: CorpusRef | None = None
    seed: int = 0
    protocol: str = "paper"
    precision: str = ""
    members: tuple[tuple[str, ModelRef], ...] = ()
    """For a task whose languages have backbones of their own, the model of each language."""

    def identity(self) -> dict[str, Any]:
        """What decides the weights."""
        if self.members:
            return {"languages": {language: member.identity() for language, member in self.members}}
        if not self.method:
            # By its name too: two systems that give themselves one fingerprint must not share vectors and results.
            return {"system": self.spec.backbone, "fingerprint": self.fingerprint}
        if self.recipe is None or self.corpus is None:
            return {"backbone": self.fingerprint}
        return {
            "backbone": self.fingerprint,
            "method": self.method,
            "recipe": self.recipe.to_json(),
            "corpus": self.corpus.sha256,
            "seed": self.seed,
            "protocol": self.protocol,
            "precision": self.precision,
            "computation": COMPUTATION,
        }

    @property
    def key(self) -> str:
        """Hash of ``identity``: the name of the tuned model in the cache."""
        return digest(self.identity())

    def with_members(self) -> tuple[ModelRef, ...]:
        """This one and those of its languages."""
        return (self, *dict(self.members).values())


@dataclass(frozen=True, slots=True)
class Cell:
    """One point of the grid: an encoder on a task under a seed."""

    spec: EncoderSpec
    """The row of the table, a ladder already taken apart."""
    task: str
    level: str
    seed: int
    model: ModelRef
    pooling: Pooling | None
    """How vectors are read; ``None`` for an encoder system, which has its own way."""
    precision: str
    """Of the encoding."""
    protocol: str
    data: tuple[tuple[str, str], ...]
    """Checksums of the task's files by name."""
    task_version: int

    def identity(self) -> dict[str, Any]:
        """What decides the cell's numbers."""
        pooling = self.pooling
        return {
            "weights": self.model.identity(),
            "readout": [pooling.mode, pooling.layers, pooling.max_length] if pooling else None,
            "precision": self.precision,
            "task": self.task,
            "task_version": self.task_version,
            "data": dict(self.data),
            "protocol": self.protocol,
            "seed": self.seed,
            "computation": COMPUTATION,
        }

    @property
    def id(self) -> str:
        """Hash of ``identity``: a finished cell with this id is never computed again."""
        return digest(self.identity())

    def to_json(self) -> dict[str, Any]:
        """The ``cell`` object of a result file."""
        recipe, corpus = self.model.recipe, self.model.corpus
        return {
            "spec": str(self.spec),
            "method": self.model.method,
            "recipe": recipe.to_json() if recipe else None,
            "corpus": {"name": corpus.name, "sha256": corpus.sha256, "n": corpus.n} if corpus else None,
            "seed": self.seed,
            "task": self.task,
            "level": self.level,
            "protocol": self.protocol,
            "precision": {"tuning": self.model.precision or None, "encoding": self.precision},
        }


CellGroup = tuple[Cell, ...]
"""Cells that share their model, for one worker."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A cell, or a row of cells, that could not be computed."""

    spec: EncoderSpec
    task: str
    reason: str
    hint: str = ""
    seed: int | None = None
    """Which seed, ``None`` for all of them."""

    @classmethod
    def of(cls, error: BaseException, spec: EncoderSpec, task: str, seed: int | None = None) -> Failure:
        """What to report of an error; one that is not ours (a plugin may raise anything) is named by its type."""
        if isinstance(error, MirrorbenchError):
            return cls(spec, task, error.message, error.hint, seed)
        return cls(spec, task, f"{type(error).__name__}: {error}", seed=seed)


@dataclass(frozen=True, slots=True)
class CellOutcome:
    """What became of a cell.

    Attributes:
        cell: the cell.
        outcome: its result, or why there is none.
        computed: whether it was computed here; otherwise another process had stored it meanwhile.
    """

    cell: Cell
    outcome: Result | Failure
    computed: bool = True


def failed(cells: Iterable[Cell], error: BaseException) -> list[CellOutcome]:
    """One error as the outcome of some cells."""
    return [CellOutcome(cell, Failure.of(error, cell.spec, cell.task, cell.seed)) for cell in cells]


@dataclass(frozen=True)
class Outcome:
    """What a run left."""

    results: tuple[Result, ...]
    """One for each cell that is done, computed now or before, in the order of the plan."""
    failures: tuple[Failure, ...]
    """The other cells."""
    computed: int
    """How many cells were computed now."""
