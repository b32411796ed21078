"""Search by vectors."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics.pairwise import cosine_similarity

from mirrorbench.own_data.retrieval import search


def test_blockwise_search_equals_a_full_sort(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    queries, documents = (
        rng.normal(size=(7, 16)).astype(np.float32),
        rng.normal(size=(100, 16)).astype(np.float32),
    )
    monkeypatch.setattr("mirrorbench.own_data.retrieval.BLOCK", 9)
    rows, similarities = search(queries, documents, 20)
    table = cosine_similarity(queries, documents)
    np.testing.assert_array_equal(rows, np.argsort(-table, axis=1)[:, :20])
    np.testing.assert_allclose(similarities, -np.sort(-table, axis=1)[:, :20], atol=1e-6)
