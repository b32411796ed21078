from __future__ import annotations

import numpy as np

from mirrorbench.tasks.lexicon_induction import learn_mapping, normalise, procrustes


def rotation(d: int, seed: int) -> np.ndarray:
    return np.linalg.qr(np.random.default_rng(seed).normal(size=(d, d)))[0]


def test_normalise_is_unit_center_unit() -> None:
    vectors = np.random.default_rng(0).normal(2, 1, size=(50, 6))
    by_hand = np.array([row / np.sqrt((row**2).sum()) for row in vectors])
    by_hand = by_hand - np.array([column.mean() for column in by_hand.T])
    by_hand = np.array([row / np.sqrt((row**2).sum()) for row in by_hand])
    np.testing.assert_allclose(normalise(vectors.astype(np.float64)), by_hand)


def test_procrustes_is_the_orthogonal_part_of_the_cross_covariance() -> None:
    rng = np.random.default_rng(1)
    source, target = rng.normal(size=(40, 5)), rng.normal(size=(40, 5))
    u, _, vt = np.linalg.svd(source.T @ target)
    got = procrustes(source, target)
    np.testing.assert_allclose(got, u @ vt, atol=1e-10)
    np.testing.assert_allclose(got @ got.T, np.eye(5), atol=1e-10)


def test_a_rotation_is_found_again() -> None:
    source, turn = np.random.default_rng(2).normal(size=(30, 8)), rotation(8, 3)
    rows = np.arange(12)
    np.testing.assert_allclose(learn_mapping(source, source @ turn, np.stack([rows, rows])), turn, atol=1e-8)


def test_self_learning_makes_up_for_a_small_dictionary() -> None:
    rng = np.random.default_rng(4)
    source, turn = normalise(rng.normal(size=(400, 12))), rotation(12, 5)
    target = normalise(source @ turn + rng.normal(scale=0.03, size=source.shape))
    rows = np.stack([np.arange(10)] * 2)  # fewer than dimensions: the mapping is not determined by them
    errors = [np.linalg.norm(learn_mapping(source, target, rows, rounds) - turn) for rounds in (0, 1, 5)]
    assert errors[0] > errors[1] > errors[2]
    assert errors[2] < 0.2
