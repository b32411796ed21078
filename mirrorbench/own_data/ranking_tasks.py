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
from mirrorbench.own_data.measures import RERANKING_MEASURES, RETRIEVAL_MEASURES, resampling_groups
from mirrorbench.own_data.rankings import (
    DEPTH,
    Ranking,
    fuse,
    in_order_of_ties,
    measure,
    ranking_by_scores,
    rankings_from_rows,
    search,
)
from mirrorbench.own_data.tasks import STORED_PREDICTIONS, OwnData
from mirrorbench.tasks.base import Scores, TaskKind, Vectors

NO_BM25 = "no query has a word of a document, so BM25 has no row"
"""Note of results without BM25."""


class RankingTask(OwnData, TaskKind[Collection]):
    """Base class of tasks that rank documents for queries.

    Metrics are means over the queries that have a relevant document. Those with the prefix ``bm25_`` are of BM25
    alone, those with ``fused_`` of its reciprocal rank fusion with the encoder; if BM25 finds nothing, there are none.
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
        """Return a line for each of the first documents; relevant ones are marked with a star."""
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
        """The metric of BM25's row."""
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
            sorted(items.queries_in_corpus),
        ]
        if items.candidates:
            parts.append({query: sorted(names) for query, names in items.candidates.items()})
        return repr(tuple(parts))

    def first(self, items: Collection, limit: int) -> Collection:
        """Return the first queries, with all documents and their judgements."""
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
        """Return the groups of each query: queries that share a text or a relevant document are resampled together."""
        texts: dict[str, tuple[str, ...]] = {}
        for query, text in items.queries.items():
            grades = items.judged[query]
            relevant = [f"document {name}" for name, grade in grades.items() if grade > 0]
            texts[query] = (text, *relevant)
        return resampling_groups(texts)

    def score(self, items: Collection, vectors: Vectors, protocol: str) -> Scores:
        """Rank the documents of each query by the encoder, by BM25 and by both, and return the mean of each measure."""
        encoder_rankings = self.rankings(items, vectors)
        # Rankings by the prefix of their metrics.
        rankings = {"": encoder_rankings}
        has_bm25 = any(score > 0 for ranking in items.bm25 for score in ranking.values())
        if has_bm25:
            rankings["bm25_"] = items.bm25
            rankings["fused_"] = fuse(encoder_rankings, items.bm25, tie_orders=items.tie_orders)

        values_by_metric: dict[str, NDArray[np.float64]] = {}
        for prefix, system_rankings in rankings.items():
            system_values = measure(items.judged, system_rankings)
            for name in self.measures:
                values_by_metric[f"{prefix}{name}"] = system_values[name]
        # The values of the main metric are the scores of the items, the others are stored beside them.
        main_values = values_by_metric.pop(self.main_metric)
        metrics: dict[str, float | None] = {self.main_metric: float(main_values.mean())}
        for name, values in values_by_metric.items():
            metrics[name] = float(values.mean())
        found = np.array([_stored_names(ranking) for ranking in encoder_rankings])
        return Scores(
            metrics,
            list(items.judged),
            main_values,
            # The score is a mean of values, without a reference.
            np.zeros(len(main_values)),
            notes=() if has_bm25 else (NO_BM25,),
            extra={**values_by_metric, "found": found},
        )


class Retrieval(RankingTask):
    """Retrieval of documents for queries by cosine.

    Metrics: ``ndcg_at_10``, ``map`` (of the first 1,000 documents), ``mrr_at_10``, ``recall_at_10`` and
    ``recall_at_100``.
    """

    kind = "retrieval"
    measures = RETRIEVAL_MEASURES
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
        return items.without_query_itself(rankings_from_rows(names, rows, cosines))


class Reranking(RankingTask):
    """Ranking of each query's candidates by cosine, or by a cross-encoder's score.

    Metrics: ``ndcg_at_10``, ``map`` and ``mrr_at_10``, as of retrieval: relevant documents that are not candidates
    count as not found.
    """

    kind = "reranking"
    measures = RERANKING_MEASURES

    def summary(self, items: Collection) -> str:
        """Return the numbers of queries and candidates, and the notes on them."""
        n = sum(len(items.candidates[query]) for query in items.queries)
        counts = f"{self.count_items(len(items.queries))}, {n:,} candidates"
        return "; ".join((counts, *self.remarks(items)))

    def as_pairs(self, items: Collection) -> Collection:
        """Return the items to be scored by a cross-encoder, as pairs of a query and a candidate."""
        return replace(items, scored_as_pairs=True)

    def inputs(self, items: Collection) -> list[TextInput]:
        """Return all candidates and queries, with their role, or the pairs of a query and a candidate."""
        if not items.scored_as_pairs:
            return super().inputs(items)
        return [pair for query in items.queries for pair in _pairs(items, query)]

    def rankings(self, items: Collection, vectors: Vectors) -> list[Ranking]:
        """Rank the candidates of each query."""
        rankings: list[Ranking] = []
        for query, text in items.queries.items():
            names = items.candidates[query]
            if items.scored_as_pairs:
                scores = vectors(_pairs(items, query))[:, 0]
            else:
                texts = {name: items.documents[name] for name in names}
                candidate_vectors = unit(vectors(_with_role("document", texts)))
                query_vectors = unit(vectors([TextInput(text, role="query")]))
                # Equal vectors have equal cosines only after float64 is rounded to float32.
                scores = (candidate_vectors @ query_vectors[0]).astype(np.float32)
            rankings.append(ranking_by_scores(names, scores))
        return rankings


def _pairs(items: Collection, query: str) -> list[TextInput]:
    """Return the pairs of a query with each of its candidates."""
    text = items.queries[query]
    return [TextInput(text, second=items.documents[name]) for name in items.candidates[query]]


def _stored_names(ranking: Ranking) -> list[str]:
    """Return the first names of a ranking, which are stored; empty ones are added to a shorter ranking."""
    names = list(ranking)[:STORED_PREDICTIONS]
    return names + [""] * (STORED_PREDICTIONS - len(names))


def _with_role(role: str, texts: Mapping[str, str]) -> list[TextInput]:
    return [TextInput(text, role=role) for text in texts.values()]
