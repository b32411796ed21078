"""The interface of tasks, and the base class of the kinds that cards declare."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import isfinite
from numbers import Real
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Self, TypedDict, TypeVar, Unpack, cast

import msgspec
import numpy as np

from mirrorbench.core.encoder_protocol import TextInput
from mirrorbench.core.errors import DataFormatError, PluginError, UsageError
from mirrorbench.core.foreign_errors import defined_at
from mirrorbench.core.identity import checksum
from mirrorbench.core.quoting import shown
from mirrorbench.data.cards import BesideSource, whole_number

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from mirrorbench.core.encoder_protocol import Array
    from mirrorbench.core.plugins import Registry
    from mirrorbench.data.cards import Card
    from mirrorbench.data.store import DataStore

Items = TypeVar("Items")


class Vectors:
    """Encoded vectors, looked up by input.

    mirrorbench encodes the distinct ``inputs`` of a task, makes this object, and passes it to ``Task.score``. There it
    is called with a list of inputs, of which some may be equal, and returns their vectors in the order of the list. A
    plugin's test makes the object itself.

    Args:
        inputs: n distinct ``TextInput`` objects.
        array: their vectors in the same order, float32 of shape (n, dimensions).
        device: the torch device on which a task may compute, such as ``cuda:1`` (default ``cpu``).

    Attributes:
        inputs: the n inputs, a tuple.
        array: the argument ``array``; row i is the vector of ``inputs[i]``.
        device: the argument ``device``.

    Raises:
        KeyError: when called, for an input that was not encoded. Inputs are equal if all their fields are.

    Example:
        >>> import numpy as np
        >>> from mirrorbench.plugin import TextInput, Vectors
        >>> cat, dog = TextInput("a cat"), TextInput("a dog")
        >>> vectors = Vectors([cat, dog], np.array([[1, 0], [0, 2]], dtype=np.float32))
        >>> vectors([dog, dog, cat]).tolist()
        [[0.0, 2.0], [0.0, 2.0], [1.0, 0.0]]
    """

    def __init__(self, inputs: Iterable[TextInput], array: Array, device: str = "cpu") -> None:
        self.device = device
        self._row = {input_: row for row, input_ in enumerate(inputs)}
        self.inputs = tuple(self._row)
        self.array = array

    def __call__(self, inputs: Sequence[TextInput]) -> Array:
        """Return the vectors of ``inputs`` in their order, float32 of shape (len(inputs), dimensions).

        Inputs may repeat; ``KeyError`` for one that was not encoded.
        """
        rows = [self._row[input_] for input_ in inputs]
        return self.array[rows]


@dataclass(frozen=True)
class Scores:
    """The scores of an encoder on a task, which ``Task.score`` returns.

    If ``metrics`` lacks the task's main metric, mirrorbench adds the registered metric of that name, computed from
    ``scores`` and ``gold``. Comparisons of encoders resample the items, so each item needs an id that stays the same
    between runs.

    Attributes:
        metrics: values by name, as fractions (0.5, not 50); ``None`` where a metric is undefined. May be empty if the
            main metric is registered.
        ids: identifiers of the n items, different texts.
        scores: the encoder's score of each item, n finite numbers; converted to float64 of shape (n,).
        gold: the reference of each item, n numbers, with NaN for an item without one; converted to float64 of shape
            (n,).
        coverage: share of the data set's items that could be scored (default 1).
        notes: remarks that readers of the numbers need (default none).
        extra: further arrays by name, most often of one value for each item (default none); stored beside the scores.
        submission: answers for items whose labels are secret, in the organisers' format (default empty); stored as a
            text file.

    Raises:
        PluginError: a metric is neither a finite number nor ``None``, a score is not finite, two ids are equal, or ids,
            scores and references differ in number.

    Example:
        >>> from mirrorbench.plugin import Scores
        >>> scores = Scores({"accuracy": 0.5}, ids=["q1", "q2"], scores=[1, 0], gold=[1, 1])
        >>> scores.scores
        array([1., 0.])
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
        """Convert metrics, scores and references to floats, and check them; a reference may be NaN (no label)."""
        metrics: dict[str, float | None] = {}
        for name, value in self.metrics.items():
            if value is None:
                metrics[name] = None
                continue
            if not isinstance(value, Real) or not isfinite(value):
                raise PluginError(
                    f"the metric {name!r} is {value!r}", "A metric is a finite number, or None."
                )
            # NumPy's numbers cannot be written as JSON.
            metrics[name] = float(value)
        object.__setattr__(self, "metrics", metrics)
        if not len(self.ids) == len(self.scores) == len(self.gold):
            counts = (
                f"{len(self.ids)} ids, {len(self.scores)} scores and {len(self.gold)} references"
            )
            raise PluginError(f"a task returned {counts}", "Each item has one of each.")
        for name in ("scores", "gold"):
            object.__setattr__(self, name, np.asarray(getattr(self, name), dtype=np.float64))
        if len(set(self.ids)) != len(self.ids) or not np.isfinite(self.scores).all():
            raise PluginError(
                "a task returned equal ids, or scores that are not finite numbers",
                "Each item needs an id of its own and a finite score.",
            )


