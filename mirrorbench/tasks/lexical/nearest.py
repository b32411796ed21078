"""Tasks by nearest neighbour: entity linking in a dictionary, disambiguation among the senses of a lemma."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from mirrorbench.core.errors import DataFormatError
from mirrorbench.core.identity import checksum
from mirrorbench.core.inputs import TextInput, rounded, unit
from mirrorbench.data.items import Disambiguation, Linking, example_choice
from mirrorbench.tasks.base import Scores, TaskKind, Vectors
from mirrorbench.tasks.lexical.neighbours import topk
from mirrorbench.tasks.metrics import accuracy_at

if TYPE_CHECKING:
    from mirrorbench.data.cards import Card

DEPTH = 5
"""Number of neighbours: the papers report up to accuracy@5."""


class EntityLinking(TaskKind[Sequence[Linking]]):
    """Linking of mentions to a dictionary of names by nearest neighbour.

    Metrics: ``accuracy@1`` and ``accuracy@5``. A name is right if it shares an id with the gold; every part of a
    composite mention must be right; a name of several ids is one neighbour. With several folds, metrics are averaged
    over them. Composite and repeated mentions count too (as in the released evaluator, SapBERT).

    Similarity is the cosine; under the protocol ``released`` the dot product, as in the released evaluator. Its 25
    tokens and its lower case hold under both protocols, since Mirror-BERT's paper mentions neither.

    Args:
        name: the task's name.
        items: mentions and dictionaries, one for each fold, or a function that reads them from a ``DataStore``.
        **info: title, level, languages, corpus, main_metric and version, see ``Task``.
    """

    items_name = "linkings"
    item_class = Linking
    level = "phrase"
    main_metric = "accuracy@1"

    def written(self, items: Sequence[Linking]) -> str:
        """Return mentions and dictionaries as text, sets in a fixed order."""
        texts = []
        for linking in items:
            texts += [
                repr((mention.id, mention.parts, sorted(mention.gold)))
                for mention in linking.mentions
            ]
            texts.append(_dictionary_checksum([linking]))
        return "".join(texts)

    def first(self, items: Sequence[Linking], limit: int) -> list[Linking]:
        """Return the first mentions of each fold, with their names in the dictionary and as many others."""
        cut = []
        for part in items:
            mentions = part.mentions[:limit]
            gold = frozenset[str]().union(*(mention.gold for mention in mentions))
            rows = [i for i, ids in enumerate(part.ids) if i < limit or ids & gold]
            names, ids = tuple(part.names[i] for i in rows), tuple(part.ids[i] for i in rows)
            cut.append(replace(part, mentions=mentions, names=names, ids=ids))
        return cut

    def check(self, items: Sequence[Linking]) -> None:
        """Check that each fold has mentions and names, and that ids of mentions are unique."""
        if not all(linking.mentions and linking.names for linking in items):
            raise DataFormatError(f"task {self.name}: no mentions, or no names to link them to")
        self.check_ids([mention.id for linking in items for mention in linking.mentions])

    def inputs(self, items: Sequence[Linking]) -> list[TextInput]:
        """Return all parts of mentions and all names."""
        return [
            TextInput(text)
            for linking in items
            for text in (
                *(part for mention in linking.mentions for part in mention.parts),
                *linking.names,
            )
        ]

    def texts(self, items: Sequence[Linking]) -> Mapping[str, tuple[str, ...]]:
        """Return the parts of each mention; names of the dictionary are not test items."""
        return {mention.id: mention.parts for linking in items for mention in linking.mentions}

    def shared(self, items: Sequence[Linking]) -> Mapping[str, tuple[str, ...]]:
        """Return the parts of each mention, and its document if known."""
        return {
            m.id: (*m.parts, *filter(None, (m.document,)))
            for linking in items
            for m in linking.mentions
        }

    def score(self, items: Sequence[Linking], vectors: Vectors, protocol: str = "paper") -> Scores:
        """Search the neighbours of each mention, and compute ranks and accuracies."""
        similarity = "dot" if protocol == "released" else "cosine"
        linked = [_link(linking, vectors, similarity) for linking in items]
        accuracies = {
            k: float(np.mean([accuracy_at(k, ranks) for ranks, _ in linked])) for k in (1, DEPTH)
        }
        ranks, predicted = (np.concatenate(arrays) for arrays in zip(*linked, strict=True))
        folds = np.array([linking.fold for linking in items for _ in linking.mentions])
        return Scores(
            {f"accuracy@{k}": value for k, value in accuracies.items()},
            [mention.id for linking in items for mention in linking.mentions],
            (ranks <= 1).astype(np.float64),
            np.ones(len(ranks)),
            notes=(f"similarity: {similarity}", *_notes(items)),
            extra={"rank": ranks, "predicted": predicted, "fold": folds},
        )


def _link(
    linking: Linking, vectors: Vectors, similarity: str
) -> tuple[NDArray[np.float64], NDArray[np.str_]]:
    """The rank of the first right name of each mention (infinite beyond ``DEPTH``), and the nearest names."""
    parts = list(dict.fromkeys(part for mention in linking.mentions for part in mention.parts))
    queries = vectors([TextInput(part) for part in parts])
    keys = vectors([TextInput(name) for name in linking.names])
    indices = topk(queries, keys, DEPTH, similarity, device=vectors.device)[0]
    neighbours = dict(zip(parts, indices.tolist(), strict=True))
    ranks: list[float] = []
    predicted = []
    for mention in linking.mentions:
        hits = [
            [bool(linking.ids[row] & mention.gold) for row in neighbours[part]]
            for part in mention.parts
        ]
        ranks.append(max(hit.index(True) + 1 if any(hit) else np.inf for hit in hits))
        predicted.append("|".join(linking.names[neighbours[part][0]] for part in mention.parts))
    return np.array(ranks), np.array(predicted)


def _notes(items: Sequence[Linking]) -> list[str]:
    sizes = sorted({len(linking.names) for linking in items})
    size = " to ".join(map(str, dict.fromkeys((sizes[0], sizes[-1]))))
    notes = [f"dictionary: {size} names, sha256 {_dictionary_checksum(items)}"]
    if len(items) > 1:
        notes.append(f"mean over {len(items)} folds, each with its own dictionary")
    known = [frozenset[str]().union(*linking.ids) for linking in items]
    unknown = sum(
        not (m.gold & ids)
        for linking, ids in zip(items, known, strict=True)
        for m in linking.mentions
    )
    if unknown:
        notes.append(
            f"{unknown} mentions stand for concepts missing from the dictionary; they count as errors"
        )
    return notes


def _dictionary_checksum(items: Sequence[Linking]) -> str:
    """SHA-256 of the dictionaries: a line ``id|id||name`` for each name, ids sorted."""
    rows = (row for linking in items for row in zip(linking.names, linking.ids, strict=True))
    return checksum("".join(f"{'|'.join(sorted(ids))}||{name}\n" for name, ids in rows))


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
