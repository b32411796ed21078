"""Tasks that rank documents for queries: all of a collection (``retrieval``), or candidates (``reranking``)."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mirrorbench.core.encoder_protocol import TextInput
from mirrorbench.core.vectors import unit
from mirrorbench.own_data.collection import Collection
from mirrorbench.own_data.measures import RERANKING, RETRIEVAL, resampling_groups
from mirrorbench.own_data.rankings import (
    DEPTH,
    Ranking,
    fuse,
    in_order_of_ties,
    measure,
    ranked,
    rankings_of,
    search,
)
from mirrorbench.own_data.tasks import STORED_PREDICTIONS, OwnData
from mirrorbench.tasks.base import Scores, TaskKind, Vectors

NO_BM25 = "no query has a word of a document, so BM25 has no row"
"""Note of results without BM25."""


class RankingTask(OwnData, TaskKind[Collection]):
    """Base class of tasks that rank documents for queries.

    Metrics are means over the queries that have a relevant document. The prefix ``bm25_`` stands for BM25 without the
    encoder, ``fused_`` for the reciprocal rank fusion of both; there is none where BM25 finds nothing.
    """

    items_name = "queries"
    level = "sentence"
    main_metric = "ndcg_at_10"

    @abstractmethod
    def rankings(self, items: Collection, vectors: Vectors) -> list[Ranking]:
        """Return the ranking of each query."""

    def remarks(self, items: Collection) -> Sequence[str]:
        """Return the notes on documents, queries and judgements."""
        return (*super().remarks(items), *items.notes)

    def documents(self, items: Collection) -> Sequence[str]:
        """Return all documents."""
        return list(items.documents.values())

    def retrieved(self, items: Collection, item: str, predictions: Sequence[Any]) -> list[str]:
        """Return the first documents."""
        grades = items.judged[item]
        lines = []
        for name in predictions:
            # A ranking of fewer documents is stored with empty names.
            if name:
                mark = "*" if grades.get(name, 0) > 0 else " "
                lines.append(f"{mark} {name}: {items.documents[name]}")
        return lines

    @property
    def baselines(self) -> Mapping[str, str]:  # type: ignore[override]
        """Name the metric of BM25."""
        return {"BM25": f"bm25_{self.main_metric}"}

    def check(self, items: Collection) -> None:
        """Do nothing: the collection was checked when it was read."""

    def written(self, items: Collection) -> str:
        """Return texts, judgements and candidates as text, for the checksum."""
        judged = {query: sorted(grades.items()) for query, grades in items.judged.items()}
        parts: list[object] = [
            dict(items.documents),
            dict(items.queries),
            judged,
            sorted(items.documents_too),
        ]
        if items.candidates:
            parts.append({query: sorted(names) for query, names in items.candidates.items()})
        return repr(tuple(parts))

    def first(self, items: Collection, limit: int) -> Collection:
        """Return the first queries, with all documents."""
        judged = dict(list(items.judged.items())[:limit])
        queries = {query: items.queries[query] for query in judged}
        return replace(items, queries=queries, judged=judged)

    def inputs(self, items: Collection) -> list[TextInput]:
        """Return all documents and queries, with their role."""
        return [*_with_role("document", items.documents), *_with_role("query", items.queries)]

    def place(self, items: Collection, text: str) -> str:
        """Return the id of the query or the document that has a text."""
        for part, texts in (("query", items.queries), ("document", items.documents)):
            for name, text_of_name in texts.items():
                if text_of_name == text:
                    return f"{part} {name}"
        return ""

    def texts(self, items: Collection) -> Mapping[str, tuple[str, ...]]:
        """Return the text of each query; documents are not test items."""
        return {query: (text,) for query, text in items.queries.items()}

    def shared(self, items: Collection) -> Mapping[str, tuple[str, ...]]:
        """Return the groups of each query, by its text and its relevant documents."""
        texts: dict[str, tuple[str, ...]] = {}
        for query, text in items.queries.items():
            grades = items.judged[query]
            relevant = [f"document {name}" for name, grade in grades.items() if grade > 0]
            texts[query] = (text, *relevant)
        return resampling_groups(texts)

    def score(self, items: Collection, vectors: Vectors, protocol: str) -> Scores:
        """Rank the documents of each query, and measure the rankings."""
        by_vectors = self.rankings(items, vectors)
        rankings = {"": by_vectors}
        has_bm25 = any(score > 0 for ranking in items.bm25 for score in ranking.values())
        if has_bm25:
            rankings["bm25_"] = items.bm25
            rankings["fused_"] = fuse(by_vectors, items.bm25, ties=items.ties)

        # The measures of all queries, by name with the prefix of their system.
        measured: dict[str, NDArray[np.float64]] = {}
        for prefix, system_rankings in rankings.items():
            system_measures = measure(items.judged, system_rankings)
            for name in self.measures:
                measured[f"{prefix}{name}"] = system_measures[name]
        main = measured.pop(self.main_metric)
        metrics: dict[str, float | None] = {self.main_metric: float(main.mean())}
        for name, values in measured.items():
            metrics[name] = float(values.mean())
        found = np.array([_first_names(ranking) for ranking in by_vectors])
        return Scores(
            metrics,
            list(items.judged),
            main,
            np.zeros(len(main)),
            notes=() if has_bm25 else (NO_BM25,),
            extra={**measured, "found": found},
        )


class Retrieval(RankingTask):
    """Retrieval of documents for queries by cosine.

    Metrics: ``ndcg_at_10``, ``map`` (of the first 1,000 documents), ``mrr_at_10``, ``recall_at_10`` and
    ``recall_at_100``.
    """

    kind = "retrieval"
    measures = RETRIEVAL
    version = 2

    def summary(self, items: Collection) -> str:
        """Return the numbers of queries and documents, and the notes on them."""
        counts = f"{self.count_items(len(items.queries))}, {len(items.documents):,} documents"
        return "; ".join((counts, *self.remarks(items)))

    def rankings(self, items: Collection, vectors: Vectors) -> list[Ranking]:
        """Search all documents for each query."""
        names = in_order_of_ties(items.documents)
        texts = {name: items.documents[name] for name in names}
        documents = vectors(_with_role("document", texts))
        queries = vectors(_with_role("query", items.queries))
        # One more than DEPTH, since the query itself may be among them.
        rows, cosines = search(queries, documents, DEPTH + 1)
        return items.without_queries(rankings_of(names, rows, cosines))


class Reranking(RankingTask):
    """Ranking of each query's candidates by cosine, or by a cross-encoder's score.

    Metrics: ``ndcg_at_10``, ``map`` and ``mrr_at_10``, as of retrieval: relevant documents that are no candidates are
    not found.
    """

    kind = "reranking"
    measures = RERANKING

    def summary(self, items: Collection) -> str:
        """Return the numbers of queries and candidates, and the notes on them."""
        n = sum(len(items.candidates[query]) for query in items.queries)
        counts = f"{self.count_items(len(items.queries))}, {n:,} candidates"
        return "; ".join((counts, *self.remarks(items)))

    def as_pairs(self, items: Collection) -> Collection:
        """Return the items to be scored pair by pair, of a query and a candidate."""
        return replace(items, by_pairs=True)

    def inputs(self, items: Collection) -> list[TextInput]:
        """Return all candidates and queries, with their role, or the pairs of a query and a candidate."""
        if not items.by_pairs:
            return super().inputs(items)
        return [pair for query in items.queries for pair in _pairs(items, query)]

    def rankings(self, items: Collection, vectors: Vectors) -> list[Ranking]:
        """Rank the candidates of each query."""
        rankings: list[Ranking] = []
        for query, text in items.queries.items():
            names = items.candidates[query]
            if items.by_pairs:
                scores = vectors(_pairs(items, query))[:, 0]
            else:
                texts = {name: items.documents[name] for name in names}
                candidate_vectors = unit(vectors(_with_role("document", texts)))
                query_vectors = unit(vectors([TextInput(text, role="query")]))
                # Equal vectors have equal cosines only after float64 is rounded to float32.
                scores = (candidate_vectors @ query_vectors[0]).astype(np.float32)
            rankings.append(ranked(names, scores))
        return rankings


def _pairs(items: Collection, query: str) -> list[TextInput]:
    """Return the pairs of a query with each of its candidates."""
    text = items.queries[query]
    return [TextInput(text, second=items.documents[name]) for name in items.candidates[query]]


def _first_names(ranking: Ranking) -> list[str]:
    """Return the names that are stored of a ranking; empty ones where it has fewer."""
    names = list(ranking)[:STORED_PREDICTIONS]
    return names + [""] * (STORED_PREDICTIONS - len(names))


def _with_role(role: str, texts: Mapping[str, str]) -> list[TextInput]:
    return [TextInput(text, role=role) for text in texts.values()]