class Task(ABC):
    """A data set with its question: the inputs to encode, and the scoring of their vectors.

    A plugin subclasses it for a question that no built-in kind of task asks, and registers an object of the subclass
    with ``register_tasks``; ``register_readers`` returns such objects for users' own data. mirrorbench calls the
    methods, and encodes what ``inputs`` returns: a task itself never calls a model. For items that a card's parser
    reads, subclass ``TaskKind`` instead.

    A subclass sets the attributes ``name``, ``level`` and ``main_metric``, in the class or in ``__init__``, and must
    implement four methods. What ``load`` returns is passed to the others as ``items``; it may have any type.

    - ``identity(data)``: checksums of the data by file name.
    - ``load(data)``: the items, read from the ``DataStore`` or given in code.
    - ``inputs(items)``: the ``TextInput`` objects to encode.
    - ``score(items, vectors, protocol)``: the ``Scores``; ``vectors`` is called with a list of inputs.

    It may implement, among others, ``fetch(data)`` for files to download, ``texts(items)`` for the overlap with tuning
    corpora, ``first(items, limit)`` for ``--limit`` if the items are not a sequence, and ``remarks(items)`` for notes
    below tables. Each method's own docstring says what it does by default.

    Attributes:
        name: as written after ``--tasks`` (required).
        level: ``word``, ``phrase``, ``sentence`` or ``wic``; selects the recipe of a tuned encoder (required).
        main_metric: the metric that tables show: one that ``score`` returns, or a registered one (required).
        title: the column's head in a table (default: the name).
        languages: ISO codes, most often one (default ``("en",)``).
        corpus: the corpus to tune an encoder on for this task (default: that of its level and language).
        max_length: tokens kept of each text unless the encoder spec sets them, at most the backbone's limit (default
            0, which means 64).
        version: a positive integer; raise it when scores change although the files do not (default 1).
        identifies: name of the set that the ids of items are from, if other tasks share it: items of one id are then
            one item of an average, or a part of one (after a slash). By default items are the same if their contents are.
        baselines: rows of tables that need no encoder: the row's label to the metric that holds its score (default
            none).
        untuned: whether a bare backbone gets a single row, untuned and read as its files say, instead of the papers'
            ladder of rows (default false; true for a user's own data).
        private: whether texts are a user's own, so that what is stored of them must not let others guess them (default
            false).

    Raises:
        PluginError: at registration, if a required attribute is missing or of another type, or the level is unknown;
            when run, if ``inputs`` returns anything but ``TextInput`` objects, or ``score`` anything but ``Scores``.

    Example:
        >>> import mirrorbench
        >>> from mirrorbench.plugin import Scores, Task, TextInput, Vectors
        >>> class Generality(Task):
        ...     '''Do general words have shorter vectors than specific ones?'''
        ...
        ...     name = "generality"
        ...     level = "word"
        ...     main_metric = "spearman"  # registered; computed from the scores and references of the items
        ...
        ...     def identity(self, data):
        ...         return {"words": "animals-1"}  # must change whenever the data change
        ...
        ...     def load(self, data):
        ...         return {"thing": 0, "animal": 1, "dog": 2, "poodle": 3}
        ...
        ...     def inputs(self, items):
        ...         return [TextInput(word) for word in items]
        ...
        ...     def score(self, items, vectors, protocol):
        ...         squared_lengths = (vectors(self.inputs(items)) ** 2).sum(axis=1)
        ...         return Scores({}, ids=list(items), scores=squared_lengths, gold=list(items.values()))

        In a plugin, ``register_tasks`` registers ``Generality()``. To try the task without one:

        >>> task = Generality()
        >>> items = task.load(None)
        >>> inputs = task.inputs(items)
        >>> vectors = Vectors(inputs, mirrorbench.load("tiny", device="cpu").encode(inputs))
        >>> task.score(items, vectors, "paper").scores.shape
        (4,)
    """

    name: str
    level: str
    main_metric: str
    title: str = ""
    languages: tuple[str, ...] = ("en",)
    corpus: str = ""
    max_length: int = 0
    version: int = 1
    identifies: str = ""
    baselines: Mapping[str, str] = {}
    untuned: bool = False
    private: bool = False

    def reading(self, protocol: str, of_target: bool = False) -> Task:
        """Return the task as a protocol reads its data, by default the task itself; it keeps name, version and files.

        Args:
            protocol: ``paper`` or ``released``.
            of_target: whether the encoder returns the vector of a target word, not of its text.
        """
        return self

    def fetch(self, data: DataStore) -> None:  # noqa: B027  (a task given in code has nothing to fetch)
        """Make sure that the data is in the store, downloading it where that is permitted; by default do nothing.

        Raises:
            DataUnavailableError: a file is missing and cannot be fetched.
            DataIntegrityError: a file is truncated or altered.
        """

    @abstractmethod
    def identity(self, data: DataStore) -> dict[str, str]:
        """Return checksums of the data by file name, which must change whenever the data change.

        It is called for each plan, so it should not parse the data.
        """

    def identity_of(self, items: Any, data: DataStore) -> dict[str, str]:
        """Return the checksums of the data that the ``items`` of ``load`` were read from; by default ``identity``."""
        return self.identity(data)

    @abstractmethod
    def load(self, data: DataStore) -> Any:
        """Read and parse the data.

        Raises:
            DataUnavailableError: a file is missing and cannot be fetched.
            DataFormatError: a file does not follow its format.
        """

    def with_vocabulary(self, items: Any, vocabulary: Callable[[str], Sequence[str]]) -> Any:
        """Return the items for an encoder with its own vocabulary (static word vectors); by default all of them.

        Args:
            items: the items of ``load``; not changed.
            vocabulary: returns the encoder's words of a language, the most frequent first.
        """
        return items

    def as_pairs(self, items: Any) -> Any:
        """Return the items for an encoder that scores pairs of texts (a cross-encoder), whose ``inputs`` are pairs.

        Raises:
            UsageError: the task needs vectors, as most do.
        """
        hint = "Data of the kind reranking can be scored by a cross-encoder."
        raise UsageError(f"{self.title} needs vectors of texts, and a cross-encoder has none", hint)

    def first(self, items: Any, limit: int) -> Any:
        """Return the first ``limit`` items of each split, for a smoke run.

        Raises:
            UsageError: the items are not a sequence.
        """
        if not isinstance(items, Sequence):
            raise UsageError(f"the task {self.name} has no first items", "Run it without --limit.")
        n_of_split: Counter[str] = Counter()
        first_items = []
        for item in items:
            split = getattr(item, "split", "")
            n_of_split[split] += 1
            if n_of_split[split] <= limit:
                first_items.append(item)
        return first_items

    @abstractmethod
    def inputs(self, items: Any) -> list[TextInput]:
        """Return the inputs to encode for the items of ``load``; they may repeat."""

    def texts(self, items: Any) -> Mapping[str, tuple[str, ...]]:
        """Return the texts of each test item, by its id in ``Scores.ids``.

        They are searched for in tuning corpora. By default there are none, and the contamination is unknown.
        """
        return {}

    def place(self, items: Any, text: str) -> str:
        """Return the name of the item that holds a text, for errors (``item 7``); empty for a text of no item."""
        for item, texts in self.texts(items).items():
            if text in texts:
                return f"item {item}"
        return ""

    def remarks(self, items: Any) -> Sequence[str]:
        """Return remarks on the data that readers of the numbers need; by default none."""
        return ()

    def documents(self, items: Any) -> Sequence[str]:
        """Return texts of the data that an encoder may be tuned on before it is scored; by default none."""
        return ()

    def shared(self, items: Any) -> Mapping[str, tuple[str, ...]]:
        """Return by item id what makes test items depend on each other if they share it; by default their texts."""
        return self.texts(items)

    def contents(self, items: Any) -> Mapping[str, tuple[str, ...]]:
        """Return by item id the contents of test items, which are equal for the same items; by default their texts."""
        return self.texts(items)

    def senses(self, items: Any, lemma: str) -> Mapping[TextInput, str] | None:
        """Return the contexts of a lemma, with the sense of each; ``None`` (the default) for a task without senses."""
        return None

    @abstractmethod
    def score(self, items: Any, vectors: Vectors, protocol: str) -> Scores:
        """Score the vectors.

        Args:
            items: the items of ``load``.
            vectors: called with a list of inputs, returns their vectors, float32 of shape (number of inputs,
                dimensions); it has those of all ``inputs(items)``.
            protocol: ``paper``, or ``released`` to follow the authors' code where it differs.

        Returns:
            For each item an id and a score. The main metric may be missing from the metrics if it is registered.
        """


