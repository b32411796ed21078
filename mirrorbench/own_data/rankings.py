"""Rankings of documents for queries: their order, search by vectors, fusion, and measures.

There is one order of documents with equal scores, that of trec_eval: descending ids.
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
BLOCK = 8192
"""Number of documents whose similarities are computed together."""
QUERIES = 1024
"""Number of queries whose similarities are computed together."""
RANK_CONSTANT = 60
"""Constant of reciprocal rank fusion, added to each rank (Cormack, Clarke and Büttcher, SIGIR 2009)."""
Ranking = dict[str, float]
"""Scores of the documents that are retrieved for a query, by id, best first."""


def in_order_of_ties(names: Iterable[str]) -> list[str]:
    """Return the ids of documents in the order in which those with equal scores are ranked."""
    return sorted(names, reverse=True)


def search(queries: Array, documents: Array, depth: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return rows and cosines of the nearest documents of each query, best first, both of shape (queries, depth).

    Of documents with equal cosines (float32) those in the first rows come first. Cosines are computed for ``BLOCK``
    documents and ``QUERIES`` queries at a time, and only the best are kept, so that memory is bounded.
    """
    depth = min(depth, len(documents))
    parts = [
        _search(queries[start : start + QUERIES], documents, depth)
        for start in range(0, len(queries), QUERIES)
    ]
    rows, cosines = zip(*parts, strict=True)
    return np.concatenate(rows), np.concatenate(cosines)


