"""Word sense disambiguation by nearest neighbour: which sense's examples is a word in context nearest to?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from mirrorbench.core.errors import DataFormatError
from mirrorbench.core.inputs import TextInput
from mirrorbench.data.formats import parse
from mirrorbench.data.items import Disambiguation, SenseContexts
from mirrorbench.tasks.base import Scores, TaskKind, Vectors
from mirrorbench.tasks.metrics import unit

if TYPE_CHECKING:
    from mirrorbench.data.cards import Card
    from mirrorbench.data.store import DataStore


class SenseDisambiguation(TaskKind[Disambiguation]):
    """Nearest neighbour by cosine among the senses of a word's lemma and part of speech (MirrorWiC, section 4).

    A sense has one vector: the mean over the word in the sense's examples, or without examples, the word in "<word>
    means <definition>" (footnote 3). Under the protocol ``released`` that sentence is always part of the mean, as in
    the authors' code.

    Metrics: ``accuracy`` over all words (equal to F1, since each gets one answer), ``accuracy_<corpus>`` for each part
    of the data set, and ``mfs_accuracy``, of always taking the first sense in WordNet's order, the most frequent one;
    tables show it as a row.

    Args:
        name: the task's name.
        items: the words and their senses, or a function that reads them from a ``DataStore``.
        **info: title, level, languages, corpus, main_metric and version, see ``Task``.
    """

    items_name = "senses"
    level = "wic"
    main_metric = "accuracy"
    baselines: Mapping[str, str] = {"first sense in WordNet": "mfs_accuracy"}

    @staticmethod
    def parsed(card: Card, data: DataStore) -> Disambiguation:
        """The words and senses in a card's files."""
        items: Disambiguation = parse(data.resolve(card))[0]
        return items

    def written(self, items: Disambiguation) -> str:
        """Words and senses as text, sets in a fixed order."""
        words = [(word.id, word.target, word.candidates, sorted(word.gold)) for word in items.occurrences]
        return repr((words, dict(items.senses)))

    def check(self, items: Disambiguation) -> None:
        """Ids are unique, candidates have contexts, and right senses are candidates."""
        self.check_ids([occurrence.id for occurrence in items.occurrences])
        for occurrence in items.occurrences:
            if not occurrence.gold or not occurrence.gold <= set(occurrence.candidates) <= items.senses.keys():
                raise DataFormatError(f"task {self.name}: the senses of {occurrence.id} do not go together")

    def inputs(self, items: Disambiguation) -> list[TextInput]:
        """The words, and the contexts of all their candidate senses."""
        contexts = (item for sense in items.senses.values() for item in (*sense.examples, sense.gloss))
        return [*(occurrence.target for occurrence in items.occurrences), *contexts]

    def texts(self, items: Disambiguation) -> Mapping[str, tuple[str, ...]]:
        """The sentence of each word; examples of senses are not test items."""
        return {occurrence.id: (occurrence.target.text,) for occurrence in items.occurrences}

    def score(self, items: Disambiguation, vectors: Vectors, protocol: str = "paper") -> Scores:
        """The nearest candidate of each word, and how often it is right."""
        with_gloss = protocol == "released"
        keys = {key: row for row, key in enumerate(items.senses)}
        senses = unit(np.stack([_sense_vector(sense, vectors, with_gloss) for sense in items.senses.values()]))
        words = unit(vectors([occurrence.target for occurrence in items.occurrences]))
        best, similarity = [], []
        for word, occurrence in zip(words, items.occurrences, strict=True):
            cosines = senses[[keys[key] for key in occurrence.candidates]] @ word
            best.append(occurrence.candidates[int(cosines.argmax())])  # on ties the most frequent sense
            similarity.append(float(cosines.max()))
        hits = np.array([key in o.gold for key, o in zip(best, items.occurrences, strict=True)], dtype=np.float64)
        first = np.array([o.candidates[0] in o.gold for o in items.occurrences])
        corpora = np.array([occurrence.corpus for occurrence in items.occurrences])
        metrics: dict[str, float | None] = {"accuracy": float(hits.mean()), "mfs_accuracy": float(first.mean())}
        for corpus in dict.fromkeys(corpora.tolist()):
            metrics[f"accuracy_{corpus}"] = float(hits[corpora == corpus].mean())
        shown = sum(bool(sense.examples) for sense in items.senses.values())
        return Scores(
            metrics,
            [occurrence.id for occurrence in items.occurrences],
            hits,
            np.ones(len(hits)),
            notes=(f"{shown} of {len(items.senses)} senses have examples with the word in them",),
            extra={"predicted": np.array(best), "similarity": np.array(similarity), "mfs": first},
        )


def _sense_vector(sense: SenseContexts, vectors: Vectors, with_gloss: bool) -> NDArray[np.float64]:
    contexts: Sequence[TextInput] = sense.examples
    if with_gloss or not contexts:
        contexts = (*contexts, sense.gloss)
    mean: NDArray[np.float64] = vectors(contexts).astype(np.float64).mean(axis=0)
    return mean
