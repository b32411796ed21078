"""Word sense disambiguation among the senses of a word's lemma, by nearest neighbour."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from mirrorbench.core.encoder_protocol import TextInput
from mirrorbench.core.errors import DataFormatError
from mirrorbench.core.vectors import rounded, unit
from mirrorbench.data.items import Disambiguation, example_choice
from mirrorbench.tasks.base import Scores, TaskKind, Vectors

if TYPE_CHECKING:
    from mirrorbench.data.cards import Card


class SenseDisambiguation(TaskKind[Disambiguation]):
    """Disambiguation by nearest neighbour among the senses of a word's lemma and part of speech (MirrorWiC, section 4).

    A sense has one vector, of the word in an example of its WordNet entry: "one context example per label"
    (section 4). The example is the first in WordNet's order; with ``examples=random`` one drawn by ``seed``; with
    ``examples=all`` the vector is the mean over all examples. If no example has the word, the vector is of the word in
    "<word> means <definition>" (footnote 3). Under the protocol ``released`` the vector is the mean over all examples
    and that sentence, with the form of the word to disambiguate, as in the authors' code; an encoder of whole texts
    gets the definition alone. Similarity is the cosine.

    Metrics: ``accuracy`` over all words (equal to F1, since each word has one answer), ``accuracy_<corpus>`` for each
    part of the data set, and ``mfs_accuracy`` of the first sense in WordNet's order, the most frequent one, which
    tables show as a row.

    Args:
        name: the task's name.
        items: the words and their senses, or a function that reads them from a ``DataStore``.
        **info: title, level, languages, corpus, main_metric and version, see ``Task``.
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
        words = items.occurrences[:limit]
        used = {name for word in words for name in word.contexts or word.candidates}
        return Disambiguation(
            words, {name: sense for name, sense in items.senses.items() if name in used}
        )

    def check(self, items: Disambiguation) -> None:
        """Check that ids are unique, candidates have contexts, and right senses are candidates."""
        self.check_ids([occurrence.id for occurrence in items.occurrences])
        for occurrence in items.occurrences:
            known = set(occurrence.contexts or occurrence.candidates) <= items.senses.keys()
            if (
                not known
                or not occurrence.gold
                or not occurrence.gold <= set(occurrence.candidates)
            ):
                raise DataFormatError(
                    f"task {self.name}: the senses of {occurrence.id} do not go together"
                )

    def inputs(self, items: Disambiguation) -> list[TextInput]:
        """Return the words, and the contexts of all candidate senses."""
        contexts = (
            item for sense in items.senses.values() for item in (*sense.examples, sense.gloss)
        )
        return [*(occurrence.target for occurrence in items.occurrences), *contexts]

    def texts(self, items: Disambiguation) -> Mapping[str, tuple[str, ...]]:
        """Return the sentence of each word; examples of senses are not test items."""
        return {occurrence.id: (occurrence.target.text,) for occurrence in items.occurrences}

    def shared(self, items: Disambiguation) -> Mapping[str, tuple[str, ...]]:
        """Return the sentence of each word, and its candidate senses, which stand for its lemma."""
        return {o.id: (o.target.text, " ".join(o.candidates)) for o in items.occurrences}

    def senses(self, items: Disambiguation, lemma: str) -> Mapping[TextInput, str]:
        """Return the contexts of a lemma with their sense: words to disambiguate, and examples of senses."""
        senses: dict[TextInput, str] = {}
        for occurrence in items.occurrences:
            sense = min(occurrence.gold)
            if sense.partition("%")[0] == lemma:
                senses.setdefault(occurrence.target, sense)
        for sense, contexts in items.senses.items():
            if sense.partition("%")[0] == lemma:
                senses.update(
                    (example, sense) for example in contexts.examples if example not in senses
                )
        return senses

    def score(self, items: Disambiguation, vectors: Vectors, protocol: str = "paper") -> Scores:
        """Find the nearest candidate of each word, and compute the accuracies."""
        means = []
        for sense in items.senses.values():
            examples_only = sense.examples and protocol != "released"
            contexts = sense.examples if examples_only else (*sense.examples, sense.gloss)
            means.append(vectors(contexts).astype(np.float64).mean(axis=0))
        senses, keys = unit(np.stack(means)), {key: row for row, key in enumerate(items.senses)}
        words = unit(vectors([occurrence.target for occurrence in items.occurrences]))
        best, similarity = [], []
        for word, occurrence in zip(words, items.occurrences, strict=True):
            rows = [keys[name] for name in occurrence.contexts or occurrence.candidates]
            cosines = rounded(senses[rows] @ word)
            best.append(
                occurrence.candidates[int(cosines.argmax())]
            )  # on ties the most frequent sense
            similarity.append(float(cosines.max()))
        hits = np.array(
            [key in o.gold for key, o in zip(best, items.occurrences, strict=True)],
            dtype=np.float64,
        )
        first = np.array([o.candidates[0] in o.gold for o in items.occurrences])
        corpora = np.array([occurrence.corpus for occurrence in items.occurrences])
        metrics: dict[str, float | None] = {
            "accuracy": float(hits.mean()),
            "mfs_accuracy": float(first.mean()),
        }
        for corpus in dict.fromkeys(corpora.tolist()):
            metrics[f"accuracy_{corpus}"] = float(hits[corpora == corpus].mean())
        counts = [len(sense.examples) for sense in items.senses.values()]
        note = f"{np.count_nonzero(counts)} of {len(counts)} senses have examples with the word in them"
        return Scores(
            metrics,
            [occurrence.id for occurrence in items.occurrences],
            hits,
            np.ones(len(hits)),
            notes=(f"{note}, at most {max(counts)} each",),
            extra={"predicted": np.array(best), "similarity": np.array(similarity), "mfs": first},
        )
