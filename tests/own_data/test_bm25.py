"""BM25 and its fusion with vectors."""

from __future__ import annotations

import numpy as np
import pytest

from mirrorbench.own_data.retrieval import Collection, fuse


def test_bm25_and_rank_fusion_equal_their_formulas() -> None:
    """BM25 by Lucene's formula, without documents that have none of the words, and sums of reciprocal ranks."""
    documents = {
        "a": "cats sleep and cats eat",
        "b": "the cat and a dog",
        "c": "a bird sings",
        "d": "dogs bark at cats",
    }
    stems = {
        "a": ["cat", "sleep", "cat", "eat"],
        "b": ["cat", "dog"],
        "c": ["bird", "sing"],
        "d": ["dog", "bark", "cat"],
    }
    queries = {"q": "a cat that sleeps", "r": "of the"}
    expected = {}
    for name, words in stems.items():
        for word in ("cat", "sleep"):
            n, tf = sum(word in document for document in stems.values()), words.count(word)
            weight = (
                np.log(1 + (4 - n + 0.5) / (n + 0.5))
                * tf
                / (tf + 1.5 * (0.25 + 0.75 * len(words) / (11 / 4)))
            )
            expected[name] = expected.get(name, 0) + weight
    by_words = Collection(documents, queries, {"q": {"a": 1}, "r": {"a": 1}}, (), "en").bm25
    assert by_words == [
        pytest.approx({name: value for name, value in expected.items() if value}),
        {},
    ]
    assert list(by_words[0]) == ["a", "b", "d"]
    both = fuse(by_words, [{"c": 0.9, "b": 0.8}, {"c": 0.9}])
    assert both == [
        pytest.approx({"b": 1 / 62 + 1 / 62, "c": 1 / 61, "a": 1 / 61, "d": 1 / 63}),
        {"c": 1 / 61},
    ]
    assert [next(iter(ranking)) for ranking in both] == ["b", "c"]
