"""Cosines, lengths and neighbours of the vectors of two encoders."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.neighbors import NearestNeighbors

from mirrorbench.agreement.measures import Agreement, cosines_of, shared_neighbours


def random_vectors(n: int, dimensions: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(n, dimensions)).astype(np.float32)


def test_cosines_equal_a_naive_loop() -> None:
    first, second = random_vectors(9, 5), random_vectors(9, 5, seed=1)
    expected = []
    for one, other in zip(first.astype(float), second.astype(float), strict=True):
        expected.append(one @ other / np.sqrt(one @ one) / np.sqrt(other @ other))
    np.testing.assert_allclose(cosines_of(first, second), expected, rtol=1e-12)


def test_zero_vectors_are_like_zero_vectors_alone() -> None:
    first = np.array([[0, 0], [0, 0], [1, 0]], dtype=np.float32)
    second = np.array([[0, 0], [1, 0], [2, 0]], dtype=np.float32)
    np.testing.assert_array_equal(cosines_of(first, second), [1, 0, 1])


def test_vectors_of_fewer_dimensions_are_compared_over_these() -> None:
    vectors = random_vectors(6, 8)
    agreement = Agreement.of(vectors, vectors[:, :3])
    assert agreement.cosines == pytest.approx(np.ones(6))
    assert not agreement.are_same(0.9999)


def test_neighbours_equal_those_of_scikit_learn() -> None:
    first = random_vectors(60, 6)
    second = first + random_vectors(60, 6, seed=1) * 0.5
    neighbours = []
    for vectors in (first, second):
        search = NearestNeighbors(n_neighbors=10, metric="cosine").fit(vectors)
        neighbours.append(search.kneighbors(return_distance=False))
    shares = []
    for row, other_row in zip(*neighbours, strict=True):
        shares.append(len({*row.tolist()} & {*other_row.tolist()}) / 10)
    assert shared_neighbours(first, second) == pytest.approx(np.mean(shares))
    assert shared_neighbours(first[:11], second[:11]) is None


def test_same_directions_of_other_lengths_are_not_the_same_vectors() -> None:
    vectors = random_vectors(20, 4)
    assert Agreement.of(vectors, vectors).are_same(0.9999)
    assert Agreement.of(vectors, vectors * 1.005).are_same(0.9999)
    assert not Agreement.of(vectors, vectors * 1.02).are_same(0.9999)


def test_worst_texts_come_first() -> None:
    vectors = random_vectors(5, 4)
    changed = vectors.copy()
    changed[3] = -vectors[3]
    changed[1] += 0.5
    agreement = Agreement.of(vectors, changed)
    assert agreement.worst(2) == [3, 1]
    assert agreement.share_above(0.9999) == pytest.approx(3 / 5)
