"""Rankings of documents: one order of ties, search, fusion, and measures."""

from __future__ import annotations

import random

import numpy as np
import pytest
import pytrec_eval
from sklearn.metrics.pairwise import cosine_similarity

from mirrorbench.own_data import rankings
from mirrorbench.own_data.rankings import best_columns, fuse, measure, ndcg, search


def test_blockwise_search_equals_a_full_sort(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    queries, documents = (rng.normal(size=(n, 16)).astype(np.float32) for n in (7, 100))
    monkeypatch.setattr(rankings, "DOCUMENTS_PER_BLOCK", 9)
    monkeypatch.setattr(rankings, "QUERIES_PER_BLOCK", 3)
    rows, similarities = search(queries, documents, 20)
    table = cosine_similarity(queries, documents)
    np.testing.assert_array_equal(rows, np.argsort(-table, axis=1)[:, :20])
    np.testing.assert_allclose(similarities, -np.sort(-table, axis=1)[:, :20], atol=1e-6)


@pytest.mark.parametrize("block", [7, 64, 1000])
def test_equal_documents_are_found_in_row_order(
    block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Few different vectors, so that the last of those found has many equals, within a block and beyond."""
    rng = np.random.default_rng(1)
    different = rng.normal(size=(6, 33)).astype(np.float32)
    documents = different[rng.integers(0, 6, 300)] * rng.uniform(0.5, 2, (300, 1))
    queries = rng.normal(size=(5, 33)).astype(np.float32)
    monkeypatch.setattr(rankings, "DOCUMENTS_PER_BLOCK", block)
    rows, _ = search(queries, documents, 70)
    cosines = cosine_similarity(queries.astype(np.float64), documents).astype(np.float32)
    for found, values in zip(rows, cosines, strict=True):
        assert found.tolist() == sorted(range(300), key=lambda row: (-values[row], row))[:70]


def test_columns_of_the_highest_scores() -> None:
    scores = np.array([[1, 3, 2, 3, 3, 0], [5, 5, 5, 5, 5, 5], [0, 1, 2, 3, 4, 5]])
    assert best_columns(scores, 3).tolist() == [[1, 3, 4], [0, 1, 2], [3, 4, 5]]
    assert best_columns(scores, 9).tolist() == [[0, 1, 2, 3, 4, 5]] * 3


def test_equal_fused_scores_are_ordered_by_descending_ids() -> None:
    first, second = {"a": 3.0, "b": 2.0, "c": 1.0}, {"b": 9.0, "a": 8.0, "d": 7.0}
    assert list(fuse([first], [second])[0]) == ["b", "a", "d", "c"]


@pytest.mark.parametrize("seed", range(4))
def test_measures_equal_pytrec_eval_and_naive_loops(seed: int) -> None:
    """Rankings of scores with many ties, grades below 0 and above 1, missing documents, and an id with a NUL."""
    rng = random.Random(seed)
    names = [*(f"d{n}" for n in range(38)), "d", "d\0"]
    judged = {}
    found = []
    ranks = {}
    for n in range(30):
        grades = {name: rng.choice([-1, 0, 0, 1, 2, 7]) for name in rng.sample([*names, "x"], 9)}
        judged[f"q{n}"] = grades | {rng.choice(names): 1}
        scores = {name: float(rng.randrange(4)) for name in rng.sample(names, rng.randrange(41))}
        order = sorted(scores, key=lambda name: (scores[name], name), reverse=True)
        found.append({name: scores[name] for name in order})
        ranks[f"q{n}"] = {name: len(order) - place for place, name in enumerate(order)}
    measures = {"ndcg_cut.10", "map", "recall.10,100"}

    def without_nul(by_query: dict[str, dict[str, int]]) -> dict[str, dict[str, int]]:
        """Replace NUL in ids of documents, where pytrec_eval cuts them."""
        written = {}
        for query, values in by_query.items():
            written[query] = {name.replace("\0", "-"): value for name, value in values.items()}
        return written

    evaluator = pytrec_eval.RelevanceEvaluator(without_nul(judged), measures)
    expected = evaluator.evaluate(without_nul(ranks))
    measured = measure(judged, found)
    for row, (query, grades) in enumerate(judged.items()):
        for name, key in (
            ("ndcg_at_10", "ndcg_cut_10"),
            ("map", "map"),
            ("recall_at_10", "recall_10"),
            ("recall_at_100", "recall_100"),
        ):
            assert measured[name][row] == pytest.approx(expected[query][key], abs=1e-12)
        hits = [place for place, name in enumerate(found[row], 1) if grades.get(name, 0) > 0]
        assert measured["mrr_at_10"][row] == (1 / hits[0] if hits and hits[0] <= 10 else 0)


def test_high_grades_take_no_memory() -> None:
    grades = {"a": 3, "b": 900_000_000}
    assert ndcg(grades, ["a", "b"], 10) == pytest.approx(
        (3 + 9e8 / np.log2(3)) / (9e8 + 3 / np.log2(3))
    )
    (gain,) = measure({"q": grades}, [{"b": 1.0, "a": 0.5}])["ndcg_at_10"]
    assert gain == 1
