"""Rankings of documents for queries: their order, search by vectors, fusion, and measures.

Documents with equal scores are always ordered as by trec_eval, by descending ids.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import log2
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mirrorbench.core.encoder_protocol import Array
from mirrorbench.core.vectors import unit

DEPTH = 1000
"""Number of documents that are ranked for each query, as in MTEB."""
DOCUMENTS_PER_BLOCK = 8192
"""Number of documents whose cosines are computed together."""
QUERIES_PER_BLOCK = 1024
"""Number of queries whose cosines are computed together."""
RANK_CONSTANT = 60
"""Constant of reciprocal rank fusion, added to each rank (Cormack, Clarke and Büttcher, SIGIR 2009)."""
Ranking = dict[str, float]
"""Scores of the documents that are retrieved for a query, by id, best first."""


def in_order_of_ties(names: Iterable[str]) -> list[str]:
    """Sort the ids of documents as those with equal scores are ranked."""
    return sorted(names, reverse=True)


def search(queries: Array, documents: Array, depth: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return rows and cosines of the nearest documents of each query, best first, both of shape (queries, depth).

    Documents with equal cosines (float32) are in the order of their rows. If there are fewer than ``depth``, all are
    returned. To bound memory, cosines are computed for ``DOCUMENTS_PER_BLOCK`` documents and ``QUERIES_PER_BLOCK``
    queries at a time, and only the best are kept.
    """
    depth = min(depth, len(documents))
    blocks = [
        _search_block(queries[start : start + QUERIES_PER_BLOCK], documents, depth)
        for start in range(0, len(queries), QUERIES_PER_BLOCK)
    ]
    rows, cosines = zip(*blocks, strict=True)
    return np.concatenate(rows), np.concatenate(cosines)


