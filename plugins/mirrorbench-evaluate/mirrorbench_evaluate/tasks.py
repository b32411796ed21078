"""The tasks that own data are: what is encoded, and how the vectors are scored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np

from mirrorbench.plugin import (
    DataFormatError,
    Pair,
    PairSimilarity,
    Scores,
    TaskKind,
    TextInput,
    Vectors,
    auc,
    cosine,
    exact_threshold,
    shown,
)
from mirrorbench_evaluate.collections import (
    Collection,
    fused,
    measure,
    ranked,
    search,
)
from mirrorbench_evaluate.measures import RETRIEVAL, average_precision, chained, check_folds, folds, together

SHOWN = 3
"""The number of things found for an item that are kept to be shown (``--items``)."""


class OwnData:
    """The part that all kinds of own data have, beside being a task.

    Attributes:
        kind: as ``--kind`` names it.
        measures: what ``metric=`` may name, the main one first.
        items_name: what the scored items are.
        values_are: what ``--items`` shows of an item, where this is no score.
    """

    kind: ClassVar[str]
    measures: ClassVar[tuple[str, ...]]
    items_name: ClassVar[str]
    values_are: ClassVar[str] = ""

    untuned: ClassVar[bool] = True

    def counted(self, n: int) -> str:
        """So many items: ``1 query``, ``225 queries``."""
        return f"{n:,} {self.items_name if n != 1 else self.items_name.replace('ies', 'ys').removesuffix('s')}"

    def about(self, items: Any) -> str:
        """The number of items, what they are scored against, and what is odd in them."""
        return "; ".join((self.counted(len(self.texts(items))), *self.odd(items)))  # type: ignore[attr-defined]

    def odd(self, items: Any) -> Sequence[str]:
        """Remarks on data that make a score another one than their owner may think."""
        return ()

    def shared(self, items: Any) -> Mapping[str, tuple[str, ...]]:
        """The group of each item, with which it is resampled."""
        return chained(self.texts(items))  # type: ignore[attr-defined]

    def shown(self, items: Any, item: str) -> str:
        """The texts of an item."""
        return " | ".join(self.texts(items)[item])  # type: ignore[attr-defined]

    def documents(self, items: Any) -> Sequence[str]:
        """All texts."""
        return [item.text for item in self.inputs(items)]  # type: ignore[attr-defined]

    def found(self, items: Any, item: str, predictions: Sequence[Any]) -> list[str]:
        """Lines on what was found for an item, its best first; what is right is marked with a star."""
        return []


class Retrieval(OwnData, TaskKind[Collection]):
    """Documents for queries by cosine.

    Metrics: ``ndcg_at_10``, ``map`` (of the first 1,000 documents), ``mrr_at_10``, ``recall_at_10`` and
    ``recall_at_100``, means over the queries that have a relevant document, computed by pytrec_eval; with the prefix
    ``bm25_`` of BM25 without the encoder, with ``fused_`` of both by reciprocal ranks.
    """

    kind, items_name = "retrieval", "queries"
    level = "sentence"
    main_metric = "ndcg_at_10"
    measures = RETRIEVAL

    def about(self, items: Collection) -> str:
        """The numbers of queries and documents, and what is odd in them."""
        counts = f"{self.counted(len(items.queries))}, {len(items.documents):,} documents"
        return "; ".join((counts, *items.notes))

    def documents(self, items: Collection) -> Sequence[str]:
        """The documents."""
        return list(items.documents.values())

    def found(self, items: Collection, item: str, predictions: Sequence[Any]) -> list[str]:
        """The first documents."""
        right = items.judged[item]
        return [f"{'*' if right.get(name, 0) > 0 else ' '} {name}: {items.documents[name]}" for name in predictions]

    @property
    def baselines(self) -> Mapping[str, str]:  # type: ignore[override]
        """BM25."""
        return {"BM25": f"bm25_{self.main_metric}"}

    def check(self, items: Collection) -> None:
        """Nothing beyond what reading checks."""

    def written(self, items: Collection) -> str:
        """Texts and judgements as text."""
        judged = {query: sorted(grades.items()) for query, grades in items.judged.items()}
        return repr((dict(items.documents), dict(items.queries), judged))

    def first(self, items: Collection, limit: int) -> Collection:
        """The first queries, against all documents."""
        judged = dict(list(items.judged.items())[:limit])
        queries = {query: items.queries[query] for query in judged}
        return replace(items, queries=queries, judged=judged)

    def inputs(self, items: Collection) -> list[TextInput]:
        """All documents and all queries, as these."""
        return [*_as("document", items.documents), *_as("query", items.queries)]

    def texts(self, items: Collection) -> Mapping[str, tuple[str, ...]]:
        """The text of each query; documents are not test items."""
        return {query: (text,) for query, text in items.queries.items()}

    def shared(self, items: Collection) -> Mapping[str, tuple[str, ...]]:
        """The group of each query, by its text and its relevant documents."""
        relevant = {
            query: [f"document {name}" for name, grade in grades.items() if grade > 0]
            for query, grades in items.judged.items()
        }
        return chained({query: (text, *relevant[query]) for query, text in items.queries.items()})

    def score(self, items: Collection, vectors: Vectors, protocol: str) -> Scores:
        """Search the documents of each query, and measure their ranking."""
        queries, documents = vectors(_as("query", items.queries)), vectors(_as("document", items.documents))
        by_vectors = ranked(list(items.documents), *search(queries, documents))
        rankings = {"": by_vectors, "bm25_": items.by_words, "fused_": fused(by_vectors, items.by_words)}
        measured = {
            f"{system}{name}": values
            for system, ranking in rankings.items()
            for name, values in measure(items, ranking).items()
        }
        return Scores(
            {name: float(values.mean()) for name, values in measured.items()},
            list(items.judged), measured[self.main_metric], np.zeros(len(items.judged)), notes=items.notes,
            extra={name: values for name, values in measured.items() if name != self.main_metric}
            | {"found": np.array([list(ranking)[:SHOWN] for ranking in by_vectors])},
        )  # fmt: skip


def _as(role: str, texts: Mapping[str, str]) -> list[TextInput]:
    return [TextInput(text, role=role) for text in texts.values()]


class Rated(OwnData, PairSimilarity):
    """Pairs with a number each."""

    values_are = "cosines, by their influence on the score"

    def shown(self, items: Sequence[Pair], item: str) -> str:
        """Both texts, and the number."""
        return f"{super().shown(items, item)} ({next(pair.gold for pair in items if pair.id == item):g})"


class Similarity(Rated):
    """Pairs with a rating: ``cosine_spearman``, and what ``PairSimilarity`` computes."""

    kind = "similarity"
    main_metric = "cosine_spearman"
    measures = (main_metric,)


class Pairs(Rated):
    """Pairs with a label of 1 or 0.

    Metrics: average precision (``cosine_ap``) and the area under the ROC curve (``auc``); where it is the main one,
    ``accuracy`` under a threshold of the cosine, chosen for each of five folds on the others. Pairs that share a text
    are in one fold.
    """

    kind = "pairs"
    main_metric = "cosine_ap"
    measures = (main_metric, "auc", "accuracy")

    def check(self, items: Sequence[Pair]) -> None:
        """Check what rated pairs need, and for a threshold that each label is in all folds."""
        super().check(items)
        if self.main_metric == "accuracy":
            texts = together([(pair.left, pair.right) for pair in items])
            check_folds(self.name, np.array([int(pair.gold) for pair in items]), texts)

    def score(self, items: Sequence[Pair], vectors: Vectors, protocol: str = "paper") -> Scores:
        """Cosines against the labels."""
        cosines, gold = self.cosines(items, vectors), np.array([pair.gold for pair in items])
        metrics = {name: f(cosines, gold) for name, f in (("cosine_ap", average_precision), ("auc", auc))}
        ids = [pair.id for pair in items]
        if self.main_metric != "accuracy":
            return Scores(metrics, ids, cosines, gold)
        hits = np.zeros(len(gold))
        for rows, held in folds(gold.astype(int), [(pair.left, pair.right) for pair in items]):
            hits[held] = (cosines[held] > exact_threshold(cosines[rows], gold[rows])) == gold[held]
        extra = {"cosine": cosines, "label": gold}
        return Scores({**metrics, "accuracy": float(hits.mean())}, ids, hits, np.ones(len(hits)), extra=extra)


class Triplet(NamedTuple):
    """An anchor, a text that is near to it, and one that is less near."""

    id: str
    anchor: str
    positive: str
    negative: str


class Triplets(OwnData, TaskKind[Sequence[Triplet]]):
    """Triplets of texts: ``accuracy``, how often the positive is nearer than the negative; ties are wrong."""

    kind, items_name = "triplets", "triplets"
    level = "sentence"
    main_metric = "accuracy"
    measures = (main_metric,)

    def check(self, items: Sequence[Triplet]) -> None:
        """Ids are unique."""
        self.check_ids([item.id for item in items])

    def inputs(self, items: Sequence[Triplet]) -> list[TextInput]:
        """The three texts of each."""
        return [TextInput(text) for item in items for text in item[1:]]

    def texts(self, items: Sequence[Triplet]) -> Mapping[str, tuple[str, ...]]:
        """The three texts of each."""
        return {item.id: item[1:] for item in items}

    def score(self, items: Sequence[Triplet], vectors: Vectors, protocol: str) -> Scores:
        """Compare the two cosines of each anchor."""
        texts = self.inputs(items)
        anchors, positives, negatives = (vectors(texts[start::3]) for start in range(3))
        margins = cosine(anchors, positives) - cosine(anchors, negatives)
        hits = (margins > 0).astype(np.float64)
        return Scores(
            {"accuracy": float(hits.mean())}, [item.id for item in items], hits, np.ones(len(hits)),
            extra={"margin": margins},
        )  # fmt: skip


@dataclass(frozen=True)
class Linked:
    """A dictionary of names with their ids, and mentions with the id that is right."""

    names: tuple[tuple[str, str], ...]
    mentions: tuple[tuple[str, str, str], ...]
    """Item id, text, id in the dictionary."""


class Linking(OwnData, TaskKind[Linked]):
    """Mentions against a dictionary of names by cosine: ``accuracy@1`` and ``accuracy@5``.

    A name is right if its id is the mention's. Mentions whose id is not in the dictionary count as errors.
    """

    kind, items_name = "linking", "mentions"
    level = "phrase"
    main_metric = "accuracy@1"
    measures = (main_metric, "accuracy@5")

    def check(self, items: Linked) -> None:
        """There are names and mentions."""
        self.check_ids([identity for identity, *_ in items.mentions])
        if not {right for *_, right in items.mentions} & {name for _, name in items.names}:
            raise DataFormatError(f"{self.name}: no mention has an id of the dictionary")

    def about(self, items: Linked) -> str:
        """The numbers of mentions and names, and what is odd in them."""
        counts = f"{self.counted(len(items.mentions))}, {len(items.names):,} names"
        return "; ".join((counts, *self.odd(items)))

    def odd(self, items: Linked) -> Sequence[str]:
        """Mentions whose id is not in the dictionary."""
        known = {name for _, name in items.names}
        lost = [right for *_, right in items.mentions if right not in known]
        what = "mentions with an id that is not in the dictionary, which are errors"
        return [f"{what}: {len(lost):,}, the first {shown(lost[0])}"] if lost else []

    def documents(self, items: Linked) -> Sequence[str]:
        """The names of the dictionary."""
        return [name for name, _ in items.names]

    def found(self, items: Linked, item: str, predictions: Sequence[Any]) -> list[str]:
        """The first names."""
        right = next(answer for name, _, answer in items.mentions if name == item)
        names = (items.names[row] for row in predictions)
        return [f"{'*' if identity == right else ' '} {identity}: {name}" for name, identity in names]

    def first(self, items: Linked, limit: int) -> Linked:
        """The first mentions, against all names."""
        return replace(items, mentions=items.mentions[:limit])

    def inputs(self, items: Linked) -> list[TextInput]:
        """All names and mentions."""
        return [TextInput(text) for text, _ in items.names] + [TextInput(text) for _, text, _ in items.mentions]

    def texts(self, items: Linked) -> Mapping[str, tuple[str, ...]]:
        """The text of each mention."""
        return {identity: (text,) for identity, text, _ in items.mentions}

    def score(self, items: Linked, vectors: Vectors, protocol: str) -> Scores:
        """Search the names of each mention, and compute the rank of the first right one."""
        texts = self.inputs(items)
        rows, _ = search(vectors(texts[len(items.names) :]), vectors(texts[: len(items.names)]), 5)
        ids, gold = np.array([name for _, name in items.names]), np.array([right for *_, right in items.mentions])
        right = ids[rows] == gold[:, None]
        ranks = np.where(right.any(axis=1), right.argmax(axis=1) + 1.0, np.inf)
        return Scores(
            {f"accuracy@{k}": float((ranks <= k).mean()) for k in (1, 5)},
            [identity for identity, *_ in items.mentions], (ranks <= 1).astype(np.float64), np.ones(len(ranks)),
            notes=tuple(self.odd(items)),
            extra={"rank": ranks, "found": rows[:, :SHOWN]},
        )  # fmt: skip
