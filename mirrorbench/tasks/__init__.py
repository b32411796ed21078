"""Tasks: a data set with a question and a metric. A task never calls a model.

It says what it needs encoded, gets the vectors, and scores them; so the runner can encode each text once for all tasks.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from mirrorbench.data.store import DataStore
    from mirrorbench.encoding.inputs import Array, TextInput


class Vectors:
    """The vectors of everything that was encoded, looked up by input.

    Args:
        inputs: n distinct inputs.
        array: their vectors, float32 of shape (n, dimensions).
    """

    def __init__(self, inputs: Iterable[TextInput], array: Array) -> None:
        self._row = {item: row for row, item in enumerate(inputs)}
        self._array = array

    def __call__(self, inputs: Sequence[TextInput]) -> Array:
        """Vectors of ``inputs`` in their order, float32 of shape (len(inputs), dimensions)."""
        return self._array[[self._row[item] for item in inputs]]


@dataclass(frozen=True)
class Scores:
    """What a task makes of the vectors.

    Attributes:
        metrics: values by name, as fractions; ``None`` where a metric is undefined.
        ids: identifiers of the n items.
        scores: the encoder's score for each item, shape (n,).
        gold: the reference for each item, shape (n,).
        coverage: share of the data set's items that could be scored.
        notes: what a reader of the numbers must know.
        extra: further per-item arrays, stored beside the scores (names to arrays).
        submission: answers for items whose labels are kept secret, in the organisers' format; stored as a text file
            beside the scores.
    """

    metrics: dict[str, float | None]
    ids: list[str]
    scores: NDArray[np.float64]
    gold: NDArray[np.float64]
    coverage: float = 1.0
    notes: tuple[str, ...] = ()
    extra: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    submission: str = ""


class Task(ABC):
    """One data set with its question.

    Attributes:
        name: as written after ``--tasks``.
        title: the column's head in a table.
        level: ``word``, ``phrase``, ``sentence`` or ``wic``; picks the recipe of a tuned encoder.
        languages: ISO codes, most often one.
        main_metric: name of the metric that tables show.
        version: raised when the same files would give other numbers.
    """

    name: str
    title: str
    level: str
    languages: tuple[str, ...]
    main_metric: str
    version: int = 1

    corpus: str = ""
    """Which corpus an encoder is tuned on for this task by default; empty for the level's and language's own."""

    def fetch(self, data: DataStore) -> None:  # noqa: B027  (a task given in code has nothing to fetch)
        """Make sure that the data is here, fetching it where that is permitted.

        Raises:
            DataUnavailableError: a file is not here and cannot be fetched.
            DataIntegrityError: a file is here, but truncated or altered.
        """

    @abstractmethod
    def identity(self, data: DataStore) -> dict[str, str]:
        """Checksums of the data by file name, without reading it."""

    @abstractmethod
    def load(self, data: DataStore) -> Any:
        """Read and parse the data.

        Raises:
            DataUnavailableError: a file is not here and cannot be fetched.
            DataFormatError: a file does not follow its format.
        """

    @abstractmethod
    def inputs(self, items: Any) -> list[TextInput]:
        """What must be encoded for the items that ``load`` returned; repeats are fine."""

    @abstractmethod
    def score(self, items: Any, vectors: Vectors, protocol: str) -> Scores:
        """Score the vectors.

        Args:
            items: what ``load`` returned.
            vectors: of everything in ``inputs(items)``.
            protocol: ``paper``, or ``released`` for the reading of the authors' code where it is another one.
        """