def _search_block(
    queries: Array, documents: Array, depth: int
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Do what ``search`` does, for a block of queries."""
    units = unit(queries)
    rows = np.zeros((len(queries), 0), dtype=np.int64)
    cosines = np.zeros((len(queries), 0), dtype=np.float32)
    for start in range(0, len(documents), DOCUMENTS_PER_BLOCK):
        # Equal vectors have equal cosines only after float64 is rounded to float32.
        block = (units @ unit(documents[start : start + DOCUMENTS_PER_BLOCK]).T).astype(np.float32)
        block_rows = np.arange(start, start + block.shape[1])
        cosines = np.concatenate([cosines, block], axis=1)
        rows = np.concatenate([rows, np.broadcast_to(block_rows, block.shape)], axis=1)
        columns = best_columns(cosines, depth)
        cosines = np.take_along_axis(cosines, columns, axis=1)
        rows = np.take_along_axis(rows, columns, axis=1)
    order = np.argsort(-cosines, axis=1, kind="stable")
    return np.take_along_axis(rows, order, axis=1), np.take_along_axis(cosines, order, axis=1)


def best_columns(scores: NDArray[Any], depth: int) -> NDArray[np.int64]:
    """Return the columns of each row's ``depth`` highest scores, in ascending order; of equal scores the first columns.

    If a row has no more than ``depth`` scores, all columns are returned.
    """
    n, width = scores.shape
    if width <= depth:
        return np.broadcast_to(np.arange(width), scores.shape)
    lowest_best = np.partition(scores, width - depth, axis=1)[:, width - depth, None]
    is_higher = scores > lowest_best
    is_equal = scores == lowest_best
    # All scores above the lowest of the best are taken, and as many equal to it as there are places left.
    n_remaining = depth - is_higher.sum(axis=1, keepdims=True)
    is_best = is_higher | (is_equal & (is_equal.cumsum(axis=1) <= n_remaining))
    return np.nonzero(is_best)[1].reshape(n, depth)


def rankings_from_rows(
    names: Sequence[str], rows: NDArray[Any], scores: NDArray[Any], least: float = -np.inf
) -> list[Ranking]:
    """Return the ranking of each query.

    Args:
        names: ids of all documents.
        rows: for each query the rows of documents in ``names``, best first, shape (queries, depth).
        scores: the scores of these documents, likewise.
        least: documents whose scores are not above this are left out.
    """
    rankings: list[Ranking] = []
    scores_of_queries = scores.astype(np.float64).tolist()
    for query_rows, query_scores in zip(rows.tolist(), scores_of_queries, strict=True):
        scored_rows = zip(query_rows, query_scores, strict=True)
        rankings.append({names[row]: score for row, score in scored_rows if score > least})
    return rankings


def ranking_by_scores(names: Sequence[str], scores: NDArray[Any]) -> Ranking:
    """Rank documents by their scores, shape (len(names),); those with equal scores keep the order of ``names``."""
    values = scores.astype(np.float64)
    order = np.argsort(-values, kind="stable")
    return {names[row]: float(values[row]) for row in order}


def fuse(
    *rankings: Sequence[Ranking], tie_orders: Sequence[Sequence[str]] | None = None
) -> list[Ranking]:
    """Return one ranking of each query, by the sum of the reciprocal ranks that several systems give a document.

    Args:
        rankings: of each system, a ranking of each query.
        tie_orders: for each query all of its documents, in the order that breaks ties. By default the first ``DEPTH``
            documents are returned, and ties are broken by ids.
    """
    fused: list[Ranking] = []
    for index, query_rankings in enumerate(zip(*rankings, strict=True)):
        sums: Ranking = {}
        for ranking in query_rankings:
            for rank, name in enumerate(ranking, start=1):
                sums[name] = sums.get(name, 0) + 1 / (RANK_CONSTANT + rank)
        if tie_orders is None:
            names = in_order_of_ties(sums)
            depth = DEPTH
        else:
            names = list(tie_orders[index])
            depth = len(names)
        # The sort is stable, so equal sums keep the order of ties. Sums of the same reciprocals in another order may be
        # equal only after rounding.
        names.sort(key=lambda name: np.float32(sums[name]), reverse=True)
        fused.append({name: sums[name] for name in names[:depth]})
    return fused


def measure(
    judged: Mapping[str, Mapping[str, int]], rankings: Sequence[Ranking]
) -> dict[str, NDArray[np.float64]]:
    """Return the value of each query, in the order of ``judged``, for each measure, by its name in MTEB.

    All are computed by pytrec_eval except nDCG, for which pytrec_eval takes memory for every number up to the highest
    grade.

    Args:
        judged: grades of judged documents by query; those above 0 are relevant.
        rankings: the ranking of each query.
    """
    import pytrec_eval

    # Queries and documents are numbered, since pytrec_eval cuts ids at a NUL.
    relevant: dict[str, dict[str, int]] = {}
    # Reversed ranks are passed as scores, since pytrec_eval would round scores and break ties itself.
    whole_rankings: dict[str, dict[str, int]] = {}
    # pytrec_eval cannot cut the reciprocal rank at 10: the rankings are cut.
    top_rankings: dict[str, dict[str, int]] = {}
    ndcg_of_queries = []
    for number, (grades, ranking) in enumerate(zip(judged.values(), rankings, strict=True)):
        query = str(number)
        # The number of each document that is ranked or judged, as text.
        numbers = {name: str(place) for place, name in enumerate({**ranking, **grades})}
        scores = {numbers[name]: len(ranking) - place for place, name in enumerate(ranking)}
        relevant[query] = {numbers[name]: int(grade > 0) for name, grade in grades.items()}
        whole_rankings[query] = scores
        top_rankings[query] = dict(list(scores.items())[:10])
        ndcg_of_queries.append(ndcg(grades, ranking, 10))
    whole_evaluator = pytrec_eval.RelevanceEvaluator(relevant, {"map", "recall.10,100"})
    top_evaluator = pytrec_eval.RelevanceEvaluator(relevant, {"recip_rank"})
    measured_whole = whole_evaluator.evaluate(whole_rankings)
    measured_top = top_evaluator.evaluate(top_rankings)

    def values(measured: Mapping[str, Mapping[str, float]], name: str) -> NDArray[np.float64]:
        return np.array([measured[str(number)][name] for number in range(len(judged))])

    return {
        "ndcg_at_10": np.array(ndcg_of_queries),
        "map": values(measured_whole, "map"),
        "mrr_at_10": values(measured_top, "recip_rank"),
        "recall_at_10": values(measured_whole, "recall_10"),
        "recall_at_100": values(measured_whole, "recall_100"),
    }


def ndcg(grades: Mapping[str, int], ranking: Iterable[str], depth: int) -> float:
    """Return the nDCG of a ranking's first ``depth`` documents, as trec_eval's ``ndcg_cut``.

    Gains are the grades. Without a relevant document nDCG is 0.
    """
    gains = [max(grades.get(name, 0), 0) for name in ranking]
    best_gains = sorted((max(grade, 0) for grade in grades.values()), reverse=True)
    best_dcg = _dcg(best_gains[:depth])
    if best_dcg == 0:
        return 0.0
    return _dcg(gains[:depth]) / best_dcg


def _dcg(gains: Sequence[int]) -> float:
    return sum(gain / log2(rank + 1) for rank, gain in enumerate(gains, start=1))