def _search(
    queries: Array, documents: Array, depth: int
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    units = unit(queries)
    rows = np.zeros((len(queries), 0), dtype=np.int64)
    cosines = np.zeros((len(queries), 0), dtype=np.float32)
    for start in range(0, len(documents), BLOCK):
        # Equal vectors have equal cosines only after float64 is rounded to float32.
        block = (units @ unit(documents[start : start + BLOCK]).T).astype(np.float32)
        block_rows = np.arange(start, start + block.shape[1])
        cosines = np.concatenate([cosines, block], axis=1)
        rows = np.concatenate([rows, np.broadcast_to(block_rows, block.shape)], axis=1)
        columns = best_columns(cosines, depth)
        cosines = np.take_along_axis(cosines, columns, axis=1)
        rows = np.take_along_axis(rows, columns, axis=1)
    order = np.argsort(-cosines, axis=1, kind="stable")
    return np.take_along_axis(rows, order, axis=1), np.take_along_axis(cosines, order, axis=1)


def best_columns(scores: NDArray[Any], depth: int) -> NDArray[np.int64]:
    """Return the columns of the ``depth`` highest scores of each row, ascending; of equal scores the first columns."""
    n, width = scores.shape
    if width <= depth:
        return np.broadcast_to(np.arange(width), scores.shape)
    lowest = np.partition(scores, width - depth, axis=1)[:, width - depth, None]
    is_higher = scores > lowest
    is_equal = scores == lowest
    # Scores above the lowest have their place; equal ones take those that remain, from the first column on.
    n_remaining = depth - is_higher.sum(axis=1, keepdims=True)
    is_best = is_higher | (is_equal & (is_equal.cumsum(axis=1) <= n_remaining))
    return np.nonzero(is_best)[1].reshape(n, depth)


def rankings_of(
    names: Sequence[str], rows: NDArray[Any], scores: NDArray[Any], least: float = -np.inf
) -> list[Ranking]:
    """Return the ranking of each query from rows of documents, best first, with scores above ``least``."""
    rankings: list[Ranking] = []
    scores_of_queries = scores.astype(np.float64).tolist()
    for query_rows, query_scores in zip(rows.tolist(), scores_of_queries, strict=True):
        scored_rows = zip(query_rows, query_scores, strict=True)
        rankings.append({names[row]: score for row, score in scored_rows if score > least})
    return rankings


def ranked(names: Sequence[str], scores: NDArray[Any]) -> Ranking:
    """Return the ranking of documents by their scores, shape (len(names),); of equal ones in the order of ``names``."""
    values = scores.astype(np.float64)
    order = np.argsort(-values, kind="stable")
    return {names[row]: float(values[row]) for row in order}


def fuse(
    *rankings: Sequence[Ranking], ties: Sequence[Sequence[str]] | None = None
) -> list[Ranking]:
    """Fuse several rankings of each query: documents by the sum of their reciprocal ranks, best first.

    ``ties`` holds the documents of each query in the order of equal sums; by default they are in that of all rankings.
    """
    fused: list[Ranking] = []
    for number, query_rankings in enumerate(zip(*rankings, strict=True)):
        sums: Ranking = {}
        for ranking in query_rankings:
            for rank, name in enumerate(ranking, start=1):
                sums[name] = sums.get(name, 0) + 1 / (RANK_CONSTANT + rank)
        if ties is None:
            names = in_order_of_ties(sums)
            depth = DEPTH
        else:
            names = list(ties[number])
            depth = len(names)
        # Sums of the same numbers in another order are equal only after rounding.
        names.sort(key=lambda name: np.float32(sums[name]), reverse=True)
        fused.append({name: sums[name] for name in names[:depth]})
    return fused


def measure(
    judged: Mapping[str, Mapping[str, int]], rankings: Sequence[Ranking]
) -> dict[str, NDArray[np.float64]]:
    """Compute each measure of each query in the order of ``judged``, by pytrec_eval; names as in MTEB.

    pytrec_eval gets ranks in place of scores, which it would round and order itself. nDCG is computed here by its
    formula, since pytrec_eval takes memory for every number up to the highest grade.

    Args:
        judged: grades of judged documents by query; those above 0 are relevant.
        rankings: one for each query.
    """
    import pytrec_eval

    # pytrec_eval cuts ids at a NUL: queries and documents are numbered.
    relevant: dict[str, dict[str, int]] = {}
    whole_rankings: dict[str, dict[str, int]] = {}
    top_rankings: dict[str, dict[str, int]] = {}
    ndcg_of_queries = []
    for number, (grades, ranking) in enumerate(zip(judged.values(), rankings, strict=True)):
        query = str(number)
        numbers = {name: str(place) for place, name in enumerate({**ranking, **grades})}
        ranks = {numbers[name]: len(ranking) - place for place, name in enumerate(ranking)}
        relevant[query] = {numbers[name]: int(grade > 0) for name, grade in grades.items()}
        whole_rankings[query] = ranks
        top_rankings[query] = dict(list(ranks.items())[:10])
        ndcg_of_queries.append(ndcg(grades, ranking, 10))
    whole_evaluator = pytrec_eval.RelevanceEvaluator(relevant, {"map", "recall.10,100"})
    top_evaluator = pytrec_eval.RelevanceEvaluator(relevant, {"recip_rank"})
    measured_whole = whole_evaluator.evaluate(whole_rankings)
    measured_top = top_evaluator.evaluate(top_rankings)

    def values(measured: Mapping[str, Mapping[str, float]], key: str) -> NDArray[np.float64]:
        return np.array([measured[str(number)][key] for number in range(len(judged))])

    return {
        "ndcg_at_10": np.array(ndcg_of_queries),
        "map": values(measured_whole, "map"),
        "mrr_at_10": values(measured_top, "recip_rank"),
        "recall_at_10": values(measured_whole, "recall_10"),
        "recall_at_100": values(measured_whole, "recall_100"),
    }


def ndcg(grades: Mapping[str, int], ranking: Iterable[str], depth: int) -> float:
    """Return the nDCG of a ranking with grades as gains, as trec_eval's ``ndcg_cut``; 0 without a relevant document."""
    gains = [max(grades.get(name, 0), 0) for name in ranking]
    best_gains = sorted((max(grade, 0) for grade in grades.values()), reverse=True)
    best_dcg = _dcg(best_gains[:depth])
    if best_dcg == 0:
        return 0.0
    return _dcg(gains[:depth]) / best_dcg


def _dcg(gains: Sequence[int]) -> float:
    return sum(gain / log2(rank + 1) for rank, gain in enumerate(gains, start=1))
