"""How far the vectors of two encoders agree: cosines, lengths, nearest neighbours."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mirrorbench.core.encoder_protocol import Array
from mirrorbench.core.vectors import unit

Numbers = NDArray[np.float64]
"""One number for each text, shape (n,)."""

SAME_COSINE = 0.9999
"""A text whose two vectors have a larger cosine has the same vector; half precision changes cosines less than this."""
SAME_LENGTH = 0.01
"""Largest relative difference of the lengths of two vectors that are the same."""
NEIGHBOURS = 10
"""Number of nearest neighbours of a text that are compared."""
MOST_NEIGHBOUR_TEXTS = 2_000
"""Number of texts, from the first one, among which neighbours are looked for."""


@dataclass(frozen=True)
class Agreement:
    """How far the vectors of texts by two encoders agree.

    Attributes:
        cosines: the cosine of the two vectors of each text; of vectors of different dimensions, over the first
            dimensions that both have. Two zero vectors have 1, a zero vector and another one 0.
        first_lengths: Euclidean length of the first encoder's vectors.
        second_lengths: and of the second encoder's.
        dimensions: dimensions of the first and second encoder's vectors.
        neighbours: mean share of a text's ten nearest neighbours, by cosine, that both encoders have in common;
            ``None`` with fewer than 12 texts.
    """

    cosines: Numbers
    first_lengths: Numbers
    second_lengths: Numbers
    dimensions: tuple[int, int]
    neighbours: float | None

    @classmethod
    def of(cls, first: Array, second: Array) -> Agreement:
        """Compare vectors of the same texts, each of shape (n, dimensions)."""
        return cls(
            cosines=cosines_of(first, second),
            first_lengths=_lengths(first),
            second_lengths=_lengths(second),
            dimensions=(first.shape[1], second.shape[1]),
            neighbours=shared_neighbours(first, second),
        )

    def share_above(self, cosine: float) -> float:
        """Return the share of texts whose cosine is larger."""
        return float((self.cosines > cosine).mean())

    def worst(self, n: int) -> list[int]:
        """Return the rows of the n texts with the smallest cosines, the smallest first."""
        order = np.argsort(self.cosines, kind="stable")
        return [int(row) for row in order[:n]]

    @property
    def same_lengths(self) -> bool:
        """Whether the two vectors of every text have the same length."""
        longer = np.maximum(self.first_lengths, self.second_lengths)
        differences = np.abs(self.first_lengths - self.second_lengths)
        return bool((differences <= SAME_LENGTH * longer).all())

    def are_same(self, cosine: float) -> bool:
        """Return whether every text has the same vector by both encoders, in direction and length."""
        if self.dimensions[0] != self.dimensions[1]:
            return False
        return self.same_lengths and bool((self.cosines > cosine).all())


def cosines_of(first: Array | Numbers, second: Array | Numbers) -> Numbers:
    """Return the cosine of each row of two arrays, over the first dimensions that both have."""
    shared = min(first.shape[1], second.shape[1])
    first = first[:, :shared]
    second = second[:, :shared]
    cosines: Numbers = (unit(first) * unit(second)).sum(axis=1)
    are_both_zero = ~first.any(axis=1) & ~second.any(axis=1)
    cosines[are_both_zero] = 1
    return cosines


def shared_neighbours(first: Array, second: Array) -> float | None:
    """Return the mean share of the ten nearest neighbours of a text that both arrays have in common."""
    if len(first) < NEIGHBOURS + 2:
        return None
    first_neighbours = _nearest(first[:MOST_NEIGHBOUR_TEXTS])
    second_neighbours = _nearest(second[:MOST_NEIGHBOUR_TEXTS])
    shares = []
    for row, other_row in zip(first_neighbours, second_neighbours, strict=True):
        shares.append(len(np.intersect1d(row, other_row)) / NEIGHBOURS)
    return float(np.mean(shares))


def _nearest(vectors: Array) -> NDArray[np.intp]:
    """Return the rows of the ten nearest other vectors of each vector, in any order, shape (n, 10)."""
    unit_vectors = unit(vectors).astype(np.float32)
    similarities = unit_vectors @ unit_vectors.T
    np.fill_diagonal(similarities, -np.inf)
    return np.argpartition(-similarities, NEIGHBOURS, axis=1)[:, :NEIGHBOURS]


def _lengths(vectors: Array | Numbers) -> Numbers:
    lengths: Numbers = np.linalg.norm(vectors.astype(np.float64), axis=1)
    return lengths
