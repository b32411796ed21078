"""Entity linking: mentions to the names of a dictionary, by nearest neighbour."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mirrorbench.core.encoder_protocol import TextInput
from mirrorbench.core.errors import DataFormatError
from mirrorbench.core.identity import checksum
from mirrorbench.data.items import Linking, Mention
from mirrorbench.tasks.base import Scores, TaskKind, Vectors
from mirrorbench.tasks.lexical.nearest_neighbours import topk
from mirrorbench.tasks.metrics import accuracy_at

DEPTH = 5
"""Number of neighbours: the papers report up to accuracy@5."""


class EntityLinking(TaskKind[Sequence[Linking]]):
    """Linking of mentions to a dictionary of names by nearest neighbour.

    Metrics: ``accuracy@1`` and ``accuracy@5``. A name is right if it shares an id with the gold; every part of a
    composite mention must be right; a name with several ids is one neighbour. With several folds, metrics are averaged
    over them. Composite and repeated mentions count too (as in the released evaluator, SapBERT).

    The similarity is the cosine or, under the protocol ``released``, the dot product, as in the released evaluator. Its
    limit of 25 tokens and its lower-casing apply under both protocols, since Mirror-BERT's paper mentions neither.

    Args:
        name: the task's name.
        items: a ``Linking`` (mentions and their dictionary) for each fold, or a function that reads them from a
            ``DataStore``.
        **info: attributes of ``Task``: ``title`` (default: the name), ``level`` (``phrase``), ``languages``
            (``("en",)``), ``corpus``, ``main_metric`` (``accuracy@1``), ``version`` (1) and ``identifies``.

    Raises:
        DataFormatError: by ``load``, if a fold has no mentions or no names, or two mentions of the task have the same
            id.

    Example:
        A plugin makes the task in code and registers it with ``register_tasks``; mirrorbench makes it from a card of
        the kind ``entity-linking``. A subclass may override any method, and must implement none.

        >>> import numpy as np
        >>> from mirrorbench.plugin import EntityLinking, Linking, Mention, Vectors
        >>> linking = Linking(
        ...     mentions=(Mention("note-7/1", ("heart attacks",), frozenset({"D009203"})),),
        ...     names=("heart attack", "flu"),
        ...     ids=(frozenset({"D009203"}), frozenset({"D007251"})),
        ... )
        >>> task = EntityLinking("notes", [linking])

        To try it without a plugin, with an encoder's vectors of the mention and the two names:

        >>> items = task.load(None)
        >>> array = np.array([[2, 1], [3, 1], [0, 1]], dtype=np.float32)
        >>> task.score(items, Vectors(task.inputs(items), array)).metrics
        {'accuracy@1': 1.0, 'accuracy@5': 1.0}
    """

    items_name = "linkings"
    item_class = Linking
    level = "phrase"
    main_metric = "accuracy@1"

    def written(self, items: Sequence[Linking]) -> str:
        """Return mentions and dictionaries as text, sets in a fixed order."""
        texts = []
        for linking in items:
            for mention in linking.mentions:
                texts.append(repr((mention.id, mention.parts, sorted(mention.gold))))
            texts.append(_dictionary_checksum([linking]))
        return "".join(texts)

    def first(self, items: Sequence[Linking], limit: int) -> list[Linking]:
        """Return the first ``limit`` mentions of each fold; of its names, the first ``limit`` and the right ones."""
        shortened = []
        for linking in items:
            mentions = linking.mentions[:limit]
            gold = frozenset[str]().union(*(mention.gold for mention in mentions))
            names = []
            ids = []
            for row, (name, ids_of_name) in enumerate(zip(linking.names, linking.ids, strict=True)):
                if row < limit or ids_of_name & gold:
                    names.append(name)
                    ids.append(ids_of_name)
            shortened.append(
                replace(linking, mentions=mentions, names=tuple(names), ids=tuple(ids))
            )
        return shortened

    def check(self, items: Sequence[Linking]) -> None:
        """Check that each fold has mentions and names, and that ids of mentions are unique."""
        if not all(linking.mentions and linking.names for linking in items):
            raise DataFormatError(f"task {self.name}: no mentions, or no names to link them to")
        self.check_ids([mention.id for mention in _all_mentions(items)])

    def inputs(self, items: Sequence[Linking]) -> list[TextInput]:
        """Return all parts of mentions and all names."""
        inputs = []
        for linking in items:
            for mention in linking.mentions:
                inputs += [TextInput(part) for part in mention.parts]
            inputs += [TextInput(name) for name in linking.names]
        return inputs

    def texts(self, items: Sequence[Linking]) -> Mapping[str, tuple[str, ...]]:
        """Return the parts of each mention; names of the dictionary are not test items."""
        return {mention.id: mention.parts for mention in _all_mentions(items)}

    def shared(self, items: Sequence[Linking]) -> Mapping[str, tuple[str, ...]]:
        """Return the parts of each mention, and its document if known."""
        shared = {}
        for mention in _all_mentions(items):
            documents = (mention.document,) if mention.document else ()
            shared[mention.id] = (*mention.parts, *documents)
        return shared

    def score(self, items: Sequence[Linking], vectors: Vectors, protocol: str = "paper") -> Scores:
        """Return the accuracies and, for each mention, whether its nearest name is right (1 or 0) as the score."""
        similarity = "dot" if protocol == "released" else "cosine"
        folds = [_link(linking, vectors, similarity) for linking in items]
        metrics: dict[str, float | None] = {}
        for k in (1, DEPTH):
            accuracies = [accuracy_at(k, fold.ranks) for fold in folds]
            metrics[f"accuracy@{k}"] = float(np.mean(accuracies))
        # Then all mentions in one list, one fold after the other.
        ranks = np.concatenate([fold.ranks for fold in folds])
        predicted = np.concatenate([fold.predicted for fold in folds])
        fold_names = np.array([linking.fold for linking in items for _ in linking.mentions])
        return Scores(
            metrics,
            ids=[mention.id for mention in _all_mentions(items)],
            scores=(ranks <= 1).astype(np.float64),
            gold=np.ones(len(ranks)),
            notes=(f"similarity: {similarity}", *_notes(items)),
            extra={"rank": ranks, "predicted": predicted, "fold": fold_names},
        )


class _LinkedMentions(NamedTuple):
    """The answers for the n mentions of a fold."""

    ranks: NDArray[np.float64]
    """Rank from 1 of the first right name of each mention, shape (n,); infinite beyond ``DEPTH``."""
    predicted: NDArray[np.str_]
    """Nearest name of each mention, shape (n,); names of several parts are joined by ``|``."""


def _link(linking: Linking, vectors: Vectors, similarity: str) -> _LinkedMentions:
    """Find the nearest names of each mention, and the rank of the first right one among them; infinite without one."""
    # Parts repeat across mentions: search for each distinct part once.
    distinct_parts = list(
        dict.fromkeys(part for mention in linking.mentions for part in mention.parts)
    )
    queries = vectors([TextInput(part) for part in distinct_parts])
    keys = vectors([TextInput(name) for name in linking.names])
    indices, _ = topk(queries, keys, DEPTH, similarity, device=vectors.device)
    neighbours_by_part = dict(zip(distinct_parts, indices.tolist(), strict=True))

    ranks = []
    predicted = []
    for mention in linking.mentions:
        ranks_of_parts = [
            _rank_of_first_right(neighbours_by_part[part], linking, mention.gold)
            for part in mention.parts
        ]
        # A composite mention is right only where all of its parts are: it has the worst of their ranks.
        ranks.append(max(ranks_of_parts))
        nearest_names = [linking.names[neighbours_by_part[part][0]] for part in mention.parts]
        predicted.append("|".join(nearest_names))
    return _LinkedMentions(np.array(ranks), np.array(predicted))


def _rank_of_first_right(
    neighbours: Sequence[int], linking: Linking, gold: frozenset[str]
) -> float:
    """Return the rank, from 1, of the first name that shares an id with ``gold``; infinite without one.

    ``neighbours`` are the rows of the names in the dictionary, the nearest first.
    """
    for rank, row in enumerate(neighbours, start=1):
        if linking.ids[row] & gold:
            return rank
    return np.inf


def _notes(items: Sequence[Linking]) -> list[str]:
    """Describe the dictionaries, the folds, and the concepts that no dictionary has."""
    sizes = [len(linking.names) for linking in items]
    smallest = min(sizes)
    largest = max(sizes)
    size = str(smallest) if smallest == largest else f"{smallest} to {largest}"
    notes = [f"dictionary: {size} names, sha256 {_dictionary_checksum(items)}"]
    if len(items) > 1:
        notes.append(f"mean over {len(items)} folds, each with its own dictionary")
    n_missing = 0
    for linking in items:
        dictionary_ids = frozenset[str]().union(*linking.ids)
        for mention in linking.mentions:
            n_missing += dictionary_ids.isdisjoint(mention.gold)
    if n_missing:
        notes.append(
            f"{n_missing} mentions have concepts that are missing from the dictionary; they count as errors"
        )
    return notes


def _all_mentions(items: Sequence[Linking]) -> list[Mention]:
    """Return the mentions of all folds."""
    return [mention for linking in items for mention in linking.mentions]


def _dictionary_checksum(items: Sequence[Linking]) -> str:
    """Return the SHA-256 of the dictionaries: a line ``id|id||name`` for each name, ids sorted."""
    lines = []
    for linking in items:
        for name, ids in zip(linking.names, linking.ids, strict=True):
            lines.append(f"{'|'.join(sorted(ids))}||{name}\n")
    return checksum("".join(lines))
