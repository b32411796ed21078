"""Held-out strings and their measures against the definitions, computed pair by pair."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.naive_measures import naive_log
from scipy.spatial.distance import pdist
from scipy.stats import entropy
from sklearn.preprocessing import normalize

from mirrorbench.core.errors import TuningError
from mirrorbench.training.held_out import (
    MEASURES,
    effective_rank,
    hold_out,
    measure_pairs,
    nearest_rows,
    positive_pairs,
    shortened,
)
from mirrorbench.training.methods import identical_pairs, name_pairs, text_pairs


def by_definition(left: np.ndarray, right: np.ndarray) -> dict[str, float]:
    """Wang & Isola 2020, section 4.1; Roy & Vetterli 2007, section 2: the entropy of the singular values."""
    first = normalize(left.astype(float))
    second = normalize(right.astype(float))
    return {
        "alignment": np.mean(np.linalg.norm(first - second, axis=1) ** 2),
        "uniformity": np.log(np.mean(np.exp(-2 * pdist(first, "sqeuclidean")))),
        "accuracy@1": np.mean((first @ second.T).argmax(axis=1) == np.arange(len(first))),
        "log_isotropy": naive_log(left),
        "effective_rank": np.exp(entropy(np.sqrt(np.linalg.eigvalsh(first.T @ first)))),
    }


def test_held_out_measures_equal_their_definitions() -> None:
    rng = np.random.default_rng(0)
    left = rng.normal(size=(12, 5)).astype(np.float32)
    right = (left + rng.normal(size=(12, 5))).astype(np.float32)
    actual, hits = measure_pairs(left, right)
    assert actual == pytest.approx(by_definition(left, right), abs=1e-5)
    assert list(actual) == list(MEASURES)
    assert hits.mean() == actual["accuracy@1"]
    assert 0 < actual["accuracy@1"] < 1


def test_measures_handle_identical_and_rank_deficient_vectors() -> None:
    same = np.ones((4, 3), dtype=np.float32)
    actual, _ = measure_pairs(same, same)
    assert [actual["alignment"], actual["uniformity"], actual["accuracy@1"]] == [
        0,
        pytest.approx(0),
        0,
    ]
    assert actual["effective_rank"] == pytest.approx(1)
    assert effective_rank(np.eye(6)[[0, 1, 2, 0, 1, 2]]) == pytest.approx(3)
    assert effective_rank(np.zeros((3, 2))) == 0


def test_repeated_texts_are_no_retrieval_hits() -> None:
    """Its own partner is as near as the other's, to the last bit or not."""
    vectors = np.array([[1, 0], [0.9, 0.1], [0, 1], [0.1, 2]], dtype=np.float32)
    assert nearest_rows(vectors, 3) == [1, 0, 3]
    rng = np.random.default_rng(0)
    left, right = rng.normal(size=(2, 40, 96))
    left[20:] = left[:20]
    right[20:] = right[:20] * np.arange(1, 21)[:, None] / 3
    left += 3 * right / np.linalg.norm(right, axis=1, keepdims=True)
    assert measure_pairs(left, right)[0]["accuracy@1"] == 0
    assert nearest_rows(np.concatenate([right, right]), 20) == list(range(20, 40))


def test_shortened_text_loses_a_tenth() -> None:
    for text, most in (
        ("a", 1),
        ("ab", 1),
        ("a longer text that says something", 30),
        ("語彙", 1),
        ("x" * 1000, 900),
    ):
        short = shortened(text, np.random.default_rng(1))
        assert most - 2 <= len(short) <= most
        assert short


def test_positives_are_copies_or_labelled_partners() -> None:
    lines = ["some text", "other text"]
    assert positive_pairs(lines, 3, identical_pairs) == positive_pairs(lines, 3, identical_pairs)
    assert [left for left, _ in positive_pairs(lines, 3, identical_pairs)] == lines
    assert positive_pairs(["a\tb", "a\tc", "d||e"], 3, text_pairs) == [("a", "b"), ("d", "e")]
    names = ["C1||flu||influenza", "C2||cold", "C2||common cold"]
    assert positive_pairs(names, 3, name_pairs) == [("flu", "influenza"), ("cold", "common cold")]


def test_held_out_texts_are_excluded_from_tuning() -> None:
    texts = [f"text {n % 150}" for n in range(400)]
    rest, aside = hold_out(texts, 3)
    assert len(aside) == len(set(aside)) == 15
    assert sorted([*rest, *(text for text in texts if text in aside)]) == sorted(texts)
    assert not set(rest) & set(aside)
    assert hold_out(texts, 3) == (rest, aside) != hold_out(texts, 4)
    assert len(hold_out([str(n) for n in range(9000)], 0)[1]) == 500
    with pytest.raises(TuningError, match="of 99 distinct ones") as caught:
        hold_out([str(n) for n in range(99)], 0)
    assert "100 at least" in caught.value.hint