def inputs_of(task: Task, items: Any) -> list[TextInput]:
    """Return the inputs of a task; raise a ``PluginError`` if it returns anything but ``TextInput`` objects."""
    returned: Any = task.inputs(items)
    if isinstance(returned, Iterable):
        inputs = list(returned)
        wrong = [value for value in inputs if not isinstance(value, TextInput)]
        if not wrong:
            return inputs
        wrong_value = wrong[0]
    else:
        wrong_value = returned
    method = f"inputs of the task {task.name!r}{defined_at(task.inputs)}"
    problem = f"{method} returned a {type(wrong_value).__name__}, not TextInputs"
    raise PluginError(problem, "Return [TextInput(text), ...] of mirrorbench.plugin.")


def score_task(
    task: Task, items: Any, vectors: Vectors, protocol: str, metrics: Registry[Any]
) -> Scores:
    """Score vectors by ``task.score``, and add the main metric from the registered ``metrics`` if it is missing.

    Raises:
        PluginError: ``task.score`` returned anything but ``Scores``.
    """
    scores = task.score(items, vectors, protocol)
    if not isinstance(scores, Scores):
        method = f"score of the task {task.name!r}{defined_at(task.score)}"
        problem = f"{method} returned a {type(scores).__name__}, not Scores"
        raise PluginError(
            problem, "Return Scores(metrics, ids, scores, gold) of mirrorbench.plugin."
        )
    if task.main_metric in scores.metrics:
        return scores
    main_metric = metrics[task.main_metric]
    value = main_metric(scores.scores, scores.gold)
    return replace(scores, metrics={**scores.metrics, task.main_metric: value})


