"""Entity linking: mentions to the names of a dictionary, by nearest neighbour."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from mirrorbench.core.encoder_protocol import TextInput
from mirrorbench.core.errors import DataFormatError
from mirrorbench.core.identity import checksum
from mirrorbench.data.items import Linking
from mirrorbench.tasks.base import Scores, TaskKind, Vectors
from mirrorbench.tasks.lexical.nearest_neighbours import topk
from mirrorbench.tasks.metrics import accuracy_at

if TYPE_CHECKING:
    pass

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
