"""Sums over pairs of items that share texts."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_array

from mirrorbench.reports.statistics import sharing
from mirrorbench.reports.statistics.sharing import SharedTexts, membership, with_private_texts


@pytest.mark.parametrize("most", [1, 2, 3, 6])
def test_products_equal_those_of_all_pairs(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Items have up to ``most`` texts; with more than two, several blocks of them."""
    monkeypatch.setattr(sharing, "_MOST_PAIRS", 40)
    rng = np.random.default_rng(most)
    for _ in range(40):
        n, n_texts = rng.integers(1, 30, 2)
        has = np.zeros((n, n_texts), dtype=bool)
        for row in has:
            row[rng.integers(0, n_texts, rng.integers(0, most + 1))] = True
        near = (has.astype(int) @ has.T.astype(int)) > 0
        shared = SharedTexts(csr_array(has.astype(float)))
        first, second = rng.normal(size=(2, n))
        expected = [first @ near @ first, second @ near @ second]
        np.testing.assert_allclose(shared.products(first, second), expected, atol=1e-10)
        assert shared.n_neighbours == near.sum()


def test_texts_of_one_unit_count_once() -> None:
    """Two items of a unit have the same text, and a third text is of no other item."""
    units = np.array([0, 0, 1, 2])
    codes = np.array([[0, -1], [0, 1], [1, -1], [-1, -1]], dtype=np.int32)
    texts = with_private_texts(membership(units, codes, 3), np.arange(3))
    assert SharedTexts(texts).products(np.array([1.0, 10.0, 100.0])) == [121 + 10_000]
    assert SharedTexts(membership(units, None, 3)).n_neighbours == 0


def test_neighbours_by_few_texts_are_not_listed() -> None:
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 50, (200_000, 2)).astype(np.int32)
    shared = SharedTexts(membership(np.arange(len(codes)), codes, len(codes)))
    sizes = np.bincount(codes.ravel(), minlength=50) - np.bincount(
        codes[codes[:, 0] == codes[:, 1], 0], minlength=50
    )
    both = np.unique(
        np.sort(codes[codes[:, 0] != codes[:, 1]], axis=1), axis=0, return_counts=True
    )[1]
    assert shared.n_neighbours == (sizes.astype(float) ** 2).sum() - (both.astype(float) ** 2).sum()
