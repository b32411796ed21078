"""CellGroup and the weights that they need: plain values between planning and running."""

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
    """Which strings a model is tuned on.

    Attributes:
        name: corpus name or path, as given.
        size: keep the first this many strings, 0 for all.
        sha256: checksum of the strings that are used.
        n: how many they are.
    """

    name: str
    size: int
    sha256: str
    n: int


@dataclass(frozen=True, slots=True)
class ModelRef:
    """What must be in memory for a group of cells: a backbone, perhaps tuned, or an encoder system.

    Attributes:
        spec: the encoder spec that names it.
        fingerprint: checksum of the backbone's files, or the system's own fingerprint.
        path: the backbone's directory, ``None`` for an encoder system.
        method: ``base``, ``mirror`` ...; empty for an encoder system.
        recipe: how it is tuned; ``None`` where nothing is.
        corpus: what it is tuned on; ``None`` where nothing is.
        seed: of the tuning; 0 where nothing is tuned.
        protocol: which reading of the method.
        precision: of the tuning; empty where nothing is tuned.
        members: for a task whose languages have encoders of their own, the weights of each language; otherwise empty.
    """

    spec: EncoderSpec
    fingerprint: str
    path: Path | None = None
    method: str = ""
    recipe: Recipe | None = None
    corpus: CorpusRef | None = None
    seed: int = 0
    protocol: str = "paper"
    precision: str = ""
    members: tuple[tuple[str, ModelRef], ...] = ()

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


@dataclass(frozen=True, slots=True)
class Cell:
    """One point of the grid: an encoder on a task under a seed.

    Attributes:
        spec: the row of the table (a ladder already taken apart).
        task: the task's name.
        level: the task's level.
        seed: which run of the encoder.
        model: what must be in memory.
        pooling: how vectors are read; ``None`` for an encoder system, which has its own way.
        precision: of the encoding.
        protocol: ``paper`` or ``released``.
        data: checksums of the task's files by name.
        task_version: the task's version.
    """

    spec: EncoderSpec
    task: str
    level: str
    seed: int
    model: ModelRef
    pooling: Pooling | None
    precision: str
    protocol: str
    data: tuple[tuple[str, str], ...]
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
        model = self.model
        return {
            "spec": str(self.spec),
            "method": model.method,
            "recipe": model.recipe.to_json() if model.recipe else None,
            "corpus": {"name": model.corpus.name, "sha256": model.corpus.sha256, "n": model.corpus.n}
            if model.corpus
            else None,
            "seed": self.seed,
            "task": self.task,
            "level": self.level,
            "protocol": self.protocol,
            "precision": {"tuning": model.precision or None, "encoding": self.precision},
        }


@dataclass(frozen=True, slots=True)
class Failure:
    """A cell, or a row of cells, that could not be computed.

    Attributes:
        spec: the encoder.
        task: the task.
        reason: the error's message.
        hint: what to do about it.
        seed: which seed, ``None`` for all of them.
    """

    spec: EncoderSpec
    task: str
    reason: str
    hint: str = ""
    seed: int | None = None

    @classmethod
    def of(cls, error: BaseException, spec: EncoderSpec, task: str, seed: int | None = None) -> Failure:
        """What to report of an error; one that is not ours (a plugin may raise anything) is named by its type."""
        if isinstance(error, MirrorbenchError):
            return cls(spec, task, error.message, error.hint, seed)
        return cls(spec, task, f"{type(error).__name__}: {error}", seed=seed)


CellGroup = tuple[Cell, ...]
"""A group: cells that share their weights, for one worker."""


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