class TaskInfo(TypedDict, total=False):
    """Attributes of ``Task`` that all kinds of tasks take as arguments."""

    title: str
    level: str
    languages: tuple[str, ...]
    corpus: str
    main_metric: str
    version: int
    identifies: str


class TaskKind(Task, Generic[Items]):
    """A task on items that are given, read by a function, or parsed from the files of a card.

    A plugin subclasses it and registers the class with ``register_task_kinds``: then cards whose ``kind`` has this name
    become tasks. An object made in code, ``Subclass(name, items)``, is registered with ``register_tasks``. Without a
    card the items' checksum identifies the data.

    A subclass sets ``item_class`` and must implement three methods:

    - ``check(items)``: raise ``DataFormatError`` if the items do not suit the kind; ``self.check_ids(ids)`` does so if
      there are none or two ids are equal.
    - ``inputs(items)``: the ``TextInput`` objects to encode.
    - ``score(items, vectors, protocol)``: the ``Scores``, as for ``Task``.

    It may implement ``written(items)``, a text that identifies items given in code (default: their ``repr``, which must
    not differ between processes, as that of a set does), and the optional methods of ``Task``, such as
    ``texts(items)``.

    Args:
        name: the task's name.
        items: the items, an iterable (passed to the methods as a list) or one object that holds all of them; or a
            function that reads them from a ``DataStore``.
        **info: attributes of ``Task``: ``title`` (default: the name), ``level``, ``languages``, ``corpus``,
            ``main_metric``, ``version`` and ``identifies``. The defaults are those of the class; without one, ``level``
            and ``main_metric`` are required.

    Attributes:
        item_class: set in the class: the class of the items that a card's parser must return (default ``object``).
        items_name: set in the class: the key of the items' checksum in ``identity`` (default ``items``).
        one_object: set in the class: whether the parser returns a list of a single object that holds all items, which
            is then passed to the methods instead of a list (default false).
        from_options: set in the class: names of card options that are arguments of the constructor (default none).
        settable: set in the class: card options that a user may set after the task's name (``bli-en-fr:train=1k``),
            with their defaults (default none).
        card: the ``Card`` of the task; ``None`` for a task made in code.

    Raises:
        DataFormatError: by ``load``, if ``check`` refuses the items, or the card's parser returns others than
            ``item_class``.

    Example:
        Is a text closer to its paraphrase than to another text?

        >>> import numpy as np
        >>> from mirrorbench.plugin import Scores, TaskKind, TextInput, Vectors, cosine
        >>> class Triplets(TaskKind):
        ...     item_class = tuple
        ...     level = "sentence"
        ...     main_metric = "accuracy"
        ...
        ...     def check(self, items):
        ...         self.check_ids([text for text, _, _ in items])
        ...
        ...     def inputs(self, items):
        ...         return [TextInput(text) for item in items for text in item]
        ...
        ...     def score(self, items, vectors, protocol):
        ...         texts, near, far = (vectors([TextInput(text) for text in side]) for side in zip(*items))
        ...         right = cosine(texts, near) > cosine(texts, far)
        ...         ids = [item[0] for item in items]
        ...         return Scores({"accuracy": right.mean()}, ids, scores=right, gold=np.ones(len(items)))

        To try it without a plugin, with the vectors of an encoder:

        >>> task = Triplets("paraphrases", [("a cat", "a kitten", "a bus"), ("a car", "an auto", "a cow")])
        >>> items = task.load(None)
        >>> array = np.array([[2, 1], [3, 1], [0, 1], [1, 4], [0, 1], [1, 3]], dtype=np.float32)
        >>> task.score(items, Vectors(task.inputs(items), array), "paper").metrics
        {'accuracy': 0.5}
    """

    items_name: ClassVar[str] = "items"
    item_class: ClassVar[type] = object
    one_object: ClassVar[bool] = False
    from_options: ClassVar[tuple[str, ...]] = ()
    settable: ClassVar[Mapping[str, Any]] = {}

    card: Card | None = None

    def __init__(
        self, name: str, items: Items | Callable[[DataStore], Items], **info: Unpack[TaskInfo]
    ) -> None:
        self.name = name
        self._items = items
        for attribute, value in info.items():
            # A card leaves an attribute empty to keep the default of its class.
            if value != "":
                setattr(self, attribute, value)
        self.title = self.title or name

    @classmethod
    def from_card(cls, card: Card) -> Self:
        """Make the task that a card declares; a wrong option of the card is a ``DataFormatError``."""
        info = TaskInfo(
            title=card.label,
            level=card.level,
            languages=card.languages,
            corpus=str(card.options.get("corpus", "")),
            main_metric=card.metric,
            version=card.version,
            identifies=card.identifies,
        )
        options = {key: card.options[key] for key in cls.from_options if key in card.options}
        task = cls(card.name, lambda data: cls.parsed(card, data), **info, **options)
        task.max_length = whole_number(card.options, "max_length", 0)
        task.card = card
        return task

    def reading(self, protocol: str, of_target: bool = False) -> TaskKind[Items]:
        """Return the task as a protocol reads its data.

        For ``released``, the card's parser gets ``protocol`` and ``of_target`` as options.
        """
        if self.card is None or protocol == "paper":
            return self
        options = {**self.card.options, "protocol": protocol, "of_target": of_target}
        return self.from_card(msgspec.structs.replace(self.card, options=options))

    @classmethod
    def parsed(cls, card: Card, data: DataStore) -> Any:
        """Parse a card's files; items of another class are a ``DataFormatError``."""
        items = data.items(card)
        if not isinstance(items[0], cls.item_class):
            parser = data.resolve(card).parser
            problem = (
                f"Card {card.name!r}: the kind {card.kind!r} works on {cls.item_class.__name__}, and the parser "
                f"{parser!r} with these options returns {type(items[0]).__name__}."
            )
            hint = (
                "The parser 'table' reads words in context where the option 'marks' says how the targets are marked, "
                'e.g. marks: ["<b>", "</b>"], and \'labels\' makes them pairs with a label instead of a rating.'
            )
            raise DataFormatError(problem, hint)
        return items[0] if cls.one_object else items

    def fetch(self, data: DataStore) -> None:
        """Fetch the card's files."""
        if self.card:
            data.resolve(self.card)

    def identity(self, data: DataStore) -> dict[str, str]:
        """Return checksums of the card's files, and of a user's own card; without a card, of the items."""
        if self.card is None:
            return {self.items_name: checksum(self.written(self.load(data)))}
        card = self.card
        checksums = data.checksums(card)
        sources = [source for file in card.files for source in file.sources]
        if any(isinstance(source, BesideSource) for source in sources):
            # The files lie beside the card: it is a user's own, who may still change its options.
            settings = f"{card.kind} {card.parser} {sorted(card.options.items())}"
            return checksums | {"card": checksum(settings)}
        return checksums

    def load(self, data: DataStore) -> Items:
        """Read and check the items; unsuitable ones are a ``DataFormatError``."""
        items: Any = self._items(data) if callable(self._items) else self._items
        if isinstance(items, Iterable):
            items = list(items)
        self.check(items)
        return cast("Items", items)

    @abstractmethod
    def check(self, items: Items) -> None:
        """Raise ``DataFormatError`` if the items do not suit this kind of task."""

    def written(self, items: Items) -> str:
        """Return the items as text, for their checksum."""
        return repr(items)

    def check_ids(self, ids: Sequence[str]) -> None:
        """Raise ``DataFormatError`` if there are no items, or two have the same id."""
        if not ids:
            raise DataFormatError(f"task {self.name}: the data set holds no items")
        repeated = [item_id for item_id, n in Counter(ids).items() if n > 1]
        if repeated:
            raise DataFormatError(
                f"task {self.name}: item ids repeat, such as {shown(str(repeated[0]))}"
            )
