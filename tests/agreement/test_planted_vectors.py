"""Vectors that no model, or another one, computed: ``diagnose`` must not name a cause that they do not come from."""

from __future__ import annotations

import numpy as np

from mirrorbench.agreement.diagnosis import Cause, Side, diagnose
from mirrorbench.agreement.measures import Agreement
from mirrorbench.core.encoder_protocol import Array

TEXTS = [f"text {number}" for number in range(40)]


def random_vectors(seed: int) -> Array:
    """Return vectors of 40 texts without any relation."""
    vectors = np.random.default_rng(seed).normal(size=(len(TEXTS), 32))
    return vectors.astype(np.float32)


def diagnosed(first: Array, second: Array) -> Cause:
    agreement = Agreement.of(first, second)
    cause = diagnose(TEXTS, Side("A", first), Side("B", second), agreement, 0.9999)
    assert cause is not None
    return cause


def test_vectors_of_zeros_are_reported() -> None:
    vectors = random_vectors(0)
    changed = vectors.copy()
    changed[5] = 0
    assert diagnosed(vectors, changed).sentence == "B has a vector of zeros for text 6"
    assert (
        diagnosed(vectors, 0 * vectors).sentence
        == f"B has a vector of zeros for {len(TEXTS)} texts"
    )


def test_vectors_of_other_texts_are_counted() -> None:
    vectors = random_vectors(0)
    changed = vectors.copy()
    changed[5] = vectors[8]
    changed[6] = -vectors[6]
    cause = diagnosed(vectors, changed)
    assert cause.kind == "unknown"
    assert cause.details == (
        "1 of 2 texts that differ have in B the vector that another text has in A",
    )


def test_one_vector_for_all_texts_is_reported() -> None:
    constant = np.full((len(TEXTS), 32), 0.1, dtype=np.float32)
    cause = diagnosed(random_vectors(0), constant)
    assert cause.kind == "unknown"
    assert "B has the same vector for all texts" in cause.details


def test_repeated_vectors_are_not_another_order() -> None:
    vectors = random_vectors(0)
    assert diagnosed(vectors, np.repeat(vectors[:1], len(TEXTS), axis=0)).kind == "unknown"
    assert diagnosed(vectors, np.repeat(vectors[::4], 4, axis=0)).kind == "unknown"
