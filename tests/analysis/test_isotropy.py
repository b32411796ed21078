from __future__ import annotations

import math

import numpy as np
import pytest
from sklearn.metrics.pairwise import cosine_similarity

from mirrorbench.analysis import geometry as module
from mirrorbench.analysis.geometry import (
    directions,
    log_isotropy,
    mean_cosine,
    measure_isotropy,
)


def space(n: int = 30, d: int = 6, shift: float = 0.5, seed: int = 0) -> np.ndarray:
    """Vectors around a point that is not the origin, with unequal variances."""
    rng = np.random.default_rng(seed)
    return (rng.normal(size=(n, d)) * np.linspace(0.2, 1, d) + shift).astype(np.float32)


def naive_log(vectors: np.ndarray) -> float:
    """Eq. 2 word by word, over eigenvectors of both signs, with an eigensolver for general matrices."""
    v = vectors.astype(np.float64)
    _, columns = np.linalg.eig(v.T @ v)
    sums = []
    for k in range(columns.shape[1]):
        for sign in (1, -1):
            c = sign * np.real(columns[:, k])
            sums.append(sum(math.exp(sum(a * b for a, b in zip(c, row, strict=True))) for row in v))
    return math.log(min(sums) / max(sums))


@pytest.mark.parametrize("seed", range(3))
def test_the_score_is_that_of_explicit_loops(seed: int) -> None:
    vectors = space(seed=seed)
    assert log_isotropy(vectors) == pytest.approx(naive_log(vectors), abs=1e-9)
    found = measure_isotropy(vectors)
    assert found["isotropy"] == pytest.approx(math.exp(naive_log(vectors)))
    assert (found["n"], found["dimensions"]) == vectors.shape


@pytest.mark.parametrize("seed", range(5))
def test_signs_and_order_of_eigenvectors_do_not_matter(seed: int) -> None:
    vectors = space(shift=0.8)
    rng = np.random.default_rng(seed)
    real = np.linalg.eigh

    def other_library(matrix: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        values, columns = real(matrix)
        return values, columns * rng.choice([-1.0, 1.0], size=len(values))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module.np.linalg, "eigh", other_library)
        changed = measure_isotropy(vectors)
    assert changed == measure_isotropy(vectors)


def test_one_sign_alone_would_depend_on_it() -> None:
    """Why both signs are taken: over one sign, the score of the same vectors changes with the solver's choice."""
    vectors = space(shift=0.8).astype(np.float64)
    columns = directions(vectors)
    one, other = (np.exp(vectors @ (columns * sign)).sum(0) for sign in (1, -1))
    assert one.min() / one.max() != pytest.approx(other.min() / other.max(), rel=0.01)


def test_directions_are_columns() -> None:
    vectors = space().astype(np.float64)
    gram, found = vectors.T @ vectors, directions(vectors)
    values = np.diag(found.T @ gram @ found)
    np.testing.assert_allclose(gram @ found, found * values, atol=1e-8)
    assert (np.diff(values) < 0).all()
    assert not np.allclose(gram @ found.T, found.T * values, atol=1e-2)


def test_rows_as_the_posted_script_reads_them() -> None:
    vectors = space()
    v = vectors.astype(np.float64)
    sums = [sum(math.exp(float(row @ c)) for row in v) for c in directions(v)]
    assert measure_isotropy(vectors)["row_isotropy"] == pytest.approx(min(sums) / max(sums))
    assert measure_isotropy(vectors)["row_isotropy"] > measure_isotropy(vectors)["isotropy"]


def test_large_vectors_overflow_nothing() -> None:
    vectors = space(shift=40.0) * 50
    found = measure_isotropy(vectors)
    top = vectors.astype(np.float64) @ directions(vectors)
    highest = np.abs(top).max()  # max and min of log Z lie within log n of the largest and the smallest exponent
    assert math.isfinite(found["log_isotropy"])
    assert -2 * highest - 2 * math.log(len(vectors)) <= found["log_isotropy"] < -1000
    assert found["isotropy"] == 0


def test_a_perfectly_even_space_has_score_one() -> None:
    d = 5
    assert measure_isotropy(np.vstack([np.eye(d), -np.eye(d)]))["isotropy"] == pytest.approx(1)


def test_fewer_vectors_than_dimensions() -> None:
    vectors = space(n=3, d=8)
    v = vectors.astype(np.float64)
    _, _, right = np.linalg.svd(v, full_matrices=True)
    sums = [np.exp(sign * (v @ c)).sum() for c in right for sign in (1, -1)]
    assert log_isotropy(vectors) == pytest.approx(math.log(min(sums) / max(sums)))


def test_more_directions_than_a_block(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = log_isotropy(space(d=7))
    monkeypatch.setattr(module, "_BLOCK", 2)
    assert log_isotropy(space(d=7)) == pytest.approx(whole)


def test_mean_vector_norm_and_mean_cosine_of_loops() -> None:
    vectors = space(n=12)
    mean = [sum(float(row[k]) for row in vectors) / len(vectors) for k in range(vectors.shape[1])]
    assert measure_isotropy(vectors)["mean_vector_norm"] == pytest.approx(math.sqrt(sum(x * x for x in mean)))
    cosines = cosine_similarity(vectors.astype(np.float64))
    pairs = [cosines[i, j] for i in range(12) for j in range(12) if i != j]
    assert mean_cosine(vectors) == pytest.approx(sum(pairs) / len(pairs))


def test_zero_vectors_and_a_single_one() -> None:
    assert mean_cosine(np.array([[1.0, 0], [0, 0], [1, 0]])) == pytest.approx(1 / 3)
    assert measure_isotropy(np.array([[1.0, 2.0]]))["mean_cosine"] is None


@pytest.mark.parametrize("wrong", [np.empty((0, 3)), np.ones(3)])
def test_no_vectors_are_an_error(wrong: np.ndarray) -> None:
    with pytest.raises(ValueError, match="shape"):
        measure_isotropy(wrong)
