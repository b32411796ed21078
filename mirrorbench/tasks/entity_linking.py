"""Entity linking: is a concept's name in the dictionary the nearest neighbour of a mention?"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from mirrorbench.core.errors import DataFormatError
from mirrorbench.core.inputs import TextInput
from mirrorbench.data.formats import parse
from mirrorbench.data.items import Linking, Mention
from mirrorbench.tasks import Scores, Task, Vectors
from mirrorbench.tasks.from_card import FromCard, arguments
from mirrorbench.tasks.metrics.ranking import accuracy_at
from mirrorbench.tasks.neighbours import topk

if TYPE_CHECKING:
    from mirrorbench.data.cards import Card
    from mirrorbench.data.store import DataStore

DEPTH = 5
"""Neighbours that are looked at: accuracy@5 is the deepest that the papers report."""


class EntityLinking(Task):
    """Mentions against a dictionary of names by nearest neighbour.

    Metrics: ``accuracy@1`` and ``accuracy@5``. A name hits where it shares any id with the gold; of a composite mention
    every part must hit; a name of several ids counts once among the neighbours. With several folds, the metrics are
    averaged over them. No mention is left out for being composite or repeated (as in the released evaluator, SapBERT).

    Similarity is the cosine; under the protocol ``released`` the dot product, which the released evaluator uses.

    Args:
        name: the task's name.
        linkings: mentions and dictionaries, one for each fold, or a function that reads them from a ``DataStore``.
        level: ``word``, ``phrase`` or ``sentence``.
        title: the column's head, by default the name.
        languages: ISO codes.
        corpus: what an encoder is tuned on for this task by default.
        main_metric: which metric tables show.
        version: raised when the same files would give other numbers.
    """

    def __init__(
        self,
        name: str,
        linkings: Sequence[Linking] | Callable[[DataStore], Sequence[Linking]],
        level: str = "phrase",
        title: str = "",
        languages: tuple[str, ...] = ("en",),
        corpus: str = "",
        main_metric: str = "accuracy@1",
        version: int = 1,
    ) -> None:
        self.name, self.title, self.level, self.languages = name, title or name, level, languages
        self.corpus, self.main_metric, self.version = corpus, main_metric, version
        self._linkings = linkings

    def identity(self, data: DataStore) -> dict[str, str]:
        """A checksum over mentions and dictionaries."""
        digest = hashlib.sha256()
        for linking in self.load(data):
            for mention in linking.mentions:
                digest.update(repr((mention.id, mention.parts, sorted(mention.gold))).encode())
            digest.update(_checksum([linking]).encode())
        return {"linkings": digest.hexdigest()}

    def load(self, data: DataStore) -> list[Linking]:
        """The folds, each checked to have mentions with ids of their own, and names."""
        linkings = list(self._linkings(data) if callable(self._linkings) else self._linkings)
        ids = [mention.id for linking in linkings for mention in linking.mentions]
        if not linkings or not all(linking.mentions and linking.names for linking in linkings):
            raise DataFormatError(f"task {self.name}: no mentions, or no names to link them to")
        if len(set(ids)) != len(ids):
            raise DataFormatError(f"task {self.name}: mention ids repeat")
        return linkings

    def inputs(self, items: Sequence[Linking]) -> list[TextInput]:
        """All parts of mentions and all names."""
        return [
            TextInput(text)
            for linking in items
            for text in (*(part for mention in linking.mentions for part in mention.parts), *linking.names)
        ]

    def texts(self, items: Sequence[Linking]) -> Mapping[str, tuple[str, ...]]:
        """The parts of each mention; the names of the dictionary are no test items."""
        return {mention.id: mention.parts for linking in items for mention in linking.mentions}

    def score(self, items: Sequence[Linking], vectors: Vectors, protocol: str = "paper") -> Scores:
        """The rank of the first right name for each mention, and what follows from it."""
        similarity = "dot" if protocol == "released" else "cosine"
        found = [_link(linking, vectors, similarity) for linking in items]
        metrics = {f"accuracy@{k}": _mean([accuracy_at(k, ranks) for ranks, _ in found]) for k in (1, DEPTH)}
        ranks = np.concatenate([ranks for ranks, _ in found])
        hits = (ranks <= 1).astype(np.float64)
        return Scores(
            metrics,
            [mention.id for linking in items for mention in linking.mentions],
            hits,
            np.ones(len(hits)),
            notes=(f"similarity: {similarity}", *_notes(items)),
            extra={
                "rank": ranks,
                "predicted": np.concatenate([predicted for _, predicted in found]),
                "fold": np.array([linking.fold for linking in items for _ in linking.mentions]),
            },
        )


class CardEntityLinking(FromCard, EntityLinking):
    """Entity linking on the files of a card."""

    def __init__(self, card: Card) -> None:
        super().__init__(linkings=lambda data: parse(data.resolve(card)), **arguments(card))
        self.card = card


def _link(linking: Linking, vectors: Vectors, similarity: str) -> tuple[NDArray[np.float64], NDArray[np.str_]]:
    """Ranks of the mentions' first hits (infinite beyond ``DEPTH``), and the names that came first.

    The rank of a composite mention is that of its last part to hit.
    """
    parts = list(dict.fromkeys(part for mention in linking.mentions for part in mention.parts))
    queries = vectors([TextInput(part) for part in parts])
    keys = vectors([TextInput(name) for name in linking.names])
    neighbours = dict(zip(parts, topk(queries, keys, DEPTH, similarity)[0].tolist(), strict=True))
    ranks = [
        max(_first_hit(neighbours[part], mention, linking.ids) for part in mention.parts)
        for mention in linking.mentions
    ]
    predicted = ["|".join(linking.names[neighbours[part][0]] for part in m.parts) for m in linking.mentions]
    return np.array(ranks), np.array(predicted)


def _first_hit(neighbours: list[int], mention: Mention, ids: Sequence[frozenset[str]]) -> float:
    hits = (rank for rank, index in enumerate(neighbours, start=1) if ids[index] & mention.gold)
    return next(hits, float("inf"))


def _mean(values: Sequence[float | None]) -> float | None:
    """The mean over folds; undefined where one is."""
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if known and len(known) == len(values) else None


def _notes(items: Sequence[Linking]) -> list[str]:
    sizes = sorted({len(linking.names) for linking in items})
    size = f"{sizes[0]}" if len(sizes) == 1 else f"{sizes[0]} to {sizes[-1]}"
    notes = [f"dictionary: {size} names, sha256 {_checksum(items)}"]
    if len(items) > 1:
        notes.append(f"mean over {len(items)} folds, each with its own dictionary")
    known = [frozenset[str]().union(*linking.ids) for linking in items]
    lost = sum(not (m.gold & ids) for linking, ids in zip(items, known, strict=True) for m in linking.mentions)
    if lost:
        notes.append(f"{lost} mentions stand for concepts that the dictionary lacks; they count as errors")
    return notes


def _checksum(items: Sequence[Linking]) -> str:
    """SHA-256 over the dictionaries: a line ``id|id||name`` for each name, ids sorted."""
    digest = hashlib.sha256()
    for linking in items:
        for name, ids in zip(linking.names, linking.ids, strict=True):
            digest.update(f"{'|'.join(sorted(ids))}||{name}\n".encode())
    return digest.hexdigest()
