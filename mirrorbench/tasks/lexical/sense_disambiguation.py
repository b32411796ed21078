"""Word sense disambiguation among the senses of a word's lemma, by nearest neighbour."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from mirrorbench.core.encoder_protocol import TextInput
from mirrorbench.core.errors import DataFormatError
from mirrorbench.core.vectors import rounded, unit
from mirrorbench.data.items import Disambiguation, Occurrence, example_choice
from mirrorbench.tasks.base import Scores, TaskKind, Vectors

if TYPE_CHECKING:
    from mirrorbench.data.cards import Card


class SenseDisambiguation(TaskKind[Disambiguation]):
    """Disambiguation by nearest neighbour among the senses of a word's lemma and part of speech (MirrorWiC, section 4).

    A sense has one vector, that of the word in an example of its WordNet entry: "one context example per label"
    (section 4). The example is the first in WordNet's order or, with ``examples=random``, one drawn by ``seed``; with
    ``examples=all`` the vector is the mean over all examples. If no example has the word, the vector is that of the
    word in "<word> means <definition>" (footnote 3). Under the protocol ``released`` the vector is the mean over all
    examples and that sentence, with the form of the word to disambiguate, as in the authors' code; an encoder of whole
    texts gets the definition alone. The similarity is the cosine.

    Metrics: ``accuracy`` over all words (equal to F1, since each word has one answer), ``accuracy_<corpus>`` for each
    part of the data set, and ``mfs_accuracy`` of the first sense in WordNet's order, the most frequent one, which
    tables show as a row.

    Args:
        name: the task's name.
        items: a ``Disambiguation``, which holds the words and their senses, or a function
            ``(DataStore) -> Disambiguation``.
        **info: attributes of ``Task``: ``title`` (default: the name), ``level`` (``wic``), ``languages``
            (``("en",)``), ``corpus``, ``main_metric`` (``accuracy``), ``version`` (1) and ``identifies``.

    Raises:
        DataFormatError: by ``load``, if there are no words, two have the same id, a candidate sense has no contexts, or
            a word has no right sense or one that is not among its candidates; for a card, if its options ``examples``
            or ``seed`` are wrong.

    Example:
        A plugin makes the task in code and registers it with ``register_tasks``; mirrorbench makes it from a card of
        the kind ``sense-disambiguation``. A subclass may override any method, and must implement none.

        >>> import numpy as np
        >>> from mirrorbench.plugin import Disambiguation, Occurrence, SenseContexts, SenseDisambiguation
        >>> from mirrorbench.plugin import TextInput, Vectors
        >>> word = TextInput("They sat on the bank.", spans=((16, 20),))
        >>> shore = SenseContexts((), TextInput("bank means sloping land beside water", spans=((0, 4),)))
        >>> money = SenseContexts((), TextInput("bank means a company that lends money", spans=((0, 4),)))
        >>> disambiguation = Disambiguation(
        ...     occurrences=(Occurrence("s1.t1", word, ("bank%1", "bank%2"), frozenset({"bank%1"}), "toy"),),
        ...     senses={"bank%1": shore, "bank%2": money},
        ... )
        >>> task = SenseDisambiguation("senses", disambiguation)

        To try it without a plugin, with an encoder's vectors of the word and of the two definitions:

        >>> items = task.load(None)
        >>> array = np.array([[2, 1], [3, 1], [0, 1]], dtype=np.float32)
        >>> scores = task.score(items, Vectors(task.inputs(items), array))
        >>> scores.extra["predicted"].tolist(), scores.metrics["accuracy"]
        (['bank%1'], 1.0)
    """

    item_class = Disambiguation
    items_name = "senses"
    one_object = True
    level = "wic"
    main_metric = "accuracy"
    baselines: Mapping[str, str] = {"first sense in WordNet": "mfs_accuracy"}
    settable: ClassVar[Mapping[str, Any]] = {"examples": "first", "seed": 0}

    @classmethod
    def from_card(cls, card: Card) -> Self:
        """Make the task of a card; ``DataFormatError`` for an invalid choice of examples."""
        example_choice(card.options)
        return super().from_card(card)

    def written(self, items: Disambiguation) -> str:
        """Return words and senses as text, sets in a fixed order."""
        words = [
            (word.id, word.target, word.candidates, sorted(word.gold), *word.contexts)
            for word in items.occurrences
        ]
        return repr((words, dict(items.senses)))

    def first(self, items: Disambiguation, limit: int) -> Disambiguation:
        """Return the first words, with their senses."""
        occurrences = items.occurrences[:limit]
        names = {name for occurrence in occurrences for name in _names_of_contexts(occurrence)}
        senses = {name: contexts for name, contexts in items.senses.items() if name in names}
        return Disambiguation(occurrences, senses)

    def check(self, items: Disambiguation) -> None:
        """Check that ids are unique, all candidates have contexts, and each word has right senses among them."""
        self.check_ids([occurrence.id for occurrence in items.occurrences])
        for occurrence in items.occurrences:
            have_contexts = items.senses.keys() >= set(_names_of_contexts(occurrence))
            are_candidates = occurrence.gold <= set(occurrence.candidates)
            if not have_contexts or not occurrence.gold or not are_candidates:
                raise DataFormatError(
                    f"task {self.name}: the candidates, contexts and right senses of {occurrence.id} do not match"
                )

    def inputs(self, items: Disambiguation) -> list[TextInput]:
        """Return the words, and the contexts of all candidate senses."""
        inputs = [occurrence.target for occurrence in items.occurrences]
        for contexts in items.senses.values():
            inputs += [*contexts.examples, contexts.gloss]
        return inputs

    def texts(self, items: Disambiguation) -> Mapping[str, tuple[str, ...]]:
        """Return the sentence of each word; examples of senses are not test items."""
        return {occurrence.id: (occurrence.target.text,) for occurrence in items.occurrences}

    def shared(self, items: Disambiguation) -> Mapping[str, tuple[str, ...]]:
        """Return the sentence of each word, and its candidate senses, which are the same for all words of a lemma."""
        shared = {}
        for occurrence in items.occurrences:
            shared[occurrence.id] = (occurrence.target.text, " ".join(occurrence.candidates))
        return shared

    def senses(self, items: Disambiguation, lemma: str) -> Mapping[TextInput, str]:
        """Return the contexts of a lemma with their sense: words to disambiguate, and examples of senses."""
        senses: dict[TextInput, str] = {}
        for occurrence in items.occurrences:
            sense = min(occurrence.gold)
            if _lemma_of(sense) == lemma:
                senses.setdefault(occurrence.target, sense)
        for sense, contexts in items.senses.items():
            if _lemma_of(sense) == lemma:
                for example in contexts.examples:
                    senses.setdefault(example, sense)
        return senses

    def score(self, items: Disambiguation, vectors: Vectors, protocol: str = "paper") -> Scores:
        """Return the accuracies and, for each word, whether its nearest candidate is right (1 or 0) as the score."""
        row_of_sense = {name: row for row, name in enumerate(items.senses)}
        sense_vectors = _sense_vectors(items, vectors, with_gloss=protocol == "released")
        word_vectors = unit(vectors([occurrence.target for occurrence in items.occurrences]))

        predicted = []
        similarities = []
        for occurrence, word_vector in zip(items.occurrences, word_vectors, strict=True):
            # The vectors of the candidates, in their order.
            rows = [row_of_sense[name] for name in _names_of_contexts(occurrence)]
            cosines = rounded(sense_vectors[rows] @ word_vector)
            # On ties argmax takes the first candidate, the most frequent sense.
            nearest = int(cosines.argmax())
            predicted.append(occurrence.candidates[nearest])
            similarities.append(float(cosines[nearest]))

        hits = []
        hits_of_first_sense = []
        for occurrence, sense in zip(items.occurrences, predicted, strict=True):
            hits.append(sense in occurrence.gold)
            # Candidates are in WordNet's order.
            hits_of_first_sense.append(occurrence.candidates[0] in occurrence.gold)
        scores = np.array(hits, dtype=np.float64)
        metrics: dict[str, float | None] = {
            "accuracy": float(scores.mean()),
            "mfs_accuracy": float(np.mean(hits_of_first_sense)),
        }
        corpora = np.array([occurrence.corpus for occurrence in items.occurrences])
        for corpus in dict.fromkeys(corpora.tolist()):
            metrics[f"accuracy_{corpus}"] = float(scores[corpora == corpus].mean())
        return Scores(
            metrics,
            ids=[occurrence.id for occurrence in items.occurrences],
            scores=scores,
            gold=np.ones(len(scores)),
            notes=(_note_on_examples(items),),
            extra={
                "predicted": np.array(predicted),
                "similarity": np.array(similarities),
                "mfs": np.array(hits_of_first_sense),
            },
        )


def _names_of_contexts(occurrence: Occurrence) -> tuple[str, ...]:
    """Return the names of the candidates' contexts in ``Disambiguation.senses``, in the order of the candidates."""
    return occurrence.contexts or occurrence.candidates


def _lemma_of(sense: str) -> str:
    """Return the lemma of a sense key, such as ``bank`` of ``bank%1:14:00::``."""
    return sense.partition("%")[0]


def _sense_vectors(
    items: Disambiguation, vectors: Vectors, with_gloss: bool
) -> NDArray[np.float64]:
    """Return the mean vector of each sense's contexts, of unit length, shape (senses, dimensions).

    Args:
        items: words and senses.
        vectors: of all inputs of the task.
        with_gloss: whether the gloss of a sense with examples is among its contexts; without examples it always is.
    """
    means = []
    for contexts in items.senses.values():
        inputs = contexts.examples
        if with_gloss or not inputs:
            inputs = (*inputs, contexts.gloss)
        means.append(vectors(inputs).astype(np.float64).mean(axis=0))
    return unit(np.stack(means))


def _note_on_examples(items: Disambiguation) -> str:
    """Say how many senses have examples, and how many they have at most."""
    counts = [len(contexts.examples) for contexts in items.senses.values()]
    n_with_examples = sum(count > 0 for count in counts)
    return (
        f"{n_with_examples} of {len(counts)} senses have examples with the word in them, "
        f"at most {max(counts)} each"
    )
