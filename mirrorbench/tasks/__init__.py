"""Tasks: a data set with a question and a metric. A task never calls a model.

It says what it needs encoded, gets the vectors, and scores them; so the runner can encode each text once for all tasks.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite
from numbers import Real
from typing import TYPE_CHECKING, Any

from mirrorbench.core.errors import PluginError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from mirrorbench.core.inputs import Array, TextInput
    from mirrorbench.data.store import DataStore


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

    Raises:
        PluginError: a metric is no finite number, or ids, scores and references differ in number.
    """

    metrics: dict[str, float | None]
    ids: list[str]
    scores: NDArray[np.float64]
    gold: NDArray[np.float64]
    coverage: float = 1.0
    notes: tuple[str, ...] = ()
    extra: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    submission: str = ""

    def __post_init__(self) -> None:
        for name, value in self.metrics.items():
            if value is not None and not (isinstance(value, Real) and isfinite(value)):
                raise PluginError(f"the metric {name!r} is {value!r}", "A metric is a finite number, or None.")
        if not len(self.ids) == len(self.scores) == len(self.gold):
            counts = f"{len(self.ids)} ids, {len(self.scores)} scores and {len(self.gold)} references"
            raise PluginError(f"a task returned {counts}", "Each item has one of each.")
        # Numbers of NumPy are no JSON.
        plain = {name: None if value is None else float(value) for name, value in self.metrics.items()}
        object.__setattr__(self, "metrics", plain)


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

    settable: Mapping[str, Any] = {}
    """Options of the task's card that a user may set after its name (``bli-en-fr:train=1k``), with their defaults."""

    corpus: str = ""
    """Which corpus an encoder is tuned on for this task by default; empty for the level's and language's own."""

    baselines: Mapping[str, str] = {}
    """Scores of no encoder at all that stand in tables as rows of their own: their label, and their metric's name."""

    @property
    def max_length(self) -> int:
        """Tokens kept of each text where the encoder spec does not say, as far as a backbone has positions; 0: 64."""
        return 0

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

    def with_vocabulary(self, items: Any, vocabulary: Callable[[str], Sequence[str]]) -> Any:
        """The items for an encoder that has a vocabulary of its own; by default as they are.

        Args:
            items: what ``load`` returned; not changed.
            vocabulary: the encoder's words of a language, the most frequent first.
        """
        return items

    @abstractmethod
    def inputs(self, items: Any) -> list[TextInput]:
        """What must be encoded for the items that ``load`` returned; repeats are fine."""

    def texts(self, items: Any) -> Mapping[str, tuple[str, ...]]:
        """The texts that each test item holds, by its id in ``Scores.ids``: what must not have been tuned on.

        By default none, which means that nobody knows how many items occur in a corpus.
        """
        return {}

    @abstractmethod
    def score(self, items: Any, vectors: Vectors, protocol: str) -> Scores:
        """Score the vectors.

        Args:
            items: what ``load`` returned.
            vectors: of everything in ``inputs(items)``.
            protocol: ``paper``, or ``released`` for the reading of the authors' code where it is another one.
        """
